//! Indexes of one call are made and dropped together or not at all, and a call that is given up, or
//! fails half way, leaves no part of one.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{ClientOptions, Collection, IndexModel};

use super::Place;
use crate::{
    common::{LIMIT, until},
    quiet,
};

/// Names of the stored indexes, also of those that are being built.
async fn stored_names(place: &Place) -> Vec<String> {
    let listed = place.db.run_command(doc! {"listIndexes": "c", "includeBuildUUIDs": true}).await.unwrap();
    let listed = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let spec = |index: &bson::Bson| {
        let index = index.as_document().unwrap();
        index.get_document("spec").unwrap_or(index).get_str("name").unwrap().to_owned()
    };
    listed.iter().map(spec).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unique_index_whose_caller_goes_while_it_waits_leaves_nothing() {
    let place = Place::new("given_up").await;
    let mut session = place.begin();
    place.coll.insert_one(&doc! {"_id": 1, "k": 1}).session(&mut session).await.unwrap();
    let maker = quiet::connect(ClientOptions { write_wait: 4 * LIMIT, ..quiet::options() }).await;
    let made: Collection<Document> = quiet::through(&maker, &place.coll);
    let models = [IndexModel::new(doc! {"k": 1}).unique(true), IndexModel::new(doc! {"l": 1}).mirrored(true)];
    let making = tokio::spawn(async move { made.create_indexes(models).await });
    let mirrors =
        async || stored_names(&place).await.iter().filter(|name| name.starts_with("_mongotx_unsafe.")).count();
    until("the mirrored indexes are made", async || (mirrors().await == 2).then_some(())).await;
    making.abort();
    until("the mirrored indexes are dropped", async || (mirrors().await == 0).then_some(())).await;
    // Nothing is unique, for this client and others.
    place.coll.insert_one(&doc! {"_id": 2, "k": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let through_maker: Collection<Document> = quiet::through(&maker, &place.coll);
    through_maker.insert_one(&doc! {"_id": 3, "k": 1}).await.unwrap();
    assert_eq!(place.coll.list_index_names().await.unwrap(), ["_id_"]);
}

#[tokio::test]
async fn indexes_of_one_call_are_made_together_or_not_at_all() {
    let place = Place::new("together").await;
    place
        .coll
        .insert_many(&[doc! {"_id": 1, "a": 1, "b": 1, "c": 1}, doc! {"_id": 2, "a": 2, "b": 1, "c": 2}])
        .await
        .unwrap();
    let model = |field: &str, name: &str| IndexModel::new(doc! {field: 1}).name(name);
    let refused = [
        (11_000, [model("a", "a"), model("b", "b").unique(true)]),
        (11_000, [model("c", "c").unique(true), model("b", "b").unique(true)]),
        (85, [model("a", "a"), model("a", "a2")]),
        (85, [model("a", "a"), model("a", "a").option("expireAfterSeconds", 5)]),
        (86, [model("a", "a"), model("b", "a")]),
        (86, [model("a", "a").unique(true), model("a", "a")]),
        (96, [model("a", "a").unique(true), model("a", "a").unique(true)]),
        (67, [model("a", "a").unique(true), model("b", "_mongotx_b")]),
    ];
    for (code, models) in refused {
        let error = place.coll.create_indexes(models.clone()).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{error}: {models:?}");
        let stored = stored_names(&place).await;
        assert!(stored.iter().all(|name| ["_id_", "_mongotx_pending"].contains(&name.as_str())), "{stored:?}");
    }
    let models = [model("a", "a"), model("a", "unique").unique(true), model("c", "c").unique(true)];
    assert_eq!(place.coll.create_indexes(models.clone()).await.unwrap(), ["a", "unique", "c"]);
    // One that is there may be given twice, as to the server.
    let again = [models[0].clone(), models[0].clone(), models[1].clone()];
    assert_eq!(place.coll.create_indexes(again).await.unwrap(), ["a", "a", "unique"]);
}

fn expiring(field: &str) -> IndexModel {
    IndexModel::new(doc! {field: 1}).expire_after(Duration::from_secs(3600))
}

#[tokio::test]
async fn indexes_of_one_call_are_dropped_together_or_not_at_all() {
    let place = Place::new("dropped_together").await;
    place.coll.create_indexes([expiring("a"), IndexModel::new(doc! {"b": 1}).unique(true)]).await.unwrap();
    let before = stored_names(&place).await;
    assert_eq!(place.coll.drop_indexes_named(["b_1", "typo"]).await.unwrap_err().code(), Some(27));
    assert_eq!(place.coll.drop_indexes_named(["a_1", "_id_"]).await.unwrap_err().code(), Some(72));
    assert_eq!(stored_names(&place).await, before);
    let both: [Bson; 3] = ["a_1".into(), doc! {"b": 1}.into(), "b_1".into()];
    place.coll.drop_indexes_named(both).await.unwrap();
    assert_eq!(own_names(&place).await, [""; 0]);
}

/// Names of the stored indexes but those that every collection has.
async fn own_names(place: &Place) -> Vec<String> {
    let mut names = stored_names(place).await;
    names.retain(|name| !["_id_", "_mongotx_pending"].contains(&name.as_str()));
    names
}

/// What a drop has left that ended half way: another client's, or one that an older version began
/// with the index itself. The server removes documents by it, or refuses them.
#[tokio::test]
async fn what_is_left_of_an_index_is_dropped_with_its_name_its_key_and_all() {
    let place = Place::new("left_behind").await;
    let drops: [Option<Bson>; 3] = [Some("a_1".into()), Some(doc! {"a": 1}.into()), None];
    for drop in drops {
        place.coll.create_index(expiring("a").mirrored(true)).await.unwrap();
        place.plain.drop_index("a_1").await.unwrap();
        assert_eq!(own_names(&place).await, ["_mongotx_unsafe.a_1", "_mongotx_ttl.a_1"]);
        match &drop {
            Some(one) => place.coll.drop_index(one.clone()).await.unwrap(),
            None => place.coll.drop_indexes().await.unwrap(),
        }
        assert_eq!(own_names(&place).await, [""; 0], "{drop:?}");
    }
    assert_eq!(place.coll.drop_index("a_1").await.unwrap_err().code(), Some(27));
}

/// A server whose next commands of these names fail with this code, but for some.
async fn failing(command: &str, code: i32, mode: Document) -> (local_mongod::Server, Place) {
    let options = local_mongod::ServerOptions::standalone().arg("--setParameter").arg("enableTestCommands=1");
    let server = options.start().await.unwrap();
    let client = mongotx::Client::connect_with(&server.uri(), quiet::at_read_committed()).await.unwrap();
    let db = server.client().await.unwrap().database("failing");
    let coll = client.database("failing").collection("c");
    let place = Place { client, coll, plain: db.collection("c"), db };
    place.coll.create_indexes([expiring("a"), IndexModel::new(doc! {"b": 1}).unique(true)]).await.unwrap();
    let data = doc! {"failCommands": [command], "errorCode": code};
    let fail = doc! {"configureFailPoint": "failCommand", "mode": mode, "data": data};
    server.client().await.unwrap().database("admin").run_command(fail).await.unwrap();
    (server, place)
}

/// The second command of a drop would fail.
#[tokio::test]
async fn an_index_of_several_parts_is_dropped_by_one_command() {
    let (_server, place) = failing("dropIndexes", 10_107, doc! {"skip": 1}).await;
    place.coll.drop_indexes().await.unwrap();
    assert_eq!(own_names(&place).await, [""; 0]);
}

/// A server that takes no list gets one name after the other.
#[tokio::test]
async fn where_no_list_is_taken_indexes_are_dropped_one_by_one() {
    let (_server, place) = failing("dropIndexes", 14, doc! {"times": 1}).await;
    place.coll.drop_indexes_named(["a_1", "b_1"]).await.unwrap();
    assert_eq!(own_names(&place).await, [""; 0]);
}

/// An application leaves out what is usual, also where it gives two of them.
#[tokio::test]
async fn indexes_on_one_key_with_two_collations_are_made_by_one_call() {
    let place = Place::new("two_collations").await;
    let of = |name: &str, collation: Document| IndexModel::new(doc! {"k": 1}).option("name", name).collation(collation);
    let (usual, weak) = (doc! {"locale": "en"}, doc! {"locale": "en", "strength": 2});
    let names = place.coll.create_indexes([of("usual", usual.clone()), of("weak", weak)]).await.unwrap();
    assert_eq!(names, ["usual", "weak"]);
    let spelled = doc! {"locale": "en", "strength": 3};
    let twice = [of("a", usual), of("b", spelled)];
    assert_eq!(Place::new("one_collation").await.coll.create_indexes(twice).await.unwrap_err().code(), Some(85));
}
