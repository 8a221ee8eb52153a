//! The wire protocol of DTranx: frames over TCP, the handshake, and the messages of clients and
//! servers. `docs/dtranx-wire.md` describes each byte.
//!
//! 1. Both sides send a preface of 8 bytes: `DTRX`, the version (2 bytes, little-endian), two
//!    zeros. A side that receives any other preface closes the connection.
//! 2. The side that opened the connection sends [`Hello`], and the other side answers with
//!    [`Welcome`]. If they share a [`Secret`], the first answer is a challenge with the called
//!    side's [`Proof`]. The caller then sends its own [`Proof`] and is welcomed or refused. No
//!    information about the cluster is sent before that.
//! 3. Clients send [`Request`]s and get [`Response`]s in any order, each with the request's id.
//!    Servers send [`crate::core::Message`]s in one direction per connection: each server opens one
//!    to each other server. So do the members of a group, with [`MemberMessage`]s.
//!
//! All bytes after the preface are frames: the payload's length (4 bytes, little-endian), its
//! CRC-32C (4 bytes, little-endian), and the payload, a message in `postcard`'s encoding. A
//! damaged, oversized or incomprehensible frame ends the connection. Messages under way are sent
//! again over the next connection, and the protocol carries each out once (section 4.2 of the
//! paper).

mod frame;
mod member;
mod message;
mod secret;

pub use frame::{FRAME_LIMIT_BYTES, PREFACE_BYTES, WireError, check_preface, decode, encode, next_frame, preface};
pub(crate) use frame::{FrameHeader, HEADER_BYTES, frame_header};
pub(crate) use member::GREATEST;
pub use member::{
    BATCH_LIMIT_BYTES, BatchEntry, GroupMessage, GroupStatus, LastPiece, MAX_BATCH_ENTRIES, MemberMessage,
    PIECE_LIMIT_BYTES, Piece, Told,
};
pub use message::{Ask, Caller, ConnectionStats, Hello, Nonce, Proof, Reply, Request, Response, ServerStatus, Welcome};
pub(crate) use message::{AskKind, RequestHead};
pub use secret::{MAX_SECRET_BYTES, MIN_SECRET_BYTES, Secret, Side};
