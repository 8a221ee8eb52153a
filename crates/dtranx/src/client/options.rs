//! Options of a client.

use crate::wire::Secret;

/// Options of a client: its times, limits and secret.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Time limit of one request, such as a read or a commit, in milliseconds.
    pub request_ms: u64,
    /// Greatest number of times that `transact` tries a transaction.
    pub attempts: u32,
    /// Time after the first attempt from which on `transact` begins no other, in milliseconds. An
    /// attempt that has begun is bounded by `request_ms` for each of its requests.
    pub transact_ms: u64,
    /// Number of items in the client's cache; 0 keeps none between transactions.
    pub cache_items: usize,
    /// Secret of the cluster's clients. With it, the client also demands that a server knows it.
    pub secret: Option<Secret>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { request_ms: 10_000, attempts: 100, transact_ms: 120_000, cache_items: 0, secret: None }
    }
}
