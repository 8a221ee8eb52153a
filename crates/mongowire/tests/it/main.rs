//! Connections to real servers, and to servers that misbehave.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test may panic")]

mod fake;
mod given_up;
mod login;
mod misbehaving;
mod modules;
mod pools;
mod real;
mod tls;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use mongodb::options::ClientOptions;
use mongowire::{Pool, PoolLimits, Settings};

/// Longer than anything takes on a machine that stands still for a while.
const LIMIT: Duration = Duration::from_secs(60);

async fn settings(uri: &str) -> Settings {
    Settings::from_driver_options(&ClientOptions::parse(uri).await.unwrap()).unwrap()
}

fn limits(most: usize) -> PoolLimits {
    PoolLimits { most, wait: LIMIT, idle: None }
}

/// A pool, and the number of connections that it has begun and made.
fn pool(settings: Settings, limits: PoolLimits) -> (Pool, Arc<AtomicU64>) {
    let begun = Arc::new(AtomicU64::new(0));
    (Pool::new(settings, limits, Arc::clone(&begun)), begun)
}
