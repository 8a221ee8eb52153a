//! The state of a demo that its page shows: what the terminal shows, in figures and in lines.
//!
//! The demo writes it, the page ([`super::web`]) reads it. Lines go to the terminal on the way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{crew::WorkerName, tally::Tally};
use crate::say;

/// Lines that are kept; a demo prints about 40.
const MOST_LINES: usize = 200;
/// Seconds of the history that are shown.
const MOST_SECONDS: usize = 300;
/// Time that the end of the demo waits for an open page to show it.
const SEEN_LIMIT: Duration = Duration::from_secs(5);
/// Time without a request after which a page counts as closed.
const IS_OPEN: Duration = Duration::from_secs(5);

/// Part of the demo that goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Sections 1 and 2 of the output: the server, and the payment procedure of the paper.
    #[default]
    Prepares,
    /// Section 3: the bank runs.
    Runs,
    /// Section 4: what the bank has left is checked.
    Checks,
    /// Over: every promise was kept.
    Kept,
    /// Over: a promise was broken.
    Broken,
    /// Over: the demo could not be carried out.
    Failed,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Prepares => "prepares",
            Self::Runs => "runs",
            Self::Checks => "checks",
            Self::Kept => "kept",
            Self::Broken => "broken",
            Self::Failed => "failed",
        }
    }

    fn is_over(self) -> bool {
        matches!(self, Self::Kept | Self::Broken | Self::Failed)
    }
}

/// Events of one second of the run.
#[derive(Clone, Copy, Default)]
struct SecondOfRun {
    transfers: usize,
    kills: u64,
}

/// All balances as of one moment.
struct BalanceReading {
    at: Instant,
    balances: Vec<i64>,
}

#[derive(Default)]
struct DemoState {
    phase: Phase,
    lines: Vec<String>,
    length: Duration,
    expected: i64,
    figures: Value,
    elapsed: Duration,
    /// One entry for each second of the run so far.
    seconds: Vec<SecondOfRun>,
    /// Transfers and kills that are in `seconds`.
    counted: SecondOfRun,
    /// Incarnation of each worker, and when its predecessor was killed.
    workers: BTreeMap<u32, (u32, Option<Instant>)>,
    reading: Option<BalanceReading>,
    /// Time of a page's last request; then, whether a page has shown the end.
    asked: Option<Instant>,
    has_seen_end: bool,
}

/// The state of a demo: see the module's header. Clones are the same state.
#[derive(Clone, Default)]
pub(super) struct Live(Arc<Mutex<DemoState>>);

impl Live {
    fn shown(&self) -> MutexGuard<'_, DemoState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a line (or several) and keeps it for the page.
    pub(super) fn line(&self, text: &str) {
        say::line(text);
        let mut shown = self.shown();
        let room = MOST_LINES.saturating_sub(shown.lines.len());
        shown.lines.extend(text.lines().take(room).map(str::to_owned));
    }

    /// Begins the run of the bank, for so long; every sum has to be `expected`.
    pub(super) fn run(&self, length: Duration, expected: i64) {
        let mut shown = self.shown();
        (shown.phase, shown.length, shown.expected) = (Phase::Runs, length, expected);
    }

    /// Begins another part of the demo, or notes that it is over.
    pub(super) fn enter(&self, phase: Phase) {
        self.shown().phase = phase;
    }

    /// Notes that the demo cannot be carried out.
    pub(super) fn fail(&self, why: &str) {
        let mut shown = self.shown();
        shown.phase = Phase::Failed;
        shown.lines.push(format!("error: {why}"));
    }

    /// Notes that a worker was started. Its predecessor, if it has one, was killed.
    pub(super) fn started(&self, name: WorkerName) {
        let killed = (name.incarnation > 0).then(Instant::now);
        self.shown().workers.insert(name.number, (name.incarnation, killed));
    }

    /// Notes the tally after so much time.
    pub(super) fn count(&self, tally: &Tally, elapsed: Duration) {
        let mut shown = self.shown();
        let shown = &mut *shown;
        shown.elapsed = elapsed;
        shown.figures = figures(tally, elapsed);
        let second = usize::try_from(elapsed.as_secs()).unwrap_or(usize::MAX);
        // Whole seconds, of which a run has 3600 at most: what is heard after its end is in the
        // last.
        let last = usize::try_from(shown.length.as_secs()).unwrap_or(usize::MAX).saturating_sub(1);
        shown.seconds.resize(shown.seconds.len().max(second.min(last) + 1), SecondOfRun::default());
        let (done, kills) = (tally.done.len(), tally.kills);
        if let Some(now) = shown.seconds.last_mut() {
            now.transfers += done.saturating_sub(shown.counted.transfers);
            now.kills += kills.saturating_sub(shown.counted.kills);
        }
        shown.counted = SecondOfRun { transfers: done, kills };
    }

    /// Notes all balances, as one transaction has read them.
    pub(super) fn read(&self, balances: Vec<i64>) {
        self.shown().reading = Some(BalanceReading { at: Instant::now(), balances });
    }

