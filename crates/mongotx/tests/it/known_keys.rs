//! Statements by a key of a unique index whose `_id` the client knows (decision 0083): they name
//! the `_id`, and are right also where another document has the key by now.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc};
use futures_util::{TryStreamExt, future::join_all};
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, ReturnDocument, Session, Step, StepHook,
    TransactionOptions, WriteModel,
};

use crate::quiet::{Gate, commands_of, connect, options, through};

const LONG: Duration = Duration::from_secs(60);

/// A client whose commits are finished when the gate is open.
async fn gated() -> (Client, Arc<Gate>) {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let hook: Arc<dyn StepHook> = gate.clone();
    (connect(ClientOptions { hook: Some(hook), ..options() }).await, gate)
}

/// A collection in which `k` is the natural key of documents, and a second client of it.
struct Place {
    client: Client,
    gate: Arc<Gate>,
    other: Client,
    other_gate: Arc<Gate>,
    coll: Collection<Document>,
}

async fn place(documents: &[Document]) -> Place {
    let ((client, gate), (other, other_gate)) = (gated().await, gated().await);
    let coll = client.database(&local_mongod::unique_db("known")).collection("docs");
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    coll.insert_many(documents).await.unwrap();
    let place = Place { client, gate, other, other_gate, coll };
    for client in [&place.client, &place.other] {
        // Look-ups that are made once are made now.
        let coll = through(client, &place.coll);
        coll.find(doc! {"n": 5}).await.unwrap().try_collect().await.unwrap();
        let mut session = begun(client);
        coll.update_one(doc! {"n": 5}, doc! {"$set": {"n": 6}}).session(&mut session).await.unwrap();
        session.rollback().await.unwrap();
        assert!(client.flush(LONG).await);
    }
    place
}

fn begun(client: &Client) -> Session {
    let mut session = client.session();
    session.begin().unwrap();
    session
}

/// The collection past the library.
async fn plain(coll: &Collection<Document>) -> mongodb::Collection<Document> {
    let client = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    client.database(&coll.namespace().db).collection(&coll.namespace().coll)
}

fn update_one(filter: Document, update: Document) -> WriteModel {
    WriteModel::UpdateOne { filter, update: update.into(), upsert: false }
}

/// A statement by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Statement {
    Read,
    ReadWithMore,
    Update,
    UpdateWithMore,
    Upsert,
    ModifyBefore,
    ModifyAfter,
    Lock,
    Delete,
    Take,
    Bulk,
}

impl Statement {
    const ALL: [Self; 11] = [
        Self::Read,
        Self::ReadWithMore,
        Self::Update,
        Self::UpdateWithMore,
        Self::Upsert,
        Self::ModifyBefore,
        Self::ModifyAfter,
        Self::Lock,
        Self::Delete,
        Self::Take,
        Self::Bulk,
    ];

    /// Returns true if it has found a document.
    async fn run(self, coll: &Collection<Document>, session: Option<&mut Session>, k: i32) -> mongotx::Result<bool> {
        macro_rules! done {
            ($action:expr) => {
                match session {
                    Some(session) => $action.session(session).await,
                    None => $action.await,
                }
            };
        }
        let (by_key, with_more, inc) = (doc! {"k": k}, doc! {"k": k, "n": 1}, doc! {"$inc": {"n": 1}});
        match self {
            Self::Read => Ok(done!(coll.find_one(by_key))?.is_some()),
            Self::ReadWithMore => Ok(done!(coll.find_one(with_more).projection(doc! {"_id": 0, "n": 1}))?.is_some()),
            Self::Update => Ok(done!(coll.update_one(by_key, inc))?.matched_count == 1),
            Self::UpdateWithMore => Ok(done!(coll.update_one(with_more, inc))?.matched_count == 1),
            Self::Upsert => Ok(done!(coll.update_one(by_key, inc).upsert(true))?.matched_count == 1),
            Self::ModifyBefore => Ok(done!(coll.find_one_and_update(by_key, inc))?.is_some()),
            Self::ModifyAfter => {
                let action = coll.find_one_and_update(by_key, inc).return_document(ReturnDocument::After);
                Ok(done!(action.projection(doc! {"n": 1}))?.is_some())
            }
            Self::Lock => {
                let same = vec![doc! {"$replaceWith": "$$ROOT"}];
                Ok(done!(coll.find_one_and_update(by_key, same))?.is_some())
            }
            Self::Delete => Ok(done!(coll.delete_one(by_key))? == 1),
            Self::Take => Ok(done!(coll.find_one_and_delete(by_key))?.is_some()),
            Self::Bulk => {
                let twice = [doc! {"$inc": {"n": 2}}, doc! {"$inc": {"n": -1}}];
                let models = twice.map(|change| update_one(by_key.clone(), change));
                Ok(done!(coll.bulk_write(models))?.matched_count == 2)
            }
        }
    }

