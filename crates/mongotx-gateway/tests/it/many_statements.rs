//! Commands of several statements outside transactions: one command to the server where the
//! documents are free, and each statement by itself all the same.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use mongotx::ClientOptions;
use mongotx_gateway::GatewayOptions;

use crate::common::{
    commands::{Client, Session, code, is_ok},
    soon,
};

fn updates(ids: impl IntoIterator<Item = i32>, ordered: bool) -> Document {
    let updates: Vec<Document> = ids.into_iter().map(|id| doc! {"q": {"_id": id}, "u": {"$inc": {"n": 1}}}).collect();
    doc! {"update": "c", "updates": updates, "ordered": ordered}
}

fn deletes(ids: impl IntoIterator<Item = i32>, ordered: bool) -> Document {
    let deletes: Vec<Document> = ids.into_iter().map(|id| doc! {"q": {"_id": id}, "limit": 1}).collect();
    doc! {"delete": "c", "deletes": deletes, "ordered": ordered}
}

fn inserts(ids: impl IntoIterator<Item = i32>, ordered: bool) -> Document {
    let documents: Vec<Document> = ids.into_iter().map(|id| doc! {"_id": id, "n": 0}).collect();
    doc! {"insert": "c", "documents": documents, "ordered": ordered}
}

fn upserts(ids: impl IntoIterator<Item = i32>, ordered: bool) -> Document {
    let replaced = |id| doc! {"q": {"_id": id}, "u": {"n": 0}, "upsert": true};
    doc! {"update": "c", "updates": ids.into_iter().map(replaced).collect::<Vec<_>>(), "ordered": ordered}
}

/// A client that waits `wait` for documents that are held, in front of the shared server.
async fn patient(db: String, wait: Duration) -> Client {
    let client = ClientOptions { write_wait: wait, ..GatewayOptions::default().client };
    Client::with_options(db, GatewayOptions { client, ..GatewayOptions::default() }).await
}

async fn impatient(test: &str) -> Client {
    patient(local_mongod::unique_db(test), Duration::from_millis(20)).await
}

/// Number of writes that the server gets for a command, by their names.
async fn sent(client: &Client, command: Document) -> BTreeMap<String, u64> {
    let before = client.sent();
    client.ok(command).await;
    let writes = client.sent().into_iter().filter(|(name, _)| ["insert", "update", "delete"].contains(&name.as_str()));
    let since = writes.map(|(name, count)| (name.clone(), count - before.get(&name).copied().unwrap_or(0)));
    since.filter(|(_, count)| *count > 0).collect()
}

/// The values of `n`, by `_id`.
async fn values(client: &Client) -> Vec<(i32, i32)> {
    let all = client.all("c").await;
    all.iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i32("n").unwrap())).collect()
}

fn each(ids: impl Iterator<Item = i32>, n: impl Fn(i32) -> i32) -> Vec<(i32, i32)> {
    ids.map(|id| (id, n(id))).collect()
}

#[tokio::test]
async fn ten_statements_are_one_command() {
    let client = Client::start("many_one").await;
    client.ok(inserts([0], true)).await;
    for ordered in [true, false] {
        for (command, name) in [
            (inserts(1..=10, ordered), "insert"),
            (updates(1..=10, ordered), "update"),
            (upserts(5..=14, ordered), "update"),
            (deletes(1..=14, ordered), "delete"),
        ] {
            assert_eq!(sent(&client, command.clone()).await, BTreeMap::from([(name.to_owned(), 1)]), "{command}");
        }
    }
    assert_eq!(values(&client).await, [(0, 0)]);
    // More than one command takes.
    assert_eq!(sent(&client, inserts(1..=2_500, true)).await, BTreeMap::from([("insert".to_owned(), 3)]));
    assert_eq!(sent(&client, updates(1..=2_500, false)).await, BTreeMap::from([("update".to_owned(), 3)]));
    assert_eq!(values(&client).await[1..], each(1..=2_500, |_| 1));
}

