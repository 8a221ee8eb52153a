//! The workbench: workloads on MongoTx and its rivals, side by side.
//!
//! A [`workload`] generates work and checks the data; a [`targets`] is a way to do transactions on
//! a server: of MongoDB, or of DTranx. Neither knows the other: between them stands
//! [`targets::Session`], the operations of an ordinary driver. [`run`] brings them together. What
//! counts, measures and reports is the crate `benchkit`.
//!
//! Start reading at [`workload::Workload`] and [`targets::Target`]. Adding one of either is a
//! folder and a line in its registry.
//!
//! Deliberately absent: any knowledge of how MongoTx works. It is used here through its public
//! interface alone.

pub mod acid;
pub mod error;
pub mod papers;
pub mod run;
pub mod server;
pub mod store;
pub mod targets;
pub mod workload;

pub use error::BenchError;