    /// The state as JSON, for a page.
    pub(super) fn to_json(&self) -> Value {
        let mut shown = self.shown();
        shown.asked = Some(Instant::now());
        shown.has_seen_end |= shown.phase.is_over();
        shown.to_json()
    }

    /// Waits until a page that is open has been shown the end, for a few seconds at most.
    pub(super) async fn wait_until_seen(&self) {
        let deadline = Instant::now() + SEEN_LIMIT;
        let is_waited_for = || {
            let shown = self.shown();
            let is_open = shown.asked.is_some_and(|asked| asked.elapsed() < IS_OPEN);
            is_open && !shown.has_seen_end
        };
        while is_waited_for() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl DemoState {
    fn to_json(&self) -> Value {
        let workers = self.workers.iter().map(|(number, (incarnation, killed))| {
            json!({"number": number, "incarnation": incarnation, "killed_ms_ago": killed.map(|at| millis_since(&at))})
        });
        let skipped = self.seconds.len().saturating_sub(MOST_SECONDS);
        let seconds = self.seconds.iter().skip(skipped);
        json!({
            "phase": self.phase.name(),
            "lines": self.lines,
            "elapsed_ms": millis(self.elapsed),
            "length_ms": millis(self.length),
            "figures": self.figures,
            "workers": workers.collect::<Vec<_>>(),
            "first_second": skipped,
            "seconds": seconds.map(|second| json!([second.transfers, second.kills])).collect::<Vec<_>>(),
            "expected": self.expected,
            "accounts": self.reading.as_ref().map(|reading| json!({
                "balances": reading.balances,
                "sum": reading.balances.iter().sum::<i64>(),
                "age_ms": millis_since(&reading.at),
            })),
        })
    }
}

fn figures(tally: &Tally, elapsed: Duration) -> Value {
    let stats = tally.stats();
    json!({
        "transfers": tally.done.len(),
        "per_second": tally.per_second(elapsed),
        "declined": tally.declined,
        "kills": tally.kills,
        "conflicts": stats.conflicts,
        "repairs": stats.finished_for_others + stats.undone_for_others,
        "dead_clients": stats.fenced,
        "sums": tally.sums,
        "wrong_sums": tally.wrong_sums,
        "failures": tally.failures,
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn millis_since(at: &Instant) -> u64 {
    millis(at.elapsed())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{
        super::{
            crew::WorkerMessage,
            wire::{Transfer, WorkerLine},
        },
        *,
    };

    fn tally(transfers: u32, kills: u64) -> Tally {
        let mut tally = Tally::new(0);
        for id in 0..transfers {
            let transfer = Transfer { id: id.to_string(), from: 0, to: 1, amount: 1 };
            tally.note(WorkerName { number: 0, incarnation: 0 }, WorkerMessage::Line(WorkerLine::Done(transfer)));
        }
        tally.kills = kills;
        tally
    }

    #[test]
    fn each_transfer_and_each_kill_is_in_one_second() {
        let live = Live::default();
        live.run(Duration::from_secs(3), 0);
        for (ms, transfers, kills) in [(0, 0, 0), (900, 3, 1), (2_100, 5, 1), (2_900, 6, 2), (3_700, 9, 2)] {
            live.count(&tally(transfers, kills), Duration::from_millis(ms));
        }
        assert_eq!(live.to_json()["seconds"], json!([[3, 1], [0, 0], [6, 1]]));
    }

    #[test]
    fn workers_that_follow_a_killed_one_are_distinguished() {
        let live = Live::default();
        for (number, incarnation) in [(0, 0), (1, 0), (1, 1)] {
            live.started(WorkerName { number, incarnation });
        }
        let workers = live.to_json()["workers"].clone();
        assert_eq!(workers[0], json!({"number": 0, "incarnation": 0, "killed_ms_ago": null}));
        assert_eq!(workers[1]["incarnation"], 1);
        assert!(workers[1]["killed_ms_ago"].is_u64(), "{workers}");
    }

    #[test]
    fn lines_are_bounded() {
        let live = Live::default();
        (0..2 * MOST_LINES).for_each(|_| live.line("a line"));
        live.line("one\ntwo");
        assert_eq!(live.to_json()["lines"].as_array().unwrap().len(), MOST_LINES);
    }

    #[tokio::test]
    async fn the_end_waits_for_pages_only_that_are_open_and_have_not_seen_it() {
        let live = Live::default();
        live.enter(Phase::Kept);
        live.wait_until_seen().await;
        assert!(!live.shown().has_seen_end, "no page has asked, and none was waited for");
        live.enter(Phase::Checks);
        live.to_json();
        live.enter(Phase::Kept);
        let (seen, page) = (live.clone(), live.clone());
        let waiting = tokio::spawn(async move { seen.wait_until_seen().await });
        assert_eq!(page.to_json()["phase"], "kept");
        waiting.await.unwrap();
        assert!(live.shown().has_seen_end);
    }
}
