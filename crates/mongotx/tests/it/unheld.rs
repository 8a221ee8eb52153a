//! Updates by `_id` that the server refuses where the document is held (decision 0047): that they
//! are sent where the server was seen to refuse them and nowhere else, and that nothing that is
//! held is changed.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bson::{Binary, Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId, spec::BinarySubtype};
use futures_util::future::join_all;
use local_mongod::{Server, unique_db};
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, Isolation, Result, TransactionOptions, UpdateResult, WriteModel,
};
use sd2v::names::RESERVED;

use crate::{late::proxy::Proxy, quiet};

const LIMIT: Duration = Duration::from_secs(60);

/// Impatient, with a database of records of its own.
fn options() -> ClientOptions {
    ClientOptions { write_wait: Duration::from_millis(20), tx_database: unique_db("tx"), ..quiet::options() }
}

/// A collection, a client of it, and the same documents as they are stored.
struct Stage {
    options: ClientOptions,
    client: Client,
    coll: Collection<Document>,
    plain: mongodb::Client,
}

impl Stage {
    async fn on(server: &Server) -> Self {
        Self::through(server, &server.uri()).await
    }

    async fn through(server: &Server, uri: &str) -> Self {
        let options = options();
        let client = Client::connect_with(uri, options.clone()).await.unwrap();
        let coll = client.database(&unique_db("unheld")).collection("docs");
        Self { options, client, coll, plain: server.client().await.unwrap() }
    }

    fn stored(&self) -> mongodb::Collection<Document> {
        self.plain.database(&self.coll.namespace().db).collection("docs")
    }

    async fn all_stored(&self) -> Vec<Document> {
        let mut cursor = self.stored().find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        let mut all = Vec::new();
        while cursor.advance().await.unwrap() {
            all.push(cursor.deserialize_current().unwrap());
        }
        all
    }

    /// Another client, which goes to the server itself.
    async fn rival(&self, server: &Server) -> (Client, Collection<Document>) {
        let client = Client::connect_with(&server.uri(), self.options.clone()).await.unwrap();
        let coll = quiet::through(&client, &self.coll);
        (client, coll)
    }

    /// The server notes what it is sent from now on.
    async fn watch(&self, db: &str) {
        self.plain.database(db).run_command(doc! {"profile": 2}).await.unwrap();
    }

    /// Statements of one kind (`update`, `insert`) that the server got in a collection of this
    /// database.
    async fn seen(&self, db: &str, kind: &str, coll: &str) -> Vec<Document> {
        let profile = self.plain.database(db).collection::<Document>("system.profile");
        let mut cursor = profile.find(doc! {"op": kind, "ns": format!("{db}.{coll}")}).await.unwrap();
        let mut all = Vec::new();
        while cursor.advance().await.unwrap() {
            all.push(cursor.deserialize_current().unwrap());
        }
        all
    }

    /// Of each update that the server was sent, whether it has the guard, and no condition beside
    /// the `_id`.
    async fn guards(&self) -> Vec<bool> {
        let all = self.seen(&self.coll.namespace().db, "update", "docs").await;
        let is_guarded = |seen: &Document| {
            let command = seen.get_document("command").unwrap();
            let renames = command.get_document("u").is_ok_and(|update| update.contains_key("$rename"));
            assert_eq!(renames, command.get_document("q").unwrap().len() == 1, "{command}");
            renames
        };
        all.iter().map(is_guarded).collect()
    }

    /// Number of times that a server was tried out.
    async fn asked(&self) -> usize {
        self.seen(&self.options.tx_database, "insert", "guards").await.len()
    }
}

async fn update(coll: &Collection<Document>, id: impl Into<Bson>, update: Document) -> Result<UpdateResult> {
    let (id, update) = (RawBson::try_from(id.into()).unwrap(), RawDocumentBuf::try_from(&update).unwrap());
    coll.update_by_id_raw(id.as_raw_bson_ref(), &update).await
}

async fn increase(coll: &Collection<Document>, id: impl Into<Bson>) -> Result<UpdateResult> {
    update(coll, id, doc! {"$inc": {"n": 1}}).await
}

fn increased(id: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": 1}}.into(), upsert: false }
}

fn ids() -> Vec<Bson> {
    let bytes = Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
    vec![1.into(), (1_i64 << 40).into(), 2.5.into(), "x".into(), bytes.into(), ObjectId::new().into()]
}

