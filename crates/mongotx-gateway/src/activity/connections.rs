//! All connections of a gateway, for those who look at what runs on them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::ConnectionActivity;

/// The connections by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<BTreeMap<i64, Arc<ConnectionActivity>>>);

/// A connection is in the table as long as this lives.
#[derive(Debug)]
pub(crate) struct ListedConnection {
    connections: Arc<Connections>,
    number: i64,
}

impl Drop for ListedConnection {
    fn drop(&mut self) {
        self.connections.locked().remove(&self.number);
    }
}

impl Connections {
    pub(crate) fn list(self: &Arc<Self>, doing: &Arc<ConnectionActivity>) -> ListedConnection {
        self.locked().insert(doing.connection, Arc::clone(doing));
        ListedConnection { connections: Arc::clone(self), number: doing.connection }
    }

    /// The connections that are wanted, the oldest first, at most `most`.
    pub(crate) fn some(
        &self,
        most: usize,
        is_wanted: impl Fn(&ConnectionActivity) -> bool,
    ) -> Vec<Arc<ConnectionActivity>> {
        self.locked().values().filter(|doing| is_wanted(doing)).take(most).cloned().collect()
    }

    /// The connection of this number.
    pub(crate) fn find(&self, number: i64) -> Option<Arc<ConnectionActivity>> {
        self.locked().get(&number).cloned()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<i64, Arc<ConnectionActivity>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
