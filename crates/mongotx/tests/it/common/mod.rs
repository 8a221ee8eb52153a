//! Parts that the tests which break things share. Each of them uses some.
//!
//! | file | content |
//! | --- | --- |
//! | [`hooks`] | something happens when a client reaches a step for the nth time |
//! | [`world`] | surroundings of a case: a server, a database and a `txs` of its own |
//! | [`scenario`] | the work of the client that is to be broken, and both states its documents may be in |
//! | [`ghost`] | clients that die in this process and leave their locks |
//! | [`worker`] | the same client as a process of its own |
//! | [`verify`] | the properties P1, P3, P7, P9 and P10, checked through other clients |
#![allow(dead_code, reason = "no test binary uses all of it")]

pub(crate) mod ghost;
pub(crate) mod hooks;
pub(crate) mod scenario;
pub(crate) mod verify;
pub(crate) mod worker;
pub(crate) mod world;

use std::time::{Duration, Instant};

/// The longest that anything here is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

/// Polls until `condition` answers something, and fails the test at the limit.
pub(crate) async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
