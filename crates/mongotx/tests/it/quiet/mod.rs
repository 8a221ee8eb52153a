//! Clients that send nothing of their own accord, and a gate at one step of the protocol, for tests
//! that count commands or decide an order.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use local_mongod::{Server, ServerOptions};
use mongotx::{Client, ClientOptions, Collection, Isolation, Metrics, Step, StepHook};
use tokio::sync::{OnceCell, watch};

/// The longest that a step of another client is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// The defaults at read committed: for tests of what is there at every level, which go on after a
/// statement that is refused, and count commands.
pub(crate) fn at_read_committed() -> ClientOptions {
    // Committed documents are finished almost at once: tests break servers in between.
    let finish_delay = Duration::from_millis(5);
    ClientOptions { isolation: Isolation::ReadCommitted, finish_delay, ..ClientOptions::default() }
}

/// Options without sweeps, and with a lease so long that no sign of life falls due.
pub(crate) fn options() -> ClientOptions {
    ClientOptions { sweep: false, lease: Duration::from_secs(600), ..at_read_committed() }
}

/// A client of the shared server.
pub(crate) async fn connect(options: ClientOptions) -> Client {
    let server = local_mongod::shared_standalone().await.unwrap();
    Client::connect_with(&server.uri(), options).await.unwrap()
}

/// A server beside the shared one, for tests whose clients request quiet: it concerns all clients
/// of a server, and a transaction that hears of it late is validated again. Other tests count what
/// that costs.
pub(crate) async fn server_apart() -> &'static Server {
    static APART: OnceCell<Server> = OnceCell::const_new();
    APART.get_or_try_init(|| ServerOptions::standalone().in_memory().start()).await.unwrap()
}

/// A client of the server beside the shared one.
pub(crate) async fn connect_apart(options: ClientOptions) -> Client {
    Client::connect_with(&server_apart().await.uri(), options).await.unwrap()
}

/// A client of the server at `uri`, which says how long it is looked for at a time. At first that
/// may take several times.
pub(crate) async fn connect_in_the_end(uri: &str, options: ClientOptions) -> Client {
    let begun = Instant::now();
    loop {
        match Client::connect_with(uri, options.clone()).await {
            Ok(client) => return client,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
        }
    }
}

/// The commands that `work` sends, by name.
pub(crate) async fn commands_of<T>(client: &Client, work: impl Future<Output = T>) -> BTreeMap<String, u64> {
    let before = client.metrics().commands;
    work.await;
    let mut after = client.metrics().commands;
    for (name, count) in before {
        after.entry(name).and_modify(|now| *now -= count);
    }
    after.retain(|_, count| *count > 0);
    after
}

/// Result of `work`, and the number of times that its validations have read several things
/// together. (Their commands are `find`s, as looks are, of which there are more or fewer by chance.
/// A validation that was disturbed reads again, and so does a commit beside which others have had
/// quiet, both by chance: the times of one round are counted.)
pub(crate) async fn questions_of<T>(client: &Client, work: impl Future<Output = T>) -> (T, u64) {
    let before = client.metrics();
    let done = work.await;
    let after = client.metrics();
    let again = |metrics: &Metrics| metrics.validations_disturbed + metrics.validated_again;
    let rounds = 1 + again(&after) - again(&before);
    (done, (after.validation_questions - before.validation_questions) / rounds)
}

/// A new collection with the documents `{_id: 1, n: 1}` to `{_id: count, n: 1}`.
pub(crate) async fn collection(client: &Client, count: i32) -> Collection<Document> {
    let coll = client.database(&local_mongod::unique_db("quiet")).collection("docs");
    let documents: Vec<Document> = (1..=count).map(|id| doc! {"_id": id, "n": 1}).collect();
    if count > 0 {
        coll.insert_many(&documents).await.unwrap();
        assert!(client.flush(Duration::from_secs(10)).await);
    }
    coll
}

/// The collection through another client.
pub(crate) fn through(client: &Client, coll: &Collection<Document>) -> Collection<Document> {
    client.database(&coll.namespace().db).collection(&coll.namespace().coll)
}

/// Holds a client at some steps, as long as it is shut.
pub(crate) struct Gate {
    steps: Vec<Step>,
    shut: watch::Sender<bool>,
    held: watch::Sender<usize>,
}

impl Gate {
    /// An open gate before these steps.
    pub(crate) fn before(steps: &[Step]) -> Arc<Self> {
        Arc::new(Self { steps: steps.to_vec(), shut: watch::Sender::new(false), held: watch::Sender::new(0) })
    }

    pub(crate) fn shut(&self) {
        self.shut.send_replace(true);
    }

    pub(crate) fn open(&self) {
        self.shut.send_replace(false);
    }

    /// Waits until a client stands before it.
    pub(crate) async fn until_held(&self) {
        let mut held = self.held.subscribe();
        let reached = tokio::time::timeout(LIMIT, held.wait_for(|held| *held > 0)).await;
        reached.expect("no transaction comes to the gate").unwrap();
    }
}

impl StepHook for Gate {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        if !self.steps.contains(&step) {
            return Box::pin(async {});
        }
        let (held, mut shut) = (self.held.clone(), self.shut.subscribe());
        Box::pin(async move {
            held.send_modify(|held| *held += 1);
            let _ = shut.wait_for(|shut| !shut).await;
            held.send_modify(|held| *held -= 1);
        })
    }
}

/// Waits until this client has had to wait for a rival `times` times: the counter is the only sign
/// of it.
pub(crate) async fn until_waiting(client: &Client, times: u64) {
    let deadline = Instant::now() + LIMIT;
    while client.metrics().waits < times {
        let waits = client.metrics().waits;
        assert!(Instant::now() < deadline, "waited {waits} times, not {times}, within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Two gates, one after the other.
pub(crate) struct Both(pub(crate) Arc<Gate>, pub(crate) Arc<Gate>);

impl StepHook for Both {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let (first, second) = (self.0.at(step), self.1.at(step));
        Box::pin(async move {
            first.await;
            second.await;
        })
    }
}
