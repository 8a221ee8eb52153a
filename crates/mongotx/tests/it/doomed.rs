//! Transactions that cannot be committed any more: fenced, aborted, or robbed of what they had
//! prepared by a server that was killed. Whatever statement comes next, it fails, or shows what the
//! transaction itself has written, never what a rival has put in its place.
//!
//! All statements are tried before a test fails, so that it names each that goes on. With
//! `Standings::vouch` and `check_standing` that find nothing wrong those are the reads, in all
//! three tests; with `vouch_for_lock` besides, the writes as well.

use crate::quiet;

use std::time::Duration;

use bson::{Document, doc};
use futures_util::TryStreamExt;
use local_mongod::Server;
use mongotx::{Client, ClientOptions, Collection, Error, ErrorKind, Outcome, Session, Step};
use quiet::Gate;

const LEASE: Duration = Duration::from_secs(3);
/// Values that the transaction has written, that a rival has, and that were there before.
const OWN: i32 = 5;
const RIVALS: i32 = 9;
const BEFORE: i32 = 1;

/// The statement that comes next, of a transaction that has updated its document and inserted
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statement {
    FindById,
    FindByIdAndMore,
    FindByRange,
    Count,
    Distinct,
    Aggregate,
    Update,
    UpdateWithOperators,
    UpdateMany,
    FindOneAndUpdate,
    Delete,
    InsertAgain,
    InsertAnother,
}

use Statement::*;

const ALL: [Statement; 13] = [
    FindById,
    FindByIdAndMore,
    FindByRange,
    Count,
    Distinct,
    Aggregate,
    Update,
    UpdateWithOperators,
    UpdateMany,
    FindOneAndUpdate,
    Delete,
    InsertAgain,
    InsertAnother,
];

impl Statement {
    /// The document that its transaction has updated; the next one was inserted.
    fn id(self) -> i32 {
        10 * (self as i32 + 1)
    }

    /// True: as if nothing had happened. What a rival has written is an error.
    async fn run(self, coll: &Collection<Document>, session: &mut Session) -> Result<bool, Error> {
        let id = self.id();
        let (own, range) = (doc! {"_id": id}, doc! {"_id": {"$gte": id, "$lte": id + 5}});
        let seen = doc! {"_id": id, "n": OWN};
        let increased = doc! {"_id": id, "n": OWN + 1};
        let inc = doc! {"$inc": {"n": 1}};
        let push = doc! {"$push": {"list": 1}};
        Ok(match self {
            FindById => coll.find_one(own).session(session).await? == Some(seen),
            FindByIdAndMore => coll.find_one(doc! {"_id": id, "n": OWN}).session(session).await? == Some(seen),
            FindByRange => {
                let found = coll.find(range).sort(doc! {"_id": 1}).session(session).await?.try_collect().await?;
                found == [seen, doc! {"_id": id + 1, "n": OWN}]
            }
            Count => {
                coll.count_documents(doc! {"_id": {"$gte": id, "$lte": id + 5}, "n": OWN}).session(session).await? == 2
            }
            Distinct => coll.distinct("n", range).session(session).await? == [OWN.into()],
            Aggregate => {
                let pipeline = [doc! {"$match": range}, doc! {"$group": {"_id": 1, "n": {"$sum": "$n"}}}];
                let found = coll.aggregate(pipeline).session(session).await?.try_collect().await?;
                found == [doc! {"_id": 1, "n": 2 * OWN}]
            }
            Update => coll.update_one(own, inc).session(session).await?.matched_count == 1,
            UpdateWithOperators => coll.update_one(own, push).session(session).await?.matched_count == 1,
            UpdateMany => coll.update_many(range, inc).session(session).await?.modified_count == 2,
            FindOneAndUpdate => {
                let action = coll.find_one_and_update(own, inc).return_document(mongotx::ReturnDocument::After);
                action.session(session).await? == Some(increased)
            }
            Delete => coll.delete_one(own).session(session).await? == 1,
            InsertAgain => {
                let again = coll.insert_one(&doc! {"_id": id + 1}).session(session).await;
                again.is_err_and(|error| error.code() == Some(11000))
            }
            InsertAnother => coll.insert_one(&doc! {"_id": id + 2}).session(session).await.is_ok(),
        })
    }
}

/// A transaction for each statement.
async fn open_all(client: &Client, coll: &Collection<Document>) -> Vec<(Statement, Session)> {
    let documents: Vec<Document> = ALL.iter().map(|statement| doc! {"_id": statement.id(), "n": BEFORE}).collect();
    coll.insert_many(&documents).await.unwrap();
    // Everything that is looked up once was looked up.
    coll.find(doc! {"n": 0}).await.unwrap().try_collect().await.unwrap();
    assert!(client.flush(Duration::from_secs(60)).await);
    let mut open = Vec::new();
    for statement in ALL {
        let mut session = client.session();
        session.begin().unwrap();
        let id = statement.id();
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": OWN}}).session(&mut session).await.unwrap();
        coll.insert_one(&doc! {"_id": id + 1, "n": OWN}).session(&mut session).await.unwrap();
        open.push((statement, session));
    }
    open
}

/// A rival changes every document that the transactions held.
async fn take_over(coll: &Collection<Document>) {
    for statement in ALL {
        let id = statement.id();
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": RIVALS}}).await.unwrap();
        coll.insert_one(&doc! {"_id": id + 1, "n": RIVALS}).await.unwrap();
    }
}

