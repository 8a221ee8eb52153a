//! A read that shows the transaction's own writes, each of its commands late, beside a single write
//! outside transactions. Such a write leaves no change stamp, so nothing but what was read shows
//! it.

use std::net::SocketAddr;

use bson::{Bson, Document, doc};
use futures_util::future::join_all;
use mongotx::{Client, Collection, ErrorKind, Isolation, Result, Session, TransactionOptions};

use super::{LIMIT, proxy::Proxy};
use crate::quiet;

/// More than the commands of any read.
const MOST_COMMANDS: usize = 20;

/// A read of `v` of the document 1, which is 10, and 15 after the single write.
#[derive(Clone, Copy, Debug)]
enum Read {
    Count,
    HintedCount,
    Distinct,
    Sum,
    /// A query that shows no `_id`.
    Fields,
    /// The first of a query that shows none.
    First,
}

const READS: [Read; 6] = [Read::Count, Read::HintedCount, Read::Distinct, Read::Sum, Read::Fields, Read::First];

impl Read {
    async fn value(self, coll: &Collection<Document>, session: &mut Session) -> Result<i32> {
        let other = doc! {"v": {"$gt": 0}};
        match self {
            Self::Count => {
                let is_old = coll.count_documents(doc! {"v": 10}).session(session).await? == 1;
                Ok(if is_old { 10 } else { 15 })
            }
            Self::HintedCount => {
                let action = coll.count_documents(doc! {"v": 10}).hint(doc! {"_id": 1}).session(session);
                Ok(if action.await? == 1 { 10 } else { 15 })
            }
            Self::Distinct => Ok(number(coll.distinct("v", other).session(session).await?.first())),
            Self::Sum => {
                let pipeline = [doc! {"$match": other}, doc! {"$group": {"_id": null, "v": {"$sum": "$v"}}}];
                let found: Vec<Document> = coll.aggregate(pipeline).session(session).await?.try_collect().await?;
                Ok(number(found.first().and_then(|sum| sum.get("v"))))
            }
            Self::Fields | Self::First => {
                let shown = doc! {"_id": 0, "v": 1};
                let limit = if matches!(self, Self::First) { 1 } else { 0 };
                let found: Vec<Document> =
                    coll.find(other).projection(shown).limit(limit).session(session).await?.try_collect().await?;
                Ok(number(found.first().and_then(|document| document.get("v"))))
            }
        }
    }
}

fn number(value: Option<&Bson>) -> i32 {
    value.and_then(Bson::as_i32).expect("a number is found")
}

/// Holds the command behind `before` others of the read, and makes the single write meanwhile.
/// Returns false if the read has fewer commands.
async fn loses_no_single_write(read: Read, isolation: Isolation, before: usize) -> bool {
    let server = local_mongod::shared_standalone().await.unwrap();
    let rival = quiet::connect(quiet::options()).await;
    let rivals = quiet::collection(&rival, 0).await;
    rivals.insert_one(&doc! {"_id": 1, "v": 10}).await.unwrap();
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
    let coll: Collection<Document> = quiet::through(&client, &rivals);
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    coll.insert_one(&doc! {"_id": 100, "v": -1}).session(&mut session).await.unwrap();
    proxy.hold_after(before);
    let reads = coll.clone();
    let mut reading = tokio::spawn(async move {
        let seen = read.value(&reads, &mut session).await;
        (session, seen)
    });
    let (mut session, seen) = tokio::select! {
        held = tokio::time::timeout(LIMIT, proxy.until_held()) => {
            held.unwrap();
            rivals.update_one(doc! {"_id": 1}, doc! {"$inc": {"v": 5}}).await.unwrap();
            proxy.deliver().await;
            reading.await.unwrap()
        }
        ended = &mut reading => {
            ended.unwrap().0.rollback().await.unwrap();
            return false;
        }
    };
    let more = doc! {"$set": {"v": seen.unwrap() + 1}};
    let written = coll.update_one(doc! {"_id": 1}, more).session(&mut session).await;
    let committed = match written {
        Ok(_) => session.commit().await,
        Err(refused) => Err(refused),
    };
    let v = number(rivals.find_one(doc! {"_id": 1}).await.unwrap().unwrap().get("v"));
    match committed {
        Ok(()) => assert_eq!(v, 16, "{read:?} at {isolation:?}, behind {before} commands: a single write is lost"),
        Err(refused) => assert_eq!((refused.kind(), v), (ErrorKind::Conflict, 15), "{refused}"),
    }
    true
}

async fn none_is_lost(read: Read, isolation: Isolation) {
    let mut before = 0;
    while loses_no_single_write(read, isolation, before).await {
        before += 1;
        assert!(before < MOST_COMMANDS, "{read:?} does not end");
    }
    assert!(before > 0, "{read:?} sends no command");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_writes_beside_reads_of_own_changes_are_not_lost() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        join_all(READS.map(|read| none_is_lost(read, isolation))).await;
    }
}
