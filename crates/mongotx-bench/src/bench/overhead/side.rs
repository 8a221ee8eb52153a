//! The sides: clients of the driver, directly, through the proxy or through the gateway, each with
//! a collection of its own.

use bson::{Document, doc};
use mongodb::{Client, Collection, IndexModel, options::ClientOptions};

use super::documents::{BATCHES, documents};
use crate::bench::BenchError;

/// The clients of one side.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) client: Client,
    db: String,
    name: &'static str,
}

/// All sides of a measurement.
pub(crate) struct Sides {
    pub(crate) direct: Side,
    pub(crate) proxy: Side,
    pub(crate) gateway: Side,
}

impl Side {
    async fn connect(uri: &str, db: &str, name: &'static str, connections: u32) -> Result<Self, BenchError> {
        let mut options = ClientOptions::parse(uri).await?;
        (options.max_pool_size, options.min_pool_size) = (Some(connections), Some(connections));
        Ok(Self { client: Client::with_options(options)?, db: db.to_owned(), name })
    }

    /// The collection of 10,000 documents.
    pub(crate) fn items(&self) -> Collection<Document> {
        self.collection("items")
    }

    /// One of this side's collections.
    pub(crate) fn collection(&self, name: &str) -> Collection<Document> {
        self.client.database(&self.db).collection(&format!("{}_{name}", self.name))
    }
}

impl Sides {
    /// Connects all sides, with so many connections each. `uris`: the server's, the proxy's and the
    /// gateway's.
    pub(crate) async fn connect(uris: [&str; 3], db: &str, connections: u32) -> Result<Self, BenchError> {
        let [server, proxy, gateway] = uris;
        Ok(Self {
            direct: Side::connect(server, db, "direct", connections).await?,
            proxy: Side::connect(proxy, db, "proxy", connections).await?,
            gateway: Side::connect(gateway, db, "gateway", connections).await?,
        })
    }

    fn all(&self) -> [&Side; 3] {
        [&self.direct, &self.proxy, &self.gateway]
    }

    /// Loads all collections directly on the server, and makes the index through the side.
    pub(crate) async fn load(&self) -> Result<(), BenchError> {
        for side in self.all() {
            let past = Side { client: self.direct.client.clone(), ..side.clone() };
            past.items().insert_many(documents()).await?;
            side.items().create_index(IndexModel::builder().keys(doc! {"group": 1}).build()).await?;
        }
        Ok(())
    }

    /// Removes the documents of batches.
    pub(crate) async fn drop_batches(&self) -> Result<(), BenchError> {
        for side in self.all() {
            side.collection(BATCHES).drop().await?;
        }
        Ok(())
    }

    pub(crate) async fn close(self) {
        for side in [self.direct, self.proxy, self.gateway] {
            side.client.shutdown().immediate(true).await;
        }
    }
}
