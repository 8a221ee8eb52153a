//! A read that takes long between its look at a document and its look at the record of the
//! document's holder.

use std::net::SocketAddr;

use bson::{Document, doc};
use mongotx::{Client, Collection, Result, Session, UpdateResult};

use super::{LIMIT, proxy::Proxy};
use crate::quiet;

/// The holder writes to the document again in between, and commits: its earlier version was never
/// committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_its_own_transaction_has_written_over_is_not_read() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let writer = quiet::connect(quiet::options()).await;
    let writers = quiet::collection(&writer, 2).await;
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let reader = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
    let coll: Collection<Document> = quiet::through(&reader, &writers);
    for (id, removes) in [(1, false), (2, true)] {
        let one = doc! {"_id": id};
        assert_eq!(coll.find_one(one.clone()).await.unwrap(), Some(doc! {"_id": id, "n": 1}));
        let mut session = writer.session();
        session.begin().unwrap();
        match removes {
            true => drop(writers.delete_one(one.clone()).session(&mut session).await.unwrap()),
            false => drop(set(&writers, id, 2, &mut session).await.unwrap()),
        }
        proxy.hold_after(1);
        let ((), seen) = tokio::join!(
            async {
                let held = tokio::time::timeout(LIMIT, proxy.until_held()).await;
                assert_eq!(held.unwrap(), "aggregate", "the look at the record");
                match removes {
                    true => drop(writers.insert_one(&doc! {"_id": id, "n": 3}).session(&mut session).await.unwrap()),
                    false => drop(set(&writers, id, 3, &mut session).await.unwrap()),
                }
                session.commit().await.unwrap();
                proxy.deliver().await;
            },
            async { coll.find_one(one.clone()).await.unwrap() }
        );
        assert_eq!(seen, Some(doc! {"_id": id, "n": 3}), "removes: {removes}");
    }
}

async fn set(coll: &Collection<Document>, id: i32, n: i32, session: &mut Session) -> Result<UpdateResult> {
    coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": n}}).session(session).await
}
