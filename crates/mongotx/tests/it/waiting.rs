//! Waits of transactions for each other: their length, and the error of the one that does not get
//! through.
//!
//! The tests decide the order: a rival ends its transaction when the counter of waits shows that
//! the other one has met it.

use crate::quiet;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use futures_util::future::join;
use mongotx::{
    Client, ClientOptions, Collection, Error, ErrorKind, Isolation, ReturnDocument, Session, Step, StepHook,
    TransactionOptions,
};
use quiet::{Both, Gate, collection, connect, options, through, until_waiting};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(30);
const PATIENT: Duration = Duration::from_secs(120);
/// More waits than an insert has attempts.
const MANY_WAITS: u64 = 70;

/// A rival with a transaction that has set `n` of document 1 to 10, and a waiter, both of their own
/// client.
struct Two {
    rival: Session,
    rivals: Collection<Document>,
    other: Client,
    others: Collection<Document>,
}

impl Two {
    async fn start() -> Self {
        let two = Self::before_write(options()).await;
        let (mut rival, rivals) = (two.rival, two.rivals);
        rivals.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 10}}).session(&mut rival).await.unwrap();
        Self { rival, rivals, ..two }
    }

    /// The same before the rival has done anything.
    async fn before_write(others_options: ClientOptions) -> Self {
        let (first, other) = (connect(options()).await, connect(others_options).await);
        let rivals = collection(&first, 3).await;
        let others = through(&other, &rivals);
        let mut rival = first.session();
        rival.begin().unwrap();
        Self { rival, rivals, other, others }
    }

    fn session(&self, isolation: Isolation, lock_wait: Duration) -> Session {
        let mut session = self.other.session_with(TransactionOptions {
            isolation: Some(isolation),
            lock_wait,
            ..TransactionOptions::default()
        });
        session.begin().unwrap();
        session
    }

    /// Runs `work`, and commits the rival (or rolls it back) when `work` waits for it.
    async fn rival_ends_under<T>(&mut self, commits: bool, work: impl Future<Output = T>) -> T {
        self.rival_ends_after(1, commits, work).await
    }

    /// The same once it has waited as many times.
    async fn rival_ends_after<T>(&mut self, times: u64, commits: bool, work: impl Future<Output = T>) -> T {
        let (other, rival) = (&self.other, &mut self.rival);
        let waits = other.metrics().waits;
        let end = async {
            until_waiting(other, waits + times).await;
            if commits { rival.commit().await.unwrap() } else { rival.rollback().await.unwrap() }
        };
        join(work, end).await.0
    }
}

async fn n_of(coll: &Collection<Document>, id: i32) -> Option<i32> {
    coll.find_one(doc! {"_id": id}).await.unwrap().map(|document| document.get_i32("n").unwrap())
}

fn add_one() -> Document {
    doc! {"$inc": {"n": 1}}
}

fn assert_conflict(error: &Error, two: &Two) {
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let conflict = error.conflict().unwrap();
    assert_eq!(&conflict.namespace, two.rivals.namespace());
    assert_eq!(conflict.id, 1.into());
    assert_eq!(Some(conflict.rival), two.rival.id());
}

#[tokio::test]
async fn writer_in_a_transaction_fails_at_once() {
    let mut two = Two::start().await;
    let mut session = two.session(Isolation::ReadCommitted, Duration::ZERO);
    let error = two.others.update_one(doc! {"_id": 1}, add_one()).session(&mut session).await.unwrap_err();
    assert_conflict(&error, &two);
    assert_eq!(two.other.metrics().waits, 0);
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Closed);
    two.rival.commit().await.unwrap();
    assert_eq!(n_of(&two.others, 1).await, Some(10));
}

#[tokio::test]
async fn writer_with_a_lock_wait_goes_on_with_what_the_rival_committed() {
    let mut two = Two::start().await;
    let mut session = two.session(Isolation::ReadCommitted, LONG);
    let others = two.others.clone();
    let update = async { others.update_one(doc! {"_id": 1}, add_one()).session(&mut session).await };
    assert_eq!(two.rival_ends_under(true, update).await.unwrap().matched_count, 1);
    session.commit().await.unwrap();
    assert_eq!(n_of(&two.others, 1).await, Some(11));
}

