//! `watch()` by the official driver: on a collection, a database and the deployment, on a
//! standalone server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{Document, Timestamp, doc};
use futures_util::future::BoxFuture;
use mongodb::{
    Client, Collection, Database,
    change_stream::{ChangeStream, event::ChangeStreamEvent},
    options::{FullDocumentBeforeChangeType, FullDocumentType},
};
use mongotx::{ChangeStreams, ClientOptions, Step, StepHook};
use mongotx_gateway::{Gateway, GatewayOptions, Limits};
use tokio::sync::Semaphore;

use crate::common::{LIMIT, driver, options, soon};

type Stream = ChangeStream<ChangeStreamEvent<Document>>;

/// A database behind a gateway.
struct Place {
    gateway: Gateway,
    options: GatewayOptions,
    client: Client,
    database: Database,
}

impl Place {
    async fn new(name: &str, change_streams: ChangeStreams) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let plain = options(&server.uri(), Limits::default());
        let client = ClientOptions { change_streams, ..plain.client };
        Self::with(name, GatewayOptions { client, ..plain }).await
    }

    async fn with(name: &str, options: GatewayOptions) -> Self {
        let gateway = Gateway::start(options.clone()).await.unwrap();
        let client = driver(gateway.address().unwrap(), "").await;
        let database = client.database(&local_mongod::unique_db(name));
        Self { gateway, options, client, database }
    }

    fn coll(&self, name: &str) -> Collection<Document> {
        self.database.collection(name)
    }
}

/// The next event's kind and key.
async fn next(stream: &mut Stream) -> String {
    let event = next_event(stream).await;
    let kind = format!("{:?}", event.operation_type).to_lowercase();
    match event.document_key.as_ref().and_then(|key| key.get("_id")) {
        Some(id) => format!("{kind} {id}"),
        None => kind,
    }
}

async fn next_event(stream: &mut Stream) -> ChangeStreamEvent<Document> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(event) = stream.next_if_any().await.unwrap() {
            return event;
        }
        assert!(Instant::now() < deadline && stream.is_alive(), "no event within {LIMIT:?}");
    }
}

#[tokio::test]
async fn a_collection_a_database_and_the_deployment_are_watched() {
    let place = Place::new("watched", ChangeStreams::All).await;
    let (a, b) = (place.coll("a"), place.coll("b"));
    let mut of_a = a.watch().await.unwrap();
    let mut of_database = place.database.watch().await.unwrap();
    let mut of_all = place.client.watch().await.unwrap();
    a.insert_one(doc! {"_id": 1, "v": 1}).await.unwrap();
    let mut session = place.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    b.insert_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"v": 1}}).session(&mut session).await.unwrap();
    session.commit_transaction().await.unwrap();
    a.delete_one(doc! {"_id": 1}).await.unwrap();
    for expected in ["insert 1", "update 1", "delete 1"] {
        assert_eq!(next(&mut of_a).await, expected);
    }
    for stream in [&mut of_database, &mut of_all] {
        for expected in ["insert 1", "insert 2", "update 1", "delete 1"] {
            assert_eq!(next(stream).await, expected);
        }
    }
    assert!(of_a.next_if_any().await.unwrap().is_none());
    place.gateway.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn events_are_as_mongodb_has_them() {
    let place = Place::new("watched_shape", ChangeStreams::SwitchedOn).await;
    let images = doc! {"create": "a", "changeStreamPreAndPostImages": {"enabled": true}};
    place.database.run_command(images).await.unwrap();
    let a = place.coll("a");
    let mut stream = a
        .watch()
        .full_document(FullDocumentType::Required)
        .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
        .await
        .unwrap();
    let mut looking = a.watch().full_document(FullDocumentType::UpdateLookup).await.unwrap();
    let mut session = place.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    a.insert_one(doc! {"_id": 1, "v": 1}).session(&mut session).await.unwrap();
    session.commit_transaction().await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"v": 1}}).await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"v": 1}}).await.unwrap();
    a.replace_one(doc! {"_id": 1}, doc! {"r": 1}).await.unwrap();
    let inserted = next_event(&mut stream).await;
    assert_eq!(inserted.full_document, Some(doc! {"_id": 1, "v": 1}));
    assert_eq!((inserted.txn_number, inserted.lsid.is_some()), (Some(1), true));
    let ns = inserted.ns.unwrap();
    assert_eq!((ns.db.as_str(), ns.coll.as_deref()), (place.database.name(), Some("a")));
    assert!(inserted.cluster_time.is_some() && inserted.wall_time.is_some());
    let updated = next_event(&mut stream).await;
    assert_eq!(updated.full_document, Some(doc! {"_id": 1, "v": 2}));
    assert_eq!(updated.full_document_before_change, Some(doc! {"_id": 1, "v": 1}));
    assert_eq!(updated.update_description.unwrap().updated_fields, doc! {"v": 2});
    assert!(updated.lsid.is_none() && updated.cluster_time > inserted.cluster_time);
    assert_eq!(next(&mut stream).await, "update 1");
    let replaced = next_event(&mut stream).await;
    assert_eq!(replaced.full_document, Some(doc! {"_id": 1, "r": 1}));
    // As it is now, when the event is read.
    assert_eq!(next(&mut looking).await, "insert 1");
    assert_eq!(next_event(&mut looking).await.full_document, Some(doc! {"_id": 1, "r": 1}));
    let listed = place.database.run_command(doc! {"listCollections": 1}).await.unwrap();
    let first = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].as_document().unwrap();
    let option = first.get_document("options").unwrap().get_document("changeStreamPreAndPostImages").unwrap();
    assert_eq!(option, &doc! {"enabled": true});
}

