//! A client that meets a later format than its own: every way ends in an error that names both,
//! and changes nothing.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use mongotx::{Client, ClientOptions, ErrorKind, Isolation, Step, TxId};

use crate::{
    another_database::{assert_refused, change_both, world},
    common::{ghost, hooks::Gate, world::World},
};

const WORDS: [&str; 2] = ["is of version 2 of the stored format", "none later than 1"];

fn assert_later(way: &str, error: &mongotx::Error) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{way}: {error}");
    for word in WORDS {
        assert!(error.to_string().contains(word), "{way}: {word:?} is not in {error}");
    }
}

async fn records(world: &World) -> mongodb::Collection<Document> {
    world.raw().await.database(&world.tx_db()).collection("txs")
}

/// Makes the client's record one of version 2, without a sign of life for an hour.
async fn make_later(world: &World, id: TxId) {
    let hour_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 3_600_000);
    let later = doc! {"$set": {"format": 2, "changes": {"00000000": 1_i64}, "beat": hour_ago}};
    let done = records(world).await.update_one(doc! {"_id": ObjectId::from_bytes(id.client.0)}, later).await.unwrap();
    assert_eq!(done.modified_count, 1);
}

/// A world in which a client of version 2 is dead with an undecided transaction, and the id of
/// that.
async fn world_with_later(name: &str) -> (World, TxId) {
    let world = world(name).await;
    let id = ghost::undecided(&world).await;
    make_later(&world, id).await;
    (world, id)
}

/// A collection that the dead client has nothing in: documents 1 to 3.
async fn free(world: &World) {
    let free = world.raw().await.database(&world.db).collection("free");
    free.insert_many((1..=3).map(|id| doc! {"_id": id, "n": 0})).await.unwrap();
}

/// Content of the record, without the time at which it was last read durably.
async fn said(world: &World, id: TxId) -> Document {
    let mut record =
        records(world).await.find_one(doc! {"_id": ObjectId::from_bytes(id.client.0)}).await.unwrap().unwrap();
    record.remove("askedAt");
    record
}

#[tokio::test]
async fn a_record_says_in_which_format_its_client_writes() {
    let world = world("format").await;
    let client = world.client(10_000).await;
    let session = change_both(&world, &client).await;
    assert_eq!(said(&world, session.id().unwrap()).await.get("format"), Some(&Bson::Int32(1)));
    drop(session);
    client.shutdown().await.unwrap();
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_a_client_of_a_later_format_are_left_alone() {
    let (world, id) = world_with_later("format_locks").await;
    let before = said(&world, id).await;
    let client = world.client(10_000).await;
    assert_refused(&world, &client, ErrorKind::Unsupported, &WORDS).await;
    assert_eq!(said(&world, id).await, before);
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_and_sweeps_leave_a_record_of_a_later_format_alone() {
    let (world, id) = world_with_later("format_tools").await;
    let before = (said(&world, id).await, world.stored(&world.db, "a").await);
    let client = world.client(10_000).await;
    assert_later("outcome", &client.outcome(id).await.unwrap_err());
    assert_later("abort", &client.abort(id).await.unwrap_err());
    assert_later("clients", &client.clients().await.unwrap_err());
    assert_later("open clients", &client.open_clients(10).await.unwrap_err());
    assert_later("client info", &client.client_info(id.client).await.unwrap_err());
    assert_later("sweep", &client.sweep().await.unwrap_err());
    assert_later("checkpoint", &client.checkpoint().await.map(drop).unwrap_err());
    assert_eq!((said(&world, id).await, world.stored(&world.db, "a").await), before);
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_is_not_validated_beside_a_later_format() {
    let (world, _) = world_with_later("format_validation").await;
    free(&world).await;
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let options = ClientOptions { isolation, ..world.options(10_000) };
        let client = Client::connect_with(&world.uri, options).await.unwrap();
        let free = world.collection(&client, "free");
        let mut session = client.session();
        session.begin().unwrap();
        let outcome = async {
            for id in [1, 2] {
                free.find_one(doc! {"_id": id}).session(&mut session).await?;
            }
            free.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 3}}).session(&mut session).await?;
            session.commit().await
        };
        assert_later(&format!("{isolation:?}"), &outcome.await.map(drop).unwrap_err());
    }
    world.drop().await;
}

/// A reader that loses again and again sets quiet in all records but those of a later format.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quiet_is_not_asked_of_a_client_of_a_later_format() {
    let (world, id) = world_with_later("format_quiet").await;
    // Without change stamps no look at the records meets it.
    records(&world).await.update_many(doc! {"format": 2}, doc! {"$unset": {"changes": 1}}).await.unwrap();
    let before = said(&world, id).await;
    free(&world).await;
    let options = ClientOptions { isolation: Isolation::Snapshot, ..world.options(10_000) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    let (reads, rival) = (world.collection(&client, "free"), world.client(10_000).await);
    let mut session = client.session();
    for n in 1.. {
        assert!(n < 100, "no client is asked for quiet");
        session.begin().unwrap();
        for id in [1, 2] {
            reads.find_one(doc! {"_id": id}).session(&mut session).await.unwrap();
        }
        if client.metrics().quiets > 0 {
            break;
        }
        let change = doc! {"$set": {"n": n}};
        world.collection(&rival, "free").update_one(doc! {"_id": 1}, change).await.unwrap();
        assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    }
    session.rollback().await.unwrap();
    assert_eq!(said(&world, id).await, before);
    world.drop().await;
}

/// A later release may ask for clients of its own alone, in the document of the hold.
async fn demand_later(world: &World) {
    let hold = world.raw().await.database(&world.tx_db()).collection("checkpoint");
    hold.insert_one(doc! {"_id": "hold", "over": true, "format": 2}).await.unwrap();
}

async fn write(world: &World, client: &Client) -> mongotx::Result<()> {
    let mut session = client.session();
    session.begin()?;
    let a = world.collection(client, "a");
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await?;
    session.commit().await.map(drop)
}

#[tokio::test]
async fn where_a_later_format_is_demanded_no_client_registers_or_holds() {
    let world = world("format_demanded").await;
    let registered = world.client(10_000).await;
    write(&world, &registered).await.unwrap();
    demand_later(&world).await;
    let comes = world.client(10_000).await;
    assert_later("register", &write(&world, &comes).await.unwrap_err());
    assert_eq!(records(&world).await.count_documents(doc! {}).await.unwrap(), 1, "no other client has registered");
    assert_later("checkpoint", &comes.checkpoint().await.map(drop).unwrap_err());
    let read = world.collection(&comes, "a").find_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(read, Some(doc! {"_id": 1, "n": 1}), "what needs no record is done");
    write(&world, &registered).await.unwrap();
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_registers_meanwhile_closes_its_record() {
    let world = world("format_race").await;
    let (gate, hook) = Gate::at(Step::BeforeRegister, 1, false);
    let client = world.client_with(10_000, hook).await;
    let writing = tokio::spawn({
        let (world, client) = (world.clone(), client.clone());
        async move { write(&world, &client).await }
    });
    gate.reached().await;
    demand_later(&world).await;
    gate.open();
    let refused = tokio::time::timeout(Duration::from_secs(30), writing).await.unwrap().unwrap();
    assert_later("register", &refused.unwrap_err());
    let open = doc! {"closedAt": {"$exists": false}};
    assert_eq!(records(&world).await.count_documents(open).await.unwrap(), 0);
    world.drop().await;
}