/// The fault of an answer, if it has one. `unnoticed`: the statements that may be answered, because
/// they neither show nor change what the transaction holds.
fn judge(
    statement: Statement,
    answer: Result<bool, Error>,
    session: &Session,
    kinds: &[ErrorKind],
    unnoticed: &[Statement],
) -> Option<String> {
    let shown = format!("{statement:?}: {answer:?}");
    let right = match answer {
        Err(error) => kinds.contains(&error.kind()) && error.contains_label("TransientTransactionError"),
        // An insert that is refused, and not as a duplicate, has ended the transaction.
        Ok(false) if !session.is_open() && [InsertAgain, InsertAnother].contains(&statement) => true,
        Ok(as_before) => as_before && unnoticed.contains(&statement),
    };
    (!right).then_some(shown)
}

/// Every statement fails with one of these kinds of errors, unless it is `unnoticed`, and no commit
/// succeeds. Commits are tried only where `commits`: they may have to wait for what the test holds.
async fn all_fail(
    coll: &Collection<Document>,
    open: Vec<(Statement, Session)>,
    kinds: &[ErrorKind],
    unnoticed: &[Statement],
    commits: bool,
) {
    let mut wrong = Vec::new();
    for (statement, mut session) in open {
        let answer = statement.run(coll, &mut session).await;
        wrong.extend(judge(statement, answer, &session, kinds, unnoticed));
        if commits && session.commit().await.is_ok() {
            wrong.push(format!("{statement:?}: committed"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_stands_is_answered() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    for (statement, mut session) in open_all(&client, &coll).await {
        assert!(statement.run(&coll, &mut session).await.unwrap(), "{statement:?}");
        session.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_transaction_is_reported_by_its_next_statement() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    let open = open_all(&client, &coll).await;
    let rival = quiet::connect(quiet::options()).await;
    for (_, session) in &open {
        assert_eq!(rival.abort(session.id().unwrap()).await.unwrap(), Outcome::RolledBack);
    }
    take_over(&quiet::through(&rival, &coll)).await;
    all_fail(&coll, open, &[ErrorKind::Expired], &[InsertAnother], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_transaction_is_reported_by_its_next_statement() {
    let gate = Gate::before(&[Step::BeforeStamp]);
    let options =
        ClientOptions { hook: Some(gate.clone()), lease: LEASE, sweep: false, ..crate::quiet::at_read_committed() };
    let client = quiet::connect(options).await;
    let coll = quiet::collection(&client, 0).await;
    let open = open_all(&client, &coll).await;
    gate.shut();
    gate.until_held().await;
    let rival = quiet::connect(ClientOptions { write_wait: Duration::from_secs(60), ..quiet::options() }).await;
    take_over(&quiet::through(&rival, &coll)).await;
    // The record's writer stands still: the client does not know yet that its record is fenced.
    all_fail(&coll, open, &[ErrorKind::Expired], &[], false).await;
    gate.open();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_whose_server_was_replaced_is_reported_by_its_next_statement() {
    let server = Server::standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
    let coll = quiet::collection(&client, 0).await;
    let open = open_all(&client, &coll).await;
    server.kill().unwrap();
    server.restart().await.unwrap();
    // Prepared writes wait for no journal: this is what a server that has lost them comes back
    // with.
    let plain = server.client().await.unwrap();
    let stored = plain.database(&coll.namespace().db).collection::<Document>(&coll.namespace().coll);
    let left: Vec<Document> = stored.find(doc! {}).await.unwrap().try_collect().await.unwrap();
    for document in left {
        let id = document.get_i32("_id").unwrap();
        let others = doc! {"_id": id, "n": RIVALS};
        stored.replace_one(doc! {"_id": id}, others).await.unwrap();
    }
    all_fail(&coll, open, &[ErrorKind::Expired, ErrorKind::Unavailable], &[], true).await;
}

/// No sign of life falls due for minutes, so that the client can learn of the fence only by what
/// the statement has met.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_met_its_own_fence_takes_a_new_record_at_once() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = quiet::connect(ClientOptions { tx_database: "own_fence".to_owned(), ..quiet::options() }).await;
    let coll = quiet::collection(&client, 0).await;
    let begin_and_insert = async |id: i32| {
        let mut session = client.session();
        session.begin().unwrap();
        coll.insert_one(&doc! {"_id": id}).session(&mut session).await.map(|_| session)
    };
    let mut fenced = begin_and_insert(0).await.unwrap();
    let records = server.client().await.unwrap().database("own_fence").collection::<Document>("txs");
    let mine = bson::oid::ObjectId::from_bytes(fenced.id().unwrap().client.0);
    let done = records.update_one(doc! {"_id": mine}, doc! {"$set": {"fenced": true}}).await.unwrap();
    assert_eq!(done.modified_count, 1);

    assert_eq!(coll.count_documents(doc! {}).session(&mut fenced).await.unwrap_err().kind(), ErrorKind::Expired);
    // A record with 1,000 transactions is replaced anyway.
    for id in 1..900 {
        // It never commits: that would find out, too.
        let Ok(mut session) = begin_and_insert(id).await else { continue };
        if coll.count_documents(doc! {"_id": id}).session(&mut session).await.is_ok_and(|count| count == 1) {
            return session.commit().await.unwrap();
        }
    }
    panic!("the fenced record is used still");
}
