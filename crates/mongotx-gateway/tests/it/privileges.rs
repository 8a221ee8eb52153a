//! The privileges of each role, command by command; and that users have nothing to do with each
//! other's sessions and cursors.

use crate::common;

use std::collections::HashMap;

use bson::{Document, doc};
use common::{
    commands::{Session, code, cursor_id},
    options,
    users::{User, guarded, with_users},
};
use mongotx_gateway::{Gateway, Limits};

/// Commands on the database that the roles are about, and the roles that may run them. `root`
/// always may.
fn table(db: &str, other: &str) -> Vec<(Document, &'static [&'static str])> {
    const SEE: &[&str] = &["reader", "writer", "admin"];
    const READ: &[&str] = &["reader", "writer"];
    const WRITE: &[&str] = &["writer"];
    const DEFINE: &[&str] = &["writer", "admin"];
    const MANAGE: &[&str] = &["admin"];
    const ROOT: &[&str] = &[];
    const ALL: &[&str] = &["reader", "writer", "admin", "nothing"];
    let pipeline = |stage: Document| doc! {"aggregate": "c", "pipeline": [stage], "cursor": {}};
    vec![
        (doc! {"find": "c"}, READ),
        (doc! {"find": "system.views"}, ROOT),
        (doc! {"count": "c"}, READ),
        (doc! {"distinct": "c", "key": "a"}, READ),
        (doc! {"insert": "c", "documents": [{"a": 1}]}, WRITE),
        (doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 2}}}]}, WRITE),
        (doc! {"delete": "c", "deletes": [{"q": {"a": 9}, "limit": 1}]}, WRITE),
        (doc! {"findAndModify": "c", "query": {"a": 9}, "remove": true}, WRITE),
        (pipeline(doc! {"$match": {"a": 1}}), READ),
        (pipeline(doc! {"$unionWith": "e"}), READ),
        (pipeline(doc! {"$unionWith": "system.views"}), ROOT),
        (pipeline(doc! {"$facet": {"a": [{"$lookup": {"from": "system.users", "as": "x", "pipeline": []}}]}}), ROOT),
        (pipeline(doc! {"$out": "o"}), WRITE),
        (pipeline(doc! {"$out": {"db": other, "coll": "o"}}), ROOT),
        (pipeline(doc! {"$merge": {"into": {"db": other, "coll": "o"}}}), ROOT),
        (doc! {"explain": {"find": "c"}}, READ),
        (doc! {"explain": {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}}, WRITE),
        (doc! {"listCollections": 1}, SEE),
        (doc! {"listIndexes": "c"}, SEE),
        (doc! {"dbStats": 1}, SEE),
        (doc! {"collStats": "c"}, SEE),
        (doc! {"create": "n"}, DEFINE),
        (doc! {"create": "v", "viewOn": "c"}, WRITE),
        (doc! {"create": "w", "viewOn": "system.users"}, ROOT),
        (doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}, DEFINE),
        (doc! {"dropIndexes": "c", "index": "a_1"}, DEFINE),
        (doc! {"drop": "n"}, DEFINE),
        (doc! {"collMod": "c", "validationLevel": "off"}, MANAGE),
        (doc! {"validate": "c"}, MANAGE),
        (doc! {"profile": -1}, MANAGE),
        (doc! {"planCacheClear": "c"}, MANAGE),
        (doc! {"dataSize": format!("{db}.c")}, READ),
        (doc! {"dataSize": format!("{other}.c")}, ROOT),
        (doc! {"noSuchThing": 1}, ALL),
        (doc! {"endSessions": []}, ALL),
        (doc! {"killSessions": []}, ALL),
        (doc! {"dropDatabase": 1}, MANAGE),
    ]
}

const NAMES: [&str; 5] = ["root", "reader", "writer", "admin", "nothing"];

