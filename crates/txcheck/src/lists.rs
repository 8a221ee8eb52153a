//! Lists that many clients append to and read at once: a record of their operations and results,
//! and two judges of it.
//!
//! The order of the operations is not planned, so only the reads show it. `adya` infers the order
//! of the versions from them and looks for the cycles that a level forbids. The second judge
//! ([`Recorder::judge`] calls both) counts: an acknowledged append is in the final lists once, a
//! refused one never, and one with an unknown result is there as a whole or not at all.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use adya::{History, Opts, Valid, Workload, check};

/// All lists, by their keys.
pub type Lists = BTreeMap<u64, Vec<u64>>;

/// One operation on a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// An append of this value to the end of a list.
    Append(u64, u64),
    /// A read of a list, with the values it has shown; `None` before it was carried out.
    Read(u64, Option<Vec<u64>>),
}

/// Outcome of a transaction, as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The commit was acknowledged; these are the operations with what they have shown.
    Committed(Vec<Op>),
    /// The transaction was refused, or rolled back.
    Refused,
    /// The outcome is not known.
    Unknown,
}

/// Numbers of the transactions that were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of transactions that were acknowledged.
    pub committed: usize,
    /// Number of transactions that were refused.
    pub refused: usize,
    /// Number of transactions with an unknown outcome.
    pub unknown: usize,
}

/// Writes down what clients do, in the order in which it happens.
#[derive(Default)]
pub struct Recorder {
    lines: Mutex<Vec<String>>,
    ends: Mutex<Vec<(Vec<u64>, AttemptResult)>>,
    processes: AtomicU64,
    values: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttemptResult {
    Committed,
    Refused,
    Unknown,
}

impl Recorder {
    /// A new process number: a client goes on under another number after an unknown outcome.
    pub fn process(&self) -> u64 {
        self.processes.fetch_add(1, Relaxed)
    }

    /// A value that was not appended before.
    pub fn value(&self) -> u64 {
        self.values.fetch_add(1, Relaxed) + 1
    }

    /// Number of transactions acknowledged so far.
    pub fn committed(&self) -> usize {
        lock(&self.ends).iter().filter(|(_, outcome)| *outcome == AttemptResult::Committed).count()
    }

    /// Notes that a transaction begins.
    pub fn begin(&self, process: u64, planned: &[Op]) {
        self.note("invoke", process, planned);
    }

    /// Notes that a transaction has ended.
    pub fn end(&self, process: u64, planned: &[Op], end: &End) {
        let appended = planned.iter().filter_map(|op| match op {
            Op::Append(_, value) => Some(*value),
            Op::Read(..) => None,
        });
        let (kind, ops, outcome) = match end {
            End::Committed(done) => ("ok", &done[..], AttemptResult::Committed),
            End::Refused => ("fail", planned, AttemptResult::Refused),
            End::Unknown => ("info", planned, AttemptResult::Unknown),
        };
        lock(&self.ends).push((appended.collect(), outcome));
        self.note(kind, process, ops);
    }

