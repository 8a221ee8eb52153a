//! Reads of a transaction are sent again behind its insert, in the same write, where the commit is
//! expected next, and others of its client wait or none runs (decision 0061). The commit rests on
//! that if it does come next, and reads again if anything else has.

use std::{future::IntoFuture, time::Duration};

use bson::{Document, doc};
use futures_util::future;
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, Result, Session, TransactionOptions,
};

use crate::quiet::{self, until_waiting};

const LONG: Duration = Duration::from_secs(60);
/// Commits behind an insert after which the next one is expected.
const EXPECTED_AFTER: usize = 2;
const CONNECTIONS: usize = 8;
const ATTEMPTS: usize = 20;

async fn nothing(_: &Place, _: &mut Session) {}

/// A transaction that reads `read` by a query, changes the first of `written`, for which another
/// transaction waits, and inserts into `inserted`.
struct Place {
    client: Client,
    rival: Client,
    read: Collection<Document>,
    written: Collection<Document>,
    inserted: Collection<Document>,
    /// Number of questions about unique values behind each insert.
    questions: u64,
}

/// Outcome and counts of one transaction.
struct Ended {
    inserted: Result<()>,
    /// The answer to its commit, or to its rollback where the insert was refused.
    committed: Result<()>,
    /// Number of its joint reads, from the insert on.
    asked: u64,
    /// True if its reads were sent again behind the insert.
    is_asked_behind: bool,
    /// Validations that have rested on that.
    ahead: u64,
}

impl Place {
    async fn new() -> Self {
        Self::with_indexes(&[]).await
    }

    /// A place whose collection for inserts has these unique indexes.
    async fn with_indexes(unique: &[Document]) -> Self {
        let (client, rival) = (quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await);
        let [read, written] = [quiet::collection(&client, 3).await, quiet::collection(&client, 3).await];
        let inserted = client.database(&local_mongod::unique_db("ahead")).collection("inserted");
        inserted.insert_one(&doc! {"_id": 0}).await.unwrap();
        for key in unique {
            inserted.create_index(IndexModel::new(key.clone()).unique(true)).await.unwrap();
        }
        // The rival may write there at any time, so nothing is taken for unchanged.
        quiet::through(&rival, &read).update_one(doc! {"_id": 3}, doc! {"$set": {"m": 1}}).await.unwrap();
        let questions = unique.len() as u64;
        let place = Self { client, rival, read, written, inserted, questions };
        // All connections that will be needed are begun before anything is counted: a new one ends
        // what looks have shown.
        future::join_all((0..CONNECTIONS).map(|_| place.read.count_documents(doc! {}).into_future())).await;
        for id in 1..=EXPECTED_AFTER {
            let ended = place.run(id as i32, nothing, nothing).await;
            assert!(ended.committed.is_ok() && !ended.is_asked_behind, "{:?}", ended.committed);
        }
        place
    }

    /// The outcome of a transaction that inserts `id`, with its reads sent again behind the insert.
    /// They are not if a connection was begun since the last look, which the test does not decide:
    /// then everything is done again, at another place.
    async fn asks_behind(
        id: i32,
        before: impl AsyncFn(&Place, &mut Session),
        behind: impl AsyncFn(&Place, &mut Session),
    ) -> (Self, Ended) {
        Self::asks_behind_under(&[], id, before, behind).await
    }

    /// The same with unique indexes.
    async fn asks_behind_under(
        unique: &[Document],
        id: i32,
        before: impl AsyncFn(&Place, &mut Session),
        behind: impl AsyncFn(&Place, &mut Session),
    ) -> (Self, Ended) {
        for _ in 0..ATTEMPTS {
            let place = Self::with_indexes(unique).await;
            let ended = place.run(id, &before, &behind).await;
            if ended.is_asked_behind {
                return (place, ended);
            }
        }
        panic!("nothing was asked behind an insert, {ATTEMPTS} times");
    }

    fn begun(&self) -> Session {
        let isolation = Some(Isolation::Snapshot);
        let options = TransactionOptions { isolation, lock_wait: LONG, ..TransactionOptions::default() };
        let mut session = self.client.session_with(options);
        session.begin().unwrap();
        session
    }

