//! One server between all tests of a process, and a database of its own for each test.
//!
//! A static is never dropped; the leash of `process.rs` ends the servers here when the test process
//! ends.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::OnceCell;

use crate::error::Error;
use crate::options::ServerOptions;
use crate::server::Server;

static STANDALONE: OnceCell<Server> = OnceCell::const_new();
static REPLICA_SET: OnceCell<Server> = OnceCell::const_new();
static NEXT_DATABASE: AtomicU64 = AtomicU64::new(0);

/// MongoDB allows 63 bytes for a database name; the rest is for the process id and the counter.
const NAME_LIMIT: usize = 30;

/// The standalone server of this process, started at the first call. Tests that kill or pause a
/// server start their own.
///
/// # Errors
/// As [`crate::ServerOptions::start`]; the next call then tries again.
pub async fn shared_standalone() -> Result<&'static Server, Error> {
    STANDALONE.get_or_try_init(|| ServerOptions::standalone().in_memory().start()).await
}

/// The one-node replica set of this process, started at the first call.
///
/// # Errors
/// As [`shared_standalone`].
pub async fn shared_replica_set() -> Result<&'static Server, Error> {
    REPLICA_SET.get_or_try_init(|| ServerOptions::replica_set().in_memory().start()).await
}

/// A database name that no other call in this or any other running process gets. `name` says which
/// test it belongs to; what MongoDB does not allow in a database name becomes an underscore.
pub fn unique_db(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().take(NAME_LIMIT).map(allowed).collect();
    let count = NEXT_DATABASE.fetch_add(1, Ordering::Relaxed);
    format!("{name}_{}_{count}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_for_one_test_differ() {
        assert_ne!(unique_db("test"), unique_db("test"));
    }

    #[test]
    fn a_name_is_allowed_and_short_enough() {
        let name = unique_db(&"a/b. $".repeat(50));
        assert!(name.len() <= 63 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{name}");
    }
}
