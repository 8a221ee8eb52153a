//! Items of which a crash takes what was not persisted.

use std::sync::{Mutex, PoisonError};

use crate::core::{Item, Key, KeyRange, TranxId, Write};
use crate::storage::{Found, InMemory, Result, ScanLimit, Storage};

#[derive(Default)]
pub(super) struct Items {
    memory: InMemory,
    history: Mutex<History>,
}

#[derive(Clone, Default)]
struct History {
    applied: Vec<(TranxId, Vec<Write>)>,
    /// Number of these commits that are durable.
    persisted: usize,
}

impl Items {
    /// The items that are there after a crash.
    pub(super) fn after_crash(&self) -> Self {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner).clone();
        history.applied.truncate(history.persisted);
        let memory = InMemory::new();
        memory.apply(&history.applied).unwrap();
        Self { memory, history: Mutex::new(history) }
    }
}

impl Storage for Items {
    fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.memory.get(key)
    }

    fn cached(&self, key: &Key) -> Option<Option<Item>> {
        self.memory.cached(key)
    }

    fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<Found> {
        self.memory.scan(range, limit)
    }

    fn apply(&self, commits: &[(TranxId, Vec<Write>)]) -> Result<()> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).applied.extend_from_slice(commits);
        self.memory.apply(commits)
    }

    fn persist(&self) -> Result<()> {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.persisted = history.applied.len();
        Ok(())
    }
}
