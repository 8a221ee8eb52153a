//! A transaction that loses its validation again and again is given quiet: for a moment nothing is
//! decided where it reads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{DateTime, Document, doc, oid::ObjectId};
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, TransactionOptions};

use crate::quiet;

const LIMIT: Duration = Duration::from_secs(120);

fn session(client: &Client) -> Session {
    let options = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    client.session_with(options)
}

async fn set(coll: &Collection<Document>, id: i32, n: i64) {
    coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": n}}).await.unwrap();
}

async fn read_both(coll: &Collection<Document>, session: &mut Session) {
    session.begin().unwrap();
    for id in [1, 2] {
        coll.find_one(doc! {"_id": id}).session(session).await.unwrap();
    }
}

/// Loses as often as it takes for the next transaction to be given quiet.
async fn lose(reader: &Collection<Document>, session: &mut Session, writer: &Collection<Document>) {
    for n in 0..2 {
        read_both(reader, session).await;
        set(writer, 1, 100 + n).await;
        assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[tokio::test]
async fn rivals_decide_when_the_reader_who_was_given_quiet_has_ended() {
    let (client, rival) = (quiet::connect_apart(quiet::options()).await, quiet::connect_apart(quiet::options()).await);
    let coll = quiet::collection(&client, 2).await;
    let others = quiet::through(&rival, &coll);
    let mut reader = session(&client);
    let mut n = 1_000;
    // Quiet is bounded in time: on a machine that stands still it may be over before the reader is.
    loop {
        lose(&coll, &mut reader, &others).await;
        let before = rival.metrics().held_back;
        read_both(&coll, &mut reader).await;
        n += 1;
        let mut writer = session(&rival);
        writer.begin().unwrap();
        others.update_one(doc! {"_id": 1}, doc! {"$set": {"n": n}}).session(&mut writer).await.unwrap();
        let deciding = tokio::spawn(async move { writer.commit().await });
        while rival.metrics().held_back == before && !deciding.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let read = reader.commit().await;
        tokio::time::timeout(LIMIT, deciding).await.unwrap().unwrap().unwrap();
        assert_eq!(coll.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": n}));
        assert!(client.metrics().quiets > 0, "no client has asked for quiet");
        if rival.metrics().held_back > before && read.is_ok() {
            break;
        }
    }
}

/// Quiet lasts for half a second at first, and the next one for twice as long. Decisions heed it
/// for longer than a second, then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_that_takes_longer_than_its_quiet_is_given_a_longer_one() {
    let (client, rival) = (quiet::connect_apart(quiet::options()).await, quiet::connect_apart(quiet::options()).await);
    let coll = quiet::collection(&client, 2).await;
    let (others, over) = (quiet::through(&rival, &coll), Arc::new(AtomicBool::new(false)));
    let is_over = Arc::clone(&over);
    let writer = tokio::spawn(async move {
        let mut writer = session(&rival);
        for n in 2.. {
            if is_over.load(SeqCst) {
                return;
            }
            writer.begin().unwrap();
            others.update_many(doc! {}, doc! {"$set": {"n": n}}).session(&mut writer).await.unwrap();
            writer.commit().await.unwrap();
        }
    });
    let reading = async {
        let mut reader = session(&client);
        loop {
            reader.begin().unwrap();
            let first = coll.find_one(doc! {"_id": 1}).session(&mut reader).await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            let second = coll.find_one(doc! {"_id": 2}).session(&mut reader).await.unwrap().unwrap();
            if reader.commit().await.is_ok() {
                assert_eq!(first.get("n"), second.get("n"));
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, reading).await.expect("the reader starves");
    over.store(true, SeqCst);
    writer.await.unwrap();
}

/// A record whose reader has died, by a clock that was set back: the decision waits for a bounded
/// time, others do not wait.
#[tokio::test]
async fn quiet_that_is_never_ended_is_not_heeded_for_ever() {
    not_heeded_for_ever(Isolation::Snapshot).await;
}

/// At serializable what was read is validated again, once the owner of the record has ended the
/// quiet.
#[tokio::test]
async fn quiet_that_is_left_is_ended_by_who_has_to_be_validated_again() {
    let client = not_heeded_for_ever(Isolation::Serializable).await;
    assert!(client.metrics().validated_again > 0);
}

async fn not_heeded_for_ever(isolation: Isolation) -> Client {
    let client = quiet::connect_apart(quiet::options()).await;
    let coll = quiet::collection(&client, 2).await;
    let elsewhere = quiet::collection(&client, 2).await;
    set(&coll, 1, 5).await;
    let mut writer =
        client.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
    writer.begin().unwrap();
    elsewhere.find_one(doc! {"_id": 2}).session(&mut writer).await.unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 7}}).session(&mut writer).await.unwrap();
    let id = ObjectId::from_bytes(writer.id().unwrap().client.0);
    let tag = protocol::id::collection_tag(&coll.namespace().to_string());
    let for_ever = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    let quiet = doc! {"by": ObjectId::new(), "tags": [tag], "until": for_ever, "over": false};
    let driver = quiet::server_apart().await.client().await.unwrap();
    let records = driver.database(&quiet::options().tx_database).collection::<Document>("txs");
    let updated = records.update_one(doc! {"_id": id}, doc! {"$set": {"quiet": quiet}}).await.unwrap();
    assert_eq!(updated.modified_count, 1);
    let deciding = tokio::spawn(async move { writer.commit().await });
    while client.metrics().held_back == 0 {
        assert!(!deciding.is_finished(), "it has not heeded the quiet");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut other = session(&client);
    other.begin().unwrap();
    elsewhere.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 7}}).session(&mut other).await.unwrap();
    other.commit().await.unwrap();
    tokio::time::timeout(LIMIT, deciding).await.unwrap().unwrap().unwrap();
    assert_eq!(coll.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 7}));
    client
}
