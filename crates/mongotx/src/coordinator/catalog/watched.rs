//! Switching change streams on ([decision
//! 0048](../../../../../docs/decisions/0048-change-streams.md)): every write after the acknowledged
//! switch has its event.
//!
//! 1. The server stores the option with the collection. From now on, every client that looks the
//!    collection up writes events.
//! 2. Wait for everything that may work by an older look-up, and for the locks that exist then, as
//!    before a unique index is made ([`crate::coordinator::schema`]). A transaction looks up when
//!    it commits, so that what it holds by an older look-up is locked by then.

use bson::{Bson, Document, doc};

use super::{Catalog, collection::IMAGES};
use crate::{
    error::{Error, Result},
    options::{ChangeStreams, Namespace},
};

/// Number of MongoDB's error code `InvalidOptions`.
const INVALID_OPTIONS: i32 = 72;
/// Options of collections in which transactions can lock nothing.
const UNLOCKABLE: [&str; 3] = ["viewOn", "timeseries", "capped"];

/// Returns true if these options of a `create` or `collMod` switch change streams on.
pub(crate) fn switches_on(options: &Document) -> bool {
    options.get_document(IMAGES).is_ok_and(|images| images.get("enabled") == Some(&Bson::Boolean(true)))
}

/// # Errors
/// 72: nothing that is written to the collection could leave an event.
pub(crate) fn check_created(ns: &Namespace, options: &Document) -> Result<()> {
    let kind =
        UNLOCKABLE.into_iter().find(|kind| options.get(kind).is_some_and(|value| *value != Bson::Boolean(false)));
    match kind.filter(|_| switches_on(options)) {
        Some(kind) => Err(Error::invalid(
            INVALID_OPTIONS,
            format!(
                "the option {IMAGES:?} of {ns} cannot be used together with {kind:?}: no transaction can write there, so no change would have an event"
            ),
        )),
        None => Ok(()),
    }
}

impl Catalog {
    /// Returns true if a change of the collection's options is to switch change streams on where
    /// they are not.
    ///
    /// # Errors
    /// 72 for a collection in which transactions can lock nothing.
    pub(crate) async fn will_be_watched(&self, ns: &Namespace, options: &Document) -> Result<bool> {
        if !switches_on(options) {
            return Ok(false);
        }
        self.forget(ns);
        let collection = self.look_up(ns).await?;
        if let Some(reason) = &collection.unlockable {
            let message =
                format!("the option {IMAGES:?} of {ns} cannot be set: transactions cannot write to it: {reason}");
            return Err(Error::invalid(INVALID_OPTIONS, message));
        }
        Ok(collection.watch.is_none() && self.change_streams != ChangeStreams::All)
    }

    /// The events that its end leaves, if it is watched.
    pub(crate) async fn dropped_event(&self, ns: &Namespace) -> Result<Option<Document>> {
        let is_watched = self.look_up(ns).await?.watch.is_some();
        Ok(is_watched.then(|| doc! {"operationType": "drop", "ns": {"db": &ns.db, "coll": &ns.coll}}))
    }
}
