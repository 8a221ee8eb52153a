//! The command `renameCollection`, at both.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::ClientOptions;
use mongotx_gateway::GatewayOptions;

use crate::common::commands::{Client, Session, code, is_ok};
use crate::side_by_side::pair::Pair;

#[tokio::test]
async fn collections_are_renamed_the_same() {
    let mut pair = Pair::start("cmp_rename").await;
    let (c, d, view, missing) = (pair.full("c"), pair.full("d"), pair.full("view"), pair.full("missing"));
    let rename = |from: &str, to: &str| doc! {"renameCollection": from, "to": to};
    let with = |mut command: Document, field: &str, value: Bson| {
        command.insert(field, value);
        command
    };
    let index = |name: &str| doc! {"key": {"a": 1}, "name": name, "unique": true};
    for command in [
        doc! {"create": "c", "validator": {"a": {"$gte": 0}}},
        doc! {"createIndexes": "c", "indexes": [index("a_1")]},
        doc! {"insert": "c", "documents": [{"_id": 1, "a": 1}]},
        doc! {"insert": "d", "documents": [{"_id": 1, "a": 5}]},
        doc! {"create": "view", "viewOn": "c", "pipeline": []},
        rename(&c, &d),
        rename(&c, &c),
        rename(&missing, &d),
        rename(&view, "x.y"),
        rename("x", &d),
        rename(&c, "x"),
        rename(&c, ""),
        rename(&c, &pair.full("")),
        rename(&c, &pair.full("system.x")),
        rename(&c, &pair.full("with$dollar")),
        doc! {"renameCollection": &c},
        doc! {"renameCollection": 5, "to": &d},
        with(rename(&c, &d), "unknown", 1.into()),
        with(rename(&c, &d), "dropTarget", "x".into()),
        Session::new().first(rename(&c, &d)),
        with(rename(&c, &d), "dropTarget", true.into()),
        rename(&c, &d),
        doc! {"find": "d"},
        doc! {"find": "c"},
        doc! {"insert": "d", "documents": [{"_id": 2, "a": 1}]},
        doc! {"insert": "d", "documents": [{"_id": 2, "a": -1}]},
        with(rename(&d, &pair.full("e")), "writeConcern", doc! {"w": 1}.into()),
        doc! {"count": "e"},
    ] {
        pair.same(command).await;
    }
    for missing in [rename(&c, &d), Session::new().first(rename(&c, &d)), rename(&d, "x")] {
        let (ours, theirs) = pair.errors_words(missing).await;
        assert_eq!(ours, theirs);
    }
}

#[tokio::test]
async fn a_collection_goes_to_another_database() {
    let mut pair = Pair::start("cmp_rename_db").await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let away = format!("{}.c", local_mongod::unique_db("cmp_rename_other"));
    pair.same(doc! {"renameCollection": pair.full("c"), "to": &away}).await;
    pair.same(doc! {"find": "c"}).await;
    pair.same(doc! {"renameCollection": away, "to": pair.full("d")}).await;
    pair.same(doc! {"find": "d"}).await;
}

#[tokio::test]
async fn only_the_database_admin_renames() {
    let gateway = Client::start("rename_admin").await;
    let refused = gateway.run_command(doc! {"renameCollection": "a.b", "to": "a.c"}).await;
    assert_eq!(code(&refused), 13, "{refused}");
}

/// A replica set waits for as long as the transaction is open.
#[tokio::test]
async fn difference_g6_what_a_transaction_holds_is_not_renamed_once_its_time_is_over() {
    let client = ClientOptions { write_wait: Duration::ZERO, ..ClientOptions::default() };
    let gateway = Client::with_options(
        local_mongod::unique_db("rename_held"),
        GatewayOptions { client, ..GatewayOptions::default() },
    )
    .await;
    gateway.ok(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let holder = Session::new();
    gateway.ok(holder.first(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]})).await;
    let full = |name: &str| format!("{}.{name}", gateway.db);
    let rename = || doc! {"renameCollection": full("c"), "to": full("d")};
    let refused = gateway.run_on("admin", rename()).await;
    assert_eq!(code(&refused), 112, "{refused}");
    assert!(refused.get_str("errmsg").unwrap().contains("is held by transaction"), "{refused}");
    assert!(is_ok(&gateway.run_on("admin", holder.commit()).await));
    let renamed = gateway.run_on("admin", rename()).await;
    assert!(is_ok(&renamed), "{renamed}");
    assert_eq!(gateway.all("d").await, [doc! {"_id": 1, "a": 1}]);
}
