//! A client whose reads are changed before each of its commits, so that the gateway gives its
//! session quiet: two clients that move money lose that often only by chance.

use bson::{Document, doc};
use mongodb::{Client, Collection, error::Error, options::ReadConcern};

/// Documents that the client reads.
const READ: i32 = 2;

/// A client that loses its validations until it is dropped.
pub(crate) struct Disturbed(tokio::task::JoinHandle<()>);

impl Disturbed {
    /// Reads, through this gateway, documents that are changed at this server meanwhile.
    pub(crate) async fn start(server: &Client, gateway: &str, db: &str) -> Self {
        let stored = server.database(db).collection::<Document>("disturbed");
        stored.insert_many((0..READ).map(|id| doc! {"_id": id, "n": 0})).await.unwrap();
        let client = Client::with_uri_str(gateway).await.unwrap();
        Self(tokio::spawn(lose_for_ever(client, stored)))
    }
}

impl Drop for Disturbed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn lose_for_ever(client: Client, stored: Collection<Document>) {
    let read = client.database(&stored.namespace().db).collection::<Document>(stored.name());
    let mut session = client.start_session().await.unwrap();
    loop {
        // It goes on until the gateway is broken, whose errors do not matter.
        let _: Result<(), Error> = async {
            session.start_transaction().read_concern(ReadConcern::snapshot()).await?;
            for id in 0..READ {
                read.find_one(doc! {"_id": id}).session(&mut session).await?;
            }
            stored.update_one(doc! {"_id": 0}, doc! {"$inc": {"n": 1}}).await?;
            read.insert_one(doc! {}).session(&mut session).await?;
            session.commit_transaction().await
        }
        .await;
        let _ = session.abort_transaction().await;
    }
}
