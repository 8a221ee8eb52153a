//! Commands to a real server.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use bson::rawdoc;
use local_mongod::unique_db;
use mongodb::options::{ClientOptions, ServerApi, ServerApiVersion};
use mongowire::{Connection, Failure, Refusal, Sequence, Settings};

use crate::{LIMIT, limits, pool, settings};

#[tokio::test]
async fn commands_are_answered_refusals_included() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut connection = Connection::open(settings(&server.uri()).await.into(), 7).await.unwrap();
    let db = unique_db("answered");
    let beside = [Sequence { name: "documents".to_owned(), bytes: rawdoc! {"_id": 1, "n": "x"}.into_bytes() }];
    let done = connection.run_command(Some(&db), &rawdoc! {"insert": "c"}, &beside, LIMIT).await.unwrap();
    assert_eq!((done.get_i32("n").unwrap(), Refusal::of(&done)), (1, None));
    let found = connection.run_command(None, &rawdoc! {"find": "c", "$db": &db[..]}, &[], LIMIT).await.unwrap();
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch.get_document(0).unwrap(), &*rawdoc! {"_id": 1, "n": "x"});
    let refused = connection.run_command(Some(&db), &rawdoc! {"nothing": 1}, &[], LIMIT).await.unwrap();
    assert_eq!(Refusal::of(&refused).unwrap().code, 59);
    assert!(connection.is_usable());
}

#[tokio::test]
async fn long_commands_and_long_answers_go_through() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut connection = Connection::open(settings(&server.uri()).await.into(), 1).await.unwrap();
    let db = unique_db("long");
    for length in [1, 100, 8_170, 8_192, 65_536, 1_000_000, 15_000_000] {
        let long = "x".repeat(length);
        let insert = rawdoc! {"insert": "c", "documents": [{"_id": length as i64, "long": long}]};
        let done = connection.run_command(Some(&db), &insert, &[], LIMIT).await.unwrap();
        assert_eq!(done.get_i32("n").unwrap(), 1, "{done:?}");
        let find = rawdoc! {"find": "c", "filter": {"_id": length as i64}};
        let found = connection.run_command(Some(&db), &find, &[], LIMIT).await.unwrap();
        let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        assert_eq!(batch.get_document(0).unwrap().get_str("long").unwrap().len(), length);
    }
}

#[tokio::test]
async fn a_connection_knows_the_process_that_it_leads_to() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let (pool, begun) = pool(settings(&server.uri()).await, limits(2));
    let before = pool.get().await.unwrap().greeting().clone();
    assert!(before.is_writable && !before.is_router && before.set_name.is_none());
    assert_eq!((before.max_document_bytes, before.session_minutes), (16 * 1024 * 1024, Some(30)));
    assert_eq!(pool.get().await.unwrap().greeting().process_id, before.process_id);
    server.kill().unwrap();
    let failure = pool.get().await.err();
    assert!(matches!(failure, Some(Failure::Unreachable { .. })), "{failure:?}");
    server.restart().await.unwrap();
    let after = pool.get().await.unwrap();
    assert!(before.process_id.is_some() && after.greeting().process_id != before.process_id);
    // Begun and made, begun, begun and made.
    assert_eq!((after.number(), begun.load(SeqCst)), (4, 5));
}

#[tokio::test]
async fn servers_are_reached_by_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let server = local_mongod::ServerOptions::standalone().start().await.unwrap();
    // The shared options say `--nounixsocket`: a socket of the test's own, which passes on what
    // comes.
    let path = folder.path().join("s.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let port = server.port();
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    let mut connection = Connection::open(Settings::new(mongowire::Address::Unix(path)).into(), 1).await.unwrap();
    connection.run_command(Some("admin"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap();
}

#[tokio::test]
async fn the_server_learns_the_applications_name_and_the_versioned_api() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let name = unique_db("named");
    let mut options = ClientOptions::parse(format!("{}&appName={name}", server.uri())).await.unwrap();
    options.server_api = Some(ServerApi::builder().version(ServerApiVersion::V1).strict(true).build());
    let settings = Arc::new(Settings::from_driver_options(&options).unwrap());
    let mut connection = Connection::open(settings, 1).await.unwrap();
    // Not of the versioned API.
    let refused = connection.run_command(Some("admin"), &rawdoc! {"top": 1}, &[], LIMIT).await.unwrap();
    assert_eq!(Refusal::of(&refused).unwrap().code, 323);
    let client = server.client().await.unwrap();
    let current = bson::doc! {"currentOp": 1, "$all": true, "appName": &name};
    let running = client.database("admin").run_command(current).await.unwrap();
    assert_eq!(running.get_array("inprog").unwrap().len(), 1, "{running}");
}

#[tokio::test]
async fn commands_sent_together_are_answered_in_their_order() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut connection = Connection::open(settings(&server.uri()).await.into(), 1).await.unwrap();
    let db = unique_db("together");
    let long = "x".repeat(1_000_000);
    let insert = rawdoc! {"insert": "c", "documents": [{"_id": 1, "long": long}]};
    connection.run_command(Some(&db), &insert, &[], LIMIT).await.unwrap();
    let (find, none, ping) = (rawdoc! {"find": "c"}, rawdoc! {"nothing": 1}, rawdoc! {"ping": 1});
    let all: [(&str, &bson::RawDocument); 4] = [(&db, &find), (&db, &none), ("admin", &ping), (&db, &find)];
    for _ in 0..3 {
        let answers = connection.run_together(&all, LIMIT).await.unwrap();
        let codes: Vec<Option<i32>> =
            answers.iter().map(|answer| Refusal::of(answer).map(|refusal| refusal.code)).collect();
        assert_eq!(codes, [None, Some(59), None, None]);
        let found = |answer: &bson::RawDocument| answer.get_document("cursor").is_ok();
        assert_eq!(answers.iter().map(|answer| found(answer)).collect::<Vec<_>>(), [true, false, false, true]);
        assert!(connection.is_usable());
    }
    assert!(connection.run_together(&[], LIMIT).await.unwrap().is_empty());
    assert!(connection.is_usable());
}
