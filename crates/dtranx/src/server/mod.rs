//! A server: the protocol's machines among its stages (figure 2 of the paper), on a network or
//! embedded in a program.
//!
//! ```text
//!  clients, servers
//!        │      ┌─ entry, peers ──► transaction ◄───► lock
//!        │      │                        ▲
//!     network ──┼─ acknowledged ─► ack ◄─┤
//!        ▲      │                        │
//!        │      ├─ told ────► recovery ◄─┤
//!        │      │                        ├───► wal ───► gc
//!        │      └─ read ────► read       └───► storage
//!        │                     │
//!        └─ to clients, ◄──────┴─ transaction, ack, recovery
//!           to servers
//! ```
//!
//! `lock`, `ack`, `recovery`, `wal` and `storage` answer `transaction` through its queue
//! `internal`.
//!
//! | the paper's stages | here |
//! | --- | --- |
//! | ClientService | `network`: connections, frames, handshakes |
//! | TranxService, the state machines | `transaction`: coordinator, participant, numbers, the order of the log |
//! | LockService | `lock`: the lock table and its clock |
//! | TranxAck | `ack`: decisions and acknowledgements, sent together and until they are heard |
//! | Recovery | `recover` before the stages start; `recovery` asks other servers |
//! | WAL | `wal`: appends, one sync for a batch |
//! | Storage | `storage` checks and applies, `read` serves clients' reads: of what is not in the cache |
//! | GCThread, GCBroadcast | `gc`: which segments may go, and all waiting for the disk that removing them takes; `transaction` announces the low-water marks |
//!
//! A member of a group has other stages below these (`member`): `group` drives its machine and
//! takes the records of the node, `wal` writes its entries, `follow` applies those of other
//! leaders, and `transfer` gives and takes the items where entries are missing. The stages of the
//! node run only while the member leads.
//!
//! Each of the machines of [`crate::core`] is owned by one stage; their events to each other go
//! through the stages' queues.

mod admission;
mod config;
mod data;
mod data_folders;
mod descriptors;
mod embedded;
mod engine;
mod error;
mod event;
mod findings;
mod holding;
mod identity;
mod inspect;
mod member;
mod member_event;
mod metrics;
mod network;
mod reads;
mod recover;
mod replay;
mod resolve;
mod roster;
mod salvage;
mod serve;
mod stages;
mod stats;
mod transfer;
mod verify;
mod waiting;

pub use crate::damage::{Damage, Damages};
pub use config::{ConfigError, LogMedium, ServerConfig, StorageKind};
pub use descriptors::raise_descriptor_limit;
pub use embedded::Embedded;
pub use error::ServerError;
pub use metrics::prometheus;
pub use resolve::{GivenUp, InDoubt, ResolveError, Resolver};
pub use salvage::{Moment, Named, SalvageError, Salvaged, salvage};
pub use serve::Server;
pub use verify::{Verified, verify};
