//! The official driver through the gateway: handshake, commands that are passed on, compression,
//! limits of size.

use crate::common;

use bson::{Document, doc};
use common::{driver, gateway, soon};
use mongodb::error::ErrorKind;
use mongotx_gateway::Limits;

async fn code_of(client: &mongodb::Client, command: Document) -> (i32, String) {
    let error = soon(client.database("admin").run_command(command)).await.unwrap_err();
    match *error.kind {
        ErrorKind::Command(refused) => (refused.code, refused.message),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn handshake_tells_a_router_of_the_servers_version() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let client = driver(address, "").await;
    let admin = client.database("admin");
    let hello = soon(admin.run_command(doc! {"hello": 1})).await.unwrap();
    assert_eq!(hello.get_str("msg").unwrap(), "isdbgrid");
    assert_eq!(hello.get_i32("maxWireVersion").unwrap(), 17);
    assert_eq!(hello.get_i32("logicalSessionTimeoutMinutes").unwrap(), 30);
    soon(admin.run_command(doc! {"ping": 1})).await.unwrap();
    let info = soon(admin.run_command(doc! {"buildInfo": 1})).await.unwrap();
    assert!(info.get_str("version").unwrap().starts_with("6."));
}

#[tokio::test]
async fn answers_of_the_server_come_back_as_they_are() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let through = driver(address, "").await;
    let direct = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    for command in [doc! {"getParameter": 1, "maxBSONDepth": 1}, doc! {"buildInfo": 1}, doc! {"features": 1}] {
        let [through, direct] = [&through, &direct].map(|client| client.database("admin"));
        let expected = soon(direct.run_command(command.clone())).await.unwrap();
        assert_eq!(soon(through.run_command(command)).await.unwrap(), expected);
    }
    // Refusals too.
    let wrong = doc! {"profile": "text"};
    assert_eq!(code_of(&through, wrong.clone()).await, code_of(&direct, wrong).await);
}

#[tokio::test]
async fn commands_without_login_are_refused_with_mongodbs_codes() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let client = driver(address, "").await;
    assert_eq!(code_of(&client, doc! {"noSuchThing": 1}).await, (59, "no such command: 'noSuchThing'".to_owned()));
    let (code, why) = code_of(&client, doc! {"replSetGetStatus": 1}).await;
    assert!(code == 115 && why.contains("replica set"), "{code} {why}");
    let (code, why) = code_of(&client, doc! {"shutdown": 1}).await;
    assert!(code == 115 && why.contains("server itself"), "{code} {why}");
}

#[tokio::test]
async fn logging_in_is_refused_with_the_reason() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let uri = format!("mongodb://user:password@{address}/?serverSelectionTimeoutMS=20000");
    let client = mongodb::Client::with_uri_str(uri).await.unwrap();
    let refused = soon(client.database("admin").run_command(doc! {"buildInfo": 1})).await.unwrap_err();
    assert!(format!("{refused:?}").contains("cannot log in"), "{refused:?}");
}

#[tokio::test]
async fn every_compressor_carries_commands_and_answers() {
    let (_gateway, address) = gateway(Limits::default()).await;
    for name in ["snappy", "zlib", "zstd"] {
        let client = driver(address, &format!("compressors={name}&")).await;
        let admin = client.database("admin");
        let asked = doc! {"getParameter": 1, "maxBSONDepth": 1, "comment": "x".repeat(100_000)};
        let answer = soon(admin.run_command(asked)).await.unwrap();
        assert_eq!(answer.get_i32("maxBSONDepth").unwrap(), 200, "{name}");
    }
}

#[tokio::test]
async fn server_that_is_gone_is_an_error_that_names_it() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let options = common::options(&server.uri(), Limits::default());
    let gateway = mongotx_gateway::Gateway::start(options).await.unwrap();
    let client = driver(gateway.address().unwrap(), "").await;
    soon(client.database("admin").run_command(doc! {"buildInfo": 1})).await.unwrap();
    server.kill().unwrap();
    let (code, why) = code_of(&client, doc! {"buildInfo": 1}).await;
    assert!(code == 6 && why.contains(&server.port().to_string()), "{code} {why}");
    // The server is used again when it is there again.
    server.restart().await.unwrap();
    soon(client.database("admin").run_command(doc! {"buildInfo": 1})).await.unwrap();
}
