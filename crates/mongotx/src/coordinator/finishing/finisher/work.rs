//! A decided transaction while it is being finished, and its parts: what it has left in each
//! collection.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
};

use bson::oid::ObjectId;
use protocol::Decided;

use super::HeldDocuments;
use crate::{coordinator::siblings::Claims, options::Namespace};

/// A decided transaction, while it is being finished.
pub(super) struct Work {
    pub(super) id: Decided,
    pub(super) committed: bool,
    /// Given back when everything is clean, or when the server refuses something.
    claims: Mutex<Option<Claims>>,
    /// Parts that are under way, or wait for it.
    open: AtomicUsize,
    /// Number of the transaction's parts (its documents in one collection) that are not clean yet.
    unclean: AtomicUsize,
    /// The connection epoch before the first of its documents was finished.
    epoch: AtomicU64,
    /// Set when all of its documents are clean.
    clean: AtomicBool,
    cleaned: Mutex<Cleaned>,
}

/// The server process that has made documents clean. In a later one they may be as they were
/// before: finishing is not journaled by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cleaned {
    Nothing,
    /// `None`: several servers keep the data, or the process is not known.
    By(Option<ObjectId>),
    BySeveral,
}

impl Work {
    pub(super) fn new(id: Decided, committed: bool, claims: Option<Claims>, parts: usize) -> Self {
        Self {
            id,
            committed,
            claims: Mutex::new(claims),
            open: AtomicUsize::new(parts),
            unclean: AtomicUsize::new(parts),
            epoch: AtomicU64::new(u64::MAX),
            clean: AtomicBool::new(false),
            cleaned: Mutex::new(Cleaned::Nothing),
        }
    }

    /// Releases its claims: no transaction of this client waits for it any more.
    pub(super) fn release(&self) {
        drop(self.claims.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Number of these documents that are locked, unless others have finished them.
    fn locked(&self, held: &[(Namespace, HeldDocuments)]) -> usize {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(ns, held): &(Namespace, HeldDocuments)| match &*claims {
            Some(claims) => {
                let (claimed, left) = claims.count(ns);
                held.own.saturating_sub(claimed) + left
            }
            None => 0,
        };
        held.iter().map(of).sum()
    }

    fn cleaned(&self) -> MutexGuard<'_, Cleaned> {
        // Nothing panics while it is held.
        self.cleaned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this server process has made all of its documents clean that are known to
    /// be.
    pub(super) fn was_cleaned_by(&self, process: Option<ObjectId>) -> bool {
        *self.cleaned() == Cleaned::By(process)
    }

    /// A part was made clean by this server process, since connection epoch `epoch`. Returns the
    /// transaction's epoch, if that was the last part.
    pub(super) fn part_is_clean(&self, epoch: u64, process: Option<ObjectId>) -> Option<u64> {
        {
            let mut cleaned = self.cleaned();
            *cleaned = match *cleaned {
                Cleaned::Nothing => Cleaned::By(process),
                Cleaned::By(earlier) if earlier == process => Cleaned::By(process),
                Cleaned::By(_) | Cleaned::BySeveral => Cleaned::BySeveral,
            };
        }
        self.epoch.fetch_min(epoch, SeqCst);
        let last = self.unclean.fetch_sub(1, SeqCst) == 1;
        if last {
            self.clean.store(true, SeqCst);
            self.release();
        }
        last.then(|| self.epoch.load(SeqCst))
    }

    /// Notes that a part is clean, or that this client does not go on with it for now. True if that
    /// was the last one.
    pub(super) fn part_is_closed(&self) -> bool {
        self.open.fetch_sub(1, SeqCst) == 1
    }

    pub(super) fn is_clean(&self) -> bool {
        self.clean.load(SeqCst)
    }
}

/// Documents that a transaction has left in some collections: in one, but for those that have a
/// flight of their own.
pub(super) struct Part {
    pub(super) work: Arc<Work>,
    pub(super) held: Vec<(Namespace, HeldDocuments)>,
}

impl Part {
    pub(super) fn namespaces(&self) -> impl Iterator<Item = Namespace> {
        self.held.iter().map(|(ns, _)| ns.clone())
    }

    /// Number of documents to finish, unless others do it.
    pub(super) fn locked(&self) -> usize {
        if self.work.committed { self.work.locked(&self.held) } else { 0 }
    }
}