#[tokio::test]
async fn a_server_that_refuses_is_asked_once_and_sent_updates_without_conditions_in_the_filter() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let stage = Stage::on(server).await;
    let db = stage.coll.namespace().db.clone();
    stage.watch(&db).await;
    stage.watch(&stage.options.tx_database).await;
    for id in ids() {
        stage.coll.insert_one(&doc! {"_id": id.clone(), "n": 1}).await.unwrap();
        let done = increase(&stage.coll, id.clone()).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (1, 1), "{id}");
        let done = update(&stage.coll, id.clone(), doc! {"$set": {"n": 2}}).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (1, 0), "{id}");
        let found = stage.stored().find_one(doc! {"_id": id.clone()}).await.unwrap();
        assert_eq!(found, Some(doc! {"_id": id, "n": 2}));
    }
    assert_eq!(stage.guards().await, [true; 12]);
    stage.coll.insert_one(&doc! {"_id": 9, "n": 1}).await.unwrap();
    let first = stage.coll.write_first(&[increased(1), increased(9)], true).await.unwrap();
    assert_eq!((first.taken, first.result.modified_count), (2, 2));
    assert_eq!(stage.guards().await, [true; 14]);
    assert_eq!(stage.asked().await, 1);
    let guards = stage.plain.database(&stage.options.tx_database).collection::<Document>("guards");
    assert_eq!(guards.count_documents(doc! {}).await.unwrap(), 0, "nothing of the question stays");
}

#[tokio::test]
async fn whatever_is_out_of_the_ordinary_keeps_its_form() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let stage = Stage::on(server).await;
    stage.coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    stage.coll.insert_one(&doc! {"_id": true, "n": 1}).await.unwrap();
    increase(&stage.coll, 1).await.unwrap();
    stage.watch(&stage.coll.namespace().db).await;
    for change in [doc! {"n": 5}, doc! {"$rename": {"n": "m"}}, doc! {"$set": {"_id": 1, "n": 7}}] {
        update(&stage.coll, 1, change).await.unwrap();
    }
    increase(&stage.coll, true).await.unwrap();
    assert_eq!(stage.guards_of_filters().await, [false; 4]);
}

/// A document that is not there has no lock: no command looks for one.
#[tokio::test]
async fn an_update_of_no_document_is_one_command() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let stage = Stage::on(server).await;
    stage.coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    increase(&stage.coll, 1).await.unwrap();
    let sent = quiet::commands_of(&stage.client, async {
        assert_eq!(increase(&stage.coll, 2).await.unwrap(), UpdateResult::default());
    });
    assert_eq!(sent.await.into_iter().collect::<Vec<_>>(), [("update".to_owned(), 1)]);
}

/// Reserved fields that belong to no transaction: each of them, with values of all kinds.
#[tokio::test]
async fn damaged_documents_stay_as_they_are() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let stage = Stage::on(server).await;
    stage.coll.insert_one(&doc! {"_id": -1, "n": 1}).await.unwrap();
    increase(&stage.coll, -1).await.unwrap();
    let values: Vec<Bson> =
        vec![Bson::Null, 1.into(), "x".into(), true.into(), doc! {}.into(), Bson::Array(vec![]), vec![1].into()];
    let damaged = RESERVED.iter().flat_map(|name| values.iter().map(move |value| (*name, value)));
    let damaged: Vec<Document> =
        damaged.zip(0..).map(|((name, value), id)| doc! {"_id": id, "n": 1, name: value.clone()}).collect();
    stage.stored().insert_many(&damaged).await.unwrap();
    let before = stage.all_stored().await;
    for one in &damaged {
        let id = one.get_i32("_id").unwrap();
        let refused = increase(&stage.coll, id).await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Corruption | ErrorKind::Conflict), "{one}: {refused}");
    }
    let models: Vec<WriteModel> = (0..damaged.len() as i32).map(increased).collect();
    let first = stage.coll.write_first(&models, false).await.unwrap();
    assert!(first.not_done.len() == damaged.len() && first.not_done.values().all(Option::is_none), "{first:?}");
    assert_eq!(stage.all_stored().await, before);
}

