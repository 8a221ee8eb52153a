//! Every interleaving of short transactions that want the same values of a unique index, on the
//! real server.
//!
//! The test keeps the book itself: what is committed, and what each open transaction would make of
//! it. A duplicate is answered only where the book has one; what commits is unique and is all
//! there; a transaction that no rival can be in the way of is not refused.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bson::{Document, doc};
use futures_util::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use mongotx::{Client, ClientOptions, Collection, Error, ErrorKind, IndexModel, Session, Step, StepHook};
use txcheck::{Op, interleavings};

/// One step of a transaction: a document and a value.
#[derive(Clone, Copy, Debug)]
enum Do {
    Insert(i32, i32),
    Update(i32, i32),
    Remove(i32),
    Commit,
    Abort,
}
use Do::{Abort, Commit, Insert, Remove, Update};

/// Documents 1, 2, 3 have the values 1, 2, 3 in the beginning.
const HISTORIES: [&[&[Do]]; 11] = [
    &[&[Insert(9, 7), Commit], &[Insert(8, 7), Commit]],
    &[&[Insert(9, 7), Abort], &[Insert(8, 7), Commit]],
    &[&[Insert(9, 7), Commit], &[Update(1, 7), Commit]],
    &[&[Update(1, 7), Commit], &[Insert(9, 1), Commit]],
    &[&[Update(1, 7), Abort], &[Insert(9, 1), Commit]],
    &[&[Remove(1), Insert(9, 1), Commit], &[Insert(8, 1), Commit]],
    &[&[Remove(1), Insert(9, 1), Abort], &[Update(2, 1), Commit]],
    &[&[Update(1, 7), Update(2, 1), Update(1, 2), Commit], &[Insert(9, 1), Commit]],
    &[&[Update(1, 7), Update(2, 1), Update(1, 2), Commit], &[Update(3, 2), Commit]],
    &[&[Update(1, 7), Update(1, 8), Commit], &[Insert(9, 7), Commit], &[Insert(8, 8), Abort]],
    &[&[Update(1, 7), Insert(9, 1), Commit], &[Update(2, 8), Insert(10, 2), Commit]],
];

/// Finishes late, so that others meet what is committed.
struct Slow;

impl StepHook for Slow {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let pause = if step == Step::BeforeFinish { Duration::from_millis(5) } else { Duration::ZERO };
        Box::pin(tokio::time::sleep(pause))
    }
}

/// Documents and values of one run.
const EACH: i32 = 100;

type Values = BTreeMap<i32, i32>;

/// The documents as a transaction has changed them so far, and whether it goes on.
struct Book {
    written: BTreeMap<i32, Option<i32>>,
    open: bool,
}

impl Book {
    fn seen(&self, committed: &Values) -> Values {
        let mut seen = committed.clone();
        for (id, value) in &self.written {
            match value {
                Some(value) => drop(seen.insert(*id, *value)),
                None => drop(seen.remove(id)),
            }
        }
        seen
    }
}

struct Run {
    coll: Vec<Collection<Document>>,
    sessions: Vec<Session>,
    books: Vec<Book>,
    committed: Values,
}

impl Run {
    async fn step(&mut self, tx: usize, step: Do) {
        if !self.books[tx].open {
            return;
        }
        let (coll, session) = (&self.coll[tx], &mut self.sessions[tx]);
        let done = match step {
            Insert(id, value) => coll.insert_one(&doc! {"_id": id, "v": value}).session(session).await.map(drop),
            Update(id, value) => {
                let change = doc! {"$set": {"v": value}};
                coll.update_one(doc! {"_id": id}, change).session(session).await.map(drop)
            }
            Remove(id) => coll.delete_one(doc! {"_id": id}).session(session).await.map(drop),
            Commit => session.commit().await,
            Abort => session.rollback().await,
        };
        match done {
            Ok(()) => self.note(tx, step),
            Err(error) => self.judge(tx, step, &error).await,
        }
    }

    fn note(&mut self, tx: usize, step: Do) {
        let book = &mut self.books[tx];
        match step {
            Insert(id, value) => drop(book.written.insert(id, Some(value))),
            Update(id, value) => {
                if book.seen(&self.committed).contains_key(&id) {
                    book.written.insert(id, Some(value));
                }
            }
            Remove(id) => drop(book.written.insert(id, None)),
            Commit => {
                self.committed = book.seen(&self.committed);
                book.open = false;
            }
            Abort => book.open = false,
        }
    }

