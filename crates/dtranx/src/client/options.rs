//! How a client behaves.

use crate::wire::Secret;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How long a request may take: a read, a commit.
    pub request_ms: u64,
    /// How often `transact` tries a transaction.
    pub attempts: u32,
    /// How long `transact` goes on trying: no attempt begins later than this after the first. One that has begun is
    /// bounded by `request_ms` for each of its requests.
    pub transact_ms: u64,
    /// How many items the client keeps in its cache; 0 keeps none between transactions.
    pub cache_items: usize,
    /// What the cluster's clients have to know. With it, a server has to know it, too.
    pub secret: Option<Secret>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { request_ms: 10_000, attempts: 100, transact_ms: 120_000, cache_items: 0, secret: None }
    }
}
