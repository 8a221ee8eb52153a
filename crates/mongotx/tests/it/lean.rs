//! Connections of the library's own: that commands go over them, that they follow the connection
//! string, that they come back with the server, and that they go with the client.

use std::{net::SocketAddr, time::Duration};

use bson::{Document, RawArrayBuf, doc};
use futures_util::future::join_all;
use local_mongod::{Server, unique_db};
use mongotx::{Client, Collection, ErrorKind, Isolation, TransactionOptions};

use crate::late::proxy::Proxy;

const LIMIT: Duration = Duration::from_secs(60);

async fn connect(server: &Server, more: &str) -> (Client, Collection<Document>) {
    let client = Client::connect_with(&format!("{}{more}", server.uri()), crate::quiet::options()).await.unwrap();
    let coll = client.database(&unique_db("lean")).collection("c");
    (client, coll)
}

/// The connections of this application that the library has made by itself.
async fn own(plain: &mongodb::Client, app: &str) -> usize {
    let all = doc! {"currentOp": 1, "$all": true, "appName": app, "clientMetadata.driver.name": "mongowire"};
    plain.database("admin").run_command(all).await.unwrap().get_array("inprog").unwrap().len()
}

#[tokio::test]
async fn there_are_as_many_as_the_connection_string_says_and_none_when_the_client_is_gone() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let plain = server.client().await.unwrap();
    let app = unique_db("app");
    let (client, coll) = connect(server, &format!("&appName={app}&maxPoolSize=2")).await;
    assert_eq!(own(&plain, &app).await, 0, "none is made before it is needed");
    coll.insert_one(&doc! {"_id": 1, "n": 0}).await.unwrap();
    assert_eq!(own(&plain, &app).await, 1);
    for found in join_all((0..20).map(|_| coll.find_one(doc! {"_id": 1}).into_future())).await {
        assert!(found.unwrap().is_some());
    }
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(own(&plain, &app).await, 3, "two for data, and one for the record");
    client.shutdown().await.unwrap();
    drop((session, coll, client));
    let gone = async {
        while own(&plain, &app).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.unwrap();
}

#[tokio::test]
async fn a_set_of_one_is_reached_where_it_says_that_it_is() {
    let server = local_mongod::shared_replica_set().await.unwrap();
    let plain = server.client().await.unwrap();
    let app = unique_db("app");
    let (_client, coll) = connect(server, &format!("&appName={app}")).await;
    coll.insert_one(&doc! {"_id": 1}).await.unwrap();
    assert!(coll.find_one(doc! {"_id": 1}).await.unwrap().is_some());
    assert_eq!(own(&plain, &app).await, 1);
}

#[tokio::test]
async fn commands_wait_for_a_server_that_comes_back_and_not_for_one_that_does_not() {
    let server = Server::standalone().await.unwrap();
    let (_client, coll) = connect(&server, "&serverSelectionTimeoutMS=60000").await;
    coll.insert_one(&doc! {"_id": 1}).await.unwrap();
    server.kill().unwrap();
    let (found, restarted) = tokio::join!(coll.find_one(doc! {"_id": 1}).into_future(), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.restart().await
    });
    restarted.unwrap();
    // The document may be gone: writes outside transactions wait for no journal.
    found.unwrap();
    let (_client, coll) = connect(&server, "&serverSelectionTimeoutMS=100").await;
    coll.find_one(doc! {"_id": 1}).await.unwrap();
    server.kill().unwrap();
    let error = coll.insert_one(&doc! {"_id": 2}).await.unwrap_err();
    // Nothing was sent, and the error says so.
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// An answer of several batches is read to its end, or as far as it is wanted, over one connection,
/// and leaves no cursor behind.
#[tokio::test]
async fn long_answers_are_read_batch_by_batch_and_leave_nothing_open() {
    let server = Server::standalone().await.unwrap();
    let (client, coll) = connect(&server, "").await;
    let plain = server.client().await.unwrap();
    let db = unique_db("lists");
    for n in 0..150 {
        plain.database(&db).create_collection(format!("c{n}")).await.unwrap();
    }
    coll.insert_one(&doc! {"_id": 1}).await.unwrap();
    let named = client.all_collections().await.unwrap().into_iter().filter(|ns| ns.db == db).count();
    assert_eq!(named, 150, "more than a first batch of 101");
    assert_eq!(open_cursors(&plain).await, 0);
}

/// The cursors that the server keeps open.
async fn open_cursors(plain: &mongodb::Client) -> i64 {
    let status = plain.database("admin").run_command(doc! {"serverStatus": 1}).await.unwrap();
    let cursors = status.get_document("metrics").unwrap().get_document("cursor").unwrap();
    cursors.get_document("open").unwrap().get_i64("total").unwrap()
}

