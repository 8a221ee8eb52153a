//! A gateway as a process of its own ([`local_mongod::again()`]). It reports where it listens and
//! when it is struck, and ends when its input is closed.

use std::{
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use local_mongod::{report, signal};
use mongotx::{ClientOptions, Step, StepHook};
use mongotx_gateway::{Gateway, GatewayOptions, RetryableWrites, SessionLimits};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::watch,
};

use super::LIMIT;

const JOB: &str = "MONGOTX_GATEWAY_JOB";
const TEST: &str = "failover::gateway_process";

/// The end or pause of the gateway when it reaches its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Kill,
    Stop,
}

/// The options of a gateway's process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) uri: String,
    pub(crate) tx_database: String,
    pub(crate) lease_ms: u64,
    /// Retryable writes are remembered in the store.
    pub(crate) durable: bool,
    /// The step at which it is broken, which time it is reached, and how.
    pub(crate) breaks: Option<(Step, usize, Blow)>,
}

impl Job {
    fn encode(&self) -> String {
        let Self { uri, tx_database, lease_ms, durable, breaks } = self;
        let breaks = breaks.map(|(step, nth, blow)| format!("|{step:?}|{nth}|{blow:?}")).unwrap_or_default();
        format!("{uri}|{tx_database}|{lease_ms}|{durable}{breaks}")
    }

    fn decode(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('|').collect();
        let [uri, tx_database, lease_ms, durable, breaks @ ..] = parts.as_slice() else { return None };
        let breaks = match breaks {
            [] => None,
            [step, nth, blow] => {
                let blow = if *blow == "Kill" { Blow::Kill } else { Blow::Stop };
                Some((Step::from_name(step)?, nth.parse().ok()?, blow))
            }
            _ => return None,
        };
        Some(Self {
            uri: (*uri).to_owned(),
            tx_database: (*tx_database).to_owned(),
            lease_ms: lease_ms.parse().ok()?,
            durable: durable.parse().ok()?,
            breaks,
        })
    }
}

/// The body of the test `gateway_process`. Without a job it checks that every job survives being
/// encoded as text.
pub(crate) async fn serve_or_check_words() {
    let Some(job) = std::env::var(JOB).ok().and_then(|text| Job::decode(&text)) else {
        return check_words();
    };
    let hook = job.breaks.map(|(step, nth, blow)| -> Arc<dyn StepHook> {
        Arc::new(Strike { step, nth, blow, count: AtomicUsize::new(0) })
    });
    let client = ClientOptions {
        tx_database: job.tx_database,
        lease: Duration::from_millis(job.lease_ms),
        commit_timeout: Duration::from_secs(20),
        hook,
        ..ClientOptions::default()
    };
    let retryable_writes = if job.durable { RetryableWrites::Durable } else { RetryableWrites::Memory };
    let listen = Some("127.0.0.1:0".parse().unwrap());
    // A client whose answer was lost on the way to it leaves its transaction open: nothing has to
    // wait a minute for that.
    let sessions = SessionLimits { transaction_lifetime: Duration::from_secs(4), ..SessionLimits::default() };
    let options =
        GatewayOptions { uri: job.uri, listen, client, sessions, retryable_writes, ..GatewayOptions::default() };
    let gateway = Gateway::start(options).await.unwrap();
    report(&format!("listening {}", gateway.address().unwrap())).unwrap();
    tokio::task::spawn_blocking(local_mongod::until_released).await.unwrap().unwrap();
    gateway.shutdown(LIMIT).await.unwrap();
    report("left").unwrap();
}

fn check_words() {
    for step in Step::ALL {
        let job = Job {
            uri: "mongodb://h/?a=b&c=d".to_owned(),
            tx_database: "tx".to_owned(),
            lease_ms: 500,
            durable: true,
            breaks: Some((step, 3, Blow::Stop)),
        };
        assert_eq!(Job::decode(&job.encode()), Some(job.clone()));
        let whole = Job { breaks: None, ..job };
        assert_eq!(Job::decode(&whole.encode()), Some(whole));
    }
}

/// Breaks the process when it reaches its step.
struct Strike {
    step: Step,
    nth: usize,
    blow: Blow,
    count: AtomicUsize,
}

impl StepHook for Strike {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        if step == self.step && self.count.fetch_add(1, Relaxed) + 1 == self.nth {
            report("struck").unwrap();
            match self.blow {
                Blow::Stop => signal::stop(std::process::id()).unwrap(),
                Blow::Kill => {
                    signal::kill(std::process::id()).unwrap();
                    // Signals to oneself may take a moment to arrive.
                    loop {
                        std::thread::park();
                    }
                }
            }
        }
        Box::pin(std::future::ready(()))
    }
}

/// Reports of a gateway so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reports {
    pub(crate) listening: Option<SocketAddr>,
    pub(crate) struck: bool,
    pub(crate) left: bool,
    /// True if the gateway has closed its output.
    pub(crate) silent: bool,
}

/// A gateway, seen by its test. Dropped, it is killed.
pub(crate) struct Process {
    child: Child,
    reports: watch::Receiver<Reports>,
}

impl Process {
    pub(crate) fn start(job: &Job) -> Self {
        let mut command = Command::from(local_mongod::again(TEST, JOB, &job.encode()).unwrap());
        let mut child = command.stdin(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let (sender, reports) = watch::channel(Reports::default());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send_modify(|reports| note(reports, &line));
            }
            sender.send_modify(|reports| reports.silent = true);
        });
        Self { child, reports }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Waits until the gateway has reported this, or says nothing more.
    pub(crate) async fn until(&mut self, what: &str, done: impl Fn(&Reports) -> bool) -> Reports {
        let waiting = self.reports.wait_for(|reports| reports.silent || done(reports));
        let reports = tokio::time::timeout(LIMIT, waiting).await;
        *reports.unwrap_or_else(|_| panic!("in vain waited for: {what}")).unwrap()
    }

    /// Waits until it stands still.
    pub(crate) async fn until_paused(&self) {
        let path = format!("/proc/{}/stat", self.pid());
        let paused = async {
            while !std::fs::read_to_string(&path).unwrap_or_default().contains(") T ") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LIMIT, paused).await.expect("it does not stand still");
    }

    /// Closes its input, and waits for its end, which has to be a good one.
    pub(crate) async fn end(mut self, name: &str) {
        drop(self.child.stdin.take());
        let reports = self.until("the gateway's end", |reports| reports.left).await;
        assert!(reports.left, "{name}: the gateway did not end well");
        assert!(self.child.wait().await.unwrap().success(), "{name}");
    }
}

fn note(reports: &mut Reports, line: &str) {
    match local_mongod::heard(line).map(|words| words.split_once(' ').unwrap_or((words, ""))) {
        Some(("listening", address)) => reports.listening = address.parse().ok(),
        Some(("struck", _)) => reports.struck = true,
        Some(("left", _)) => reports.left = true,
        _ => {}
    }
}
