//! Reports of a worker process to the demo: one line each, written only after the event that it
//! reports.

use std::{fmt, str::FromStr};

use mongotx::Metrics;

/// Money that moved. The id is the `_id` of its audit record: worker, incarnation, count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) id: String,
    pub(super) from: i32,
    pub(super) to: i32,
    pub(super) amount: i64,
}

/// The counters of one worker process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) conflicts: u64,
    pub(super) expired: u64,
    pub(super) retries: u64,
    pub(super) finished_for_others: u64,
    pub(super) undone_for_others: u64,
    pub(super) fenced: u64,
}

impl Stats {
    /// The counters of a client that the demo shows.
    pub(super) fn of(metrics: &Metrics) -> Self {
        Self {
            conflicts: metrics.aborts_conflict,
            expired: metrics.aborts_expired,
            retries: metrics.retries,
            finished_for_others: metrics.finished_for_others,
            undone_for_others: metrics.undone_for_others,
            fenced: metrics.fenced,
        }
    }

    /// The sum of two clients' counters.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            conflicts: self.conflicts + other.conflicts,
            expired: self.expired + other.expired,
            retries: self.retries + other.retries,
            finished_for_others: self.finished_for_others + other.finished_for_others,
            undone_for_others: self.undone_for_others + other.undone_for_others,
            fenced: self.fenced + other.fenced,
        }
    }
}

/// A line of a worker's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerLine {
    /// A commit has answered `Ok`.
    Done(Transfer),
    /// The account did not hold enough money; nothing was written.
    Declined,
    /// All balances, read in one transaction that committed.
    Sum(i64),
    /// A sum met a conflict.
    SumConflict,
    /// Counters, from time to time.
    Stats(Stats),
    /// A transfer failed after all retries, for a reason that may happen.
    GaveUp(String),
    /// Something failed that must not fail.
    Failed(String),
}

impl fmt::Display for WorkerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(Transfer { id, from, to, amount }) => write!(f, "ok {id} {from} {to} {amount}"),
            Self::Declined => f.write_str("declined"),
            Self::Sum(total) => write!(f, "sum {total}"),
            Self::SumConflict => f.write_str("sum-conflict"),
            Self::Stats(s) => write!(
                f,
                "stats {} {} {} {} {} {}",
                s.conflicts, s.expired, s.retries, s.finished_for_others, s.undone_for_others, s.fenced
            ),
            Self::GaveUp(why) => write!(f, "gave-up {}", one_line(why)),
            Self::Failed(why) => write!(f, "failed {}", one_line(why)),
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// The line was not written by a worker of this version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl FromStr for WorkerLine {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ok" => parse_transfer(rest).map(Self::Done),
            "declined" => Some(Self::Declined),
            "sum" => rest.parse().ok().map(Self::Sum),
            "sum-conflict" => Some(Self::SumConflict),
            "stats" => parse_stats(rest).map(Self::Stats),
            "gave-up" => Some(Self::GaveUp(rest.to_owned())),
            "failed" => Some(Self::Failed(rest.to_owned())),
            _ => None,
        }
        .ok_or(Malformed)
    }
}

fn parse_transfer(rest: &str) -> Option<Transfer> {
    let words: Vec<&str> = rest.split(' ').collect();
    let [id, from, to, amount] = words[..] else { return None };
    Some(Transfer { id: id.to_owned(), from: from.parse().ok()?, to: to.parse().ok()?, amount: amount.parse().ok()? })
}

fn parse_stats(rest: &str) -> Option<Stats> {
    let numbers: Vec<u64> = rest.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [conflicts, expired, retries, finished_for_others, undone_for_others, fenced] = numbers[..] else {
        return None;
    };
    Some(Stats { conflicts, expired, retries, finished_for_others, undone_for_others, fenced })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_written() {
        let transfer = Transfer { id: "1.2.3".to_owned(), from: 4, to: 5, amount: 6 };
        let stats =
            Stats { conflicts: 1, expired: 2, retries: 3, finished_for_others: 4, undone_for_others: 5, fenced: 6 };
        let lines = [
            WorkerLine::Done(transfer),
            WorkerLine::Declined,
            WorkerLine::Sum(-7),
            WorkerLine::SumConflict,
            WorkerLine::Stats(stats),
            WorkerLine::GaveUp("why not".to_owned()),
            WorkerLine::Failed(String::new()),
        ];
        for line in lines {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        for line in ["", "ok", "ok 1 2 3", "ok 1 2 3 4 5", "sum", "sum x", "stats 1 2", "hello"] {
            assert_eq!(line.parse::<WorkerLine>(), Err(Malformed), "{line:?}");
        }
    }
}