    /// What becomes of the document that it finds.
    fn after(self, mut found: Document) -> Option<Document> {
        match self {
            Self::Read | Self::ReadWithMore | Self::Lock => {}
            Self::Delete | Self::Take => return None,
            _ => {
                let n = found.get_i32("n").unwrap();
                found.insert("n", n + 1);
            }
        }
        Some(found)
    }

    /// A key for each, so that one collection is enough for all.
    fn key(self) -> i32 {
        100 * (1 + self as i32)
    }
}

/// The document that has the key of the statement at first, and the one that gets it.
fn pair(statement: Statement) -> [Document; 2] {
    let k = statement.key();
    [doc! {"_id": k, "k": k, "n": 1}, doc! {"_id": k + 1, "k": k + 1, "n": 1}]
}

/// How a key leaves a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The other document gets it.
    Moved,
    /// The document is removed, and a new one inserted.
    Reinserted,
    /// No document has it.
    Gone,
}

impl Way {
    /// The documents afterwards: those that do not have the key, and the one that has it.
    fn after(self, k: i32) -> (Vec<Document>, Option<Document>) {
        let (was, second) = (doc! {"_id": k, "k": k + 2, "n": 1}, doc! {"_id": k + 1, "k": k + 1, "n": 1});
        match self {
            Self::Moved => (vec![was], Some(doc! {"_id": k + 1, "k": k, "n": 1})),
            Self::Reinserted => (vec![second], Some(doc! {"_id": k + 3, "k": k, "n": 1})),
            Self::Gone => (vec![was, second], None),
        }
    }

    async fn go(self, coll: &Collection<Document>, session: &mut Session, k: i32) {
        let set = |id: i32, k: i32| coll.update_one(doc! {"_id": id}, doc! {"$set": {"k": k}});
        match self {
            Self::Moved | Self::Gone => {
                set(k, k + 2).session(session).await.unwrap();
                if self == Self::Moved {
                    set(k + 1, k).session(session).await.unwrap();
                }
            }
            Self::Reinserted => {
                coll.delete_one(doc! {"_id": k}).session(session).await.unwrap();
                coll.insert_one(&doc! {"_id": k + 3, "k": k, "n": 1}).session(session).await.unwrap();
            }
        }
    }

    /// The same past the library.
    async fn go_plainly(self, coll: &mongodb::Collection<Document>, k: i32) {
        let set = |id: i32, k: i32| coll.update_one(doc! {"_id": id}, doc! {"$set": {"k": k}});
        match self {
            Self::Moved | Self::Gone => {
                set(k, k + 2).await.unwrap();
                if self == Self::Moved {
                    set(k + 1, k).await.unwrap();
                }
            }
            Self::Reinserted => {
                coll.delete_one(doc! {"_id": k}).await.unwrap();
                coll.insert_one(doc! {"_id": k + 3, "k": k, "n": 1}).await.unwrap();
            }
        }
    }
}

/// Whose change moves the key, and how far that has come when the statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    Own,
    OwnUnfinished,
    Other,
    OtherUnfinished,
    /// A program that writes past the library.
    Foreign,
    /// The transaction of the statement.
    Itself,
}