#[tokio::test]
async fn writer_with_a_lock_wait_goes_on_with_the_old_value_after_a_rollback() {
    let mut two = Two::start().await;
    let mut session = two.session(Isolation::ReadCommitted, LONG);
    let others = two.others.clone();
    let update = async { others.update_one(doc! {"_id": 1}, add_one()).session(&mut session).await };
    assert_eq!(two.rival_ends_under(false, update).await.unwrap().matched_count, 1);
    session.commit().await.unwrap();
    assert_eq!(n_of(&two.others, 1).await, Some(2));
}

/// Its limit is the time that it waits, and not the number of times that it looks.
#[tokio::test]
async fn insert_waits_for_a_removal_as_long_as_it_may() {
    let start = async || {
        let mut two = Two::before_write(ClientOptions { write_wait: PATIENT, ..options() }).await;
        two.rivals.delete_one(doc! {"_id": 1}).session(&mut two.rival).await.unwrap();
        two
    };
    let outside = async {
        let mut two = start().await;
        let others = two.others.clone();
        let insert = async { others.insert_one(&doc! {"_id": 1, "n": 7}).await };
        two.rival_ends_after(MANY_WAITS, true, insert).await.unwrap();
        assert_eq!(n_of(&two.others, 1).await, Some(7));
    };
    let inside = async {
        let mut two = start().await;
        let (others, mut session) = (two.others.clone(), two.session(Isolation::ReadCommitted, PATIENT));
        let insert = async { others.insert_one(&doc! {"_id": 1, "n": 7}).session(&mut session).await };
        two.rival_ends_after(MANY_WAITS, true, insert).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(n_of(&two.others, 1).await, Some(7));
    };
    join(outside, inside).await;
}

#[tokio::test]
async fn writer_whose_condition_the_rival_made_false_matches_nothing() {
    let mut two = Two::start().await;
    let mut session = two.session(Isolation::ReadCommitted, LONG);
    let others = two.others.clone();
    let update = async { others.update_one(doc! {"_id": 1, "n": 1}, add_one()).session(&mut session).await };
    assert_eq!(two.rival_ends_under(true, update).await.unwrap().matched_count, 0);
    session.commit().await.unwrap();
    assert_eq!(n_of(&two.others, 1).await, Some(10));
}

#[tokio::test]
async fn lock_wait_that_ends_is_a_conflict_that_names_the_limit() {
    let two = Two::start().await;
    let mut session = two.session(Isolation::ReadCommitted, SHORT);
    let error = two.others.update_one(doc! {"_id": 1}, add_one()).session(&mut session).await.unwrap_err();
    assert_conflict(&error, &two);
    assert!(error.to_string().contains("30ms"), "{error}");
}

#[tokio::test]
async fn write_outside_a_transaction_waits_for_the_commit() {
    let mut two = Two::start().await;
    let others = two.others.clone();
    let update = async { others.update_one(doc! {"_id": 1}, add_one()).await };
    assert_eq!(two.rival_ends_under(true, update).await.unwrap().matched_count, 1);
    assert_eq!(n_of(&two.others, 1).await, Some(11));
}

/// The time of a wait is limited, not the number of looks in it.
#[tokio::test]
async fn write_outside_a_transaction_waits_on_after_many_looks() {
    let mut two = Two::before_write(ClientOptions { write_wait: 6 * LONG, ..options() }).await;
    two.rivals.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 10}}).session(&mut two.rival).await.unwrap();
    let others = two.others.clone();
    let update = async { others.update_one(doc! {"_id": 1}, add_one()).await };
    let (other, rival) = (&two.other, &mut two.rival);
    let end = async {
        until_waiting(other, 70).await;
        rival.commit().await.unwrap();
    };
    assert_eq!(join(update, end).await.0.unwrap().matched_count, 1);
    assert_eq!(n_of(&two.others, 1).await, Some(11));
}

