//! Names of MongoTx's own collections, all but one in the database of the records.

use bson::{Document, doc};

use crate::options::Namespace;

/// Collection of the client records.
pub(crate) const TXS: &str = "txs";
/// Field of a document among them that is the notice of a client's plain writes, and no record.
pub(crate) const NOTICE: &str = "plain";
/// Time for which outcomes are kept after a client is gone.
pub(crate) const RETENTION_SECONDS: i64 = 30 * 60;
/// Collection of the events of change streams.
pub(crate) const EVENTS: &str = "events";
/// Collection of documents with which a server is tried out, for the time of the trial.
pub(crate) const GUARDS: &str = "guards";
/// Collection of the versions that orphans were to become.
pub(crate) const ORPHANS: &str = "orphans";
/// The pause of all decisions for a checkpoint.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// Databases of client records, in a database that every client finds.
pub(crate) const DEPLOYMENT: &str = "deployment";

/// The command that makes the index by which the server removes closed records.
pub(crate) fn index_of_closed() -> Document {
    let index = doc! {"key": {"closedAt": 1}, "name": "closed", "expireAfterSeconds": RETENTION_SECONDS};
    doc! {"createIndexes": TXS, "indexes": [index]}
}

/// Collections of gateways: what was done for retryable writes, open transactions, and the gateways
/// themselves.
const OF_GATEWAYS: [&str; 3] = ["writes", "activity", "gateways"];

/// Returns true if a collection of this name belongs to MongoTx, where it lies in the database of
/// the records ([`crate::ClientOptions::tx_database`]): it holds records of clients or of gateways,
/// and no documents of the application. A program that copies or lists an application's data leaves
/// them out.
///
/// ```
/// assert!(mongotx::is_own_collection("txs"));
/// assert!(!mongotx::is_own_collection("accounts"));
/// ```
pub fn is_own_collection(name: &str) -> bool {
    [TXS, EVENTS, GUARDS, CHECKPOINT, DEPLOYMENT, ORPHANS].contains(&name) || OF_GATEWAYS.contains(&name)
}

/// Returns true if it holds records of clients or gateways, whose writes are not counted.
pub(crate) fn holds_records(ns: &Namespace, tx_database: &str) -> bool {
    ns.db == tx_database && is_own_collection(&ns.coll)
}
