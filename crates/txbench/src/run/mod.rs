//! Brings workloads and targets together: what to run ([`args`]), on which servers ([`servers`]), in what order
//! ([`plan`]), by which clients ([`crew`], [`client`]).

pub mod args;

pub use args::RunArgs;