/// Nothing behind the document that is held is changed in order, and everything else otherwise.
/// Sent again, nothing is done twice.
#[tokio::test]
async fn a_document_that_is_held_stops_an_ordered_command_and_no_other() {
    for ordered in [true, false] {
        let client = impatient("many_held").await;
        let (holder, session) = (Session::new(), Session::new());
        client.ok(inserts(1..=10, true)).await;
        client.ok(holder.first(updates([5], true))).await;
        let command = updates(1..=10, ordered);
        assert_eq!(code(&client.run_command(session.write(command.clone())).await), 112);
        let done = |id: i32| i32::from(id != 5 && (id < 5 || !ordered));
        assert_eq!(values(&client).await, each(1..=10, done), "{ordered}");
        commit(&client, &holder).await;
        let again = client.ok(session.again(command.clone())).await;
        assert_eq!((again.get_i32("n").unwrap(), again.get_i32("nModified").unwrap()), (10, 10), "{again}");
        let remembered = (0..10).filter(|place| done(place + 1) == 1).map(Bson::Int32).collect::<Vec<_>>();
        assert_eq!(*again.get_array("retriedStmtIds").unwrap(), remembered);
        assert_eq!(values(&client).await, each(1..=10, |id| 1 + i32::from(id == 5)), "{ordered}");
        let third = client.ok(session.again(command)).await;
        assert_eq!((third.get_i32("n").unwrap(), third.get_array("retriedStmtIds").unwrap().len()), (10, 10));
        assert_eq!(values(&client).await, each(1..=10, |id| 1 + i32::from(id == 5)), "{ordered}");
        client.shutdown().await.unwrap();
    }
}

async fn commit(client: &Client, session: &Session) {
    let reply = client.run_on("admin", session.commit()).await;
    assert!(is_ok(&reply), "{reply}");
}

async fn abort(client: &Client, session: &Session) {
    let reply = client.run_on("admin", session.abort()).await;
    assert!(is_ok(&reply), "{reply}");
}

/// A deletion that is sent again leaves alone what was inserted since.
#[tokio::test]
async fn deletions_beside_a_document_that_is_held_are_made_once() {
    for ordered in [true, false] {
        let client = impatient("many_deleted").await;
        let (holder, session) = (Session::new(), Session::new());
        client.ok(inserts(1..=10, true)).await;
        client.ok(holder.first(updates([5], true))).await;
        let command = deletes(1..=10, ordered);
        assert_eq!(code(&client.run_command(session.write(command.clone())).await), 112);
        let stay = |id: &i32| if ordered { *id >= 5 } else { *id == 5 };
        let left: Vec<(i32, i32)> = (1..=10).filter(stay).map(|id| (id, 0)).collect();
        assert_eq!(values(&client).await, left);
        client.ok(inserts([1, 2], true)).await;
        abort(&client, &holder).await;
        assert_eq!(client.ok(session.again(command)).await.get_i32("n").unwrap(), 10);
        assert_eq!(values(&client).await, [(1, 0), (2, 0)]);
        client.shutdown().await.unwrap();
    }
}

/// A committed transaction's documents are written over, in whatever state it has left them.
#[tokio::test]
async fn what_was_committed_just_before_is_seen_by_every_statement() {
    let client = Client::start("many_committed").await;
    let session = Session::new();
    client.ok(inserts(1..=10, true)).await;
    for round in 1..=5 {
        for ordered in [true, false] {
            client.ok(session.first(updates(3..=7, true))).await;
            client.ok(session.next(deletes([9], true))).await;
            client.ok(session.next(inserts([20], true))).await;
            commit(&client, &session).await;
            let reply = client.ok(updates((1..=10).chain([20]), ordered)).await;
            assert_eq!(reply.get_i32("n").unwrap(), 10, "{reply}");
            client.ok(deletes([20], true)).await;
            client.ok(inserts([9], true)).await;
        }
        let n = |id| match id {
            3..=7 => 4 * round,
            9 => 0,
            _ => 2 * round,
        };
        assert_eq!(values(&client).await, each(1..=10, n));
    }
}

