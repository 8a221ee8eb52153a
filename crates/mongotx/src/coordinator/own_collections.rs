//! Names of MongoTx's own collections, all but one in the database of the records. The collection
//! of change events is in [`super::events`].

use bson::{Document, doc};

/// Records of clients.
pub(crate) const TXS: &str = "txs";
/// Field of a document among them that is the notice of a client's plain writes, and no record.
pub(crate) const NOTICE: &str = "plain";
/// How long outcomes can be asked for after a client is gone.
pub(crate) const RETENTION_SECONDS: i64 = 30 * 60;
/// Collection of the versions that orphans were to become.
pub(crate) const ORPHANS: &str = "orphans";
/// The pause of all decisions that a checkpoint has asked for.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// Databases of client records, in a database that every client finds.
pub(crate) const DEPLOYMENT: &str = "deployment";

/// The command that makes the index by which the server removes closed records.
pub(crate) fn index_of_closed() -> Document {
    let index = doc! {"key": {"closedAt": 1}, "name": "closed", "expireAfterSeconds": RETENTION_SECONDS};
    doc! {"createIndexes": TXS, "indexes": [index]}
}
