//! Brings workloads and targets together: what to run ([`args`], `contestant`), on which servers
//! ([`servers`]), in what order ([`plan`]), on which data (`data`), by which clients (`crew`: in
//! this process, `part`, or in others, [`child`]; one client:
//! `client`).

pub mod args;
pub mod child;
mod client;
mod contestant;
mod crew;
mod data;
pub mod job;
mod live;
mod part;
pub mod plan;
pub mod servers;

pub use args::RunArgs;
