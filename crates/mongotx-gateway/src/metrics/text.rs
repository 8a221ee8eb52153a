//! The metrics as text, with what is true at the moment.

use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::text::encode;

use super::Metrics;

/// Numbers of things that the gateway keeps between commands at the moment.
pub(crate) struct KeptCounts {
    pub(crate) sessions: usize,
    /// Sessions that have made room for others so far.
    pub(crate) sessions_evicted: u64,
    pub(crate) cursors: usize,
}

impl Metrics {
    /// The metrics in the OpenMetrics text format, which Prometheus reads.
    pub(crate) fn to_text(&self, kept: &KeptCounts) -> String {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.sessions.set(count(kept.sessions));
        self.sessions_evicted.inner().store(kept.sessions_evicted, Relaxed);
        self.cursors.set(count(kept.cursors));
        let mut text = String::new();
        // A String takes everything.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