#[tokio::test]
async fn write_outside_a_transaction_waits_for_the_rollback() {
    let mut two = Two::start().await;
    let others = two.others.clone();
    let modify = others.find_one_and_update(doc! {"_id": 1}, add_one()).return_document(ReturnDocument::After);
    let after = two.rival_ends_under(false, async { modify.await }).await.unwrap().unwrap();
    assert_eq!(after, doc! {"_id": 1, "n": 2});
}

#[tokio::test]
async fn write_of_several_outside_a_transaction_waits_for_the_commit() {
    let mut two = Two::start().await;
    let others = two.others.clone();
    let update = async { others.update_many(doc! {"_id": {"$lte": 2}}, add_one()).await };
    assert_eq!(two.rival_ends_under(true, update).await.unwrap().matched_count, 2);
    assert_eq!((n_of(&two.others, 1).await, n_of(&two.others, 2).await), (Some(11), Some(2)));
}

#[tokio::test]
async fn write_outside_a_transaction_that_waits_too_long_is_a_conflict_that_names_the_limit() {
    let two = Two::before_write(ClientOptions { write_wait: SHORT, ..options() }).await;
    let Two { mut rival, rivals, .. } = two;
    rivals.update_one(doc! {"_id": 1}, add_one()).session(&mut rival).await.unwrap();
    let two = Two { rival, rivals, ..two };
    let error = two.others.delete_one(doc! {"_id": 1}).await.unwrap_err();
    assert_conflict(&error, &two);
    assert!(error.to_string().contains("30ms"), "{error}");
}

#[tokio::test]
async fn write_outside_a_transaction_that_does_not_match_does_not_wait() {
    let two = Two::start().await;
    // The rival's value is not there yet, and neither is any other 10.
    assert_eq!(two.others.update_one(doc! {"_id": 1, "n": 10}, add_one()).await.unwrap().matched_count, 0);
    assert_eq!(two.others.update_one(doc! {"_id": 2}, add_one()).await.unwrap().matched_count, 1);
    assert_eq!(two.other.metrics().waits, 0);
}

#[tokio::test]
async fn write_of_a_document_that_the_rival_removes_finds_nothing_after_its_commit() {
    let mut two = Two::before_write(options()).await;
    two.rivals.delete_one(doc! {"_id": 1}).session(&mut two.rival).await.unwrap();
    let others = two.others.clone();
    let update = async { others.update_one(doc! {"_id": 1}, add_one()).await };
    assert_eq!(two.rival_ends_under(true, update).await.unwrap().matched_count, 0);
    assert_eq!(n_of(&two.others, 1).await, None);
}

#[tokio::test]
async fn readers_at_read_committed_never_wait() {
    let mut two = Two::start().await;
    two.rivals.insert_one(&doc! {"_id": 4, "n": 1}).session(&mut two.rival).await.unwrap();
    two.rivals.delete_one(doc! {"_id": 2}).session(&mut two.rival).await.unwrap();
    let mut session = two.session(Isolation::ReadCommitted, LONG);
    let mut by_id = Vec::new();
    for id in 1..=4 {
        let found = two.others.find_one(doc! {"_id": id}).session(&mut session).await.unwrap();
        by_id.push(found.map(|document| document.get_i32("n").unwrap()));
    }
    assert_eq!(by_id, [Some(1), Some(1), Some(1), None]);
    let scanned = two.others.find(doc! {"n": 1}).session(&mut session).await.unwrap().try_collect().await.unwrap();
    assert_eq!(scanned.len(), 3);
    assert_eq!(two.others.count_documents(doc! {}).session(&mut session).await.unwrap(), 3);
    assert_eq!(two.others.distinct("n", doc! {}).session(&mut session).await.unwrap(), [1.into()]);
    assert_eq!(n_of(&two.others, 1).await, Some(1));
    assert_eq!(two.others.count_documents(doc! {"n": 10}).await.unwrap(), 0);
    assert_eq!(two.other.metrics().waits, 0);
    two.rival.rollback().await.unwrap();
}

