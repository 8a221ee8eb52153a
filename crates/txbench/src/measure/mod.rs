//! Counting and measuring while clients work. [`crate::run`] decides what is run.

pub mod counts;
pub mod latency;
pub mod machine;
pub mod server;

pub use self::{
    counts::{Counts, KindCounts, Second},
    latency::Latencies,
};