/// An operator that would fail on the version of a document's holder concerns only the holder.
#[tokio::test]
async fn an_operator_that_fails_on_a_held_document_is_waited_for_and_fails_on_a_free_one() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let stage = Stage::on(server).await;
    let (rival, others) = stage.rival(server).await;
    stage.coll.insert_one(&doc! {"_id": 1, "A": "text"}).await.unwrap();
    increase(&stage.coll, 1).await.unwrap();
    let failing = doc! {"$inc": {"A": 1}};
    let refused = update(&stage.coll, 1, failing.clone()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, Some(14)), "{refused}");
    let mut session = rival.session();
    session.begin().unwrap();
    others.update_one(doc! {"_id": 1}, doc! {"$set": {"A": 1}}).session(&mut session).await.unwrap();
    assert_eq!(update(&stage.coll, 1, failing.clone()).await.unwrap_err().kind(), ErrorKind::Conflict);
    let model = || WriteModel::UpdateOne { filter: doc! {"_id": 1}, update: failing.clone().into(), upsert: false };
    let first = stage.coll.write_first(&[model(), increased(5)], true).await.unwrap();
    assert!(first.taken == 1 && matches!(first.not_done.get(&0), Some(None)), "it is left, to be carried out alone");
    session.commit().await.unwrap();
    assert!(rival.flush(LIMIT).await);
    assert_eq!(update(&stage.coll, 1, failing).await.unwrap().modified_count, 1);
}

/// A server that lets one of the locks pass: the proxy hides the field from every `$rename`.
#[tokio::test]
async fn a_server_that_lets_one_reserved_field_pass_is_sent_the_condition_in_the_filter() {
    let server = local_mongod::shared_standalone().await.unwrap();
    for name in RESERVED {
        let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
        proxy.hide_from_renames(name);
        let stage = Stage::through(server, &proxy.uri()).await;
        stage.watch(&stage.options.tx_database).await;
        stage.stored().insert_one(doc! {"_id": 1, "n": 1}).await.unwrap();
        stage.stored().insert_one(doc! {"_id": 2, "n": 1, name: 5}).await.unwrap();
        stage.watch(&stage.coll.namespace().db).await;
        for _ in 0..2 {
            assert_eq!(increase(&stage.coll, 1).await.unwrap().modified_count, 1);
            increase(&stage.coll, 2).await.unwrap_err();
            let first = stage.coll.write_first(&[increased(2), increased(1)], false).await.unwrap();
            assert!(matches!(first.not_done.get(&0), Some(None)) && first.result.modified_count == 1, "{first:?}");
        }
        let guards = stage.guards_of_filters().await;
        assert!(guards.len() >= 8 && guards.iter().all(|is_guarded| !is_guarded), "{name}: {guards:?}");
        assert_eq!(stage.asked().await, 1, "it is not asked again and again");
        assert_eq!(stage.all_stored().await, [doc! {"_id": 1, "n": 5}, doc! {"_id": 2, "n": 1, name: 5}]);
    }
}

/// `guards` is a view: the server cannot be tried out.
#[tokio::test]
async fn a_server_that_cannot_be_asked_is_sent_the_condition_in_the_filter() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let stage = Stage::on(server).await;
    let records = stage.plain.database(&stage.options.tx_database);
    records.run_command(doc! {"create": "guards", "viewOn": "txs", "pipeline": []}).await.unwrap();
    stage.coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    stage.watch(&stage.coll.namespace().db).await;
    for _ in 0..2 {
        assert_eq!(increase(&stage.coll, 1).await.unwrap().modified_count, 1);
    }
    assert_eq!(stage.guards_of_filters().await, [false, false]);
}

impl Stage {
    /// As [`Stage::guards`], where filters may have the condition.
    async fn guards_of_filters(&self) -> Vec<bool> {
        let all = self.seen(&self.coll.namespace().db, "update", "docs").await;
        all.iter().map(|seen| seen.get_document("command").unwrap().get_document("q").unwrap().len() == 1).collect()
    }
}

/// Another process answers at the same place: it is tried out, too.
#[tokio::test]
async fn a_server_that_was_started_again_is_asked_again() {
    let server = Server::standalone().await.unwrap();
    let stage = Stage::on(&server).await;
    let tx_database = stage.options.tx_database.clone();
    stage.coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    for _ in 0..2 {
        stage.watch(&tx_database).await;
        let before = stage.asked().await;
        increase(&stage.coll, 1).await.unwrap();
        increase(&stage.coll, 1).await.unwrap();
        assert_eq!(stage.asked().await, before + 1);
        server.stop().await.unwrap();
        server.restart().await.unwrap();
        // A read finds the broken connections.
        while stage.coll.find_one(doc! {"_id": 1}).await.is_err() {}
    }
}

