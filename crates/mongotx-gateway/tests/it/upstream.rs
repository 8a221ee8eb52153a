//! The way to the backing server: through connections of the gateway's own, or through the official
//! driver.

use crate::common;

use std::time::Duration;

use bson::{Document, doc};
use common::{
    driver,
    http::{http, metric, with_metrics},
    options,
    raw::{Raw, message},
    soon,
};
use mongotx_gateway::{Gateway, Limits};

fn build_info() -> Document {
    doc! {"buildInfo": 1, "$db": "admin"}
}

#[tokio::test]
async fn replica_set_is_reached_through_the_driver() {
    let server = local_mongod::shared_replica_set().await.unwrap();
    let gateway = Gateway::start(options(&server.uri(), Limits::default())).await.unwrap();
    let through = driver(gateway.address().unwrap(), "").await;
    let direct = server.client().await.unwrap();
    let command = doc! {"getParameter": 1, "maxBSONDepth": 1, "quiet": 1};
    let mut expected = soon(direct.database("admin").run_command(command.clone())).await.unwrap();
    let mut answer = soon(through.database("admin").run_command(command)).await.unwrap();
    // The cluster's time goes on between the two.
    for cluster_time in ["operationTime", "$clusterTime"] {
        assert!(expected.remove(cluster_time).is_some() && answer.remove(cluster_time).is_some());
    }
    assert_eq!(answer, expected);
    let refused = soon(through.database("d").run_command(doc! {"profile": "text"})).await.unwrap_err();
    let own = soon(direct.database("d").run_command(doc! {"profile": "text"})).await.unwrap_err();
    assert_eq!(refused.kind.to_string(), own.kind.to_string());
}

/// Both connections send a command. One takes the only connection to the server, and waits: returns
/// that one, and the answer to the other.
async fn one_waits(mut one: Raw, mut two: Raw) -> (Raw, Document) {
    for raw in [&mut one, &mut two] {
        raw.send(&message(&build_info(), 0)).await;
    }
    let (first, answer) = tokio::select! {
        answer = one.answer() => (true, answer),
        answer = two.answer() => (false, answer),
    };
    (if first { two } else { one }, answer.unwrap())
}

fn assert_refused(answer: &Document) {
    assert_eq!(answer.get_i32("code").unwrap(), 89, "{answer}");
    assert!(answer.get_str("errmsg").unwrap().contains("all 1 connections"), "{answer}");
}

