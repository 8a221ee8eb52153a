//! Reports of the gateway about itself: metrics and health over HTTP, `serverStatus`, `currentOp`.

use crate::common;

use bson::{Bson, Document, doc};
use common::{
    commands::{Client, Session, code, documents},
    http::{http, metric, with_metrics},
    raw::Raw,
    soon,
    users::{User, guarded},
};
use mongotx_gateway::{Gateway, Limits, Request};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn run_command(gateway: &Gateway, db: &str, mut command: Document) -> Document {
    command.insert("$db", db);
    let reply = gateway.run_command(&gateway.connect(), &Request::of(&command).unwrap()).await;
    Document::try_from(reply.body()).unwrap()
}

#[tokio::test]
async fn transactions_and_commands_are_counted_by_how_they_end() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (gateway, address) = with_metrics(&server.uri(), Limits::default()).await;
    let db = local_mongod::unique_db("gw_metrics");
    let insert = |id: i32| doc! {"insert": "c", "documents": [{"_id": id}]};
    let (one, two, three) = (Session::new(), Session::new(), Session::new());
    assert_eq!(code(&run_command(&gateway, &db, one.first(insert(1))).await), 0);
    assert_eq!(metric(address, "mongotx_gateway_transactions_open").await, Some(1.0));
    run_command(&gateway, "admin", one.commit()).await;
    run_command(&gateway, "admin", one.commit()).await;
    run_command(&gateway, &db, two.first(insert(2))).await;
    // Another one in the same session, which the client rolls back.
    run_command(&gateway, &db, two.first(insert(3))).await;
    run_command(&gateway, "admin", two.abort()).await;
    // A duplicate key; a session that is killed; a conflict.
    run_command(&gateway, &db, three.first(insert(1))).await;
    run_command(&gateway, &db, three.first(insert(4))).await;
    run_command(&gateway, "admin", doc! {"killSessions": [three.lsid.clone()]}).await;
    // A write under a newer number, and the same again.
    run_command(&gateway, &db, three.first(insert(5))).await;
    run_command(&gateway, &db, three.write(insert(6))).await;
    run_command(&gateway, &db, three.again(insert(6))).await;
    let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]};
    run_command(&gateway, &db, one.first(update.clone())).await;
    assert_eq!(code(&run_command(&gateway, &db, two.first(update)).await), 112);
    for (name, wanted) in [
        ("transactions_started_total", 8.0),
        ("transactions_committed_total", 1.0),
        ("transactions_open", 1.0),
        ("transactions_aborted_total{reason=\"superseded\"}", 2.0),
        ("transactions_aborted_total{reason=\"asked\"}", 1.0),
        ("transactions_aborted_total{reason=\"refused\"}", 1.0),
        ("transactions_aborted_total{reason=\"session_ended\"}", 1.0),
        ("transactions_aborted_total{reason=\"conflict\"}", 1.0),
        ("retries_total{what=\"commit\"}", 1.0),
        ("retries_total{what=\"write\"}", 1.0),
        ("commands_total{command=\"insert\",outcome=\"ok\"}", 8.0),
        ("commands_total{command=\"update\",outcome=\"error\"}", 1.0),
        ("command_duration_seconds_count{command=\"commitTransaction\"}", 2.0),
        ("sessions", 3.0),
    ] {
        assert_eq!(metric(address, &format!("mongotx_gateway_{name}")).await, Some(wanted), "{name}");
    }
    let status = run_command(&gateway, "admin", doc! {"serverStatus": 1}).await;
    let transactions = status.get_document("transactions").unwrap();
    let count = |field: &str| transactions.get_i64(field).unwrap();
    assert_eq!((count("totalStarted"), count("totalCommitted"), count("totalAborted")), (8, 1, 6));
    assert_eq!((count("currentOpen"), count("currentActive"), count("retriedCommandsCount")), (1, 0, 2));
    assert_eq!(transactions.get_document("abortCause").unwrap().get_i64("conflict").unwrap(), 1);
    assert!(status.contains_key("uptime"));
    let without = run_command(&gateway, "admin", doc! {"serverStatus": 1, "transactions": 0}).await;
    assert!(!without.contains_key("transactions"));
}

#[tokio::test]
async fn what_clients_send_makes_no_new_labels() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (gateway, address) = with_metrics(&server.uri(), Limits::default()).await;
    for n in 0..50 {
        run_command(&gateway, "admin", doc! {format!("noSuchThing{n}"): 1}).await;
    }
    let name = "mongotx_gateway_commands_total{command=\"other\",outcome=\"error\"}";
    assert_eq!(metric(address, name).await, Some(50.0));
    assert!(!http(address, "GET", "/metrics").await.1.contains("noSuchThing"));
}

#[tokio::test]
async fn health_is_the_servers() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let (_gateway, address) = with_metrics(&server.uri(), Limits::default()).await;
    // The gateway waits two seconds for the server; on a machine that stalls for longer, the
    // request is repeated.
    soon(async { while http(address, "GET", "/healthz").await != (200, "ok\n".to_owned()) {} }).await;
    assert_eq!(http(address, "GET", "/other").await.0, 404);
    assert_eq!(http(address, "POST", "/metrics").await.0, 405);
    server.kill().unwrap();
    let (status, why) = http(address, "GET", "/healthz").await;
    assert!(status == 503 && why.contains("server"), "{why}");
    // Metrics need no server.
    assert_eq!(metric(address, "mongotx_gateway_connections").await, Some(0.0));
}

