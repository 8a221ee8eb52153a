//! Futures that are dropped, and messages that arrive long after: for every operation in a
//! transaction, and every command that it sends, the command is held in the network and the future
//! dropped. The transaction goes on, as far as it may, and commits; the late command arrives before
//! the commit, or after it. Whatever was acknowledged is there afterwards, and nothing else.

mod ahead;
mod decisions;
mod looks;
mod operations;
pub(crate) mod proxy;
mod queries;
mod reads;
mod records;
mod single_writes;
mod values_come_back;

use crate::{common::world::World, quiet};

use std::{net::SocketAddr, time::Duration};

use bson::{Document, doc};
use futures_util::{StreamExt, stream};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel, Session, TransactionOptions};
use operations::Operation;
use proxy::Proxy;

const LIMIT: Duration = Duration::from_secs(60);
const AT_A_TIME: usize = 8;
/// Both arrivals of every command, in place of one after the other in turn.
const ALL: &str = "MONGOTX_LATE_ALL";

/// Time at which the held command arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    BeforeCommit,
    AfterCommit,
}

/// The document that the transaction has written, and acknowledged, before the operation.
const FIRST: i32 = 100;

/// The collection as every case finds it.
fn documents() -> Vec<Document> {
    let some = (1..=6).map(|id| doc! {"_id": id, "n": 1, "k": id * 10});
    some.chain([doc! {"_id": FIRST, "n": 1, "k": 1_000}]).collect()
}

/// Proxy, clients and collections of one operation.
struct Place {
    operation: Operation,
    proxy: Proxy,
    /// The client behind the proxy.
    client: Client,
    coll: Collection<Document>,
    /// A client beside the proxy.
    other: Client,
    others: Collection<Document>,
    /// The collection as it is stored.
    stored: mongodb::Collection<Document>,
}

