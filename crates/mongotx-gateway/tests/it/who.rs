//! Activity: operations name the user, the application, the host, the collection and the shape of
//! the query, and the transaction that they wait for.

use crate::common;

use std::time::Duration;

use bson::{Document, doc};
use common::{
    commands::{Session, code},
    driver, options, soon,
    users::{User, guarded, with_users},
};
use mongodb::{ClientSession, Collection, Database};
use mongotx_gateway::{Gateway, GatewayOptions, Limits};

/// Long enough that no command stops waiting while the test looks.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// The operations that the stage `$currentOp` and this one behind it give.
async fn operations(admin: &Database, then: Document) -> Vec<Document> {
    let found = admin.aggregate([doc! {"$currentOp": {"allUsers": true}}, then]).await.unwrap();
    futures_util::TryStreamExt::try_collect(found).await.unwrap()
}

/// The only operation that matches, as soon as there is one.
async fn operation(admin: &Database, filter: Document) -> Document {
    let found = async {
        loop {
            let found = operations(admin, doc! {"$match": &filter}).await;
            if let [only] = &found[..] {
                return only.clone();
            }
        }
    };
    soon(found).await
}

fn secret_change(n: i32) -> (Document, Document) {
    (doc! {"_id": 1, "owner": "a secret"}, doc! {"$set": {"n": n}})
}

async fn begin(client: &mongodb::Client) -> ClientSession {
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    session
}

#[tokio::test]
async fn who_waits_for_whom_is_shown_with_their_applications_and_queries() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let made = GatewayOptions { lock_wait: LOCK_WAIT, ..options(&server.uri(), Limits::default()) };
    let records = made.client.tx_database.clone();
    let gateway = Gateway::start(made).await.unwrap();
    let address = gateway.address().unwrap();
    let (first, second) = (driver(address, "appName=first&").await, driver(address, "appName=second&").await);
    let name = local_mongod::unique_db("gw_who");
    let here = |client: &mongodb::Client| -> Collection<Document> { client.database(&name).collection("orders") };
    here(&first).insert_one(doc! {"_id": 1, "owner": "a secret"}).await.unwrap();
    let mut holds = begin(&first).await;
    let (filter, change) = secret_change(1);
    here(&first).update_one(filter, change).session(&mut holds).await.unwrap();
    let mut waits = begin(&second).await;
    let orders = here(&second);
    let waiting = tokio::spawn(async move {
        let (filter, change) = secret_change(2);
        let changed = orders.update_one(filter, change).session(&mut waits).await;
        (changed, waits.commit_transaction().await)
    });

    let admin = first.database("admin");
    let waiter = operation(&admin, doc! {"mongotx.waitsFor": {"$exists": true}}).await;
    let holder = operation(&admin, doc! {"type": "idleSession"}).await;
    assert_eq!((waiter.get_str("appName").unwrap(), holder.get_str("appName").unwrap()), ("second", "first"));
    assert!(waiter.get_bool("waitingForLock").unwrap() && waiter.get_bool("active").unwrap(), "{waiter}");
    assert!(waiter.get_str("client").unwrap().starts_with("127.0.0.1:"), "{waiter}");
    let namespace = format!("{name}.orders");
    let rival = waiter.get_document("mongotx").unwrap().get_document("waitsFor").unwrap();
    assert_eq!((waiter.get_str("ns").unwrap(), rival.get_str("ns").unwrap()), (&*namespace, &*namespace));
    assert_eq!(rival.get_str("appName").unwrap(), "first");
    let held = holder.get_document("transaction").unwrap().get_str("mongotxId").unwrap();
    assert_eq!(rival.get_str("mongotxId").unwrap(), held);
    let updates = doc! {"q": {"_id": "?number", "owner": "?string"}, "u": {"$set": {"n": "?number"}}};
    for (operation, command) in [(&waiter, "command"), (&holder, "lastCommand")] {
        let shape = operation.get_document(command).unwrap();
        assert_eq!(shape.get_array("updates").unwrap()[0].as_document().unwrap(), &updates, "{shape}");
        assert!(!operation.to_string().contains("a secret"), "{operation}");
    }
    // The command, with a filter, says the same.
    let asked = doc! {"currentOp": 1, "appName": "first", "type": "idleSession"};
    let listed = admin.run_command(asked).await.unwrap();
    assert_eq!(listed.get_array("inprog").unwrap().len(), 1, "{listed}");
    // Idle connections are shown on request.
    let idle = admin.aggregate([doc! {"$currentOp": {"idleConnections": true}}]).await.unwrap();
    let idle: Vec<Document> = futures_util::TryStreamExt::try_collect(idle).await.unwrap();
    assert!(idle.iter().any(|one| !one.get_bool("active").unwrap() && one.contains_key("connectionId")), "{idle:?}");

    // The store has it, for tools that see only the store, until it is over.
    let stored = mongodb::Client::with_uri_str(server.uri()).await.unwrap();
    let records = stored.database(&records).collection::<Document>("activity");
    let described =
        doc! {"transactions": {"$elemMatch": {"id": held, "application": "first", "namespace": &namespace}}};
    soon(async { while records.count_documents(described.clone()).await.unwrap() == 0 {} }).await;
    assert_eq!(records.count_documents(doc! {"transactions.shape": {"$regex": "a secret"}}).await.unwrap(), 0);

    holds.abort_transaction().await.unwrap();
    let (changed, committed) = soon(waiting).await.unwrap();
    assert_eq!(changed.unwrap().modified_count, 1);
    committed.unwrap();
    assert!(operations(&admin, doc! {"$match": {"transaction": {"$exists": true}}}).await.is_empty());
    soon(async { while records.count_documents(doc! {}).await.unwrap() > 0 {} }).await;
    assert!(
        first.database(&records.namespace().db).collection::<Document>("activity").find_one(doc! {}).await.is_err()
    );
}