    async fn change(&self, id: i32, session: &mut Session) -> Result<()> {
        let change = self.written.update_one(doc! {"_id": id}, doc! {"$inc": {"changed": 1}});
        change.session(session).await.map(drop)
    }

    /// `before` and `behind`: what is done before and behind the insert of `id`.
    async fn run(
        &self,
        id: i32,
        before: impl AsyncFn(&Place, &mut Session),
        behind: impl AsyncFn(&Place, &mut Session),
    ) -> Ended {
        let (mut session, mut waiter) = (self.begun(), self.begun());
        let found = self.read.find(doc! {"n": 1}).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), 3);
        self.change(1, &mut session).await.unwrap();
        self.change(2, &mut waiter).await.unwrap();
        // It waits without a command, because both are of one client.
        let update = self.written.update_one(doc! {"_id": 1}, doc! {"$inc": {"changed": 1}});
        let mut waiting = update.session(&mut waiter).into_future();
        assert!(future::poll_immediate(&mut waiting).await.is_none());
        before(self, &mut session).await;
        let counted = self.client.metrics();
        let inserted = self.inserted.insert_one(&doc! {"_id": id, "k": id}).session(&mut session).await.map(drop);
        let is_asked_behind = self.client.metrics().sent_along > counted.sent_along + self.questions;
        let committed = match inserted {
            Ok(()) => {
                behind(self, &mut session).await;
                session.commit().await
            }
            Err(_) => session.rollback().await,
        };
        let now = self.client.metrics();
        waiting.await.unwrap();
        waiter.commit().await.unwrap();
        assert!(self.client.flush(LONG).await);
        let asked = now.validation_questions - counted.validation_questions;
        let ahead = now.validated_ahead - counted.validated_ahead;
        Ended { inserted, committed, asked, is_asked_behind, ahead }
    }

    /// Returns true if a transaction that no other waits for sends its reads again behind its
    /// insert of `id`, and its commit rests on that. `has_sibling`: another transaction of its
    /// client runs, and has written.
    async fn asks_unwanted(&self, id: i32, has_sibling: bool) -> bool {
        let (mut session, mut sibling) = (self.begun(), self.begun());
        let found = self.read.find(doc! {"n": 1}).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), 3);
        self.change(1, &mut session).await.unwrap();
        if has_sibling {
            self.change(2, &mut sibling).await.unwrap();
        }
        let counted = self.client.metrics();
        self.inserted.insert_one(&doc! {"_id": id}).session(&mut session).await.unwrap();
        let is_asked_behind = self.client.metrics().sent_along > counted.sent_along;
        session.commit().await.unwrap();
        let rests = self.client.metrics().validated_ahead > counted.validated_ahead;
        assert!(is_asked_behind || !rests);
        sibling.commit().await.unwrap();
        assert!(self.client.flush(LONG).await);
        rests
    }

    /// Another client changes the document 3 of what is read, and of what is written, in one
    /// transaction.
    async fn rival_changes(&self) {
        let mut session = self.rival.session();
        session.begin().unwrap();
        for coll in [&self.read, &self.written] {
            let coll = quiet::through(&self.rival, coll);
            let change = coll.update_one(doc! {"_id": 3}, doc! {"$inc": {"n": 1}}).session(&mut session).await;
            assert_eq!(change.unwrap().modified_count, 1);
        }
        session.commit().await.unwrap();
        assert!(self.rival.flush(LONG).await);
    }

    async fn count(&self, id: i32) -> usize {
        self.inserted.find(doc! {"_id": id}).await.unwrap().try_collect().await.unwrap().len()
    }
}

async fn rival_changes(place: &Place, _: &mut Session) {
    place.rival_changes().await;
}