async fn move_keys(place: &Place, mover: Mover, way: Way, session: &mut Session) {
    let (client, gate) = match mover {
        Mover::Other | Mover::OtherUnfinished => (&place.other, &place.other_gate),
        _ => (&place.client, &place.gate),
    };
    let coll = through(client, &place.coll);
    let keys = Statement::ALL.map(Statement::key);
    match mover {
        Mover::Foreign => {
            let plain = plain(&coll).await;
            for k in keys {
                way.go_plainly(&plain, k).await;
            }
        }
        Mover::Itself => {
            for k in keys {
                way.go(&coll, session, k).await;
            }
        }
        _ => {
            let unfinished = matches!(mover, Mover::OwnUnfinished | Mover::OtherUnfinished);
            if unfinished {
                gate.shut();
            }
            let mut moving = begun(client);
            for k in keys {
                way.go(&coll, &mut moving, k).await;
            }
            moving.commit().await.unwrap();
            if !unfinished {
                assert!(client.flush(LONG).await);
            }
        }
    }
}

/// Every statement, after the key that the client knows was moved.
async fn statements_are_right(mover: Mover, way: Way, inside: bool) {
    let name = format!("{mover:?}, {way:?}, inside: {inside}");
    let place = place(&Statement::ALL.map(pair).concat()).await;
    for statement in Statement::ALL {
        let k = statement.key();
        assert!(Statement::Read.run(&place.coll, None, k).await.unwrap(), "{name}");
        assert!(Statement::Read.run(&place.coll, None, k).await.unwrap(), "{name}: known");
    }
    let mut session = begun(&place.client);
    move_keys(&place, mover, way, &mut session).await;
    let mut expected = Vec::new();
    for statement in Statement::ALL {
        let k = statement.key();
        let (rest, found) = way.after(k);
        let has_found = statement.run(&place.coll, inside.then_some(&mut session), k).await;
        let has_found = has_found.unwrap_or_else(|error| panic!("{name}, {statement:?}: {error}"));
        assert_eq!(has_found, found.is_some(), "{name}, {statement:?}");
        expected.extend(rest);
        expected.extend(found.and_then(|found| statement.after(found)));
    }
    session.commit().await.unwrap();
    place.gate.open();
    place.other_gate.open();
    assert!(place.client.flush(LONG).await && place.other.flush(LONG).await);
    let sorted = |mut all: Vec<Document>| {
        all.sort_by_key(|document| document.get_i32("_id").ok());
        all
    };
    // The upsert has inserted what it has not found, with an `_id` of the server's.
    let (inserted, stored): (Vec<Document>, Vec<Document>) =
        all(&place.coll).await.into_iter().partition(|document| document.get_i32("_id").is_err());
    assert_eq!(sorted(stored), sorted(expected), "{name}");
    assert_eq!(inserted.len(), usize::from(way == Way::Gone), "{name}: {inserted:?}");
    assert!(inserted.iter().all(|one| one.get_i32("k").unwrap() == Statement::Upsert.key()), "{name}: {inserted:?}");
}

/// The documents as they are stored.
async fn all(coll: &Collection<Document>) -> Vec<Document> {
    plain(coll).await.find(doc! {}).await.unwrap().try_collect().await.unwrap()
}

#[tokio::test]
async fn key_that_the_same_client_has_moved_is_found_where_it_is() {
    for way in [Way::Moved, Way::Reinserted, Way::Gone] {
        for mover in [Mover::Own, Mover::OwnUnfinished] {
            for inside in [false, true] {
                statements_are_right(mover, way, inside).await;
            }
        }
    }
}

#[tokio::test]
async fn key_that_another_client_has_moved_is_found_where_it_is() {
    for way in [Way::Moved, Way::Reinserted, Way::Gone] {
        for mover in [Mover::Other, Mover::OtherUnfinished] {
            for inside in [false, true] {
                statements_are_right(mover, way, inside).await;
            }
        }
    }
}

#[tokio::test]
async fn key_that_a_program_has_moved_past_the_library_is_found_where_it_is() {
    for way in [Way::Moved, Way::Reinserted, Way::Gone] {
        for inside in [false, true] {
            statements_are_right(Mover::Foreign, way, inside).await;
        }
    }
}

#[tokio::test]
async fn key_that_the_transaction_itself_has_moved_is_found_where_it_is() {
    for way in [Way::Moved, Way::Reinserted, Way::Gone] {
        statements_are_right(Mover::Itself, way, true).await;
    }
}