#[tokio::test]
async fn connections_to_the_server_are_limited_and_come_back_when_clients_leave() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let limits = Limits { upstream: 1, upstream_wait: Duration::from_millis(50), ..Limits::default() };
    let (gateway, metrics) = with_metrics(&server.uri(), limits).await;
    let address = gateway.address().unwrap();
    let mut other = Raw::connect(address).await;
    assert!(other.ask(build_info()).await.unwrap().contains_key("version"));
    server.pause().unwrap();
    let (waiting, answer) = one_waits(Raw::connect(address).await, Raw::connect(address).await).await;
    assert_refused(&answer);
    // The gateway itself is there.
    assert_eq!(other.ask(doc! {"ping": 1, "$db": "admin"}).await.unwrap().get_f64("ok").unwrap(), 1.0);
    // A client that goes frees the connection, though the server has not answered: another one
    // waits for it instead.
    drop(waiting);
    soon(async {
        while metric(metrics, "mongotx_gateway_connections").await != Some(1.0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (mut waiting, answer) = one_waits(Raw::connect(address).await, Raw::connect(address).await).await;
    assert_refused(&answer);
    server.resume().unwrap();
    let answer = waiting.answer().await.unwrap();
    assert!(answer.contains_key("version"), "{answer}");
}

/// Clients that wait for documents of a capped collection, as many as there may be connections.
#[tokio::test]
async fn tailable_cursors_that_wait_keep_no_other_command_waiting() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let limits = Limits { upstream: 1, upstream_wait: Duration::from_millis(50), ..Limits::default() };
    let gateway = Gateway::start(options(&server.uri(), limits)).await.unwrap();
    let address = gateway.address().unwrap();
    let (mut tailing, mut other) = (Raw::connect(address).await, Raw::connect(address).await);
    let db = local_mongod::unique_db("gw_tailing");
    let ok = |answer: Option<Document>| assert_eq!(answer.unwrap().get_f64("ok").unwrap(), 1.0);
    ok(other.ask(doc! {"create": "c", "capped": true, "size": 4096, "$db": &db}).await);
    ok(other.ask(doc! {"insert": "c", "documents": [{"_id": 1}], "$db": &db}).await);
    let find = doc! {"find": "c", "tailable": true, "awaitData": true, "$db": &db};
    let answer = tailing.ask(find).await.unwrap();
    let id = answer.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! {"getMore": id, "collection": "c", "maxTimeMS": 3_600_000, "$db": &db};
    tailing.send(&message(&more, 0)).await;
    // The server waits by now.
    let direct = server.client().await.unwrap().database("admin");
    let waiting = doc! {"$match": {"command.getMore": {"$exists": true}, "ns": format!("{db}.c")}};
    soon(async {
        let is_waiting = async || {
            let mut found = direct.aggregate([doc! {"$currentOp": {}}, waiting.clone()]).await.unwrap();
            found.advance().await.unwrap()
        };
        while !is_waiting().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    ok(other.ask(build_info()).await);
    ok(other.ask(doc! {"insert": "c", "documents": [{"_id": 2}], "$db": &db}).await);
    ok(tailing.answer().await);
}

/// Waits until the server runs an `aggregate` that evaluates the filter of a `currentOp`.
async fn until_filtering(server: &local_mongod::Server, mark: &str) {
    let direct = server.client().await.unwrap().database("admin");
    let filtering = doc! {"$match": {"command.aggregate": 1, "command.pipeline.1.$match.mark": mark}};
    soon(async {
        let is_filtering = async || {
            let mut found = direct.aggregate([doc! {"$currentOp": {}}, filtering.clone()]).await.unwrap();
            found.advance().await.unwrap()
        };
        while !is_filtering().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A `currentOp` whose filter has no end of its own.
fn endless(mark: &str) -> Document {
    let endless = doc! {"$function": {"body": "function() { while (true) {} }", "args": [], "lang": "js"}};
    // The server looks at the function first where it stands first.
    doc! {"currentOp": 1, "$ownOps": true, "$expr": endless, "mark": mark, "$db": "admin"}
}

/// Whatever clients do, the gateway reaches the server, and so does who puts things in order.
#[tokio::test]
async fn the_gateways_own_commands_do_not_wait_for_those_of_clients() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let limits = Limits { upstream: 1, upstream_wait: Duration::from_millis(50), ..Limits::default() };
    let (gateway, metrics) = with_metrics(&server.uri(), limits).await;
    let address = gateway.address().unwrap();
    let (mut busy, mut other) = (Raw::connect(address).await, Raw::connect(address).await);
    busy.send(&message(&endless("own"), 0)).await;
    until_filtering(&server, "own").await;
    assert_refused(&other.ask(build_info()).await.unwrap());
    assert_eq!(http(metrics, "GET", "/healthz").await, (200, "ok\n".to_owned()));
    let killed = other.ask(doc! {"killOp": 1, "op": 5, "$db": "admin"}).await.unwrap();
    assert_eq!(killed.get_f64("ok").unwrap(), 1.0, "{killed}");
    // The server's own word: it is not locked.
    let unlocked = other.ask(doc! {"fsyncUnlock": 1, "$db": "admin"}).await.unwrap();
    assert!(unlocked.get_str("errmsg").unwrap().contains("not locked"), "{unlocked}");
    // The filter's time is over by itself.
    let given_up = busy.answer().await.unwrap();
    assert_eq!(given_up.get_i32("code").unwrap(), 50, "{given_up}");
}

/// Filters of any number of clients leave connections to all others.
#[tokio::test]
async fn few_filters_of_current_op_are_evaluated_at_a_time() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let limits = Limits { upstream: 5, upstream_wait: Duration::from_millis(50), ..Limits::default() };
    let gateway = Gateway::start(options(&server.uri(), limits)).await.unwrap();
    let address = gateway.address().unwrap();
    let mut busy = Vec::new();
    for _ in 0..6 {
        let mut one = Raw::connect(address).await;
        one.send(&message(&endless("few"), 0)).await;
        busy.push(one);
    }
    until_filtering(&server, "few").await;
    let mut other = Raw::connect(address).await;
    for _ in 0..20 {
        let answer = other.ask(build_info()).await.unwrap();
        assert!(answer.contains_key("version"), "{answer}");
    }
    for one in &mut busy {
        assert_eq!(one.answer().await.unwrap().get_i32("code").unwrap(), 50);
    }
}