async fn start(db: &str) -> Gateway {
    let roles = [format!("read:{db}"), format!("readWrite:{db}"), format!("dbAdmin:{db}")];
    let users = [
        ("root@admin", "root"),
        ("reader@admin", &roles[0]),
        ("writer@admin", &roles[1]),
        ("admin@admin", &roles[2]),
        ("nothing@admin", ""),
    ];
    guarded(&users).await.0
}

async fn everybody(gateway: &Gateway) -> HashMap<&'static str, User<'_>> {
    let mut users = HashMap::new();
    for name in NAMES {
        users.insert(name, User::log_in(gateway, name).await);
    }
    users
}

#[tokio::test]
async fn roles_allow_what_they_are_for_and_nothing_else() {
    let (db, other) = (local_mongod::unique_db("gw_role"), local_mongod::unique_db("gw_role_other"));
    let gateway = start(&db).await;
    let users = everybody(&gateway).await;
    users["root"].run_command(&db, doc! {"insert": "c", "documents": [{"a": 1}]}).await;
    for (command, allowed) in table(&db, &other) {
        for name in NAMES {
            let refused = code(&users[name].run_command(&db, command.clone()).await) == 13;
            assert_eq!(refused, name != "root" && !allowed.contains(&name), "{name}: {command}");
        }
        // No role reaches another database.
        for name in &NAMES[1..] {
            let elsewhere = code(&users[name].run_command(&other, command.clone()).await);
            let is_own =
                ["noSuchThing", "endSessions", "killSessions", "dataSize"].iter().any(|own| command.contains_key(*own));
            assert!(elsewhere == 13 || is_own, "{name} elsewhere: {command}");
        }
    }
}

#[tokio::test]
async fn a_field_that_is_there_twice_is_refused() {
    let db = local_mongod::unique_db("gw_role_twice");
    let gateway = start(&db).await;
    let reader = User::log_in(&gateway, "reader").await;
    let twice = [("find", "c"), ("find", "system.users"), ("$db", &db)];
    assert_eq!(code(&reader.run_raw(&twice).await), 40_413);
    let twice = [("find", "c"), ("$db", &db), ("$db", "other")];
    assert_eq!(code(&reader.run_raw(&twice).await), 40_413);
}

#[tokio::test]
async fn what_is_about_the_server_is_for_root() {
    let db = local_mongod::unique_db("gw_role_server");
    let gateway = start(&db).await;
    let users = everybody(&gateway).await;
    for command in [
        doc! {"serverStatus": 1},
        doc! {"getLog": "global"},
        doc! {"hostInfo": 1},
        doc! {"getCmdLineOpts": 1},
        doc! {"getParameter": 1, "maxBSONDepth": 1},
        doc! {"killAllSessions": [{"user": "x", "db": "admin"}]},
        doc! {"currentOp": 1},
        doc! {"shutdown": 1},
        doc! {"createUser": "x"},
    ] {
        for name in NAMES {
            let refused = code(&users[name].run_command("admin", command.clone()).await) == 13;
            assert_eq!(refused, name != "root", "{name}: {command}");
        }
    }
}

