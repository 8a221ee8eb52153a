//! A target on a server, in a database of its own.

use bson::{Document, doc};
use local_mongod::{shared_replica_set, shared_standalone, unique_db};
use txbench::{
    error::OpError,
    store::Store,
    targets::{
        Connection, Durability, Feature, Find, Index, Session, Target, Traits, TxOptions, Update,
        registry::{Entry, TARGETS},
    },
};

pub(crate) const DOCS: &str = "docs";

pub(crate) struct Rig {
    pub(crate) traits: &'static Traits,
    pub(crate) target: Box<dyn Target>,
    /// The server, if it is of DTranx.
    store: Option<Store>,
}

/// The targets that have the features that a test needs.
pub(crate) fn entries(needs: &[Feature]) -> Vec<&'static Entry> {
    let has = |entry: &&&'static Entry| needs.iter().all(|need| entry.traits.features.contains(need));
    let found: Vec<&Entry> = TARGETS.iter().filter(has).copied().collect();
    assert!(!found.is_empty());
    found
}

/// The targets with these features that are transactional.
pub(crate) fn transactional(needs: &[Feature]) -> Vec<&'static Entry> {
    entries(needs).into_iter().filter(|entry| entry.traits.transactional).collect()
}

impl Rig {
    /// The target with an empty collection.
    pub(crate) async fn empty(entry: &'static Entry, indexes: &[Index]) -> Self {
        if entry.traits.on_dtranx {
            let store = Store::start(1).await.unwrap();
            let rig = Self::on(entry, store.uri().to_owned(), Durability::default(), indexes).await;
            return Self { store: Some(store), ..rig };
        }
        let set = entry.traits.needs_replica_set;
        let server = if set { shared_replica_set().await } else { shared_standalone().await }.unwrap();
        Self::on(entry, server.uri(), Durability::default(), indexes).await
    }

    /// The target with an empty collection on this server.
    pub(crate) async fn on(entry: &'static Entry, uri: String, durability: Durability, indexes: &[Index]) -> Self {
        let db = unique_db(entry.traits.name);
        let isolation = entry.traits.isolations.first().copied().unwrap_or_default();
        let connection = Connection { durability, isolation, ..Connection::new(uri, db, 16) };
        let target = (entry.connect)(connection).await.unwrap();
        target.create(DOCS, indexes).await.unwrap();
        Self { traits: &entry.traits, target, store: None }
    }

    /// The target with `{_id: 0..n, n: 0, group: _id % 2}` in the collection.
    pub(crate) async fn with(entry: &'static Entry, n: i32) -> Self {
        let rig = Self::empty(entry, &[]).await;
        let documents = (0..n).map(|id| doc! {"_id": id, "n": 0, "group": id % 2}).collect();
        rig.target.load(DOCS, documents).await.unwrap();
        rig
    }

    pub(crate) async fn session(&self) -> Box<dyn Session> {
        self.target.session().await.unwrap()
    }

    /// Checks the conditions that hold after every test, and ends the connection.
    pub(crate) async fn end(self) {
        self.target.settle().await.unwrap();
        assert_eq!(self.target.leftovers(&[DOCS]).await.unwrap(), None, "{}", self.traits.name);
        self.target.close().await.unwrap();
        drop(self.store);
    }
}

/// Begins with the options of the connection.
pub(crate) async fn begin(session: &mut dyn Session) {
    session.begin(&TxOptions::default()).await.unwrap();
}

/// All documents in the order of their ids, read alone.
pub(crate) async fn all(rig: &Rig) -> Vec<Document> {
    let mut found = rig.session().await.find(DOCS, Find::new(doc! {})).await.unwrap();
    found.sort_by_key(|document| document.get_i32("_id").unwrap());
    found
}

/// `n` of each document in the order of their ids.
pub(crate) async fn values(rig: &Rig) -> Vec<i32> {
    all(rig).await.iter().map(|document| document.get_i32("n").unwrap()).collect()
}

pub(crate) fn increment(id: i32, by: i32) -> Update {
    Update { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": by}} }
}

pub(crate) fn is_conflict<T>(answer: &Result<T, OpError>) -> bool {
    matches!(answer, Err(OpError::Conflict(reason)) if !reason.is_empty())
}
