//! Collections that are stored in the order of their `_id`s, without an index on it.
//!
//! Of a statement that names several documents of such a collection by their `_id`s the server
//! scans everything between the smallest and the largest, unless another index finds them.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::options::Namespace;

/// Limit of the names that are kept. Of further collections, and of those that the catalog has not
/// read yet, it is not known that they are clustered: statements cost more there.
const MAX_NAMES: usize = 1_000;

/// Names of clustered collections that this client has met.
#[derive(Default)]
pub(crate) struct Clustered(Mutex<HashSet<Namespace>>);

impl Clustered {
    pub(crate) fn note(&self, ns: &Namespace) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < MAX_NAMES {
            names.insert(ns.clone());
        }
    }

    pub(crate) fn has(&self, ns: &Namespace) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(ns)
    }
}