/// The duplicates among the `_id`s of committed documents are found by one query; an `_id` whose
/// insert is pending is waited for.
#[tokio::test]
async fn inserts_beside_duplicates_and_one_that_waits_to_be_inserted() {
    let client = impatient("many_inserts").await;
    let holder = Session::new();
    client.ok(inserts(1..=4, true)).await;
    let before = client.sent();
    let reply = client.run_command(inserts(1..=8, false)).await;
    let refused = reply.get_array("writeErrors").unwrap();
    assert_eq!((reply.get_i32("n").unwrap(), refused.len()), (4, 4), "{reply}");
    assert_eq!(client.sent()["insert"] - before["insert"], 1);
    client.ok(holder.first(inserts([10], true))).await;
    // In order: what stands behind the one that waits is not inserted.
    assert_eq!(code(&client.run_command(inserts(9..=11, true)).await), 112);
    assert_eq!(values(&client).await, each(1..=9, |_| 0));
    assert_eq!(code(&client.run_command(inserts(10..=12, false)).await), 112);
    assert_eq!(client.all("c").await.len(), 11);
    abort(&client, &holder).await;
    assert_eq!(client.ok(inserts([10, 13], true)).await.get_i32("n").unwrap(), 2);
}

/// In order a statement that waits is not overtaken by one about the same document; without an
/// order, neither.
#[tokio::test]
async fn statements_about_one_document_keep_their_order() {
    for ordered in [true, false] {
        let db = local_mongod::unique_db("many_order");
        let client = patient(db.clone(), Duration::from_secs(60)).await;
        let rival = Client::with_database(db).await;
        let holder = Session::new();
        client.ok(inserts(1..=3, true)).await;
        rival.ok(holder.first(updates([2], true))).await;
        let to = |id: i32, n: i32| doc! {"q": {"_id": id}, "u": {"$set": {"n": n}}};
        let set = vec![to(1, 5), to(2, 5), to(3, 5), to(2, 6), to(3, 6)];
        let writing = client.ok(doc! {"update": "c", "updates": set, "ordered": ordered});
        let committing = async {
            until(&rival, 1, 5).await;
            commit(&rival, &holder).await;
        };
        let (reply, ()) = soon(async { tokio::join!(writing, committing) }).await;
        assert_eq!(reply.get_i32("n").unwrap(), 5);
        assert_eq!(values(&client).await, [(1, 5), (2, 6), (3, 6)], "{ordered}");
    }
}