/// Statements of one command outside a transaction, which go to the server together where nothing
/// is watched.
#[tokio::test]
async fn statements_of_one_command_have_events_one_by_one() {
    let place = Place::new("watched_bulk", ChangeStreams::All).await;
    let mut stream = place.coll("a").watch().await.unwrap();
    let statement = |id: i32| doc! {"q": {"_id": id}, "u": {"$set": {"v": 1}}};
    let deletion = |id: i32| doc! {"q": {"_id": id}, "limit": 1};
    let commands = [
        doc! {"insert": "a", "documents": [{"_id": 1}, {"_id": 2}, {"_id": 3}]},
        doc! {"update": "a", "updates": [statement(1), statement(9), statement(2)]},
        doc! {"delete": "a", "deletes": [deletion(1), deletion(9), deletion(2)]},
        doc! {"findAndModify": "a", "query": {"_id": 3}, "remove": true},
    ];
    for command in commands {
        place.database.run_command(command).await.unwrap();
    }
    let expected = ["insert 1", "insert 2", "insert 3", "update 1", "update 2", "delete 1", "delete 2", "delete 3"];
    for event in expected {
        assert_eq!(next(&mut stream).await, event);
    }
    assert!(stream.next_if_any().await.unwrap().is_none());
}

#[tokio::test]
async fn stages_are_run_by_the_server_and_may_not_change_the_token() {
    let place = Place::new("watched_stages", ChangeStreams::All).await;
    let a = place.coll("a");
    let stages = [
        doc! {"$match": {"operationType": "insert", "fullDocument.v": {"$gt": 1}}},
        doc! {"$project": {"operationType": 1, "documentKey": 1, "ns": 1, "fullDocument.v": 1}},
    ];
    let mut stream = a.watch().pipeline(stages).await.unwrap();
    let mut broken = a.watch().pipeline([doc! {"$project": {"_id": 0}}]).await.unwrap();
    for id in 0..4 {
        a.insert_one(doc! {"_id": id, "v": id, "w": id}).await.unwrap();
    }
    let event = next_event(&mut stream).await;
    assert_eq!(event.full_document, Some(doc! {"v": 2}));
    assert_eq!(next(&mut stream).await, "insert 3");
    let error = loop {
        match broken.next_if_any().await {
            Ok(None) => {}
            Ok(Some(event)) => panic!("{event:?}"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("resume token"), "{error}");
    for (stage, code) in
        [(doc! {"$group": {"_id": 1}}, 20), (doc! {"$match": {"$nonsense": 1}}, 2), (doc! {"x": 1}, 40_324)]
    {
        let refused = a.watch().pipeline([stage]).await.unwrap_err();
        assert_eq!(code_of(&refused), Some(code), "{refused}");
    }
}

fn code_of(error: &mongodb::error::Error) -> Option<i32> {
    match error.kind.as_ref() {
        mongodb::error::ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_by_name() {
    let place = Place::new("watched_refused", ChangeStreams::SwitchedOn).await;
    place.coll("a").insert_one(doc! {"_id": 1}).await.unwrap();
    let refused = place.coll("a").watch().await.unwrap_err();
    assert_eq!(code_of(&refused), Some(115));
    assert!(refused.to_string().contains("changeStreamPreAndPostImages"), "{refused}");
    let open = async |options: Document| {
        let command = doc! {"aggregate": 1, "pipeline": [{"$changeStream": options}], "cursor": {}};
        let answer = place.database.run_command(command).await;
        answer.err().and_then(|error| code_of(&error))
    };
    assert_eq!(open(doc! {}).await, None);
    assert_eq!(open(doc! {"allChangesForCluster": true}).await, Some(72));
    assert_eq!(open(doc! {"fullDocument": "x"}).await, Some(2));
    assert_eq!(open(doc! {"x": 1}).await, Some(40_415));
    assert_eq!(open(doc! {"showExpandedEvents": true}).await, Some(115));
    assert_eq!(open(doc! {"resumeAfter": {"_data": "x"}}).await, Some(260));
    let time = Timestamp { time: 1, increment: 1 };
    assert_eq!(open(doc! {"startAtOperationTime": time, "resumeAfter": {"_data": "x"}}).await, Some(50_674));
    let mut session = place.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let command = doc! {"aggregate": "a", "pipeline": [{"$changeStream": {}}], "cursor": {}};
    let refused = place.database.run_command(command).session(&mut session).await.unwrap_err();
    assert_eq!(code_of(&refused), Some(263), "{refused}");
}

#[tokio::test]
async fn a_stream_ends_with_its_collection_and_may_be_started_after_that() {
    let place = Place::new("watched_ends", ChangeStreams::All).await;
    let a = place.coll("a");
    let mut stream = a.watch().await.unwrap();
    a.insert_one(doc! {"_id": 1}).await.unwrap();
    a.drop().await.unwrap();
    a.insert_one(doc! {"_id": 2}).await.unwrap();
    assert_eq!(next(&mut stream).await, "insert 1");
    assert_eq!(next(&mut stream).await, "drop");
    let end = next_event(&mut stream).await;
    assert_eq!(format!("{:?}", end.operation_type), "Invalidate");
    assert!(!stream.is_alive());
    let refused = a.watch().resume_after(end.id.clone()).await.unwrap_err();
    assert_eq!(code_of(&refused), Some(260), "{refused}");
    let mut again = a.watch().start_after(end.id).await.unwrap();
    assert_eq!(next(&mut again).await, "insert 2");
}

#[tokio::test]
async fn a_stream_begins_where_it_is_asked_to() {
    let place = Place::new("watched_from", ChangeStreams::All).await;
    let a = place.coll("a");
    let mut stream = a.watch().await.unwrap();
    let ping = place.database.run_command(doc! {"ping": 1}).await.unwrap();
    let time = ping.get_timestamp("operationTime").unwrap();
    for id in 0..3 {
        a.insert_one(doc! {"_id": id}).await.unwrap();
    }
    let first = next_event(&mut stream).await;
    for id in [1, 2] {
        assert_eq!(next(&mut stream).await, format!("insert {id}"));
    }
    let mut resumed = a.watch().resume_after(Some(first.id.clone())).await.unwrap();
    assert_eq!(next(&mut resumed).await, "insert 1");
    let mut timed = a.watch().start_at_operation_time(time).await.unwrap();
    assert_eq!(next(&mut timed).await, "insert 0");
    let mut timed = a.watch().start_at_operation_time(first.cluster_time.unwrap()).await.unwrap();
    assert_eq!(next(&mut timed).await, "insert 0");
}

/// Another gateway knows nothing of the stream, and everything that was committed.
#[tokio::test]
async fn a_token_is_good_at_another_gateway_and_after_the_server_was_killed() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let plain = options(&server.uri(), Limits::default());
    let client = ClientOptions { change_streams: ChangeStreams::All, ..plain.client };
    let place = Place::with("watched_again", GatewayOptions { client, ..plain }).await;
    let a = place.coll("a");
    let mut stream = a.watch().await.unwrap();
    for id in 0..3 {
        a.insert_one(doc! {"_id": id}).await.unwrap();
    }
    assert_eq!(next(&mut stream).await, "insert 0");
    let token = stream.resume_token().unwrap();
    let other = Gateway::start(place.options.clone()).await.unwrap();
    let at_other = driver(other.address().unwrap(), "").await;
    let theirs = at_other.database(place.database.name()).collection::<Document>("a");
    let mut resumed = theirs.watch().resume_after(token.clone()).await.unwrap();
    assert_eq!(next(&mut resumed).await, "insert 1");
    // The first gateway's clients are not disconnected.
    drop(place.gateway);
    server.kill().unwrap();
    server.restart().await.unwrap();
    let inserted = Instant::now();
    while theirs.insert_one(doc! {"_id": 3}).await.is_err_and(|error| !error.to_string().contains("E11000")) {
        assert!(inserted.elapsed() < LIMIT);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for id in [2, 3] {
        assert_eq!(soon(next(&mut resumed)).await, format!("insert {id}"));
    }
    let mut again = theirs.watch().resume_after(Some(token)).await.unwrap();
    for id in [1, 2, 3] {
        assert_eq!(soon(next(&mut again)).await, format!("insert {id}"));
    }
}

/// A batch says how far it goes, also where nothing in it is the stream's.
#[tokio::test]
async fn batches_have_tokens_and_wait_for_events() {
    let place = Place::new("watched_batches", ChangeStreams::All).await;
    let open = doc! {"aggregate": "a", "pipeline": [{"$changeStream": {}}], "cursor": {"batchSize": 0}};
    let opened = place.database.run_command(open).await.unwrap();
    let cursor = opened.get_document("cursor").unwrap();
    let (id, first) = (cursor.get_i64("id").unwrap(), cursor.get_document("postBatchResumeToken").unwrap().clone());
    let more = async |size: i32, wait: i32| {
        let command = doc! {"getMore": id, "collection": "a", "batchSize": size, "maxTimeMS": wait};
        let answer = place.database.run_command(command).await.unwrap();
        let cursor = answer.get_document("cursor").unwrap().clone();
        let batch = cursor.get_array("nextBatch").unwrap().len();
        (batch, cursor.get_document("postBatchResumeToken").unwrap().get_str("_data").unwrap().to_owned())
    };
    let (none, idle) = more(1, 1).await;
    assert_eq!((none, idle.as_str()), (0, first.get_str("_data").unwrap()));
    place.coll("b").insert_one(doc! {"_id": 1}).await.unwrap();
    let (none, others) = more(1, 1).await;
    assert!(none == 0 && others > idle, "{others} {idle}");
    for id in 1..=3 {
        place.coll("a").insert_one(doc! {"_id": id}).await.unwrap();
    }
    let mut tokens = Vec::new();
    for size in [1, 2] {
        let (count, token) = more(size, 1_000).await;
        assert_eq!(count, usize::try_from(size).unwrap());
        tokens.push(token);
    }
    assert!(tokens.is_sorted() && tokens[0] > others);
    let (waiting, writing) = tokio::join!(more(1, 20_000), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        place.coll("a").insert_one(doc! {"_id": 4}).await
    });
    writing.unwrap();
    assert_eq!(waiting.0, 1);
}

#[tokio::test]
async fn a_stream_goes_on_after_an_error_that_it_may_be_opened_anew_after() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let plain = options(&server.uri(), Limits::default());
    let client = ClientOptions { change_streams: ChangeStreams::All, ..plain.client };
    let place = Place::with("resumable", GatewayOptions { client, test_commands: true, ..plain }).await;
    let coll = place.coll("a");
    let fail = |code: i32| {
        let data = doc! {"errorCode": code, "closeConnection": false};
        doc! {"configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": {"times": 1}, "data": data}
    };
    let admin = place.client.database("admin");
    let mut stream = coll.watch().await.unwrap();
    // HostUnreachable: opened anew by the driver, because the error says so.
    admin.run_command(fail(6)).await.unwrap();
    coll.insert_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(next(&mut stream).await, "insert 1");
    // ChangeStreamFatalError: it is over.
    admin.run_command(fail(280)).await.unwrap();
    let error = soon(async {
        loop {
            if let Err(error) = stream.next_if_any().await {
                return error;
            }
        }
    });
    let error = error.await;
    assert!(!error.contains_label("ResumableChangeStreamError"), "{error}");
    place.gateway.shutdown(LIMIT).await.unwrap();
}

/// Holds a gateway before each decision while it is shut.
struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
    is_shut: AtomicBool,
}

impl StepHook for Gate {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let held = step == Step::BeforeDecision && self.is_shut.load(SeqCst);
        let (reached, open) = (Arc::clone(&self.reached), Arc::clone(&self.open));
        Box::pin(async move {
            if held {
                reached.add_permits(1);
                drop(open.acquire().await);
            }
        })
    }
}

