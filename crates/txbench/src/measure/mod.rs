//! What is counted while clients work. No decision about what to run is here: that is [`crate::run`].

pub mod counts;
pub mod latency;
pub mod machine;
pub mod server;

pub use self::{
    counts::{Counts, KindCounts, Second},
    latency::Latencies,
};
