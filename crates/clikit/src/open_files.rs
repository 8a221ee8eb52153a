//! The limit on open files: each connection of a gateway is one.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::say;

/// Allows as many open files as the system lets this process have.
pub fn allow_most() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        say::warn(&format!("the limit on open files stays as it is: {error}"));
    }
}