/// The time of a reply that comes while a change is under way: what the client has read until then
/// does not show the change, so a stream from there does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_begins_at_a_replys_time_has_what_was_under_way_then() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let [reached, open] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let gate = Gate { reached: Arc::clone(&reached), open: Arc::clone(&open), is_shut: AtomicBool::new(false) };
    let gate = Arc::new(gate);
    let plain = options(&server.uri(), Limits::default());
    let client =
        ClientOptions { change_streams: ChangeStreams::All, hook: Some(Arc::<Gate>::clone(&gate)), ..plain.client };
    let place = Place::with("watched_under_way", GatewayOptions { client, ..plain }).await;
    let coll = place.coll("a");
    coll.insert_one(doc! {"_id": 0}).await.unwrap();
    gate.is_shut.store(true, SeqCst);
    let inserting = tokio::spawn({
        let coll = coll.clone();
        async move { coll.insert_many([doc! {"_id": 1}, doc! {"_id": 2}]).await }
    });
    soon(reached.acquire()).await.unwrap().forget();
    let seen = place.database.run_command(doc! {"find": "a"}).await.unwrap();
    let time = seen.get_timestamp("operationTime").unwrap();
    gate.is_shut.store(false, SeqCst);
    // So it is with the time of a read of one moment.
    let one_moment = doc! {"find": "a", "readConcern": {"level": "snapshot"}};
    let seen_at_once = place.database.run_command(one_moment).await.unwrap();
    let moment = seen_at_once.get_document("cursor").unwrap().get_timestamp("atClusterTime").unwrap();
    open.add_permits(1_000);
    soon(inserting).await.unwrap().unwrap();
    for (seen, time) in [(&seen, time), (&seen_at_once, moment)] {
        let found = seen.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        assert_eq!(found.len(), 1, "the insert was not decided");
        let mut stream = coll.watch().start_at_operation_time(time).await.unwrap();
        assert_eq!([next(&mut stream).await, next(&mut stream).await], ["insert 1", "insert 2"]);
    }
    // Later on the time is later, too.
    let later = place.database.run_command(doc! {"ping": 1}).await.unwrap().get_timestamp("operationTime").unwrap();
    assert!(later > time);
    place.gateway.shutdown(LIMIT).await.unwrap();
}

