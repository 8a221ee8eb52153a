//! The sides: clients of the driver, directly, through the proxy or through the gateway, and
//! directly to a replica set, each with a collection of its own.

use bson::{Document, doc};
use mongodb::{
    Client, Collection, IndexModel,
    options::{Acknowledgment, ClientOptions, WriteConcern},
};

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
    /// The replica set, where the server is none.
    pub(crate) set: Option<Side>,
}

/// Addresses of the sides.
pub(crate) struct Addresses<'a> {
    pub(crate) server: &'a str,
    pub(crate) proxy: &'a str,
    pub(crate) gateway: &'a str,
    pub(crate) set: Option<&'a str>,
}

impl Side {
    async fn connect(uri: &str, db: &str, name: &'static str, connections: u32) -> Result<Self, BenchError> {
        Self::with(ClientOptions::parse(uri).await?, db, name, connections)
    }

    /// A client of a replica set whose writes wait for what a standalone server's wait for.
    async fn connect_to_set(uri: &str, db: &str, connections: u32) -> Result<Self, BenchError> {
        let mut options = ClientOptions::parse(uri).await?;
        options.write_concern = Some(WriteConcern::builder().w(Acknowledgment::Nodes(1)).build());
        Self::with(options, db, "set", connections)
    }

    fn with(mut options: ClientOptions, db: &str, name: &'static str, connections: u32) -> Result<Self, BenchError> {
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
    /// Connects all sides, with so many connections each.
    pub(crate) async fn connect(at: &Addresses<'_>, db: &str, connections: u32) -> Result<Self, BenchError> {
        let set = match at.set {
            Some(uri) => Some(Side::connect_to_set(uri, db, connections).await?),
            None => None,
        };
        Ok(Self {
            direct: Side::connect(at.server, db, "direct", connections).await?,
            proxy: Side::connect(at.proxy, db, "proxy", connections).await?,
            gateway: Side::connect(at.gateway, db, "gateway", connections).await?,
            set,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Side> {
        [&self.direct, &self.proxy, &self.gateway].into_iter().chain(&self.set)
    }

    /// Loads all collections directly on their server, and makes the index through the side.
    pub(crate) async fn load(&self) -> Result<(), BenchError> {
        for side in self.all() {
            let is_set = self.set.as_ref().is_some_and(|set| set.name == side.name);
            let loading = if is_set { side } else { &self.direct };
            let past = Side { client: loading.client.clone(), ..side.clone() };
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
        for side in [self.direct, self.proxy, self.gateway].into_iter().chain(self.set) {
            side.client.shutdown().immediate(true).await;
        }
    }
}
