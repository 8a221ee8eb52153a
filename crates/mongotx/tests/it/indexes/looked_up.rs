//! Unique indexes that are made while others work by what they knew before.

use std::net::SocketAddr;

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel};

use super::{Place, assert_duplicate};
use crate::{
    common::{LIMIT, until},
    late::proxy::Proxy,
    quiet,
};

/// A client has sent the command that lists the indexes, and has no answer yet, when a unique one
/// is made by another client that finds no record with the collection. Then it begins to write
/// there: by the indexes of now, whatever the answer says of the ones before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_from_before_the_index_does_not_count_after_it() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let maker = quiet::connect(quiet::options()).await;
    let made = quiet::collection(&maker, 0).await;
    // Where there is a mirrored index, a look at pending documents follows the look at the indexes.
    made.create_index(IndexModel::new(doc! {"b": 1}).mirrored(true)).await.unwrap();
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
    let coll: Collection<Document> = quiet::through(&client, &made);
    proxy.hold_after(2);
    let early = tokio::spawn({
        let (client, ns) = (client.clone(), coll.namespace().clone());
        async move { client.cannot_lock(&ns).await }
    });
    assert_eq!(tokio::time::timeout(LIMIT, proxy.until_held()).await.unwrap(), "count");
    made.create_index(IndexModel::new(doc! {"a": 1}).unique(true)).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    coll.insert_one(&doc! {"_id": 1, "a": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    proxy.deliver().await;
    assert_eq!(early.await.unwrap().unwrap(), None);
    session.begin().unwrap();
    let refused = coll.insert_one(&doc! {"_id": 2, "a": 1}).session(&mut session).await.unwrap_err();
    assert_duplicate(&refused, doc! {"a": 1}, doc! {"a": 1});
}

/// Another client has made the mirrored index as well, gives up while this one waits, and drops it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirrored_index_that_another_client_drops_is_made_again() {
    let place = Place::new("looked_up_mirror").await;
    let mut session = place.begin();
    place.coll.insert_one(&doc! {"_id": 1, "k": 1}).session(&mut session).await.unwrap();
    let maker = quiet::connect(ClientOptions { write_wait: LIMIT, ..quiet::options() }).await;
    let made: Collection<Document> = quiet::through(&maker, &place.coll);
    let making = tokio::spawn(async move { made.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await });
    let mirror = "_mongotx_unsafe.k_1";
    // An index that is being built is listed within another document.
    let is_there = async || {
        let listed = place.db.run_command(doc! {"listIndexes": "c", "includeBuildUUIDs": true}).await.unwrap();
        let listed = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        listed.iter().filter_map(|index| index.as_document()?.get_str("name").ok()).any(|name| name == mirror)
    };
    until("the mirrored index is made", async || is_there().await.then_some(())).await;
    place.plain.drop_index(mirror).await.unwrap();
    session.commit().await.unwrap();
    making.await.unwrap().unwrap();
    assert!(is_there().await);
    // It takes part in refusing duplicates.
    let mut sessions = [place.begin(), place.begin()];
    place.coll.insert_one(&doc! {"_id": 2, "k": 2}).session(&mut sessions[0]).await.unwrap();
    let refused = place.coll.insert_one(&doc! {"_id": 3, "k": 2}).session(&mut sessions[1]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
}