#[tokio::test]
async fn the_stage_stands_where_the_server_lets_it_stand() {
    let client = common::commands::Client::start("gw_who_stage").await;
    let staged = |stages: Vec<Document>| doc! {"aggregate": 1, "pipeline": stages, "cursor": {}};
    let operations = doc! {"$currentOp": {}};
    for (db, pipeline, wanted) in [
        (&*client.db, vec![operations.clone()], 73),
        ("admin", vec![doc! {"$match": {}}, operations.clone()], 40_602),
        ("admin", vec![doc! {"$currentOp": {"foo": 1}}], 40_415),
        ("admin", vec![doc! {"$currentOp": 5}], 9),
    ] {
        let reply = client.run_on(db, staged(pipeline)).await;
        assert_eq!(code(&reply), wanted, "{reply}");
    }
    let session = Session::new();
    let reply = client.run_on("admin", session.first(staged(vec![operations]))).await;
    assert_eq!(code(&reply), 263, "{reply}");
}

#[tokio::test]
async fn users_end_their_own_commands_and_root_those_of_others() {
    let name = local_mongod::unique_db("gw_who_kill");
    let role = format!("readWrite:{name}");
    let (gateway, ..) = guarded(&[("root@admin", "root"), ("writer@admin", &role), ("other@admin", &role)]).await;
    let [root, writer, again, other] =
        futures_util::future::join_all(["root", "writer", "writer", "other"].map(|name| User::log_in(&gateway, name)))
            .await
            .try_into()
            .unwrap_or_else(|_| panic!("four"));
    writer.run_command(&name, doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    for (ends, stranger) in [(&again, Some(&other)), (&root, None)] {
        let session = Session::new();
        let endless = session.plain(doc! {"find": "c", "filter": {"$where": "while (true) {}"}});
        let runs = writer.run_command(&name, endless);
        let kills = async {
            let asked = doc! {"currentOp": 1, "op": "query"};
            let opid = loop {
                let shown = root.run_command("admin", asked.clone()).await;
                if let [only] = &shown.get_array("inprog").unwrap()[..] {
                    assert_eq!(only.as_document().unwrap().get_array("effectiveUsers").unwrap().len(), 1, "{only}");
                    break only.as_document().unwrap().get_i64("opid").unwrap();
                }
            };
            if let Some(stranger) = stranger {
                assert_eq!(code(&stranger.run_command("admin", doc! {"killOp": 1, "op": opid}).await), 13);
            }
            let killed = ends.run_command("admin", doc! {"killOp": 1, "op": opid}).await;
            assert_eq!(code(&killed), 0, "{killed}");
        };
        let (ended, ()) = soon(async { tokio::join!(runs, kills) }).await;
        assert_eq!(code(&ended), 11_601, "{ended}");
    }
    // Of the server's, for all that is known.
    assert_eq!(code(&other.run_command("admin", doc! {"killOp": 1, "op": 5}).await), 13);
    assert_eq!(code(&root.run_command("admin", doc! {"killOp": 1, "op": 5}).await), 0);
    assert_eq!(code(&root.run_command("admin", doc! {"killOp": 1}).await), 40_414);
}

/// The rival's transaction is another user's: only who may see all operations sees that one.
#[tokio::test]
async fn what_another_user_does_is_not_shown_with_the_wait_for_it() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let name = local_mongod::unique_db("gw_who_waits");
    let role = format!("readWrite:{name}");
    let made = GatewayOptions { lock_wait: LOCK_WAIT, ..options(&server.uri(), Limits::default()) };
    let users = [("root@admin", "root"), ("holder@admin", &*role), ("waiter@admin", &*role)];
    let (made, _folder) = with_users(made, &users);
    let gateway = Gateway::start(made).await.unwrap();
    let [root, holder, waiter, again] =
        futures_util::future::join_all(["root", "holder", "waiter", "waiter"].map(|name| User::log_in(&gateway, name)))
            .await
            .try_into()
            .unwrap_or_else(|_| panic!("four"));
    holder.run_command(&name, doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]};
    let (holds, waits) = (Session::new(), Session::new());
    assert_eq!(code(&holder.run_command(&name, holds.first(update.clone())).await), 0);
    let waiting = waiter.run_command(&name, waits.first(update));
    let looking = async {
        let wait = async |user: &User<'_>, own_only: bool| loop {
            let shown = user.run_command("admin", doc! {"currentOp": 1, "$ownOps": own_only, "op": "update"}).await;
            let first = shown.get_array("inprog").unwrap().first().and_then(|one| one.as_document()).cloned();
            if let Some(wait) =
                first.and_then(|one| one.get_document("mongotx").ok()?.get_document("waitsFor").cloned().ok())
            {
                break wait;
            }
        };
        let (all, own) = (wait(&root, false).await, wait(&again, true).await);
        assert!(all.contains_key("client") && all.contains_key("lastCommand"), "{all}");
        assert_eq!(all.get_str("user").unwrap(), "holder@admin");
        let fields: Vec<&str> = own.keys().map(String::as_str).collect();
        assert_eq!(fields, ["mongotxId", "ns", "microsecs_waiting", "user"], "{own}");
        holder.run_command("admin", holds.abort()).await;
    };
    let (waited, ()) = soon(async { tokio::join!(waiting, looking) }).await;
    assert_eq!(code(&waited), 0, "{waited}");
}
