//! Counts and measurements of clients that work. How clients are run is in [`crate::run`].

pub mod counts;
pub mod latency;
pub mod machine;

pub use self::{
    counts::{Counts, KindCounts, Second},
    latency::Latencies,
    machine::Machine,
};
