//! A server: the protocol's node among its stages (figure 2 of the paper), on a network or embedded in a program.
//!
//! ```text
//!  clients, servers            entry                     internal
//!        │              ┌──────────────────► transaction ◄──────────┐
//!     network ──────────┤                     │  │  │  │             │ logged, checked, applied, …
//!        ▲  ▲           └──► read ──┐         │  │  │  └──► wal ─────┤
//!        │  └───────────────────────┘         │  │  └─────► storage ─┤
//!        └────────────────────────────────────┘  └────────► gc ──────┘
//! ```
//!
//! | the paper's stages | here |
//! | --- | --- |
//! | ClientService, TranxService | `network`: connections, frames, handshakes |
//! | LockService, the state machines, TranxAck, GCBroadcast, Recovery | `transaction`: one [`crate::core::Node`], which batches decisions and acknowledgements itself |
//! | WAL | `wal`: appends, one sync for a batch |
//! | Storage | `storage` checks and applies, `read` serves clients' reads |
//! | GCThread | `gc`: persists the storage, writes the GC log, removes segments |
//!
//! The node is one stage because its machines share the lock table and call each other in nearly every event: on separate
//! threads each transaction would pay for three more queues. They stay separable: see [`crate::core`].

mod board;
mod config;
mod embedded;
mod engine;
mod event;
mod metrics;
mod network;
mod recover;
mod serve;
mod stages;

pub use config::{ConfigError, LogMedium, ServerConfig, StorageKind};
pub use embedded::Embedded;
pub use engine::ServerError;
pub use metrics::prometheus;
pub use serve::Server;
