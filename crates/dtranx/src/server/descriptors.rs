//! The limit of open files and connections of the process (`ulimit -n`), and its division. Log,
//! storage, garbage collection and the other servers have theirs in any case; clients get what is
//! left.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ConfigError;

/// Descriptors that the process has open by itself, and that log, storage and garbage collection
/// open for a while.
const RESERVE: u64 = 64;
/// For each other server: the connection to it, the one from it, and one that takes the place of
/// either.
const PER_SERVER: u64 = 3;
/// Connections of callers that have not said who they are, beside those of clients.
pub(super) const HANDSHAKES: u64 = 32;
/// Descriptors that the storage keeps open: a quarter of the limit, within these.
const STORAGE_FILES: std::ops::RangeInclusive<u64> = 32..=900;
/// Connections of clients, if the configuration names no number and the limit allows.
const USUAL_CLIENTS: u64 = 4096;
/// Connections of clients without which a server does not start.
const FEWEST_CLIENTS: u64 = 8;

/// Raises the soft limit of open files to the hard one, as far as the system allows, for the whole
/// process. Returns the limit that holds then.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Without it there are fewer.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    self::limit()
}

/// The limit of the process as it is.
pub(super) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Number of files that the storage may keep open.
pub(super) fn storage_files(limit: u64) -> usize {
    (limit / 4).clamp(*STORAGE_FILES.start(), *STORAGE_FILES.end()) as usize
}

/// Descriptors that are left for clients.
fn left(limit: u64, servers: usize) -> u64 {
    let others = (servers as u64).saturating_sub(1);
    limit.saturating_sub(RESERVE + storage_files(limit) as u64 + PER_SERVER * others + HANDSHAKES)
}

/// Number of connections that clients may have, in a cluster of so many servers; `asked`: the
/// configured number.
pub(super) fn client_connections(limit: u64, servers: usize, asked: Option<u32>) -> Result<usize, ConfigError> {
    let left = left(limit, servers);
    let field = "limits.client_connections".to_owned();
    match asked.map(u64::from) {
        Some(asked) if asked > left => {
            let what = format!("{asked}: {left} with a limit of {limit} open files (ulimit -n)");
            Err(ConfigError::Field { field, what })
        }
        Some(asked) => Ok(asked as usize),
        None if left < FEWEST_CLIENTS => {
            let least = (limit..).find(|limit| self::left(*limit, servers) >= FEWEST_CLIENTS).unwrap_or(limit);
            let what = format!("a limit of {limit} open files (ulimit -n) leaves none; this server needs {least}");
            Err(ConfigError::Field { field, what })
        }
        None => Ok(left.min(USUAL_CLIENTS) as usize),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_log_storage_and_servers_leave() {
        assert_eq!(client_connections(256, 1, None).unwrap(), 96);
        assert_eq!(client_connections(256, 3, None).unwrap(), 90);
        assert_eq!(client_connections(1 << 20, 3, None).unwrap(), 4096);
        assert_eq!(client_connections(1 << 20, 3, Some(10_000)).unwrap(), 10_000);
        assert_eq!(client_connections(256, 3, Some(90)).unwrap(), 90);
    }

    #[test]
    fn limit_that_is_too_low_is_named() {
        let said = |asked, limit| client_connections(limit, 3, asked).unwrap_err().to_string();
        assert_eq!(said(Some(91), 256), "limits.client_connections: 91: 90 with a limit of 256 open files (ulimit -n)");
        let least =
            "limits.client_connections: a limit of 141 open files (ulimit -n) leaves none; this server needs 146";
        assert_eq!(said(None, 141), least);
        assert!(client_connections(146, 3, None).is_ok());
    }
}
