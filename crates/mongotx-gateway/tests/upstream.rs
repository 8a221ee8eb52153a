//! The way to the backing server: through connections of the gateway's own, or through the official driver.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use bson::{Document, doc};
use common::{driver, options, raw::Raw, soon};
use mongotx_gateway::{Gateway, Limits};

fn build_info() -> Document {
    doc! {"buildInfo": 1, "$db": "admin"}
}

#[tokio::test]
async fn replica_set_is_reached_through_the_driver() {
    let server = testkit::shared_replica_set().await.unwrap();
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

#[tokio::test]
async fn connections_to_the_server_are_limited_and_come_back_when_clients_leave() {
    let server = testkit::Server::standalone().await.unwrap();
    let limits = Limits { upstream: 1, upstream_wait: Duration::from_millis(50), ..Limits::default() };
    let gateway = Gateway::start(options(&server.uri(), limits)).await.unwrap();
    let address = gateway.address().unwrap();
    let (mut one, mut two) = (Raw::connect(address).await, Raw::connect(address).await);
    assert!(one.ask(build_info()).await.unwrap().contains_key("version"));
    server.pause().unwrap();
    one.send(&common::raw::message(&build_info(), 0)).await;
    let refused = soon(async {
        // Until the first has taken the only connection.
        loop {
            let mut other = Raw::connect(address).await;
            let asked = tokio::time::timeout(Duration::from_millis(300), other.ask(build_info())).await;
            if let Ok(answer) = asked {
                break answer.unwrap();
            }
        }
    })
    .await;
    assert_eq!(refused.get_i32("code").unwrap(), 89, "{refused}");
    assert!(refused.get_str("errmsg").unwrap().contains("all 1 connections"), "{refused}");
    // The gateway itself is there.
    assert_eq!(two.ask(doc! {"ping": 1, "$db": "admin"}).await.unwrap().get_f64("ok").unwrap(), 1.0);
    // Whoever goes frees the connection, though the server has not answered: another one waits for it instead.
    drop(one);
    let mut next = soon(async {
        loop {
            let mut next = Raw::connect(address).await;
            let asked = tokio::time::timeout(Duration::from_millis(500), next.ask(build_info())).await;
            if asked.is_err() {
                break next;
            }
        }
    })
    .await;
    server.resume().unwrap();
    assert!(next.answer().await.unwrap().contains_key("version"));
}
