//! [`Recorder`]: the history of the clients' operations and results, in the order in which they
//! happened, for the checker of isolation.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use adya::{History, Opts, Valid, Workload, check};

/// One operation on a list.
#[derive(Clone)]
pub(crate) enum Op {
    Append(u64, u64),
    Read(u64, Option<Vec<u64>>),
}

/// End of a transaction.
pub(crate) enum End {
    Done(Vec<Op>),
    NotDone,
    Unknown,
}

#[derive(Default)]
pub(crate) struct Recorder {
    lines: Mutex<Vec<String>>,
    processes: AtomicU64,
    values: AtomicU64,
}

impl Recorder {
    /// An unused name of a process. A client that does not know the outcome of its last transaction
    /// goes on under another name.
    pub(crate) fn process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    /// An unused value to append.
    pub(crate) fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn begin(&self, process: u64, ops: &[Op]) {
        self.note("invoke", process, ops);
    }

    pub(crate) fn end(&self, process: u64, planned: &[Op], end: &End) {
        match end {
            End::Done(ops) => self.note("ok", process, ops),
            End::NotDone => self.note("fail", process, planned),
            End::Unknown => self.note("info", process, planned),
        }
    }

    fn note(&self, kind: &str, process: u64, ops: &[Op]) {
        let ops: Vec<String> = ops.iter().map(shown).collect();
        let line = format!(r#"{{"type":"{kind}","process":{process},"value":[{}]}}"#, ops.join(","));
        self.lines.lock().unwrap().push(line);
    }

    /// Fails unless the history is strictly serializable.
    pub(crate) fn judge(&self) {
        let lines = self.lines.lock().unwrap();
        let history = History::from_json(&lines.join("\n")).unwrap();
        let options = Opts { models: vec!["strict-serializable".into()], ..Opts::default() };
        let report = check(&history, Workload::ListAppend, &options);
        assert_eq!(report.valid, Valid::True, "{:?}\n{}", report.anomaly_types, lines.join("\n"));
    }
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
