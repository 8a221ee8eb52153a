//! `$where`: the same documents as the plain driver finds among the visible versions, whatever form
//! the script has.

use crate::common;

use bson::{Bson, Document, doc};
use common::{hooks::Gate, world::World};
use futures_util::TryStreamExt;
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, Step, TransactionOptions};

const LEASE_MS: u64 = 60_000;

const SCRIPTS: [&str; 29] = [
    "this.a == 2",
    "obj.a > 1",
    "return this.a == 2;",
    "return NaN",
    "this.a",
    "this.s",
    "function() { return this.a == 2 }",
    " \n function () { return obj.a == 2 };\n",
    "function named() { return obj.s == 'x;y'; }",
    "/* of no weight */ function() { return this.a == 2 }",
    "function(first) { return first }",
    "() => this.a == 2",
    "async function() { return false }",
    "function() { return false } || true",
    "var x = 2; x == this.a",
    "var x = 2; return x == obj.a;",
    "var s = 'x;y'; s == this.s",
    "this.s == 'x;y';  \n",
    "this.s.length > 3",
    "if (this.a == 2) { return true } else { return false }",
    "if (this.a == 2) 1; else 0",
    "{a: 1}",
    "for (var i = 0; i < 2; i++) { i } this.a == i",
    "(function() { return true })()",
    "'use strict'; this.a == 2",
    "this.a == NumberLong(2)",
    "this.s == \"quo\\\"ted\"",
    "this.b = 1; return this.b == 1",
    "Object.keys(this).length == 3 && Object.keys(this)[0] == '_id'",
];

/// Ours, the plain one for the visible versions, and the rivals.
struct Scene {
    world: World,
    client: Client,
    ours: Collection<Document>,
    plain: mongodb::Collection<Document>,
    rivals: Vec<(Client, Session)>,
    gate: Gate,
}

fn documents() -> Vec<Document> {
    let texts = ["x;y", "quo\"ted", "", "plain"];
    (0..12).map(|id| doc! {"_id": id, "a": id % 4, "s": texts[id as usize % 4]}).collect()
}

/// Of the documents 0 and 1, and a new one, an open transaction is writing versions for which most
/// scripts fail; 2 and 3 are committed and not finished.
async fn scene() -> Scene {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "where");
    let raw = world.raw().await.database(&world.db);
    let (stored, plain) = (raw.collection::<Document>("a"), raw.collection::<Document>("plain"));
    stored.insert_many(documents()).await.unwrap();
    plain.insert_many(documents()).await.unwrap();
    let (client, active) = (world.client(LEASE_MS).await, world.client(LEASE_MS).await);
    let mut session = active.session();
    session.begin().unwrap();
    let theirs = world.collection(&active, "a");
    theirs.replace_one(doc! {"_id": 0}, &doc! {"q": 1}).session(&mut session).await.unwrap();
    theirs.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    theirs.insert_one(&doc! {"_id": 100, "a": 2, "s": "plain"}).session(&mut session).await.unwrap();
    let (gate, hook) = Gate::at(Step::BeforeFinish, 1, true);
    let unfinished = world.client_with(LEASE_MS, hook).await;
    let mut committing = unfinished.session();
    committing.begin().unwrap();
    let theirs = world.collection(&unfinished, "a");
    theirs.update_one(doc! {"_id": 2}, doc! {"$set": {"a": 3}}).session(&mut committing).await.unwrap();
    theirs.update_one(doc! {"_id": 3}, doc! {"$set": {"a": 2}}).session(&mut committing).await.unwrap();
    committing.commit().await.unwrap();
    plain.update_one(doc! {"_id": 2}, doc! {"$set": {"a": 3}}).await.unwrap();
    plain.update_one(doc! {"_id": 3}, doc! {"$set": {"a": 2}}).await.unwrap();
    let ours = world.collection(&client, "a");
    Scene { world, client, ours, plain, rivals: vec![(active, session), (unfinished, committing)], gate }
}