/// What a rival has not committed moves no key, and holds the document that has it.
#[tokio::test]
async fn key_that_a_rival_is_moving_is_where_it_was() {
    for (own, way) in [false, true].into_iter().flat_map(|own| [Way::Moved, Way::Reinserted].map(|way| (own, way))) {
        let name = format!("own: {own}, {way:?}");
        let place = place(&Statement::ALL.map(pair).concat()).await;
        for statement in Statement::ALL {
            assert!(Statement::Read.run(&place.coll, None, statement.key()).await.unwrap(), "{name}");
        }
        let rivals = if own { &place.client } else { &place.other };
        let mut moving = begun(rivals);
        for statement in Statement::ALL {
            way.go(&through(rivals, &place.coll), &mut moving, statement.key()).await;
        }
        for statement in Statement::ALL {
            let done = statement.run(&place.coll, Some(&mut begun(&place.client)), statement.key()).await;
            match statement {
                Statement::Read | Statement::ReadWithMore => assert!(done.unwrap(), "{name}, {statement:?}"),
                _ => {
                    let refused = done.expect_err("a rival holds it");
                    assert_eq!(refused.kind(), ErrorKind::Conflict, "{name}, {statement:?}: {refused}");
                }
            }
        }
        moving.rollback().await.unwrap();
        assert!(rivals.flush(LONG).await);
        for statement in Statement::ALL {
            let done = statement.run(&place.coll, Some(&mut begun(&place.client)), statement.key()).await;
            assert!(done.unwrap(), "{name}, {statement:?}");
        }
    }
}

/// The plans that the server has made for commands of these names since it profiles the database.
async fn plans(coll: &Collection<Document>, names: &[&str]) -> Vec<String> {
    let client = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let ns = coll.namespace();
    let profile = client.database(&ns.db).collection::<Document>("system.profile");
    let of_coll = profile.find(doc! {"ns": ns.to_string()}).await.unwrap();
    let found: Vec<Document> = of_coll.try_collect().await.unwrap();
    let named = found.iter().filter(|one| {
        one.get_document("command").is_ok_and(|command| names.iter().any(|name| command.contains_key(*name)))
    });
    named.map(|one| one.get_str("planSummary").unwrap_or_default().to_owned()).collect()
}

async fn profile(coll: &Collection<Document>) {
    let client = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    client.database(&coll.namespace().db).run_command(doc! {"profile": 2}).await.unwrap();
}

#[tokio::test]
async fn statement_by_a_known_key_is_one_command_in_the_shortest_way_of_the_server() {
    let place = place(&Statement::ALL.map(pair).concat()).await;
    let once = |name: &str| BTreeMap::from([(name.to_owned(), 1)]);
    for statement in Statement::ALL {
        assert!(Statement::Read.run(&place.coll, None, statement.key()).await.unwrap());
    }
    profile(&place.coll).await;
    let mut session = begun(&place.client);
    for statement in Statement::ALL.into_iter().filter(|statement| *statement != Statement::Bulk) {
        let reads = matches!(statement, Statement::Read | Statement::ReadWithMore);
        let sent = commands_of(&place.client, async {
            assert!(statement.run(&place.coll, Some(&mut session), statement.key()).await.unwrap(), "{statement:?}");
        });
        let expected = if reads { "find" } else { "findAndModify" };
        assert_eq!(sent.await, once(expected), "{statement:?}");
    }
    let mut made = plans(&place.coll, &["find", "findAndModify"]).await;
    assert_eq!(made.len(), Statement::ALL.len() - 1);
    made.retain(|plan| plan != "IDHACK");
    assert_eq!(made, [""; 0]);
    session.rollback().await.unwrap();
    // Outside transactions, reads.
    let read = async { assert!(Statement::Read.run(&place.coll, None, Statement::Read.key()).await.unwrap()) };
    assert_eq!(commands_of(&place.client, read).await, once("find"));
    assert!(plans(&place.coll, &["find"]).await.iter().all(|plan| plan == "IDHACK"));
}

