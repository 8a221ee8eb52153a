//! Counting and measuring while clients work. What is run is decided in [`crate::run`].

pub mod counts;
pub mod latency;
pub mod machine;
pub mod server;

pub use self::{
    counts::{Counts, KindCounts, Second},
    latency::Latencies,
};
