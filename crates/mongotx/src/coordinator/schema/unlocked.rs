//! Waiting until nothing in a collection is locked: before it is replaced or dropped as a whole.
//!
//! Decided rivals are repaired, living ones are waited for. A lock that is taken after the last
//! look is lost with the collection: what its transaction had written there is gone, as if the
//! collection had gone right after the commit.

use bson::{Bson, doc};
use sd2v::{
    names::{READERS, WRITER},
    stored,
};

use super::Schema;
use crate::{
    coordinator::{finishing::lock_wait::LockWait, request::address::Address, stored::lock_fields::locks_only},
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

impl Schema {
    /// `purpose`: what cannot be done to the collection as long as something is locked.
    pub(crate) async fn until_unlocked(&self, ns: &Namespace, purpose: &str, lock_wait: &mut LockWait) -> Result<()> {
        let key = self.catalog.shard_key(ns).await?;
        let marked = [WRITER, READERS].map(|lock| Bson::Document(doc! {lock: {"$exists": true}}));
        let find = doc! {"find": &ns.coll, "filter": {"$or": marked.to_vec()}, "projection": locks_only(&key)};
        for _ in 0..self.options.max_documents {
            let Some(found) = self.server.find_first(ns, find.clone()).await? else { return Ok(()) };
            let (at, lock) = (Address::of(&found, &key)?, stored::lock_state(&found)?);
            if let Some(rival) = self.repairs.clear_locks(ns, &at, &lock, None).await? {
                lock_wait.wait_for(&self.server, ns, &at.id, rival).await?;
            }
        }
        let message = format!("{ns} cannot be {purpose}: there is always another locked document in it");
        Err(Error::new(ErrorKind::Conflict, message))
    }
}