async fn assert_conflict(place: &Place, ended: Ended) {
    assert_eq!(ended.committed.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!((ended.ahead, place.count(9).await), (0, 0));
}

#[tokio::test]
async fn commit_rests_on_what_was_asked_behind_the_insert() {
    let (place, ended) = Place::asks_behind(9, nothing, nothing).await;
    assert!(ended.committed.is_ok(), "{:?}", ended.committed);
    assert_eq!((ended.asked, ended.ahead, place.count(9).await), (1, 1, 1));
}

#[tokio::test]
async fn lone_transaction_asks_behind_its_insert() {
    for _ in 0..ATTEMPTS {
        if Place::new().await.asks_unwanted(9, false).await {
            return;
        }
    }
    panic!("nothing was asked behind an insert, {ATTEMPTS} times");
}

/// A client alone, whose collection seems unchanged, so that a validation ahead asks nothing again.
/// `ends`: the cursor is read to its end before the insert. Returns the outcome of a transaction
/// that reads the rest of it, if any is left, behind a change of all that the cursor shows; and the
/// number of validations that have rested on the one behind the insert.
async fn reads_a_cursor_on(ends: bool) -> (Result<()>, u64) {
    let client = quiet::connect(ClientOptions { read_lease: false, ..quiet::options() }).await;
    let (read, inserted) = (quiet::collection(&client, 4).await, quiet::collection(&client, 1).await);
    future::join_all((0..CONNECTIONS).map(|_| read.count_documents(doc! {}).into_future())).await;
    let at_snapshot = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    for id in 10..10 + EXPECTED_AFTER as i32 {
        let mut session = client.session_with(at_snapshot.clone());
        session.begin().unwrap();
        read.find(doc! {}).batch_size(2).session(&mut session).await.unwrap().try_collect().await.unwrap();
        inserted.insert_one(&doc! {"_id": id}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert!(client.flush(LONG).await);
    }
    let mut session = client.session_with(at_snapshot);
    session.begin().unwrap();
    let mut cursor = read.find(doc! {}).batch_size(2).session(&mut session).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < if ends { 5 } else { 2 } {
        let Some(next) = cursor.next().await.unwrap() else { break };
        seen.push(next.get_i32("n").unwrap());
    }
    inserted.insert_one(&doc! {"_id": 99}).session(&mut session).await.unwrap();
    let mut other = client.session();
    other.begin().unwrap();
    for id in [1, 4] {
        read.update_one(doc! {"_id": id}, doc! {"$set": {"n": 2}}).session(&mut other).await.unwrap();
    }
    other.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    if !ends {
        while let Some(next) = cursor.next().await.unwrap() {
            seen.push(next.get_i32("n").unwrap());
        }
        assert_eq!(seen, [1, 1, 1, 2], "the cursor shows two moments");
    }
    let committed = session.commit().await;
    (committed, client.metrics().validated_ahead)
}

#[tokio::test]
async fn cursor_that_is_read_on_behind_the_insert_is_validated() {
    let (committed, ahead) = reads_a_cursor_on(false).await;
    assert_eq!(committed.expect_err("it has read two moments").kind(), ErrorKind::Conflict);
    assert_eq!(ahead, 0);
}

/// Otherwise the test above could not fail: read to its end before, the cursor is validated ahead.
#[tokio::test]
async fn cursor_that_has_ended_before_the_insert_is_validated_ahead() {
    for _ in 0..ATTEMPTS {
        let (committed, ahead) = reads_a_cursor_on(true).await;
        committed.unwrap();
        if ahead > 0 {
            return;
        }
    }
    panic!("nothing was validated ahead, {ATTEMPTS} times");
}

/// Transactions that commit at the same time share a look.
#[tokio::test]
async fn transaction_beside_another_one_asks_at_its_commit() {
    let place = Place::new().await;
    for id in 9..12 {
        assert!(!place.asks_unwanted(id, true).await, "{id}");
    }
}

/// The transaction is of the moment behind its insert: what changes later comes after it.
#[tokio::test]
async fn change_behind_the_question_comes_after_the_transaction() {
    let (place, ended) = Place::asks_behind(9, nothing, rival_changes).await;
    assert!(ended.committed.is_ok(), "{:?}", ended.committed);
    assert_eq!((ended.ahead, place.count(9).await), (1, 1));
}

#[tokio::test]
async fn change_before_the_question_is_a_conflict() {
    let (place, ended) = Place::asks_behind(9, rival_changes, nothing).await;
    assert_conflict(&place, ended).await;
}

/// A single write outside transactions sets no stamps, so that only the reads show it.
#[tokio::test]
async fn single_write_before_the_question_is_a_conflict() {
    let write = async |place: &Place, _: &mut Session| {
        let read = quiet::through(&place.rival, &place.read);
        read.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).await.unwrap();
    };
    let (place, ended) = Place::asks_behind(9, write, nothing).await;
    assert_conflict(&place, ended).await;
}

/// The later read is of another moment than the reads behind the insert.
#[tokio::test]
async fn read_behind_the_insert_makes_the_commit_ask_again() {
    let behind = async |place: &Place, session: &mut Session| {
        place.rival_changes().await;
        let found = place.written.find_one(doc! {"_id": 3}).session(session).await.unwrap();
        assert_eq!(found.unwrap().get_i32("n").unwrap(), 2);
    };
    let (place, ended) = Place::asks_behind(9, nothing, behind).await;
    assert_conflict(&place, ended).await;
}

/// The later write meets a document that was changed behind the reads.
#[tokio::test]
async fn write_behind_the_insert_makes_the_commit_ask_again() {
    let behind = async |place: &Place, session: &mut Session| {
        place.rival_changes().await;
        place.change(3, session).await.unwrap();
    };
    let (place, ended) = Place::asks_behind(9, nothing, behind).await;
    assert_conflict(&place, ended).await;
}

/// `validate` is of now: a validation ahead of it does not count at the commit any more.
#[tokio::test]
async fn commit_behind_a_validation_asks_again() {
    let behind = async |place: &Place, session: &mut Session| {
        session.validate().await.unwrap();
        place.rival_changes().await;
    };
    let (place, ended) = Place::asks_behind(9, nothing, behind).await;
    assert_conflict(&place, ended).await;
}

/// After something else has come next, two commits have to come before reads are sent behind an
/// insert again.
#[tokio::test]
async fn nothing_is_asked_behind_an_insert_that_others_did_not_end_with() {
    let more = async |place: &Place, session: &mut Session| place.change(3, session).await.unwrap();
    let (place, ended) = Place::asks_behind(9, nothing, more).await;
    assert!(ended.committed.is_ok() && ended.ahead == 0, "{:?} {}", ended.committed, ended.ahead);
    for id in [10, 11] {
        let ended = place.run(id, nothing, nothing).await;
        assert!(ended.committed.is_ok() && !ended.is_asked_behind, "{id}: {:?}", ended.committed);
    }
}

#[tokio::test]
async fn insert_that_is_refused_with_a_question_behind_it_says_why() {
    let (place, ended) = Place::asks_behind(0, nothing, nothing).await;
    assert_eq!(ended.inserted.unwrap_err().code(), Some(11_000));
    assert_eq!((ended.ahead, place.count(0).await), (0, 1));
}

/// A rival that has removed the document with the unique value is waited for behind the validation,
/// and changes meanwhile what was read.
#[tokio::test]
async fn wait_for_a_unique_value_makes_the_commit_ask_again() {
    let before = async |place: &Place, _: &mut Session| {
        let [read, inserted] = [&place.read, &place.inserted].map(|coll| quiet::through(&place.rival, coll));
        inserted.insert_one(&doc! {"_id": -9, "k": 9}).await.unwrap();
        let mut remover = place.rival.session();
        remover.begin().unwrap();
        inserted.delete_one(doc! {"_id": -9}).session(&mut remover).await.unwrap();
        let (client, waits) = (place.client.clone(), place.client.metrics().waits);
        tokio::spawn(async move {
            until_waiting(&client, waits + 1).await;
            read.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut remover).await.unwrap();
            remover.commit().await.unwrap();
        });
    };
    let (place, ended) = Place::asks_behind_under(&[doc! {"k": 1}], 9, before, nothing).await;
    ended.inserted.as_ref().unwrap();
    assert_conflict(&place, ended).await;
}