/// The server runs the stream's stages on events in one command, which has a limit.
#[tokio::test]
async fn a_large_event_behind_small_ones_passes_the_stages() {
    let place = Place::new("watched_large", ChangeStreams::All).await;
    let coll = place.coll("a");
    let mut stream = coll.watch().pipeline([doc! {"$match": {"operationType": "insert"}}]).await.unwrap();
    let small = (0..100).map(|id| doc! {"_id": id, "text": "x".repeat(35_000)});
    coll.insert_many(small).await.unwrap();
    coll.insert_one(doc! {"_id": 100, "text": "x".repeat(14_000_000)}).await.unwrap();
    for id in 0..=100 {
        assert_eq!(next(&mut stream).await, format!("insert {id}"));
    }
    place.gateway.shutdown(LIMIT).await.unwrap();
}

/// A stream that is opened behind the event which ends it, and has delivered nothing yet.
#[tokio::test]
async fn a_stream_that_only_ends_does_not_repeat_its_last_event() {
    let place = Place::new("watched_end", ChangeStreams::All).await;
    let coll = place.coll("a");
    coll.insert_one(doc! {"_id": 1}).await.unwrap();
    let mut stream = coll.watch().await.unwrap();
    coll.drop().await.unwrap();
    assert_eq!(next(&mut stream).await, "drop");
    let token = bson::serialize_to_document(&stream.resume_token().unwrap()).unwrap();
    let open = |token: Document| {
        let stage = doc! {"$changeStream": {"resumeAfter": token}};
        doc! {"aggregate": "a", "pipeline": [stage], "cursor": {"batchSize": 0}}
    };
    let opened = place.database.run_command(open(token)).await.unwrap();
    let cursor = opened.get_document("cursor").unwrap();
    let again = place.database.run_command(open(cursor.get_document("postBatchResumeToken").unwrap().clone())).await;
    let id = again.unwrap().get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = place.database.run_command(doc! {"getMore": id, "collection": "a"}).await.unwrap();
    let batch = more.get_document("cursor").unwrap().get_array("nextBatch").unwrap();
    let kinds: Vec<&str> =
        batch.iter().map(|event| event.as_document().unwrap().get_str("operationType").unwrap()).collect();
    assert_eq!(kinds, ["invalidate"]);
    place.gateway.shutdown(LIMIT).await.unwrap();
}