#[tokio::test]
async fn bulk_by_known_keys_needs_no_look_at_the_documents() {
    let place = place(&Statement::ALL.map(pair).concat()).await;
    let keys = [Statement::Update, Statement::Lock, Statement::Take].map(Statement::key);
    for k in keys {
        assert!(Statement::Read.run(&place.coll, None, k).await.unwrap());
    }
    let mut session = begun(&place.client);
    let add = |k: i32| update_one(doc! {"k": k}, doc! {"$inc": {"n": 1}});
    let sent = commands_of(&place.client, async {
        let done = place.coll.bulk_write(keys.map(add)).session(&mut session).await.unwrap();
        assert_eq!(done.matched_count, 3);
    });
    assert_eq!(sent.await, BTreeMap::from([("update".to_owned(), 1)]));
    session.commit().await.unwrap();
    // One of them has another key by now.
    let plain = plain(&place.coll).await;
    assert!(place.client.flush(LONG).await);
    Way::Moved.go_plainly(&plain, keys[1]).await;
    session.begin().unwrap();
    let sent = commands_of(&place.client, async {
        let done = place.coll.bulk_write(keys.map(add)).session(&mut session).await.unwrap();
        assert_eq!(done.matched_count, 3);
    });
    // One that finds the document with the key, and one for the last, alone.
    assert_eq!(sent.await.get("findAndModify"), Some(&2));
    session.commit().await.unwrap();
    assert!(place.client.flush(LONG).await);
    let n = async |id: i32| plain.find_one(doc! {"_id": id}).await.unwrap().unwrap().get_i32("n").unwrap();
    assert_eq!([n(keys[0]).await, n(keys[1]).await, n(keys[1] + 1).await, n(keys[2]).await], [3, 2, 2, 3]);
}

