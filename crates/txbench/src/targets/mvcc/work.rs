//! Work that sessions leave to the finisher: versions to unlock and to remove, and transactions in
//! doubt.

use bson::oid::ObjectId;
use tokio::sync::oneshot;

use super::format::{Lock, VersionId};

/// A version and its collection.
pub(super) type Place = (String, VersionId);

/// A piece of work for the finisher.
pub(super) enum Work {
    /// A transaction has been committed.
    Committed(Finished),
    /// A lock was met whose transaction is committed.
    Met(Place),
    /// A transaction was given up.
    Doubt(Box<Doubt>),
    /// Signals that all work before it is done.
    Flush(oneshot::Sender<()>),
}

/// Work that a committed transaction leaves.
pub(super) struct Finished {
    pub(super) tx: ObjectId,
    pub(super) primary: Place,
    /// Places of its other documents.
    pub(super) locked: Vec<Place>,
    /// The versions that it has replaced.
    pub(super) replaced: Vec<Place>,
}

/// A transaction whose client does not go on with it.
pub(super) struct Doubt {
    pub(super) lock: Lock,
    /// Places of all its versions.
    pub(super) places: Vec<Place>,
}