async fn until(client: &Client, id: i32, n: i32) {
    while !values(client).await.contains(&(id, n)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Statements that were done before the client was stopped stay done, and those that may have been
/// done are not done again.
#[tokio::test]
async fn a_command_that_is_stopped_in_the_middle_is_not_done_again() {
    let db = local_mongod::unique_db("many_stopped");
    let client = patient(db.clone(), Duration::from_secs(60)).await;
    let rival = Client::with_database(db).await;
    let (holder, session) = (Session::new(), Session::new());
    client.ok(inserts(1..=10, true)).await;
    rival.ok(holder.first(updates([5], true))).await;
    let command = updates(1..=10, true);
    let writing = client.run_command(session.write(command.clone()));
    let stopping = async {
        until(&rival, 4, 1).await;
        client.ok(doc! {"killSessions": [session.lsid.clone()]}).await;
    };
    let (stopped, ()) = soon(async { tokio::join!(writing, stopping) }).await;
    assert!(!is_ok(&stopped), "{stopped}");
    abort(&rival, &holder).await;
    assert_eq!(code(&client.run_command(session.again(command)).await), 11_601);
    // The fifth may have been on its way to the server when the holder let the document go.
    let (fifth, others): (Vec<_>, Vec<_>) = values(&client).await.into_iter().partition(|(id, _)| *id == 5);
    assert!(matches!(fifth[..], [(5, 0 | 1)]), "{fifth:?}");
    assert_eq!(others, each((1..=4).chain(6..=10), |id| i32::from(id < 5)));
}

async fn until_sent(client: &Client, count: u64) {
    while client.sent().get("update").copied().unwrap_or(0) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The command is with the server, which stands still, when the session is killed, or the server
/// is.
#[tokio::test]
async fn a_command_that_was_not_answered_is_not_sent_again() {
    for is_server_killed in [false, true] {
        let server = local_mongod::Server::standalone().await.unwrap();
        let client = Client::in_front_of(server.uri(), "many_lost".to_owned(), GatewayOptions::default()).await;
        let session = Session::new();
        client.ok(inserts(1..=10, true)).await;
        client.ok(updates([10], true)).await;
        let command = updates(1..=10, true);
        let sent = client.sent()["update"] + 1;
        server.pause().unwrap();
        let writing = client.run_command(session.write(command.clone()));
        let breaking = async {
            until_sent(&client, sent).await;
            if is_server_killed {
                server.kill().unwrap();
            } else {
                client.ok(doc! {"killSessions": [session.lsid.clone()]}).await;
                server.resume().unwrap();
            }
        };
        let (stopped, ()) = soon(async { tokio::join!(writing, breaking) }).await;
        let expected = if is_server_killed { 89 } else { 11_601 };
        assert_eq!(code(&stopped), expected, "{stopped}");
        for _ in 0..2 {
            let again = client.run_command(session.again(command.clone())).await;
            assert_eq!(code(&again), expected, "{again}");
        }
        assert_eq!(client.sent()["update"], sent);
    }
}

/// Commands of several statements and transactions about the same documents, through two gateways:
/// nothing is lost, nothing is done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increases_beside_transactions_add_up() {
    const ROUNDS: i32 = 15;
    let db = local_mongod::unique_db("many_sums");
    let gateways = [
        Arc::new(patient(db.clone(), Duration::from_millis(50)).await),
        Arc::new(patient(db, Duration::from_millis(50)).await),
    ];
    gateways[0].ok(inserts(1..=10, true)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (task, gateway) in gateways.iter().cycle().take(6).cloned().enumerate() {
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                match task {
                    0 | 1 => transact(&gateway, round).await,
                    _ => write(&gateway, updates(order(round), task % 2 == 0)).await,
                }
            }
        });
    }
    soon(tasks.join_all()).await;
    assert_eq!(values(&gateways[0]).await, each(1..=10, |id| 4 * ROUNDS + if id <= 5 { 2 * ROUNDS } else { 0 }));
}

fn order(round: i32) -> Vec<i32> {
    if round % 2 == 0 { (1..=10).collect() } else { (1..=10).rev().collect() }
}

/// As a driver does: the same number again, until it is made.
async fn write(gateway: &Client, command: Document) {
    let session = Session::new();
    let mut reply = gateway.run_command(session.write(command.clone())).await;
    while !is_ok(&reply) {
        assert_eq!(code(&reply), 112, "{reply}");
        reply = gateway.run_command(session.again(command.clone())).await;
    }
    assert_eq!((reply.get_i32("n").unwrap(), reply.contains_key("writeErrors")), (10, false), "{reply}");
}

async fn transact(gateway: &Client, round: i32) {
    let session = Session::new();
    let ids: Vec<i32> = order(round).into_iter().filter(|id| *id <= 5).collect();
    loop {
        let written = gateway.run_command(session.first(updates(ids.clone(), true))).await;
        if is_ok(&written) && is_ok(&gateway.run_on("admin", session.commit()).await) {
            return;
        }
    }
}