/// What was inserted or changed by its key is known by it.
#[tokio::test]
async fn key_is_known_from_inserts_and_writes() {
    let place = place(&Statement::ALL.map(pair).concat()).await;
    let mut session = begun(&place.client);
    place.coll.insert_one(&doc! {"_id": 5_000, "k": 5_000, "n": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    session.begin().unwrap();
    assert!(Statement::Update.run(&place.coll, Some(&mut session), 100).await.unwrap());
    session.commit().await.unwrap();
    assert!(place.client.flush(LONG).await);
    profile(&place.coll).await;
    session.begin().unwrap();
    for k in [5_000, 100] {
        assert!(Statement::Update.run(&place.coll, Some(&mut session), k).await.unwrap());
    }
    session.commit().await.unwrap();
    assert_eq!(plans(&place.coll, &["findAndModify"]).await, ["IDHACK"; 2]);
}

/// A guess that was wrong is not made again.
#[tokio::test]
async fn key_is_forgotten_when_its_document_has_another_one() {
    let place = place(&Statement::ALL.map(pair).concat()).await;
    let (read, k) = (Statement::Read, Statement::Read.key());
    assert!(read.run(&place.coll, None, k).await.unwrap());
    Way::Moved.go_plainly(&plain(&place.coll).await, k).await;
    for finds in [2, 1, 1] {
        let sent = commands_of(&place.client, async { assert!(read.run(&place.coll, None, k).await.unwrap()) });
        assert_eq!(sent.await, BTreeMap::from([("find".to_owned(), finds)]));
    }
    // No document has it: that is found out at no more cost than if none had ever had it.
    let gone = Statement::Update.key();
    assert!(read.run(&place.coll, None, gone).await.unwrap());
    Way::Gone.go_plainly(&plain(&place.coll).await, gone).await;
    assert!(!read.run(&place.coll, None, gone).await.unwrap());
    let sent_for = async |k: i32| {
        commands_of(&place.client, async { assert!(!read.run(&place.coll, None, k).await.unwrap()) }).await
    };
    assert_eq!(sent_for(gone).await, sent_for(-1).await);
    // A collection that is dropped takes its keys along.
    place.coll.drop().await.unwrap();
    place.coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    place.coll.insert_many(&[doc! {"_id": 1, "k": k, "n": 1}, doc! {"_id": k + 1, "k": 1, "n": 1}]).await.unwrap();
    assert!(place.client.flush(LONG).await);
    place.coll.find(doc! {"n": 5}).await.unwrap().try_collect().await.unwrap();
    let sent = commands_of(&place.client, async { assert!(read.run(&place.coll, None, k).await.unwrap()) });
    assert_eq!(sent.await, BTreeMap::from([("find".to_owned(), 1)]));
}

/// What the client knows of an index is some seconds old at times. A query for one document may
/// still be answered by the one that is remembered.
#[tokio::test]
async fn query_for_all_finds_what_came_when_another_client_had_dropped_the_index() {
    let place = place(&Statement::ALL.map(pair).concat()).await;
    let k = Statement::Read.key();
    assert!(Statement::Read.run(&place.coll, None, k).await.unwrap());
    let theirs = through(&place.other, &place.coll);
    theirs.drop_index("k_1").await.unwrap();
    theirs.insert_one(&doc! {"_id": 9_000, "k": k, "n": 1}).await.unwrap();
    let found = place.coll.find(doc! {"k": k}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(Statement::Read.run(&place.coll, None, k).await.unwrap());
}

/// Keys that a unique index does not keep apart, or that equal others, name no document.
#[tokio::test]
async fn values_that_are_missing_or_several_are_looked_for() {
    let documents = [doc! {"_id": 1, "k": [1, 2], "n": 1}, doc! {"_id": 2, "n": 1}, doc! {"_id": 3, "k": 3.5, "n": 1}];
    let place = place(&documents).await;
    let null = bson::Bson::Null;
    let by = [(bson::Bson::Int32(1), 1), (2.into(), 1), (null, 2), (3.5.into(), 3)];
    for round in 1..=3 {
        let mut session = begun(&place.client);
        for (k, id) in &by {
            let found = place.coll.find_one(doc! {"k": k.clone()}).session(&mut session).await.unwrap().unwrap();
            assert_eq!(found.get_i32("_id").unwrap(), *id, "{round}, {k}");
            let done =
                place.coll.update_one(doc! {"k": k.clone()}, doc! {"$inc": {"n": 1}}).session(&mut session).await;
            assert_eq!(done.unwrap().matched_count, 1, "{round}, {k}");
        }
        session.commit().await.unwrap();
        assert!(place.client.flush(LONG).await);
    }
    let mut stored: Vec<i32> = all(&place.coll).await.iter().map(|one| one.get_i32("n").unwrap()).collect();
    stored.sort_unstable();
    assert_eq!(stored, [4, 4, 7]);
}

/// At a level that is validated: what was read by a known key must be so at the commit, and what
/// was not found must not be there.
#[tokio::test]
async fn reads_by_known_keys_are_validated() {
    let place = place(&Statement::ALL.map(pair).concat()).await;
    let snapshot = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    let theirs = through(&place.other, &place.coll);
    for (at, way) in [Way::Moved, Way::Reinserted, Way::Gone].into_iter().enumerate() {
        let k = 100 * (1 + at as i32);
        assert!(Statement::Read.run(&place.coll, None, k).await.unwrap());
        let mut session = place.client.session_with(snapshot.clone());
        session.begin().unwrap();
        assert!(Statement::Read.run(&place.coll, Some(&mut session), k).await.unwrap());
        assert!(Statement::Update.run(&place.coll, Some(&mut session), 1_000).await.unwrap());
        let mut moving = begun(&place.other);
        way.go(&theirs, &mut moving, k).await;
        moving.commit().await.unwrap();
        assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict, "{way:?}");
        session.begin().unwrap();
        let is_there = Statement::Read.run(&place.coll, Some(&mut session), k).await.unwrap();
        assert_eq!(is_there, way != Way::Gone);
        assert!(Statement::Update.run(&place.coll, Some(&mut session), 1_000).await.unwrap());
        session.commit().await.unwrap();
    }
    let mut session = place.client.session_with(snapshot);
    session.begin().unwrap();
    assert!(!Statement::Read.run(&place.coll, Some(&mut session), 300).await.unwrap());
    assert!(Statement::Update.run(&place.coll, Some(&mut session), 1_000).await.unwrap());
    theirs.insert_one(&doc! {"_id": 9_000, "k": 300, "n": 1}).await.unwrap();
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
}

/// Keys of the test below that always exist.
const KEYS: i32 = 3;

/// Moves a key, with what belongs to it, to another document, which gets that one's key in turn.
async fn exchange(session: &mut Session, coll: &Collection<Document>, key: i32, spare: i32) {
    let moved = session.run_transaction(coll.clone(), move |session, coll| {
        Box::pin(async move {
            let same = || vec![doc! {"$replaceWith": "$$ROOT"}];
            let held = coll.find_one_and_update(doc! {"k": key}, same()).session(session).await?.expect("it is there");
            let other = coll.find_one_and_update(doc! {"k": spare}, same()).session(session).await?.expect("so is it");
            let set = |to: &Document, k: i32, from: &Document| {
                let change = doc! {"$set": {"k": k, "n": from.get_i32("n").unwrap()}};
                coll.update_one(doc! {"_id": to.get_i32("_id").unwrap()}, change)
            };
            set(&held, -spare, &other).session(session).await?;
            set(&other, key, &held).session(session).await?;
            set(&held, spare, &other).session(session).await.map(drop)
        })
    });
    moved.await.unwrap();
}

/// Two clients move keys between documents while both read and write by them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_move_lose_no_update_and_are_always_found() {
    const ROUNDS: i32 = 40;
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let of_level = || ClientOptions { isolation, ..options() };
        let clients = [connect(of_level()).await, connect(of_level()).await];
        let coll: Collection<Document> = clients[0].database(&local_mongod::unique_db("known")).collection("docs");
        coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
        let documents: Vec<Document> = (1..=2 * KEYS).map(|id| doc! {"_id": id, "k": id, "n": 0}).collect();
        coll.insert_many(&documents).await.unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut work, mut readers) = (Vec::new(), Vec::new());
        for client in &clients {
            let coll = through(client, &coll);
            let patient =
                || client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
            let (mut session, moving) = (patient(), coll.clone());
            work.push(tokio::spawn(async move {
                for round in 0..ROUNDS {
                    exchange(&mut session, &moving, 1 + round % KEYS, KEYS + 1 + round % KEYS).await;
                }
            }));
            for inside in [false, true] {
                let (mut session, coll) = (patient(), coll.clone());
                work.push(tokio::spawn(async move {
                    for round in 0..ROUNDS {
                        add(inside.then_some(&mut session), &coll, 1 + round % KEYS).await;
                    }
                }));
            }
            let (coll, is_over) = (coll.clone(), Arc::clone(&is_over));
            readers.push(tokio::spawn(async move {
                let (mut last, mut k) = ([0; KEYS as usize], 0);
                while !is_over.load(SeqCst) {
                    let found = coll.find_one(doc! {"k": 1 + k}).await.unwrap().expect("somebody has the key");
                    let n = found.get_i32("n").unwrap();
                    assert!(n >= last[k as usize], "{found} after {last:?}");
                    last[k as usize] = n;
                    k = (k + 1) % KEYS;
                }
            }));
        }
        join_all(work).await.into_iter().for_each(|task| task.unwrap());
        is_over.store(true, SeqCst);
        join_all(readers).await.into_iter().for_each(|task| task.unwrap());
        let added: i32 = ROUNDS * 2 * clients.len() as i32;
        let mut found = 0;
        for k in 1..=KEYS {
            found += coll.find_one(doc! {"k": k}).await.unwrap().unwrap().get_i32("n").unwrap();
        }
        assert_eq!(found, added, "{isolation:?}");
    }
}

/// Adds one to what belongs to the key, in a transaction or outside one.
async fn add(session: Option<&mut Session>, coll: &Collection<Document>, k: i32) {
    let Some(session) = session else {
        let done = coll.update_one(doc! {"k": k}, doc! {"$inc": {"n": 1}}).await.unwrap();
        assert_eq!(done.matched_count, 1, "somebody has the key");
        return;
    };
    let added = session.run_transaction(coll.clone(), move |session, coll| {
        Box::pin(async move {
            let done = coll.update_one(doc! {"k": k}, doc! {"$inc": {"n": 1}}).session(session).await?;
            assert_eq!(done.matched_count, 1, "somebody has the key");
            Ok(())
        })
    });
    added.await.unwrap();
}