#[tokio::test]
async fn who_asks_slowly_or_nonsense_delays_no_other() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (gateway, address) = with_metrics(&server.uri(), Limits::default()).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(Raw::connect(address).await);
    }
    // There is no room for another one: it is closed at once.
    let mut more = Raw::connect(address).await;
    assert!(more.is_closed().await);
    // Clients do not notice.
    let mut client = Raw::connect(gateway.address().unwrap()).await;
    assert!(client.ask(doc! {"ping": 1, "$db": "admin"}).await.is_some());
    // Nonsense ends its own connection only.
    let mut nonsense = silent.pop().unwrap();
    nonsense.send(&[0; 1000]).await;
    while nonsense.receive_byte().await.is_some() {}
    drop(silent);
    let answered = async {
        loop {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut answer = String::new();
            let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n").await;
            if asked.is_ok() && stream.read_to_string(&mut answer).await.is_ok() && answer.contains("200 OK") {
                return;
            }
        }
    };
    soon(answered).await;
}

#[tokio::test]
async fn open_transactions_are_shown_to_whom_they_belong() {
    let client = Client::start("gw_current_op").await;
    let session = Session::new();
    client.ok(session.first(doc! {"insert": "c", "documents": [{"_id": 1}]})).await;
    let asked = doc! {"currentOp": 1, "type": "idleSession"};
    let shown = client.run_on("admin", asked).await;
    let [only] = &shown.get_array("inprog").unwrap()[..] else { panic!("{shown}") };
    let only = only.as_document().unwrap();
    assert_eq!(only.get_document("lsid").unwrap(), &session.lsid);
    let parameters = only.get_document("transaction").unwrap().get_document("parameters").unwrap();
    assert_eq!(parameters.get_i64("txnNumber").unwrap(), 1);
    // `currentOp` itself is one of them.
    let shown = client.run_on("admin", doc! {"currentOp": 1, "active": true}).await;
    assert_eq!(shown.get_array("inprog").unwrap().len(), 1, "{shown}");
    assert_eq!(code(&client.run_on("admin", doc! {"currentOp": 1, "$nonsense": 5}).await), 2);
    let both = vec![doc! {"$currentOp": {"allUsers": true}}, doc! {"$match": {"type": "idleSession"}}];
    let staged = client.run_on("admin", doc! {"aggregate": 1, "pipeline": both, "cursor": {}}).await;
    let [staged] = &documents(&staged, "firstBatch")[..] else { panic!("{staged}") };
    assert_eq!(staged.get_document("lsid").unwrap(), &session.lsid);

    let (gateway, ..) = guarded(&[("root@admin", "root"), ("writer@admin", "readWrite:d"), ("other@admin", "")]).await;
    let writer = User::log_in(&gateway, "writer").await;
    writer.run_command("d", session.first(doc! {"find": "c"})).await;
    let idle = doc! {"currentOp": 1, "type": "idleSession"};
    let mut own = idle.clone();
    own.insert("$ownOps", true);
    for (name, command, wanted) in
        [("writer", own.clone(), 1), ("other", own.clone(), 0), ("root", own, 0), ("root", idle, 1)]
    {
        let shown = User::log_in(&gateway, name).await.run_command("admin", command).await;
        assert_eq!(shown.get_array("inprog").unwrap().len(), wanted, "{name}: {shown}");
    }
}

/// The server would list those that the gateway itself has there.
#[tokio::test]
async fn local_sessions_are_those_of_the_gateways_clients() {
    let client = Client::start("gw_local_sessions").await;
    let session = Session::new();
    client.run_command(session.plain(doc! {"find": "c"})).await;
    let listed = |options: Bson| {
        let pipeline = vec![doc! {"$listLocalSessions": options}, doc! {"$addFields": {"more": 1}}];
        doc! {"aggregate": 1, "pipeline": pipeline, "cursor": {}}
    };
    for options in [doc! {}, doc! {"allUsers": true}] {
        let shown = documents(&client.run_command(listed(options.into())).await, "firstBatch");
        let [only] = &shown[..] else { panic!("{shown:?}") };
        assert_eq!((only.get_document("_id").unwrap(), only.get_i32("more").unwrap()), (&session.lsid, 1));
        assert!(only.get_datetime("lastUse").is_ok(), "{only}");
    }
    for (options, wanted) in [(doc! {"foo": 1}.into(), 40_415), (doc! {"users": []}.into(), 115), (Bson::Int32(5), 14)]
    {
        assert_eq!(code(&client.run_command(listed(options)).await), wanted);
    }
    // Beside a stage that anybody may use.
    let beside = doc! {"$currentOp": {}, "$listLocalSessions": {"allUsers": true}};
    assert_eq!(code(&client.run_command(doc! {"aggregate": 1, "pipeline": [beside], "cursor": {}}).await), 40_323);
    let of_collection = doc! {"aggregate": "c", "pipeline": [{"$listLocalSessions": {}}], "cursor": {}};
    assert_eq!(code(&client.run_command(of_collection).await), 73);
    assert_eq!(code(&client.run_command(session.first(listed(doc! {}.into()))).await), 263);
}
