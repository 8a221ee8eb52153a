//! Many writers, and a reader of their events: the events, applied to an empty copy, give the
//! collection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Bson, Document, doc};
use mongotx::{ChangeStreams, Client, ClientOptions, Event, Isolation, Position, Step, TransactionOptions};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{Watched, copied::Copy};
use crate::common::{ghost::die, hooks::Gate, until};

const ACCOUNTS: i64 = 8;
const BALANCE: i64 = 100;

fn options() -> ClientOptions {
    ClientOptions {
        change_streams: ChangeStreams::All,
        lease: Duration::from_millis(500),
        ..crate::quiet::at_read_committed()
    }
}

async fn accounts(place: &Watched) -> Position {
    let start = place.now().await;
    let all: Vec<Document> = (0..ACCOUNTS).map(|id| doc! {"_id": id, "balance": BALANCE}).collect();
    place.coll("accounts").insert_many(&all).await.unwrap();
    start
}

/// A transfer in a transaction, now and then given up, or a note by a single write, which another
/// one changes or removes. Errors are ignored: a write has an event if it was done, and none
/// otherwise.
async fn write(client: &Client, db: &str, random: &mut StdRng) {
    let database = client.database(db);
    let (accounts, notes) = (database.collection::<Document>("accounts"), database.collection::<Document>("notes"));
    let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
    let note = doc! {"_id": random.random_range(0..6)};
    let done = match random.random_range(0..10) {
        0 => notes.insert_one(&note).await.map(drop),
        1 => notes.update_one(note, doc! {"$inc": {"n": 1}, "$push": {"l": from}}).upsert(true).await.map(drop),
        2 => notes.delete_one(note).await.map(drop),
        3 => notes.replace_one(note, &doc! {"n": from}).await.map(drop),
        kind => {
            let levels = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
            let isolation = Some(levels[random.random_range(0..3)]);
            let options = TransactionOptions { isolation, ..TransactionOptions::default() };
            let mut session = client.session_with(options);
            let gives_up = kind == 4;
            async {
                session.begin()?;
                if kind > 7 {
                    accounts.find_one(doc! {"_id": from}).session(&mut session).await?;
                }
                for (id, step) in [(from, -1_i64), (to, 1)] {
                    let step = doc! {"$inc": {"balance": step}};
                    accounts.update_one(doc! {"_id": id}, step).session(&mut session).await?;
                }
                if gives_up { session.rollback().await } else { session.commit().await }
            }
            .await
        }
    };
    // Conflicts, duplicates, a server that is gone for a moment.
    if done.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads on until `is_over` and nothing more comes. Each event comes once, in the order of the
/// numbers ([`Copy::apply`] looks at both).
async fn watch(client: Client, mut position: Position, is_over: Arc<AtomicBool>) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        let was_over = is_over.load(SeqCst);
        match client.changes().after(position, 5).await {
            Ok(some) if some.is_empty() && was_over => return all,
            Ok(some) => {
                if let Some(last) = some.last() {
                    position = last.position;
                } else {
                    let _ = client.changes().wait(position, Duration::from_millis(50)).await;
                }
                all.extend(some);
            }
            Err(error) => {
                assert_ne!(error.code(), Some(286), "{error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// The events of a transaction stand together, and leave the sum as it is.
fn check_sums(events: &[Event], place: &Watched) {
    let mut copy = Copy::default();
    let is_account = |event: &Event| event.document.get_document("ns").unwrap().get_str("coll").unwrap() == "accounts";
    let time = |event: &Event| event.document.get_timestamp("clusterTime").unwrap();
    assert!(events.windows(2).all(|pair| time(&pair[0]) <= time(&pair[1])));
    for of_one in events.chunk_by(|one, other| time(one) == time(other)) {
        of_one.iter().for_each(|event| copy.apply(event));
        if of_one.iter().any(is_account) {
            let documents = copy.documents(&place.named("accounts"));
            let sum: i64 = documents.iter().map(|account| account.get_i64("balance").unwrap()).sum();
            assert_eq!(sum, ACCOUNTS * BALANCE, "{of_one:?}");
        }
    }
}

async fn check(place: &Watched, events: &[Event]) {
    check_sums(events, place);
    let copy = Copy::of(events);
    for name in ["accounts", "notes"] {
        let read = place.coll(name).find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(copy.documents(&place.named(name)), read, "{name}");
    }
}

async fn write_and_watch(place: &Watched, start: Position, clients: &[Client], writes: usize) -> Vec<Event> {
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(watch(place.client.clone(), start, Arc::clone(&is_over)));
    let mut writers = tokio::task::JoinSet::new();
    for (seed, client) in clients.iter().enumerate() {
        let (client, db) = (client.clone(), place.plain.name().to_owned());
        writers.spawn(async move {
            let mut random = StdRng::seed_from_u64(seed as u64);
            for _ in 0..writes {
                write(&client, &db, &mut random).await;
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    is_over.store(true, SeqCst);
    watcher.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_two_clients_write_has_events_once_and_in_order() {
    let place = Watched::with("agree", options()).await;
    let start = accounts(&place).await;
    let other = place.another().await;
    let clients = [&place.client, &other, &place.client, &other].map(Clone::clone);
    let events = write_and_watch(&place, start, &clients, 60).await;
    check(&place, &events).await;
}

/// A client dies when it has taken numbers and is not decided, and one when it is decided and has
/// finished nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_that_die_leave_all_of_their_events_or_none() {
    let place = Watched::with("agree_ghosts", options()).await;
    let start = accounts(&place).await;
    for (step, has_events) in [(Step::BeforeDecision, false), (Step::BeforeFinish, true)] {
        let before = place.since(start).await.len();
        let (uri, options, db) = (place.uri.clone(), place.options.clone(), place.plain.name().to_owned());
        let id = die(async move || {
            let (gate, hook) = Gate::at(step, 1, true);
            let options = ClientOptions { hook: Some(hook), ..options };
            let client = Client::connect_with(&uri, options).await.unwrap();
            let accounts = client.database(&db).collection::<Document>("accounts");
            let mut session = client.session();
            session.begin().unwrap();
            for (id, step) in [(1, -1_i64), (2, 1)] {
                let step = doc! {"$inc": {"balance": step}};
                accounts.update_one(doc! {"_id": id}, step).session(&mut session).await.unwrap();
            }
            let id = session.id().unwrap();
            let commit = tokio::spawn(async move { session.commit().await });
            gate.reached().await;
            drop(commit);
            id
        })
        .await;
        // The next client to commit waits for it, and repairs the documents that it has left.
        place.coll("notes").insert_one(&doc! {"_id": format!("{step:?}")}).await.unwrap();
        let events = place.since(start).await;
        assert_eq!(events.len(), before + 1 + if has_events { 2 } else { 0 }, "{id} at {step:?}");
        check_sums(&events, &place);
    }
    let events = place.since(start).await;
    check(&place, &events).await;
}

/// Changes that the server had acknowledged and not made durable are lost, with their events or
/// without any.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_killed_keeps_changes_and_events_together() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let place = Watched::on(&server, "agree_kills", options()).await;
    let start = accounts(&place).await;
    let other = place.another().await;
    let clients = [&place.client, &other, &place.client].map(Clone::clone);
    let writing = write_and_watch(&place, start, &clients, 60);
    let killing = async {
        for n in 1..=3_u32 {
            until("some events", async || {
                let some = place.client.changes().now().await.ok()?;
                (some.number >= i64::from(n) * 20).then_some(())
            })
            .await;
            server.kill().unwrap();
            server.restart().await.unwrap();
        }
    };
    let (events, ()) = tokio::join!(writing, killing);
    check(&place, &events).await;
    // A client that knows nothing reads the same.
    let again = super::all_since(&place.another().await, start).await;
    let numbers = |events: &[Event]| events.iter().map(|event| event.position.number).collect::<Vec<_>>();
    assert_eq!(numbers(&again), numbers(&events));
    assert!(again.iter().zip(&events).all(|(one, other)| one.document == other.document));
    let key = |event: &Event| event.document.get("documentKey").cloned().unwrap_or(Bson::Null);
    assert!(again.iter().map(key).all(|key| key != Bson::Null));
}