#[tokio::test]
async fn roles_for_all_databases_allow_what_they_are_for() {
    let db = local_mongod::unique_db("gw_role_any");
    let owner = format!("dbOwner:{db}");
    let all = [
        ("reader", "readAnyDatabase"),
        ("writer", "readWriteAnyDatabase"),
        ("admin", "dbAdminAnyDatabase"),
        ("monitor", "clusterMonitor"),
        ("backup", "backup"),
        ("restore", "restore"),
        ("owner", &owner),
    ];
    let users: Vec<(String, &str)> = all.iter().map(|(name, role)| (format!("{name}@admin"), *role)).collect();
    let users: Vec<(&str, &str)> = users.iter().map(|(name, role)| (name.as_str(), *role)).collect();
    let gateway = guarded(&users).await.0;
    for (command, allowed) in [
        (doc! {"insert": "c", "documents": [{"a": 1}]}, &["writer", "restore", "owner"][..]),
        (doc! {"find": "c"}, &["reader", "writer", "backup", "owner"]),
        (doc! {"listCollections": 1}, &["reader", "writer", "admin", "monitor", "backup", "restore", "owner"]),
        (
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
            &["writer", "admin", "restore", "owner"],
        ),
        (doc! {"validate": "c"}, &["admin", "restore", "owner"]),
        (doc! {"serverStatus": 1}, &["monitor"]),
        (doc! {"currentOp": 1}, &["monitor"]),
        (doc! {"getLog": "global"}, &["monitor"]),
        (doc! {"killAllSessions": []}, &[]),
    ] {
        for (name, _) in all {
            let user = User::log_in(&gateway, name).await;
            let is_on_admin = ["currentOp", "getLog", "killAllSessions"].iter().any(|of| command.contains_key(*of));
            let refused = code(&user.run_command(if is_on_admin { "admin" } else { &db }, command.clone()).await) == 13;
            assert_eq!(refused, !allowed.contains(&name), "{name}: {command}");
        }
    }
    // Neither the server's own databases nor MongoTx's.
    let server = local_mongod::shared_standalone().await.unwrap();
    let (options, _folder) = with_users(options(&server.uri(), Limits::default()), &users);
    let own = options.client.tx_database.clone();
    let gateway = Gateway::start(options).await.unwrap();
    for database in ["local", "config", &own] {
        for (name, _) in all {
            let user = User::log_in(&gateway, name).await;
            assert_eq!(code(&user.run_command(database, doc! {"find": "c"}).await), 13, "{name}: {database}");
        }
    }
}

#[tokio::test]
async fn databases_without_a_role_are_not_listed() {
    let (db, other) = (local_mongod::unique_db("gw_role_list"), local_mongod::unique_db("gw_role_list_other"));
    let gateway = start(&db).await;
    let users = everybody(&gateway).await;
    for db in [&db, &other] {
        users["root"].run_command(db, doc! {"insert": "c", "documents": [{"a": 1}]}).await;
    }
    let listed = async |name: &str| -> Vec<String> {
        let reply = users[name].run_command("admin", doc! {"listDatabases": 1}).await;
        let databases = reply.get_array("databases").unwrap().clone();
        databases.iter().map(|one| one.as_document().unwrap().get_str("name").unwrap().to_owned()).collect()
    };
    let all = listed("root").await;
    assert!(all.contains(&db) && all.contains(&other));
    assert_eq!(listed("reader").await, [db]);
    assert_eq!(listed("nothing").await, Vec::<String>::new());
}

#[tokio::test]
async fn sessions_and_cursors_of_one_user_are_nothing_to_another() {
    let db = local_mongod::unique_db("gw_role_session");
    let gateway = start(&db).await;
    let users = everybody(&gateway).await;
    let (root, reader, writer) = (&users["root"], &users["reader"], &users["writer"]);
    let documents: Vec<Document> = (0..5).map(|n| doc! {"_id": n}).collect();
    writer.run_command(&db, doc! {"insert": "c", "documents": documents}).await;
    let session = Session::new();
    let begun = writer.run_command(&db, session.first(doc! {"insert": "c", "documents": [{"_id": 9}]})).await;
    assert_eq!(code(&begun), 0, "{begun}");
    let token = begun.get_document("recoveryToken").unwrap().clone();
    // The same name is another session, in which nothing is open.
    assert_eq!(code(&reader.run_command("admin", session.commit()).await), 251);
    assert_eq!(code(&reader.run_command(&db, session.next(doc! {"find": "c"})).await), 251);
    reader.run_command("admin", doc! {"killSessions": [session.lsid.clone()]}).await;
    reader.run_command("admin", doc! {"killSessions": []}).await;
    // Nor does it help to name the user, or to have the recovery token.
    let mut named = session.lsid.clone();
    named.insert("uid", bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1; 32] });
    assert_eq!(code(&reader.run_command("admin", doc! {"killSessions": [named]}).await), 13);
    let mut stolen = session.abort();
    stolen.insert("recoveryToken", token);
    assert_eq!(code(&reader.run_command("admin", stolen).await), 13);

    let find = doc! {"find": "c", "batchSize": 1};
    let id = cursor_id(&writer.run_command(&db, find.clone()).await);
    let more = doc! {"getMore": id, "collection": "c"};
    assert_eq!(code(&reader.run_command(&db, more.clone()).await), 13);
    let kill = doc! {"killCursors": "c", "cursors": [id]};
    let kept = reader.run_command(&db, kill.clone()).await;
    assert_eq!(kept.get_array("cursorsNotFound").unwrap().len(), 1, "{kept}");
    let killed = root.run_command(&db, kill).await;
    assert_eq!(killed.get_array("cursorsKilled").unwrap().len(), 1, "{killed}");

    assert_eq!(code(&writer.run_command("admin", session.commit()).await), 0);
    let counted = reader.run_command(&db, doc! {"count": "c"}).await;
    assert_eq!(counted.get_i32("n").unwrap(), 6, "{counted}");
}