    fn note(&self, kind: &str, process: u64, ops: &[Op]) {
        let ops: Vec<String> = ops.iter().map(shown).collect();
        lock(&self.lines).push(format!(r#"{{"type":"{kind}","process":{process},"value":[{}]}}"#, ops.join(",")));
    }

    /// Both judges: the history keeps what the level (one of `adya`'s models) promises, and the
    /// final lists are what was acknowledged.
    ///
    /// # Errors
    /// The anomalies or the lost values, in words, with the history.
    pub fn judge(&self, model: &str, last: &Lists) -> Result<Summary, String> {
        let summary = self.count(last)?;
        let lines = lock(&self.lines).join("\n");
        let history = History::from_json(&lines).map_err(|error| error.to_string())?;
        let options = Opts { models: vec![model.to_owned()], ..Opts::default() };
        let report = check(&history, Workload::ListAppend, &options);
        match report.valid {
            Valid::True => Ok(summary),
            _ => Err(format!("not {model}: {:?}\n{lines}", report.anomaly_types)),
        }
    }

    /// The second judge, which counts.
    fn count(&self, last: &Lists) -> Result<Summary, String> {
        let mut times: HashMap<u64, usize> = HashMap::new();
        last.values().flatten().for_each(|value| *times.entry(*value).or_default() += 1);
        let times_of = |value: &u64| times.get(value).copied().unwrap_or(0);
        let mut summary = Summary::default();
        for (values, outcome) in lock(&self.ends).iter() {
            let found: Vec<usize> = values.iter().map(times_of).collect();
            let (right, what, counted) = match outcome {
                AttemptResult::Committed => (found.iter().all(|n| *n == 1), "acknowledged", &mut summary.committed),
                AttemptResult::Refused => (found.iter().all(|n| *n == 0), "refused", &mut summary.refused),
                AttemptResult::Unknown => {
                    let whole = found.iter().all(|n| *n == 0) || found.iter().all(|n| *n == 1);
                    (whole, "in doubt", &mut summary.unknown)
                }
            };
            *counted += 1;
            if !right {
                return Err(format!("{what} values {values:?} are there {found:?} times in the end: {last:?}"));
            }
        }
        Ok(summary)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shown(op: &Op) -> String {
    match op {
        Op::Append(list, value) => format!(r#"["append","{list}",{value}]"#),
        Op::Read(list, None) => format!(r#"["r","{list}",null]"#),
        Op::Read(list, Some(values)) => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!(r#"["r","{list}",[{}]]"#, values.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "strict-serializable";

    /// Two transactions at once, and the final list.
    fn both(first: End, second: End, last: &[u64]) -> Result<Summary, String> {
        let recorder = Recorder::default();
        let (one, two) = ([Op::Read(1, None), Op::Append(1, 1)], [Op::Read(1, None), Op::Append(1, 2)]);
        let (first_process, second_process) = (recorder.process(), recorder.process());
        recorder.begin(first_process, &one);
        recorder.begin(second_process, &two);
        recorder.end(first_process, &one, &first);
        recorder.end(second_process, &two, &second);
        let reader = recorder.process();
        recorder.begin(reader, &[Op::Read(1, None)]);
        recorder.end(reader, &[Op::Read(1, None)], &End::Committed(vec![Op::Read(1, Some(last.to_vec()))]));
        recorder.judge(RULE, &[(1, last.to_vec())].into())
    }

    fn committed(seen: &[u64], value: u64) -> End {
        End::Committed(vec![Op::Read(1, Some(seen.to_vec())), Op::Append(1, value)])
    }

    #[test]
    fn one_after_the_other_is_right() {
        let summary = Summary { committed: 3, ..Summary::default() };
        assert_eq!(both(committed(&[], 1), committed(&[1], 2), &[1, 2]), Ok(summary));
    }

    #[test]
    fn a_lost_update_is_found_by_either_judge() {
        assert!(both(committed(&[], 1), committed(&[], 2), &[2]).unwrap_err().contains("acknowledged"));
        assert!(both(committed(&[], 1), committed(&[], 2), &[1, 2]).unwrap_err().contains("lost-update"));
    }

    #[test]
    fn a_refused_value_is_not_there_and_one_in_doubt_may_be() {
        assert!(both(End::Refused, committed(&[], 2), &[2]).is_ok());
        assert!(both(End::Refused, committed(&[1], 2), &[1, 2]).unwrap_err().contains("refused"));
        assert!(both(End::Unknown, committed(&[], 2), &[2]).is_ok());
        assert!(both(End::Unknown, committed(&[1], 2), &[1, 2]).is_ok());
        assert!(both(End::Unknown, committed(&[1], 2), &[1, 2, 1]).unwrap_err().contains("in doubt"));
    }
}