impl Scene {
    async fn compare(&self, session: &mut Option<Session>, filter: Document) {
        let by_id = doc! {"_id": 1};
        let found = self.plain.find(filter.clone()).sort(by_id.clone()).await.unwrap();
        let wanted: Vec<Document> = found.try_collect().await.unwrap();
        let find = self.ours.find(filter.clone()).sort(by_id);
        let find = if let Some(session) = session { find.session(session) } else { find };
        let found = find.await.unwrap_or_else(|error| panic!("{filter}: {error}"));
        assert_eq!(found.try_collect().await.unwrap(), wanted, "{filter}");
    }

    async fn compare_all(&self, session: &mut Option<Session>) {
        for script in SCRIPTS {
            self.compare(session, doc! {"$where": script}).await;
            let code = Bson::JavaScriptCode(script.to_owned());
            self.compare(session, doc! {"$or": [{"$where": code}, {"a": 0}], "s": {"$exists": true}}).await;
        }
        self.compare(session, doc! {"$nor": [{"$where": "this.a == 2"}], "$expr": {"$lt": ["$_id", 9]}}).await;
        self.compare(session, doc! {"_id": 5, "$where": "this.a == 1"}).await;
    }

    async fn begin(&self, isolation: Isolation) -> Option<Session> {
        let mut session = self.client.session();
        session.begin_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() }).unwrap();
        Some(session)
    }

    async fn end(mut self) {
        self.rivals[0].1.rollback().await.unwrap();
        self.gate.open();
        self.world.drop().await;
    }
}

#[tokio::test]
async fn scripts_find_what_the_plain_driver_finds() {
    let scene = scene().await;
    scene.compare_all(&mut None).await;
    let mut inside = scene.begin(Isolation::ReadCommitted).await;
    scene.compare_all(&mut inside).await;
    let session = inside.as_mut().unwrap();
    let changed = doc! {"$set": {"a": 2}};
    for id in [4, 5] {
        scene.ours.update_one(doc! {"_id": id}, changed.clone()).session(session).await.unwrap();
        scene.plain.update_one(doc! {"_id": id}, changed.clone()).await.unwrap();
    }
    scene.ours.delete_one(doc! {"_id": 6}).session(session).await.unwrap();
    scene.plain.delete_one(doc! {"_id": 6}).await.unwrap();
    let made = doc! {"_id": 50, "a": 2, "s": "x;y"};
    scene.ours.insert_one(&made).session(session).await.unwrap();
    scene.plain.insert_one(made).await.unwrap();
    scene.compare_all(&mut inside).await;
    inside.unwrap().rollback().await.unwrap();
    scene.end().await;
}

#[tokio::test]
async fn scripts_at_repeatable_read_find_what_the_plain_driver_finds() {
    let mut scene = scene().await;
    scene.rivals[0].1.rollback().await.unwrap();
    scene.rivals[0].1.begin().unwrap();
    let mut inside = scene.begin(Isolation::RepeatableRead).await;
    scene.compare_all(&mut inside).await;
    let update = doc! {"$set": {"a": 2}};
    let done = scene.ours.update_many(doc! {"$where": "this.a == 1"}, update.clone()).session(inside.as_mut().unwrap());
    let plain = scene.plain.update_many(doc! {"$where": "this.a == 1"}, update).await.unwrap();
    assert_eq!(done.await.unwrap().matched_count, plain.matched_count);
    scene.compare_all(&mut inside).await;
    inside.unwrap().rollback().await.unwrap();
    scene.end().await;
}