/// A collection of thirty documents, through a proxy that can hold messages.
async fn thirty_behind_a_proxy(server: &Server) -> (Proxy, Client, Collection<Document>, Vec<Document>) {
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&proxy.uri(), crate::quiet::options()).await.unwrap();
    let coll: Collection<Document> = client.database(&unique_db("lean")).collection("c");
    let documents: Vec<Document> = (0..30).map(|id| doc! {"_id": id}).collect();
    coll.insert_many(&documents).await.unwrap();
    (proxy, client, coll, documents)
}

/// A caller that waits for the next document may stop waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_is_dropped_half_way_loses_no_document_and_leaves_no_cursor() {
    let server = Server::standalone().await.unwrap();
    let plain = server.client().await.unwrap();
    let (proxy, _client, coll, documents) = thirty_behind_a_proxy(&server).await;
    let mut cursor = coll.find(doc! {}).batch_size(10).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 10 {
        seen.push(cursor.next().await.unwrap().unwrap());
    }
    assert_eq!(open_cursors(&plain).await, 1);
    proxy.hold_after(0);
    tokio::select! {
        biased;
        next = cursor.next() => panic!("{next:?}"),
        held = proxy.until_held() => assert_eq!(held, "getMore"),
    }
    proxy.deliver().await;
    seen.extend(cursor.try_collect().await.unwrap());
    assert_eq!(seen, documents);

    let mut half = coll.find(doc! {}).batch_size(10).await.unwrap();
    assert!(half.next().await.unwrap().is_some());
    assert_eq!(open_cursors(&plain).await, 1);
    drop(half);
    let closed = async {
        while open_cursors(&plain).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, closed).await.unwrap();
}

fn parsed(batch: &RawArrayBuf) -> Vec<Document> {
    batch.into_iter().map(|one| Document::try_from(one.unwrap().as_document().unwrap()).unwrap()).collect()
}

/// Batches as bytes are the documents that would be read one by one, also where some of them were
/// and where a caller has stopped waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_as_bytes_lose_no_document_and_repeat_none() {
    let server = Server::standalone().await.unwrap();
    let (proxy, _client, coll, documents) = thirty_behind_a_proxy(&server).await;
    let mut cursor = coll.find(doc! {}).batch_size(10).await.unwrap();
    for (most, bytes) in [(9, usize::MAX), (10, 8), (0, 0)] {
        assert!(cursor.next_batch_raw(most, bytes).await.unwrap().is_none(), "{most} documents, {bytes} bytes");
    }
    let mut seen = parsed(&cursor.next_batch_raw(10, usize::MAX).await.unwrap().unwrap());
    assert_eq!(seen, documents[..10]);
    proxy.hold_after(0);
    tokio::select! {
        biased;
        next = cursor.next_batch_raw(usize::MAX, usize::MAX) => panic!("{next:?}"),
        held = proxy.until_held() => assert_eq!(held, "getMore"),
    }
    proxy.deliver().await;
    seen.push(cursor.next().await.unwrap().unwrap());
    assert!(cursor.next_batch_raw(usize::MAX, usize::MAX).await.unwrap().is_none(), "one of the batch was taken");
    seen.extend(cursor.try_collect().await.unwrap());
    assert_eq!(seen, documents);

    let mut cursor = coll.find(doc! {}).batch_size(10).await.unwrap();
    let mut seen = Vec::new();
    while let Some(batch) = cursor.next_batch_raw(usize::MAX, usize::MAX).await.unwrap() {
        seen.extend(parsed(&batch));
    }
    assert_eq!((seen, cursor.next().await.unwrap()), (documents, None));
}

/// A transaction that validates what it has read has to see each document.
#[tokio::test]
async fn validated_reads_have_no_batches_as_bytes() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (client, coll) = connect(server, "").await;
    coll.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).await.unwrap();
    for (isolation, has_batch) in [(Isolation::ReadCommitted, true), (Isolation::Snapshot, false)] {
        let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
        let mut session = client.session_with(options);
        session.begin().unwrap();
        let mut cursor = coll.find(doc! {}).session(&mut session).await.unwrap();
        let batch = cursor.next_batch_raw(usize::MAX, usize::MAX).await.unwrap();
        assert_eq!((batch.is_some(), cursor.next().await.unwrap().is_some()), (has_batch, !has_batch), "{isolation:?}");
        session.commit().await.unwrap();
    }
}
