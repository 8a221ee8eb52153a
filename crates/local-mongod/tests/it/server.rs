//! A server is what it says it is: standalone or replica set, killed or alive, with the data that
//! it acknowledged.

use local_mongod::{Error, Server, ServerOptions, shared_standalone, signal, unique_db};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::WriteConcern;

/// Inserts one document in a native transaction and commits.
async fn insert_in_native_transaction(client: &Client, db: &str) -> Result<(), mongodb::error::Error> {
    let collection = client.database(db).collection::<Document>("c");
    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    collection.insert_one(doc! { "_id": 1 }).session(&mut session).await?;
    session.commit_transaction().await
}

#[tokio::test]
async fn standalone_ping_answered() {
    let server = shared_standalone().await.unwrap();
    let client = server.client().await.unwrap();
    let answer = client.database("admin").run_command(doc! { "ping": 1 }).await.unwrap();
    assert_eq!(answer.get_f64("ok").unwrap(), 1.0);
}

#[tokio::test]
async fn standalone_native_transaction_refused_with_code_20() {
    let server = shared_standalone().await.unwrap();
    let client = server.client().await.unwrap();
    let error = insert_in_native_transaction(&client, &unique_db("refused")).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Command(refusal) if refusal.code == 20), "{error}");
}

#[tokio::test]
async fn shared_two_calls_one_server() {
    let (a, b) = tokio::join!(shared_standalone(), shared_standalone());
    assert_eq!(a.unwrap().pid(), b.unwrap().pid());
}

#[tokio::test]
async fn replica_set_native_transaction_committed() {
    let server = Server::replica_set().await.unwrap();
    let client = server.client().await.unwrap();
    insert_in_native_transaction(&client, "t").await.unwrap();
    let found = client.database("t").collection::<Document>("c").find_one(doc! { "_id": 1 }).await.unwrap();
    assert!(found.is_some());

    // Again after a crash: it comes back as primary, with what it committed.
    server.kill().unwrap();
    server.restart().await.unwrap();
    let client = server.client().await.unwrap();
    let found = client.database("t").collection::<Document>("c").find_one(doc! { "_id": 1 }).await.unwrap();
    assert!(found.is_some());
    insert_in_native_transaction(&client, "u").await.unwrap();
}

#[tokio::test]
async fn kill_and_restart_journaled_write_kept() {
    let server = Server::standalone().await.unwrap();
    let collection = server.client().await.unwrap().database("t").collection::<Document>("c");
    let journaled = WriteConcern::builder().journal(true).build();
    collection.insert_one(doc! { "_id": 1, "text": "kept" }).write_concern(journaled).await.unwrap();

    let before = server.pid().unwrap();
    server.kill().unwrap();
    assert_eq!(server.pid(), None);
    assert!(!signal::exists(before));
    let port = server.port();
    server.restart().await.unwrap();

    assert_eq!(server.port(), port);
    let collection = server.client().await.unwrap().database("t").collection::<Document>("c");
    let found = collection.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
    assert_eq!(found.get_str("text").unwrap(), "kept");
}

#[tokio::test]
async fn stop_and_restart_data_kept() {
    let server = Server::standalone().await.unwrap();
    let collection = server.client().await.unwrap().database("t").collection::<Document>("c");
    collection.insert_one(doc! { "_id": 1 }).await.unwrap();
    assert!(matches!(server.restart().await, Err(Error::StillRunning { .. })));

    server.pause().unwrap();
    server.stop().await.unwrap();
    assert!(matches!(server.pause(), Err(Error::NotRunning)));
    server.restart().await.unwrap();

    let collection = server.client().await.unwrap().database("t").collection::<Document>("c");
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn pause_and_resume_same_connection_answers() {
    let server = Server::standalone().await.unwrap();
    let client = server.client().await.unwrap();
    let ping = || async { client.database("admin").run_command(doc! { "ping": 1 }).await };
    ping().await.unwrap();
    server.pause().unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", server.pid().unwrap())).unwrap();
    assert!(state.contains(") T "), "{state}");
    server.resume().unwrap();
    ping().await.unwrap();
}

#[tokio::test]
async fn unknown_option_error_has_mongods_own_words() {
    let error = ServerOptions::standalone().arg("--noSuchOption").start().await.unwrap_err();
    assert!(matches!(error, Error::Died { .. }));
    let message = error.to_string();
    assert!(message.contains("unrecognised option") && message.contains("noSuchOption"), "{message}");
}

#[tokio::test]
async fn port_taken_error_says_address_in_use() {
    let other = shared_standalone().await.unwrap();
    let error = ServerOptions::standalone().port(other.port()).start().await.unwrap_err();
    assert!(matches!(error, Error::Died { .. }), "{error}");
    assert!(error.to_string().contains("Address already in use"), "{error}");
}

#[tokio::test]
async fn drop_process_and_folder_gone() {
    let server = Server::standalone().await.unwrap();
    let (pid, dbpath) = (server.pid().unwrap(), server.dbpath().to_owned());
    assert!(signal::exists(pid) && dbpath.exists());
    drop(server);
    assert!(!signal::exists(pid) && !dbpath.exists());
}

#[tokio::test]
async fn drop_kept_dbpath_data_found_again() {
    let folder = tempfile::tempdir().unwrap();
    for expected in 0..2 {
        let server = ServerOptions::standalone().dbpath(folder.path()).start().await.unwrap();
        let collection = server.client().await.unwrap().database("t").collection::<Document>("c");
        assert_eq!(collection.count_documents(doc! {}).await.unwrap(), expected);
        collection.insert_one(doc! {}).await.unwrap();
        server.stop().await.unwrap();
    }
}