#[tokio::test]
async fn root_ends_the_sessions_of_one_user() {
    let db = local_mongod::unique_db("gw_role_kill");
    let gateway = start(&db).await;
    let users = everybody(&gateway).await;
    let (root, writer) = (&users["root"], &users["writer"]);
    let (own, session) = (Session::new(), Session::new());
    let insert = |id: i32| doc! {"insert": "c", "documents": [{"_id": id}]};
    assert_eq!(code(&root.run_command(&db, own.first(insert(1))).await), 0);
    assert_eq!(code(&writer.run_command(&db, session.first(insert(2))).await), 0);
    root.run_command("admin", doc! {"killAllSessions": [{"user": "writer", "db": "admin"}]}).await;
    assert_eq!(code(&writer.run_command("admin", session.commit()).await), 251);
    assert_eq!(code(&root.run_command("admin", own.commit()).await), 0);
}

/// The privileges were those of the command that has opened the cursor, which needs no reading.
#[tokio::test]
async fn who_may_open_a_cursor_may_read_on() {
    let db = local_mongod::unique_db("gw_role_more");
    let admin = format!("dbAdmin:{db}");
    let gateway =
        guarded(&[("writer@admin", "root"), ("admin@admin", &admin), ("monitor@admin", "clusterMonitor")]).await.0;
    let writer = User::log_in(&gateway, "writer").await;
    for coll in ["c", "d"] {
        writer.run_command(&db, doc! {"createIndexes": coll, "indexes": [{"key": {"a": 1}, "name": "a_1"}]}).await;
    }
    let (admin, monitor) = (User::log_in(&gateway, "admin").await, User::log_in(&gateway, "monitor").await);
    let cursor = doc! {"batchSize": 0};
    for (user, db, command) in [
        (&admin, db.as_str(), doc! {"listCollections": 1, "cursor": cursor.clone()}),
        (&admin, db.as_str(), doc! {"listIndexes": "c", "cursor": cursor.clone()}),
        (&monitor, "admin", doc! {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": cursor.clone()}),
    ] {
        let opened = user.run_command(db, command.clone()).await;
        let ns = opened.get_document("cursor").unwrap().get_str("ns").unwrap().to_owned();
        let collection = ns.split_once('.').unwrap().1;
        let more = doc! {"getMore": cursor_id(&opened), "collection": collection};
        let other = if std::ptr::eq(user, &admin) { &monitor } else { &admin };
        assert_eq!(code(&other.run_command(db, more.clone()).await), 13, "{command}");
        let read = user.run_command(db, more).await;
        assert!(!common::commands::documents(&read, "nextBatch").is_empty(), "{command}: {read}");
    }
    let nobody = gateway.connect();
    let more = mongotx_gateway::Request::of(&doc! {"getMore": 5_i64, "collection": "c", "$db": &db}).unwrap();
    assert_eq!(gateway.run_command(&nobody, &more).await.body().get_i32("code").unwrap(), 13);
}
