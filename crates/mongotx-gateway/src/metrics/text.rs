//! The metrics as text, with what is true at the moment.

use prometheus_client::encoding::text::encode;

use super::Metrics;
use crate::command::State;

impl Metrics {
    /// In the OpenMetrics text format, which Prometheus reads.
    pub(crate) fn to_text(&self, state: &State) -> String {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.sessions.set(count(state.sessions.count()));
        self.cursors.set(count(state.cursors.count()));
        let mut text = String::new();
        // A String takes everything.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