    /// A refusal must have a reason.
    async fn judge(&mut self, tx: usize, step: Do, error: &Error) {
        match error.kind() {
            ErrorKind::Conflict => {
                let others = self.books.iter().enumerate();
                let in_the_way = others.filter(|(other, book)| *other != tx && book.open && !book.written.is_empty());
                assert!(in_the_way.count() > 0, "{step:?} of {tx} met no rival: {error}");
            }
            ErrorKind::Invalid if error.code() == Some(11000) => {
                let (Insert(id, value) | Update(id, value)) = step else { panic!("{step:?} is no duplicate: {error}") };
                let mut has_it = self.books[tx].seen(&self.committed).into_iter();
                assert!(
                    has_it.any(|(other, v)| other != id && v == value),
                    "{step:?} of {tx} is no duplicate: {error}"
                );
            }
            kind => panic!("{step:?} of {tx}: {kind:?} {error}"),
        }
        let _ = self.sessions[tx].rollback().await;
        self.books[tx].open = false;
    }
}

/// Documents and values of its own, in the collection of all runs.
fn shifted(step: Do, by: i32) -> Do {
    match step {
        Insert(id, value) => Insert(id + by, value + by),
        Update(id, value) => Update(id + by, value + by),
        Remove(id) => Remove(id + by),
        Commit | Abort => step,
    }
}

async fn run_history(
    clients: &[Client],
    plain: &mongodb::Collection<Document>,
    by: i32,
    history: &[&[Do]],
    order: Vec<usize>,
) {
    plain.insert_many((1..=3).map(|n| doc! {"_id": n + by, "v": n + by})).await.unwrap();
    let name = &plain.namespace().db;
    let coll: Vec<Collection<Document>> = clients.iter().map(|client| client.database(name).collection("c")).collect();
    let mut sessions: Vec<Session> = (0..history.len()).map(|tx| clients[tx % clients.len()].session()).collect();
    sessions.iter_mut().for_each(|session| session.begin().unwrap());
    let coll = (0..history.len()).map(|tx| coll[tx % clients.len()].clone()).collect();
    let books = history.iter().map(|_| Book { written: BTreeMap::new(), open: true }).collect();
    let mut run = Run { coll, sessions, books, committed: (1..=3).map(|n| (n + by, n + by)).collect() };
    let mut next = vec![0; history.len()];
    for tx in &order {
        run.step(*tx, shifted(history[*tx][next[*tx]], by)).await;
        next[*tx] += 1;
    }
    for client in clients {
        assert!(client.flush(Duration::from_secs(20)).await, "{history:?} {order:?}: not everything could be finished");
    }
    let own = doc! {"_id": {"$gte": by, "$lt": by + EACH}};
    let left: Vec<Document> = plain.find(own).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    let expected: Vec<Document> = run.committed.iter().map(|(id, value)| doc! {"_id": id, "v": value}).collect();
    assert_eq!(left, expected, "{history:?} {order:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_interleaving_keeps_values_unique_and_errors_honest() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let db = server.client().await.unwrap().database(&local_mongod::unique_db("uniques"));
    let plain = db.collection::<Document>("c");
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let coll: Collection<Document> = client.database(db.name()).collection("c");
    coll.create_index(IndexModel::new(doc! {"v": 1}).unique(true)).await.unwrap();
    let mut by = 0;
    for clients_wanted in [1, 3] {
        let mut clients = Vec::new();
        for _ in 0..clients_wanted {
            let hook: Option<Arc<dyn StepHook>> = (clients_wanted > 1).then(|| Arc::new(Slow) as _);
            let lease = Duration::from_secs(600);
            let options = ClientOptions { sweep: false, lease, hook, ..crate::quiet::at_read_committed() };
            clients.push(Client::connect_with(&server.uri(), options).await.unwrap());
        }
        let mut runs = Vec::new();
        for history in HISTORIES {
            // Only the lengths matter for the orders.
            let plans: Vec<Vec<Op>> = history.iter().map(|steps| vec![Op::Commit; steps.len()]).collect();
            for order in interleavings(&plans, 500).unwrap() {
                by += EACH;
                runs.push((by, history, order));
            }
        }
        println!("{clients_wanted} clients: {} interleavings", runs.len());
        let (clients, plain) = (&clients, &plain);
        stream::iter(runs)
            .map(|(by, history, order)| run_history(clients, plain, by, history, order))
            .buffer_unordered(4)
            .collect::<Vec<()>>()
            .await;
    }
}