/// Each command of the first update, and of a later one, is held in the network while its sender
/// gives up. What arrives late changes nothing that is held by then.
#[tokio::test]
async fn messages_that_arrive_late_change_nothing_that_is_held() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut before = 0;
    loop {
        let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
        let stage = Stage::through(server, &proxy.uri()).await;
        let (rival, others) = stage.rival(server).await;
        others.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
        stage.coll.find_one(doc! {"_id": 1}).await.unwrap();
        proxy.hold_after(before);
        let held = tokio::select! {
            biased;
            held = proxy.until_held() => Some(held),
            done = increase(&stage.coll, 1) => { done.unwrap(); None }
        };
        proxy.hold_nothing();
        let expected = match held {
            None => 2,
            Some(_) => {
                let mut session = rival.session();
                session.begin().unwrap();
                let set = doc! {"$set": {"n": 50}};
                others.update_one(doc! {"_id": 1}, set).session(&mut session).await.unwrap();
                proxy.deliver().await;
                let now = stage.stored().find_one(doc! {"_id": 1}).await.unwrap().unwrap();
                assert_eq!(now.get_i32("n").unwrap(), 1, "what everybody sees: {now}");
                session.commit().await.unwrap();
                50
            }
        };
        assert!(rival.flush(LIMIT).await);
        assert_eq!(stage.all_stored().await, [doc! {"_id": 1, "n": expected}], "{held:?}, after {before} commands");
        // The next client tries it out anew, and the guard is used in the end.
        increase(&stage.coll, 1).await.unwrap();
        stage.watch(&stage.coll.namespace().db).await;
        increase(&stage.coll, 1).await.unwrap();
        assert_eq!(stage.guards().await, [true], "{held:?}");
        if held.is_none() {
            break;
        }
        before += 1;
    }
    assert!(before >= 6, "the question was five commands, and the update one: {before}");
}

const ROUNDS: i32 = 60;
const DOCUMENTS: i32 = 3;

/// Transactions read a number and write the next one: an update between the two would be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_between_transactions_and_updates_by_id() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let tx_database = unique_db("tx");
    let isolation = Isolation::Snapshot;
    let options = ClientOptions { tx_database: tx_database.clone(), isolation, ..quiet::options() };
    let client = async || Client::connect_with(&server.uri(), options.clone()).await.unwrap();
    let first = client().await;
    let coll: Collection<Document> = first.database(&unique_db("unheld")).collection("docs");
    for id in 0..DOCUMENTS {
        coll.insert_one(&doc! {"_id": id, "n": 0}).await.unwrap();
    }
    let mut tasks = Vec::new();
    for n in 0..6 {
        let client = client().await;
        let coll = Arc::new(quiet::through(&client, &coll));
        tasks.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                match n % 3 {
                    0 => in_a_transaction(&client, &coll, round % DOCUMENTS).await,
                    1 => until_done(&coll, round % DOCUMENTS).await,
                    _ => all_together(&coll).await,
                }
            }
        }));
    }
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert!(first.flush(LIMIT).await);
    // Two of each kind: one document a round, or all of them.
    let expected = 2 * ROUNDS / DOCUMENTS * 2 + 2 * ROUNDS;
    for id in 0..DOCUMENTS {
        let found = coll.find_one(doc! {"_id": id}).await.unwrap().unwrap();
        assert_eq!(found.get_i32("n").unwrap(), expected, "{found}");
    }
}

async fn in_a_transaction(client: &Client, coll: &Collection<Document>, id: i32) {
    loop {
        let mut session = client.session_with(TransactionOptions::default());
        session.begin().unwrap();
        let work = async {
            let found = coll.find_one(doc! {"_id": id}).session(&mut session).await?;
            let n = found.unwrap().get_i32("n").unwrap();
            tokio::task::yield_now().await;
            coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": n + 1}}).session(&mut session).await?;
            session.commit().await
        };
        match work.await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}

async fn until_done(coll: &Collection<Document>, id: i32) {
    loop {
        match increase(coll, id).await {
            Ok(done) => return assert_eq!(done.modified_count, 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}

async fn all_together(coll: &Collection<Document>) {
    let models: Vec<WriteModel> = (0..DOCUMENTS).map(increased).collect();
    let first = coll.write_first(&models, false).await.unwrap();
    assert_eq!(first.taken, models.len(), "{first:?}");
    for (place, refused) in first.not_done {
        assert!(refused.is_none(), "{refused:?}");
        until_done(coll, place as i32).await;
    }
}
