//! A client that holds two documents, as a process of its own that can be killed
//! ([`local_mongod::again()`]). It ends when its input is closed.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use mongodb::bson::{Document, doc};
use mongotx::{Client, ClientOptions, Step, StepHook};

const JOB: &str = "MONGOTX_HOLDER_JOB";
const TEST: &str = "holder::holder_process";

/// Statement that the client makes before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The process leaves a transaction with writes open.
    Open,
    /// The process commits, and finishes no document.
    Committed,
}

/// The task of a holder: accounts 0 and 1 of a database.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) uri: String,
    pub(crate) database: String,
    pub(crate) tx_database: String,
    pub(crate) holds: Holds,
    pub(crate) lease_ms: u64,
}

impl Job {
    fn encode(&self) -> String {
        let Self { uri, database, tx_database, holds, lease_ms } = self;
        format!("{uri}|{database}|{tx_database}|{holds:?}|{lease_ms}")
    }

    fn decode(text: &str) -> Option<Self> {
        let [uri, database, tx_database, holds, lease_ms] = text.split('|').collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            uri: uri.to_owned(),
            database: database.to_owned(),
            tx_database: tx_database.to_owned(),
            holds: if holds == "Committed" { Holds::Committed } else { Holds::Open },
            lease_ms: lease_ms.parse().ok()?,
        })
    }
}

/// The process, seen by its test. Dropped, it is killed.
pub(crate) struct Holder {
    child: Child,
    /// The transaction that holds the documents.
    pub(crate) id: String,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Holder {
    /// Starts it, and waits until it holds the documents.
    pub(crate) fn start(job: &Job) -> Self {
        let mut child = local_mongod::again(TEST, JOB, &job.encode()).unwrap().stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let id = lines
            .map_while(Result::ok)
            .find_map(|line| Some(local_mongod::heard(&line)?.strip_prefix("holds ")?.to_owned()));
        Self { child, id: id.expect("the holder has ended") }
    }

    /// Kills it, unless it is dead.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process itself. Without a job it checks that every job survives being encoded as text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_process() {
    match std::env::var(JOB).ok().and_then(|text| Job::decode(&text)) {
        Some(job) => hold(&job).await,
        None => check_words(),
    }
}

fn check_words() {
    for holds in [Holds::Open, Holds::Committed] {
        let [uri, database, tx_database] = ["mongodb://h/?a=b&c=d", "bank", "tx"].map(str::to_owned);
        let job = Job { uri, database, tx_database, holds, lease_ms: 300 };
        assert_eq!(Job::decode(&job.encode()), Some(job));
    }
}

async fn hold(job: &Job) {
    let hook: Option<Arc<dyn StepHook>> = match job.holds {
        Holds::Open => None,
        Holds::Committed => Some(Arc::new(NeverFinish)),
    };
    let (tx_database, lease) = (job.tx_database.clone(), Duration::from_millis(job.lease_ms));
    let options = ClientOptions { tx_database, lease, sweep: false, hook, ..ClientOptions::default() };
    let client = Client::connect_with(&job.uri, options).await.unwrap();
    let database = client.database(&job.database);
    let mut session = client.session();
    session.begin().unwrap();
    for (account, amount) in [(0, -1_i64), (1, 1)] {
        let accounts = database.collection::<Document>("accounts");
        let change = doc! {"$inc": {"balance": amount}};
        accounts.update_one(doc! {"_id": account}, change).session(&mut session).await.unwrap();
    }
    let audit = doc! {"_id": "held", "from": 0, "to": 1, "amount": 1_i64};
    database.collection("audits").insert_one(&audit).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    if job.holds == Holds::Committed {
        session.commit().await.unwrap();
    }
    local_mongod::report(&format!("holds {id}")).unwrap();
    tokio::task::spawn_blocking(local_mongod::until_released).await.unwrap().unwrap();
    // Nothing is tidied up.
    std::process::exit(0);
}

/// Keeps the client from finishing its documents, for ever.
struct NeverFinish;

impl StepHook for NeverFinish {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        match step {
            Step::BeforeFinish => Box::pin(std::future::pending()),
            _ => Box::pin(std::future::ready(())),
        }
    }
}