impl Place {
    async fn new(operation: Operation) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
        let client = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
        let other = quiet::connect(quiet::options()).await;
        let db = local_mongod::unique_db("late");
        let (coll, others) = (client.database(&db).collection("docs"), other.database(&db).collection("docs"));
        let stored = server.client().await.unwrap().database(&db).collection("docs");
        let place = Self { operation, proxy, client, coll, other, others, stored };
        place.warm_up().await;
        place
    }

    /// Look-ups that are made once are made now, so that the commands of the operation are always
    /// the same.
    async fn warm_up(&self) {
        if self.operation.is_unique() {
            self.coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
        }
        for coll in [&self.coll, &self.others] {
            coll.insert_many(&documents()).await.unwrap();
            coll.find(doc! {"n": 5}).await.unwrap().try_collect().await.unwrap();
            coll.delete_many(doc! {}).await.unwrap();
        }
        assert!(self.client.flush(LIMIT).await && self.other.flush(LIMIT).await);
    }

    async fn reset(&self) {
        self.stored.delete_many(doc! {}).await.unwrap();
        self.stored.insert_many(documents()).await.unwrap();
    }

    /// Holds the command after the first `before` ones. False: the operation sends no more than
    /// those.
    async fn run(&self, before: usize, arrival: Arrival) -> bool {
        self.reset().await;
        let mut rival = self.rival().await;
        let mut session = self.client.session_with(TransactionOptions {
            isolation: Some(self.operation.isolation()),
            lock_wait: self.operation.lock_wait(),
            ..TransactionOptions::default()
        });
        session.begin().unwrap();
        let mut expected = documents();
        set_late(&self.coll, &mut session, FIRST).await.unwrap();
        mark_late(&mut expected, FIRST);
        self.operation.prepare(&self.coll, &mut session, &mut expected).await.unwrap();
        self.proxy.hold_after(before);
        let held = tokio::select! {
            biased;
            held = self.proxy.until_held() => Some(held),
            _ = self.operation.run(&self.coll, &mut session) => None,
        };
        self.proxy.hold_nothing();
        // From here on the operation's future is gone.
        if let Some(rival) = &mut rival {
            rival.rollback().await.unwrap();
        }
        let Some(held) = held else { return false };
        let name = format!("{:?}, {held} after {before} commands arrives {arrival:?}", self.operation);
        self.go_on(&name, session, arrival, expected).await;
        true
    }

    /// A rival that holds the second document, where the operation is to meet one.
    async fn rival(&self) -> Option<Session> {
        let mut session = self.other.session();
        session.begin().unwrap();
        if !self.operation.meets_rival() {
            return None;
        }
        self.others.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 50}}).session(&mut session).await.unwrap();
        Some(session)
    }

    /// `expected`: what was acknowledged so far.
    async fn go_on(&self, name: &str, mut session: Session, arrival: Arrival, mut expected: Vec<Document>) {
        let mut committed = None;
        if session.is_open() {
            let next = set_late(&self.coll, &mut session, self.operation.next()).await;
            if let Err(error) = &next {
                assert_eq!(error.kind(), ErrorKind::Expired, "{name}: {error}");
            }
            if arrival == Arrival::BeforeCommit {
                self.proxy.deliver().await;
            }
            let done = session.commit().await;
            assert!(done.is_err() || next.is_ok(), "{name}: committed after {next:?}");
            if next.is_ok_and(|matched| matched) {
                mark_late(&mut expected, self.operation.next());
            }
            committed = Some(done.is_ok());
        }
        if arrival == Arrival::AfterCommit || committed.is_none() {
            self.proxy.deliver().await;
        }
        drop(session);
        assert!(self.client.flush(LIMIT).await, "{name}: not finished");
        let found = self.settled(name).await;
        match committed {
            Some(true) => assert_eq!(found, expected, "{name}: committed"),
            Some(false) => assert_eq!(found, documents(), "{name}: not committed"),
            // The operation was itself the end of the transaction, and its outcome is not known.
            None => assert!(found == documents() || found == expected, "{name}: {found:?}"),
        }
    }

    /// The stored documents, when they are clean. Documents that the late command has left are
    /// repaired by its owner: others may not hear yet that it is rolled back.
    async fn settled(&self, name: &str) -> Vec<Document> {
        let deadline = std::time::Instant::now() + LIMIT;
        loop {
            self.client.repair_collection(self.coll.namespace()).await.unwrap();
            let seen = self.coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
            let stored = self.stored.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
            let stored: Vec<Document> = futures_util::TryStreamExt::try_collect(stored).await.unwrap();
            if seen == stored {
                return stored;
            }
            assert!(std::time::Instant::now() < deadline, "{name}: {seen:?} is stored as {stored:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A client behind a proxy, with the first collection of a world of its own.
async fn behind_proxy(name: &str) -> (World, Proxy, Client, Collection<Document>) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), name);
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let options = ClientOptions { tx_database: world.tx_db(), ..quiet::options() };
    let client = Client::connect_with(&proxy.uri(), options).await.unwrap();
    let coll = world.collection(&client, "a");
    (world, proxy, client, coll)
}

/// Returns whether a document matched.
async fn set_late(coll: &Collection<Document>, session: &mut Session, id: i32) -> mongotx::Result<bool> {
    let done = coll.update_one(doc! {"_id": id}, doc! {"$set": {"late": true}}).session(session).await?;
    Ok(done.matched_count == 1)
}

fn mark_late(documents: &mut [Document], id: i32) {
    for document in documents.iter_mut().filter(|document| document.get("_id") == Some(&id.into())) {
        document.insert("late", true);
    }
}

/// Every command of the operation, delayed.
async fn delay_each(operation: Operation) -> usize {
    let place = Place::new(operation).await;
    let both = std::env::var_os(ALL).is_some();
    for before in 0.. {
        let arrivals = match before % 2 {
            _ if both => vec![Arrival::BeforeCommit, Arrival::AfterCommit],
            0 => vec![Arrival::BeforeCommit],
            _ => vec![Arrival::AfterCommit],
        };
        for arrival in arrivals {
            if !place.run(before, arrival).await {
                return before;
            }
        }
    }
    0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_arrives_late_changes_nothing_that_was_acknowledged() {
    let all = stream::iter(Operation::ALL.iter().copied())
        .map(|operation| async move { (operation, delay_each(operation).await) });
    let commands: Vec<(Operation, usize)> = all.buffer_unordered(AT_A_TIME).collect().await;
    for (operation, count) in &commands {
        println!("{operation:?}: {count} commands");
        assert!(*count > 0, "{operation:?} sends nothing");
    }
    println!("{} cases", commands.iter().map(|(_, count)| count).sum::<usize>());
}