#[tokio::test]
async fn reader_at_repeatable_read_fails_at_once_or_waits_for_the_writer() {
    let mut two = Two::start().await;
    let mut session = two.session(Isolation::RepeatableRead, Duration::ZERO);
    let error = two.others.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap_err();
    assert_conflict(&error, &two);
    let mut session = two.session(Isolation::RepeatableRead, LONG);
    let others = two.others.clone();
    let read = async { others.find_one(doc! {"_id": 1}).session(&mut session).await };
    assert_eq!(two.rival_ends_under(true, read).await.unwrap(), Some(doc! {"_id": 1, "n": 10}));
    session.commit().await.unwrap();
}

#[tokio::test]
async fn writer_waits_for_a_reader_at_repeatable_read() {
    let mut two = Two::before_write(options()).await;
    let options = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    two.rival.rollback().await.unwrap();
    two.rival.begin_with(options).unwrap();
    two.rivals.find_one(doc! {"_id": 1}).session(&mut two.rival).await.unwrap();
    let mut session = two.session(Isolation::ReadCommitted, Duration::ZERO);
    let error = two.others.update_one(doc! {"_id": 1}, add_one()).session(&mut session).await.unwrap_err();
    assert_conflict(&error, &two);
    let others = two.others.clone();
    let update = async { others.update_one(doc! {"_id": 1}, add_one()).await };
    assert_eq!(two.rival_ends_under(true, update).await.unwrap().matched_count, 1);
}

#[tokio::test]
async fn read_locks_are_gone_when_the_commit_is_answered() {
    let two = Two::before_write(options()).await;
    for _ in 0..20 {
        let mut reader = two.session(Isolation::RepeatableRead, Duration::ZERO);
        two.others.find_one(doc! {"_id": 1}).session(&mut reader).await.unwrap();
        reader.commit().await.unwrap();
        assert!(two.other.locked_documents(two.rivals.namespace(), 1).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn of_two_that_wait_for_each_other_the_less_patient_gives_way() {
    let mut two = Two::start().await;
    let mut session = two.session(Isolation::ReadCommitted, SHORT);
    two.others.update_one(doc! {"_id": 2}, add_one()).session(&mut session).await.unwrap();
    let Two { rival, rivals, others, .. } = &mut two;
    // The rival's own transaction was begun without patience: this one is not.
    rival.rollback().await.unwrap();
    rival.begin_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() }).unwrap();
    rivals.update_one(doc! {"_id": 1}, add_one()).session(rival).await.unwrap();
    let patient = async { rivals.update_one(doc! {"_id": 2}, add_one()).session(rival).await };
    let other = async { others.update_one(doc! {"_id": 1}, add_one()).session(&mut session).await };
    let (patient, other) = join(patient, other).await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(patient.unwrap().matched_count, 1);
    two.rival.commit().await.unwrap();
    assert_eq!((n_of(&two.others, 1).await, n_of(&two.others, 2).await), (Some(2), Some(2)));
}

/// Time of a rollback while what comes after it is held for ever.
async fn time_of_a_rollback() -> Duration {
    let (undo, finish) = (Gate::before(&[Step::BeforeUndo]), Gate::before(&[Step::BeforeFinish]));
    let hook: Arc<dyn StepHook> = Arc::new(Both(undo.clone(), finish.clone()));
    let client = connect(ClientOptions { hook: Some(hook), ..options() }).await;
    let coll = collection(&client, 2).await;
    let (mut first, mut second) = (client.session(), client.session());
    for (session, id) in [(&mut first, 1), (&mut second, 2)] {
        session.begin().unwrap();
        coll.update_one(doc! {"_id": id}, add_one()).session(session).await.unwrap();
    }
    undo.shut();
    finish.shut();
    let commit_after = async {
        undo.until_held().await;
        second.commit().await.unwrap();
        undo.open();
        Instant::now()
    };
    let (rolled_back, opened) = join(first.rollback(), commit_after).await;
    rolled_back.unwrap();
    let took = opened.elapsed();
    finish.open();
    assert!(client.flush(LONG).await);
    took
}

/// One that waits gives up after half a second, each time. One that does not may be slowed down by
/// the machine, but hardly each time.
#[tokio::test]
async fn rollback_does_not_wait_for_what_comes_after_it() {
    let mut took = Vec::new();
    while took.len() < 20 {
        took.push(time_of_a_rollback().await);
        if took.last() < Some(&Duration::from_millis(200)) {
            return;
        }
    }
    panic!("{took:?}");
}

/// The rival has inserted document 9.
async fn with_pending_insert() -> Two {
    let mut two = Two::before_write(options()).await;
    two.rivals.insert_one(&doc! {"_id": 9, "n": 9}).session(&mut two.rival).await.unwrap();
    two
}

#[tokio::test]
async fn insert_of_a_pending_id_is_a_conflict_in_a_transaction() {
    let two = with_pending_insert().await;
    let mut session = two.session(Isolation::ReadCommitted, Duration::ZERO);
    let error = two.others.insert_one(&doc! {"_id": 9}).session(&mut session).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let conflict = error.conflict().unwrap();
    assert_eq!((&conflict.id, Some(conflict.rival)), (&9.into(), two.rival.id()));
}

#[tokio::test]
async fn insert_of_a_pending_id_is_a_duplicate_key_after_the_commit() {
    let mut two = with_pending_insert().await;
    let mut session = two.session(Isolation::ReadCommitted, LONG);
    let others = two.others.clone();
    let insert = async { others.insert_one(&doc! {"_id": 9}).session(&mut session).await };
    let error = two.rival_ends_under(true, insert).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(11000)), "{error}");
    assert!(session.is_open(), "what the server refuses does not end the transaction");
    session.commit().await.unwrap();
    assert_eq!(n_of(&two.others, 9).await, Some(9));
}

