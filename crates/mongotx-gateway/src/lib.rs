//! MongoDB's wire protocol in front of MongoTx: drivers of every language use standard transactions
//! on servers that have none.
//!
//! ```text
//! client ─► server/ ─► mongowire ─► dispatch ─┬─► command/      the library gives it its meaning
//!                                             ├─► handshake/    the gateway answers by itself
//!                                             └─► passthrough/  the backing server answers
//! ```
//!
//! Start reading at `dispatch.rs` and at `command/table.rs`, the one table of commands, and at
//! [`Request`] and [`Reply`], which everything takes and gives. Modules use each other in one
//! direction:
//!
//! ```text
//! gateway, server ─► dispatch ─► command, passthrough ─► handshake ─► context ─► operations, activity_record ─► state, members ─► upstream
//!                 state ─► fail_points, cursor ─► session, connection ─► activity ─► access, metrics, api ─► fields ─► failure ─► reply
//! ```

mod access;
mod activity;
mod activity_record;
mod api;
mod changes;
mod clock;
mod command;
mod connection;
mod context;
mod cursor;
mod dispatch;
mod fail_points;
mod failure;
mod fields;
mod gateway;
mod handshake;
#[cfg(not(feature = "http"))]
mod http;
#[cfg(feature = "http")]
pub mod http;
mod members;
mod memory;
mod metrics;
mod operations;
mod options;
mod passthrough;
mod reply;
mod request;
mod server;
mod session;
mod state;
mod upstream;

pub use mongowire::{error, wire};

pub use self::{
    access::{Role, UserName, Users, UsersError},
    command::read,
    connection::{Connection, Peer},
    context::Context,
    gateway::{Gateway, StartError},
    options::{GatewayOptions, Limits, ReplicaSetFace, RetryableWrites, SessionLimits, Tls, Tuning},
    reply::Reply,
    request::{Request, Sequence, WholeCommand},
    server::Reloaded,
    server::TlsError,
    state::State,
    upstream::Upstream,
};

/// The code of the crate's readme, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
