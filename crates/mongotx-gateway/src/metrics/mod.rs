//! The gateway's metrics, and how they are shown. (`server/endpoint.rs` serves them over HTTP.)
//!
//! | file | |
//! | --- | --- |
//! | this one | the counters, by their Prometheus names |
//! | [`abort`] | reasons why transactions are rolled back |
//! | [`history`] | the last minutes, second by second |
//! | [`text`] | all of them as text, with what is true at the moment |

mod abort;
pub(crate) mod history;
mod text;

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::{Registry, Unit},
};

use self::history::{History, SecondFigures, Totals};
pub(crate) use self::{abort::AbortReason, text::KeptCounts};

type Label = [(&'static str, &'static str); 1];
type Labels = [(&'static str, &'static str); 2];

/// Upper limits of the latency histogram, in seconds: 100 µs to 10 s.
const BOUNDS: [f64; 12] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];

/// Makes the histograms of a family.
#[derive(Clone)]
struct Latency;

impl MetricConstructor<Histogram> for Latency {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BOUNDS)
    }
}

/// All counters and gauges. Their labels are words of the gateway's own: no input of a client makes
/// a new one.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) connections: Gauge,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Counter,
    commands: Family<Labels, Counter>,
    seconds: Family<Label, Histogram, Latency>,
    logins: Family<Label, Counter>,
    /// Transactions that are open now.
    pub(crate) open: Gauge,
    /// Connections on which a command runs now.
    pub(crate) active: Gauge,
    pub(crate) started: Counter,
    pub(crate) committed: Counter,
    aborted: Family<Label, Counter>,
    /// Retryable writes and commits that were sent again.
    retries: Family<Label, Counter>,
    sessions: Gauge,
    sessions_evicted: Counter,
    cursors: Gauge,
    pub(crate) memory_bytes: Gauge,
    limits: Family<Label, Gauge>,
    history: History,
}

/// Kinds of commands that clients send again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repeated {
    /// A write with the number of an earlier one.
    Write,
    /// `commitTransaction` after the first one.
    Commit,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("mongotx_gateway"),
            connections: Gauge::default(),
            connections_accepted: Counter::default(),
            connections_refused: Counter::default(),
            commands: Family::default(),
            seconds: Family::new_with_constructor(Latency),
            logins: Family::default(),
            open: Gauge::default(),
            active: Gauge::default(),
            started: Counter::default(),
            committed: Counter::default(),
            aborted: Family::default(),
            retries: Family::default(),
            sessions: Gauge::default(),
            sessions_evicted: Counter::default(),
            cursors: Gauge::default(),
            memory_bytes: Gauge::default(),
            limits: Family::default(),
            history: History::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("connections", "Client connections that are open", self.connections.clone());
        registry.register(
            "connections_accepted",
            "Client connections that were accepted",
            self.connections_accepted.clone(),
        );
        let help = "Client connections that were closed because there were too many";
        registry.register("connections_refused", help, self.connections_refused.clone());
        registry.register("commands", "Commands that were answered, by name and outcome", self.commands.clone());
        let help = "From a command's arrival to its answer, by name";
        registry.register_with_unit("command_duration", help, Unit::Seconds, self.seconds.clone());
        registry.register("logins", "Logins, by outcome", self.logins.clone());
        registry.register("transactions_open", "Transactions that are open", self.open.clone());
        registry.register("transactions_active", "Transactions in which a command runs", self.active.clone());
        registry.register("transactions_started", "Transactions that were begun", self.started.clone());
        registry.register("transactions_committed", "Transactions that were committed", self.committed.clone());
        registry.register(
            "transactions_aborted",
            "Transactions that were rolled back, by reason",
            self.aborted.clone(),
        );
        registry.register("retries", "Writes and commits that were sent again", self.retries.clone());
        registry.register("sessions", "Sessions that are kept", self.sessions.clone());
        let help = "Sessions that were forgotten because others needed their room: they held nothing";
        registry.register("sessions_evicted", help, self.sessions_evicted.clone());
        registry.register("cursors", "Cursors that are open", self.cursors.clone());
        let help = "Requests and answers that are held in memory";
        registry.register_with_unit("buffers", help, Unit::Bytes, self.memory_bytes.clone());
        registry.register("limit", "The most that there may be, by the option that says so", self.limits.clone());
    }

    /// Shows the limit that this option sets, or removes it if there is none.
    pub(crate) fn limited(&self, option: &'static str, limit: Option<usize>) {
        let label = [("option", option)];
        if let Some(limit) = limit {
            self.limits.get_or_create(&label).set(i64::try_from(limit).unwrap_or(i64::MAX));
        } else {
            self.limits.remove(&label);
        }
    }

    /// Counts a command that was answered. `name`: the table's name, not the client's spelling.
    pub(crate) fn command(&self, name: &'static str, is_ok: bool, took: Duration) {
        let outcome = if is_ok { "ok" } else { "error" };
        self.commands.get_or_create(&[("command", name), ("outcome", outcome)]).inc();
        self.seconds.get_or_create(&[("command", name)]).observe(took.as_secs_f64());
        self.history.command(name, is_ok, took);
    }

    /// Ends a second: its counts are kept for some minutes.
    pub(crate) fn tick(&self) {
        let aborted =
            |reason: AbortReason| self.aborted.get(&[("reason", reason.name())]).map_or(0, |counter| counter.get());
        let conflicts = aborted(AbortReason::Conflict);
        self.history.tick(Totals {
            committed: self.committed.get(),
            conflicts,
            aborted: AbortReason::ALL.into_iter().map(aborted).sum::<u64>().saturating_sub(conflicts),
            open: self.open.get(),
            connections: self.connections.get(),
        });
    }

    /// The last seconds, the oldest first: those that ended after `since`, in milliseconds since
    /// 1970.
    pub(crate) fn seconds(&self, since: u64) -> Vec<SecondFigures> {
        self.history.seconds(since)
    }

    /// Counts a login, successful or not.
    pub(crate) fn login(&self, is_ok: bool) {
        self.logins.get_or_create(&[("outcome", if is_ok { "ok" } else { "refused" })]).inc();
    }

    /// Counts a transaction that was rolled back.
    pub(crate) fn aborted(&self, reason: AbortReason) {
        self.aborted.get_or_create(&[("reason", reason.name())]).inc();
    }

    /// Numbers of transactions that were rolled back, for each reason that there was.
    pub(crate) fn aborted_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |reason: AbortReason| {
            let counted = self.aborted.get(&[("reason", reason.name())]).map_or(0, |counter| counter.get());
            (reason.name(), counted)
        };
        AbortReason::ALL.into_iter().map(count).filter(|(_, count)| *count > 0)
    }

    /// Counts a command that was sent again.
    pub(crate) fn retried(&self, what: Repeated) {
        self.retries.get_or_create(&[("what", what.name())]).inc();
    }

    /// Number of commands of this kind that were sent again.
    pub(crate) fn retries(&self, what: Repeated) -> u64 {
        self.retries.get(&[("what", what.name())]).map_or(0, |counter| counter.get())
    }
}

impl Repeated {
    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Commit => "commit",
        }
    }
}

/// Counts one in a gauge as long as this value lives.
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn in_gauge(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