#[tokio::test]
async fn insert_of_a_pending_id_goes_on_after_the_rollback() {
    let mut two = with_pending_insert().await;
    let mut session = two.session(Isolation::ReadCommitted, LONG);
    let others = two.others.clone();
    let insert = async { others.insert_one(&doc! {"_id": 9, "n": 99}).session(&mut session).await };
    two.rival_ends_under(false, insert).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(n_of(&two.others, 9).await, Some(99));
}

#[tokio::test]
async fn insert_outside_a_transaction_of_a_pending_id_waits() {
    let mut two = with_pending_insert().await;
    let others = two.others.clone();
    let insert = async { others.insert_one(&doc! {"_id": 9}).await };
    let error = two.rival_ends_under(true, insert).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(11000)), "{error}");

    let mut two = with_pending_insert().await;
    let others = two.others.clone();
    let insert = async { others.insert_one(&doc! {"_id": 9, "n": 99}).await };
    two.rival_ends_under(false, insert).await.unwrap();
    assert_eq!(n_of(&two.others, 9).await, Some(99));
}

#[tokio::test]
async fn upsert_of_a_pending_id_waits_and_then_updates() {
    let mut two = with_pending_insert().await;
    let others = two.others.clone();
    let upsert = async { others.update_one(doc! {"_id": 9}, add_one()).upsert(true).await };
    let done = two.rival_ends_under(true, upsert).await.unwrap();
    assert_eq!((done.matched_count, done.upserted_id), (1, None));
    assert_eq!(n_of(&two.others, 9).await, Some(10));
}

#[tokio::test]
async fn upsert_of_a_pending_id_waits_and_inserts_after_the_rollback() {
    let mut two = with_pending_insert().await;
    let others = two.others.clone();
    let upsert = others.find_one_and_update(doc! {"_id": 9}, add_one()).upsert(true);
    let upsert = upsert.return_document(ReturnDocument::After);
    let after = two.rival_ends_under(false, async { upsert.await }).await.unwrap();
    assert_eq!(after, Some(doc! {"_id": 9, "n": 1}));
}