#[tokio::test]
async fn writes_by_scripts_change_what_the_plain_driver_changes() {
    let scene = scene().await;
    let mut none = None;
    let mut inside = scene.begin(Isolation::ReadCommitted).await;
    for session in [&mut none, &mut inside] {
        let with = |filter: Document| doc! {"$and": [filter, {"_id": {"$gt": 3}}]};
        let (many, update) = (with(doc! {"$where": "this.a == 2"}), doc! {"$inc": {"a": 10}});
        let ours = scene.ours.update_many(many.clone(), update.clone());
        let ours = if let Some(session) = session { ours.session(session) } else { ours }.await.unwrap();
        let plain = scene.plain.update_many(many, update).await.unwrap();
        assert_eq!((ours.matched_count, ours.modified_count), (plain.matched_count, plain.modified_count));
        let one = with(doc! {"$where": "function() { return obj.a == 1 && obj.s == 'quo\"ted' }"});
        let sorted = doc! {"_id": -1};
        let ours = scene.ours.find_one_and_delete(one.clone()).sort(sorted.clone());
        let ours = if let Some(session) = session { ours.session(session) } else { ours }.await.unwrap();
        assert_eq!(ours, scene.plain.find_one_and_delete(one).sort(sorted).await.unwrap());
        let (new, set) = (doc! {"$where": "this.a == 77", "n": 5}, doc! {"$set": {"m": 1}});
        let ours = scene.ours.update_one(new.clone(), set.clone()).upsert(true);
        let ours = if let Some(session) = session { ours.session(session) } else { ours }.await.unwrap();
        let id = ours.upserted_id.unwrap();
        scene.plain.insert_one(doc! {"_id": id.clone(), "n": 5, "m": 1}).await.unwrap();
        let delete = scene.ours.delete_one(doc! {"$where": "this.n == 5 && this.m == 1"});
        let deleted = if let Some(session) = session { delete.session(session) } else { delete }.await.unwrap();
        assert_eq!(deleted, scene.plain.delete_one(doc! {"_id": id}).await.unwrap().deleted_count);
        scene.compare(session, doc! {}).await;
    }
    let mut session = inside.unwrap();
    let held = scene.ours.delete_one(doc! {"$where": "this._id == 0"}).session(&mut session).await.unwrap_err();
    assert_eq!(held.kind(), ErrorKind::Conflict);
    scene.end().await;
}

/// A user's own function that begins as the one around a `$where` sees committed versions, without
/// what is stored beside them.
#[tokio::test]
async fn a_function_that_begins_as_that_of_a_script_sees_what_is_committed() {
    let scene = scene().await;
    let begins = "function where(obj) {\n    if (!where.run) {\n        var source = 0; }\n";
    let body = format!("{begins}    return !!obj._unsafe || !!obj._xTxId }}");
    let forged = doc! {"$expr": {"$function": {"body": body, "args": ["$$ROOT"], "lang": "js"}}};
    scene.compare(&mut None, forged.clone()).await;
    let mut inside = scene.begin(Isolation::ReadCommitted).await;
    scene.compare(&mut inside, forged).await;
    inside.unwrap().rollback().await.unwrap();
    scene.end().await;
}

#[tokio::test]
async fn a_script_costs_one_round_trip_when_nothing_that_could_match_is_pending() {
    let scene = scene().await;
    let filter = doc! {"$where": "this.a == 2", "_id": {"$gt": 3, "$lt": 50}};
    let cost = async || {
        let round_trips = || {
            let metrics = scene.client.metrics();
            metrics.commands_sent() - metrics.sent_along
        };
        let before = round_trips();
        scene.ours.find(filter.clone()).await.unwrap().try_collect().await.unwrap();
        round_trips() - before
    };
    // Look-ups about the collection are made once.
    cost().await;
    assert_eq!(cost().await, 1);
    let wanted: Vec<Bson> = scene.plain.distinct("s", doc! {"$where": "this.a == 2"}).await.unwrap();
    assert_eq!(scene.ours.distinct("s", doc! {"$where": "this.a == 2"}).await.unwrap(), wanted);
    scene.end().await;
}

#[tokio::test]
async fn scripts_are_refused_where_and_as_the_server_does() {
    let scene = scene().await;
    let scoped = bson::JavaScriptCodeWithScope { code: "true".to_owned(), scope: doc! {} };
    for value in
        [Bson::Int32(1), "".into(), scoped.into(), "syntax error".into(), "this.x.y".into(), "throw 'x'".into()]
    {
        let filter = doc! {"$where": value};
        let plain = scene.plain.find_one(filter.clone()).await.unwrap_err();
        let mongodb::error::ErrorKind::Command(plain) = *plain.kind else { panic!("{plain}") };
        let ours = scene.ours.find_one(filter.clone()).await.unwrap_err();
        // An error while documents are read is in the words of an aggregation.
        assert_eq!((ours.kind(), ours.code()), (ErrorKind::Invalid, Some(plain.code)), "{filter}: {ours}");
    }
    let counted = scene.ours.count_documents(doc! {"$where": "true"}).await.unwrap_err();
    assert_eq!(counted.code(), Some(2), "not in an aggregation, as without MongoTx");
    scene.end().await;
}
