//! Unique indexes that are made while others work by what they knew before.

use std::net::SocketAddr;

use bson::{Document, doc};
use mongotx::{Client, Collection, IndexModel};

use super::assert_duplicate;
use crate::{common::LIMIT, late::proxy::Proxy, quiet};

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
