//! Indexes of one call are made together or not at all, and a call that is given up leaves no part
//! of one.

use bson::{Document, doc};
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
