//! The metrics as text, with what is true at the moment.

use prometheus_client::encoding::text::encode;

use super::Metrics;

impl Metrics {
    /// In the OpenMetrics text format, which Prometheus reads. `sessions`, `cursors`: how many there are now.
    pub(crate) fn to_text(&self, sessions: usize, cursors: usize) -> String {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.sessions.set(count(sessions));
        self.cursors.set(count(cursors));
        let mut text = String::new();
        // A String takes everything.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
