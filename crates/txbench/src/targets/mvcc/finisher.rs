//! Work after a commit was answered: other documents are unlocked, old versions are removed. A task
//! for all sessions of a process, which does the work of many transactions in one command.
//!
//! 1. The locks of the other documents are removed.
//! 2. The mark on the primary, by which these locks' transaction is known to be committed, is
//!    removed after them. An interruption before leaves locks that other clients resolve when they
//!    meet them.
//! 3. Versions that a commit has replaced are removed once they are old enough that no command
//!    which has seen them as the latest is still under way ([`KEEP`]). A version with a dead
//!    client's mark is kept.

use std::{
    collections::{HashMap, VecDeque},
    sync::Weak,
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc, oid::ObjectId};
use tokio::sync::{mpsc::Receiver, oneshot};

use super::{
    format::{DONE, LOCK},
    store::{READ_LIMIT, Store, not_durable},
    work::{Doubt, Finished, Place, Work},
};

/// Time that versions are kept after another one has been committed.
pub(super) const KEEP: Duration = Duration::from_secs(6);
const _: () = assert!(KEEP.as_secs() > 2 * READ_LIMIT.as_secs());
/// Pieces of work that may wait; with more, commits wait, too.
pub(super) const QUEUE: usize = 10_000;
/// Transactions that are finished together.
const BATCH: usize = 500;
/// Old versions that are remembered at once. Beyond that the oldest are kept for good.
const GARBAGE: usize = 500_000;
/// Old versions removed by one command.
const SWEEP: usize = 1_000;
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// Number of attempts at unlocking while the server is not reached, a second apart.
const ATTEMPTS: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// The finisher's task.
pub(super) struct Finisher {
    store: Weak<Store>,
    work: Receiver<Work>,
    garbage: VecDeque<(Instant, Place)>,
}

/// Work of several transactions, by collection.
#[derive(Default)]
struct Batch {
    locked: HashMap<String, Vec<Bson>>,
    done: HashMap<String, Vec<Bson>>,
    transactions: Vec<ObjectId>,
    doubts: Vec<Doubt>,
    flushed: Vec<oneshot::Sender<()>>,
}

impl Finisher {
    pub(super) fn new(store: Weak<Store>, work: Receiver<Work>) -> Self {
        Self { store, work, garbage: VecDeque::new() }
    }

    /// Works until all sessions are gone.
    pub(super) async fn work_until_closed(mut self) {
        let mut received = Vec::with_capacity(BATCH);
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                n = self.work.recv_many(&mut received, BATCH) => if n == 0 { return },
                _ = sweep.tick() => {}
            }
            let Some(store) = self.store.upgrade() else { return };
            let batch = self.gather(received.drain(..));
            batch.finish(&store).await;
            self.sweep(&store).await;
        }
    }

    fn gather(&mut self, work: impl Iterator<Item = Work>) -> Batch {
        let mut batch = Batch::default();
        let due = Instant::now() + KEEP;
        for work in work {
            match work {
                Work::Flush(sender) => batch.flushed.push(sender),
                Work::Doubt(doubt) => batch.doubts.push(*doubt),
                Work::Met((collection, id)) => batch.locked.entry(collection).or_default().push(id.bson()),
                Work::Committed(Finished { tx, primary: (collection, id), locked, replaced }) => {
                    if !locked.is_empty() {
                        batch.done.entry(collection).or_default().push(id.bson());
                        batch.transactions.push(tx);
                    }
                    for (collection, id) in locked {
                        batch.locked.entry(collection).or_default().push(id.bson());
                    }
                    self.garbage.extend(replaced.into_iter().map(|place| (due, place)));
                }
            }
        }
        let excess = self.garbage.len().saturating_sub(GARBAGE);
        self.garbage.drain(..excess);
        batch
    }

    // Step 3.
    async fn sweep(&mut self, store: &Store) {
        let old = self.garbage.iter().take(SWEEP).take_while(|(due, _)| *due <= Instant::now()).count();
        let mut by_collection: HashMap<String, Vec<Bson>> = HashMap::new();
        for (_, (collection, id)) in self.garbage.drain(..old) {
            by_collection.entry(collection).or_default().push(id.bson());
        }
        for (collection, ids) in by_collection {
            let filter = doc! {"_id": {"$in": ids}, LOCK: {"$exists": false}, DONE: {"$exists": false}};
            // A version that is not removed now only takes space.
            let _ = store.collection(&collection).delete_many(filter).write_concern(not_durable()).await;
        }
    }
}

impl Batch {
    async fn finish(self, store: &Store) {
        // Locks and marks of one collection go in one command, which does them in this order.
        let alone = self.locked.len() <= 1 && self.done.keys().all(|name| self.locked.contains_key(name));
        let mut done = self.done;
        for (collection, ids) in &self.locked {
            let mut updates = vec![unset(LOCK, ids)];
            if alone {
                updates.extend(done.remove(collection).map(|ids| unset(DONE, &ids)));
            }
            if !send(store, collection, updates).await {
                return;
            }
        }
        for (collection, ids) in done {
            if !send(store, &collection, vec![unset(DONE, &ids)]).await {
                return;
            }
        }
        store.forget(self.transactions.into_iter());
        for doubt in self.doubts {
            if !doubt.end(store).await {
                return;
            }
        }
        for sender in self.flushed {
            let _ = sender.send(());
        }
    }
}

/// The versions of a committed transaction stay its own, so that their ids are enough to know them
/// by.
fn unset(field: &str, ids: &[Bson]) -> Document {
    doc! {"q": {"_id": {"$in": ids}}, "u": {"$unset": {field: ""}}, "multi": true}
}

/// Sends updates until they are done, or [`ATTEMPTS`] is reached.
async fn send(store: &Store, collection: &str, updates: Vec<Document>) -> bool {
    let command = doc! {"update": collection, "updates": updates, "ordered": true, "writeConcern": {"w": 1}};
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        match store.db.run_command(command.clone()).await {
            Ok(answer) if !answer.contains_key("writeErrors") => return true,
            _ => {}
        }
    }
    false
}
