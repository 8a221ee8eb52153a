//! Ends a transaction whose client had to give it up without knowing its outcome: the answer to a
//! commit did not come, or a rollback was not done. Until the server is reached again its documents
//! stay locked.

use std::time::Duration;

use bson::{Bson, doc};

use super::{
    format::{DONE, LOCK, LOCK_TX},
    store::{Store, not_durable},
    visible::{TransactionState, TransactionStates},
    work::Doubt,
};
use crate::error::OpResult;

/// Number of attempts to end a doubt, a second apart.
const ATTEMPTS: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

impl Doubt {
    /// Ends the doubt, with several attempts. Returns whether it is ended.
    pub(super) async fn end(&self, store: &Store) -> bool {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            if self.attempt(store).await.is_ok() {
                return true;
            }
        }
        false
    }

    async fn attempt(&self, store: &Store) -> OpResult<()> {
        let primary = &self.lock.primary;
        // A version that is not committed is not going to be: the primary goes first.
        let undecided = doc! {"_id": primary.id.bson(), LOCK_TX: self.lock.tx};
        let primaries = store.collection(&primary.collection);
        primaries.delete_one(undecided).write_concern(not_durable()).await?;
        let mut outcomes = TransactionStates::new();
        store.ask(std::slice::from_ref(&self.lock), &mut outcomes).await?;
        let is_committed = outcomes.get(&self.lock.tx) == Some(&TransactionState::Committed);
        for (collection, id) in &self.places {
            let locked = doc! {"_id": id.bson(), LOCK_TX: self.lock.tx};
            let collection = store.collection(collection);
            if is_committed {
                let unlock = doc! {"$unset": {LOCK: ""}};
                collection.update_one(locked, unlock).write_concern(not_durable()).await?;
            } else {
                collection.delete_one(locked).write_concern(not_durable()).await?;
            }
        }
        let done = doc! {"_id": primary.id.bson(), DONE: Bson::from(self.lock.tx)};
        primaries.update_one(done, doc! {"$unset": {DONE: ""}}).write_concern(not_durable()).await?;
        Ok(())
    }
}
