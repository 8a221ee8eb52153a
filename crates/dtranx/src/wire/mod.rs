//! How servers and clients speak: frames over TCP, a handshake, requests and answers.
//!
//! 1. Both sides send a preface of 8 bytes: `DTRX`, the version (2 bytes, little-endian), two
//!    zeros. Who meets another version or something else closes the connection.
//! 2. The side that called sends [`Hello`], the other answers [`Welcome`]. If they share a
//!    [`Secret`], the answer is first a challenge, with the proof that the other side knows the
//!    secret; the side that called sends its own [`Proof`], and is welcomed or refused then.
//!    Nothing about the cluster is said before.
//! 3. Clients send [`Request`]s and get [`Response`]s, in any order, each with the request's id.
//!    Servers send [`crate::core::Message`]s in one direction only: each calls each.
//!
//! Everything after the preface is a frame: length (4 bytes, little-endian), CRC-32C of the rest (4
//! bytes), and the message in `postcard`'s encoding. A damaged, oversized or incomprehensible frame
//! ends the connection; what was under way is sent again over the next one, and the protocol sees
//! to it that it is carried out once (section 4.2 of the paper).

mod frame;
mod message;
mod secret;

pub use frame::{FRAME_LIMIT_BYTES, PREFACE_BYTES, WireError, check_preface, decode, encode, next_frame, preface};
pub(crate) use frame::{FrameHeader, HEADER_BYTES, frame_header};
pub use message::{Ask, Caller, Doors, Hello, Nonce, Proof, Reply, Request, Response, ServerStatus, Welcome};
pub(crate) use message::{AskKind, RequestHead};
pub use secret::{MAX_SECRET_BYTES, MIN_SECRET_BYTES, Secret, Side};
