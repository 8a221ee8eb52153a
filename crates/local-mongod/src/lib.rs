//! Finds or fetches a real mongod, starts standalone and replica-set servers on free ports, and
//! ends them.
//!
//! For tests and benchmarks of all crates, for the demo, and for the commands that start a server
//! by themselves (`mongotx serve --start-server`, `mongotx mongod-path`). Start reading at
//! [`Server`], and at [`ReplicaSet`] for several nodes; [`locate`] says where the binary comes
//! from, [`shared`] gives the tests of one process one server between them, [`again()`] runs a test
//! as a process of its own, [`signal`] ends or pauses such processes, [`status_and_output`] reads
//! what a program has written, and [`lookalikes`] are documents that are easily taken for others.
//!
//! No server outlives the process that started it, however that process ends: see
//! [`child_processes`]. Deliberately absent: sharded clusters, authentication, TLS.

mod again;
mod error;
mod example;
mod failover;
mod fetch;
mod locate;
mod logs;
pub mod lookalikes;
mod memory;
mod options;
mod program;
mod ready;
mod replica_set;
mod server;
pub mod shared;

pub use again::{again, heard, listen, report, until_released};
pub use child_processes::signal;
pub use error::Error;
pub use locate::{Environment, locate, locate_in};
pub use options::ServerOptions;
pub use program::{status_and_output, until};
pub use replica_set::ReplicaSet;
pub use server::Server;
pub use shared::{shared_replica_set, shared_standalone, unique_db};
