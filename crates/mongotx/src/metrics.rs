//! Counters: what a client did, and why transactions ended.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of a client, at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
            /// Commands sent to the server, by name; none if they are not counted ([`crate::ClientOptions::count_commands`]).
            pub commands: BTreeMap<String, u64>,
        }

        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            commands: Mutex<BTreeMap<String, u64>>,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Metrics {
                let commands = self.commands.lock().map(|map| map.clone()).unwrap_or_default();
                Metrics { $($name: self.$name.load(Relaxed),)* commands }
            }
        }
    };
}

counters! {
    /// Transactions committed, those of single calls included.
    commits,
    /// Transactions rolled back by their caller.
    rollbacks,
    /// Transactions rolled back because a rival was in the way.
    aborts_conflict,
    /// Transactions rolled back because a lease or a maximum life ended, or a rival rolled them back.
    aborts_expired,
    /// Transactions rolled back because the server could not be reached or an answer was lost.
    aborts_unavailable,
    /// Commits whose outcome was not known when they were answered.
    indeterminate,
    /// Documents of others that were rolled forward.
    rolled_forward,
    /// Documents of others that were rolled back.
    rolled_back,
    /// Records of dead clients that were fenced.
    fenced,
    /// Transactions run again by `with_transaction`, and single calls repeated after a conflict.
    retries,
    /// Times somebody waited for a rival's lock.
    waits,
    /// Writes to the client record.
    record_writes,
    /// Times a reader that had lost its validation again and again asked for quiet.
    quiets,
    /// Decisions that were held back because a reader had asked for quiet.
    held_back,
    /// Transactions that were validated again because a serializable reader had passed them by.
    validated_again,
    /// Rivals that a serializable reader in quiet did not wait for.
    passed_by,
}

impl Counters {
    pub(crate) fn add(&self, counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    pub(crate) fn count_command(&self, name: &str) {
        if let Ok(mut commands) = self.commands.lock() {
            match commands.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    commands.insert(name.to_owned(), 1);
                }
            }
        }
    }
}

impl Metrics {
    /// All commands sent.
    pub fn commands_sent(&self) -> u64 {
        self.commands.values().sum()
    }
}
