//! A client as a process of its own ([`local_mongod::again()`]). It reports what happens, and ends
//! or stops itself when it reaches its step.

use std::{
    process::{Child, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
};

use local_mongod::{again, listen, signal};
use mongotx::{ErrorKind, Step};

use super::{
    LIMIT,
    hooks::Hook,
    scenario::{End, Progress, Scenario},
    verify::Report,
    world::World,
};

const JOB: &str = "MONGOTX_WORKER_JOB";
const TEST: &str = "common::worker::worker_process";

/// The end or pause of a worker when it reaches its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Kill,
    Stop,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) world: World,
    pub(crate) scenario: Scenario,
    pub(crate) step: Step,
    pub(crate) nth: usize,
    pub(crate) blow: Blow,
    pub(crate) lease_ms: u64,
}

impl Job {
    fn encode(&self) -> String {
        let Self { world, scenario, step, nth, blow, lease_ms } = self;
        format!("{}|{}|{scenario:?}|{step:?}|{nth}|{blow:?}|{lease_ms}", world.uri, world.db)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split('|').map(str::to_owned);
        let world = World { uri: parts.next()?, db: parts.next()? };
        Some(Self {
            world,
            scenario: Scenario::from_name(&parts.next()?)?,
            step: Step::from_name(&parts.next()?)?,
            nth: parts.next()?.parse().ok()?,
            blow: if parts.next()? == "Kill" { Blow::Kill } else { Blow::Stop },
            lease_ms: parts.next()?.parse().ok()?,
        })
    }
}

/// The program of the processes that are killed or stopped. Without a job it checks that every job
/// can be written as words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Some(job) = std::env::var(JOB).ok().and_then(|text| Job::decode(&text)) else {
        return check_words();
    };
    let blow = job.blow;
    let hook = Hook::calling(job.step, job.nth, move || {
        say("struck");
        match blow {
            Blow::Kill => signal::kill(std::process::id()).unwrap(),
            Blow::Stop => signal::stop(std::process::id()).unwrap(),
        }
        // Signals to oneself may take a moment to arrive.
        if blow == Blow::Kill {
            loop {
                std::thread::park();
            }
        }
    });
    let client = job.world.client_with(job.lease_ms, hook).await;
    job.scenario.live(&job.world, &client, &|progress| say(&words_of(progress))).await;
    job.scenario.leave(&client).await;
    say("left");
}

fn check_words() {
    for step in Step::ALL {
        assert_eq!(Step::from_name(&format!("{step:?}")), Some(step));
        for scenario in Scenario::ALL {
            let world = World { uri: "mongodb://h/?a=b&c=d".to_owned(), db: "db".to_owned() };
            let job = Job { world, scenario, step, nth: 3, blow: Blow::Stop, lease_ms: 500 };
            assert_eq!(Job::decode(&job.encode()).unwrap().encode(), job.encode());
        }
    }
    for end in [End::Committed, End::RolledBack, End::Failed(ErrorKind::Expired)] {
        assert!(matches!(progress_in(&words_of(Progress::End(end))), Some(Progress::End(read)) if read == end));
    }
}

/// Sends words to the process that has started this one.
pub(crate) fn say(words: &str) {
    local_mongod::report(words).unwrap();
}

fn words_of(progress: Progress) -> String {
    match progress {
        Progress::Id(id) => format!("id {id}"),
        Progress::End(End::Failed(kind)) => format!("failed {kind:?}"),
        Progress::End(end) => format!("{end:?}"),
    }
}

fn progress_in(words: &str) -> Option<Progress> {
    const KINDS: [ErrorKind; 8] = [
        ErrorKind::Conflict,
        ErrorKind::Expired,
        ErrorKind::Indeterminate,
        ErrorKind::Unavailable,
        ErrorKind::Invalid,
        ErrorKind::Unsupported,
        ErrorKind::Corruption,
        ErrorKind::Closed,
    ];
    match words.split_once(' ') {
        Some(("id", id)) => Some(Progress::Id(id.parse().ok()?)),
        Some(("failed", kind)) => {
            let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind)?;
            Some(Progress::End(End::Failed(kind)))
        }
        _ if words == "Committed" => Some(Progress::End(End::Committed)),
        _ if words == "RolledBack" => Some(Progress::End(End::RolledBack)),
        _ => None,
    }
}

/// A worker, seen by its test. Dropped, it is killed.
pub(crate) struct Worker {
    child: Child,
    words: Receiver<String>,
    pub(crate) report: Report,
    pub(crate) struck: bool,
    pub(crate) left: bool,
}

impl Worker {
    pub(crate) fn start(job: &Job) -> Self {
        let mut child = again(TEST, JOB, &job.encode()).unwrap().stdin(Stdio::null()).spawn().unwrap();
        let (hear, words) = channel();
        // If the worker is dropped, the rest is not heard.
        listen(child.stdout.take().unwrap(), move |words| drop(hear.send(words)));
        Self { child, words, report: Report::default(), struck: false, left: false }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Listens until it was struck, or its words end. Blocks.
    pub(crate) fn until_struck(&mut self) -> bool {
        while !self.struck && self.listen_once() {}
        self.struck
    }

    /// Listens until its words end, and waits for the process. Blocks.
    pub(crate) fn until_ended(&mut self) -> ExitStatus {
        while self.listen_once() {}
        self.child.wait().unwrap()
    }

    fn listen_once(&mut self) -> bool {
        match self.words.recv_timeout(LIMIT) {
            Ok(words) if words == "struck" => self.struck = true,
            Ok(words) if words == "left" => self.left = true,
            Ok(words) => self.report.note(progress_in(&words).unwrap_or_else(|| panic!("said {words:?}"))),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("a worker said nothing for {LIMIT:?}"),
        }
        true
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
