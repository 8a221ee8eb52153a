//! Counters of a client: its transactions, why they ended, and the commands it sent.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of a client at one moment, as [`crate::Client::metrics`] answers them.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
            /// Commands sent to the server, by name; none if they are not counted
            /// ([`crate::ClientOptions::count_commands`]).
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
    /// Transactions rolled back because a lease or a maximum life ended, or a rival rolled them
    /// back.
    aborts_expired,
    /// Transactions rolled back because the server could not be reached or an answer was lost.
    aborts_unavailable,
    /// Commits whose outcome was not known when they were answered.
    indeterminate,
    /// Documents of other clients' transactions that were finished here.
    finished_for_others,
    /// Documents of other clients' transactions that were undone here.
    undone_for_others,
    /// Records of dead clients that were fenced here.
    fenced,
    /// Transactions run again by `with_transaction`, and single calls repeated after a conflict.
    retries,
    /// Waits for a lock of another transaction.
    waits,
    /// Writes to the client record.
    record_writes,
    /// Commands that were sent in one write with another one before them: they cost no way of their
    /// own to the server and back.
    sent_along,
    /// Queries that were answered without a probe for pending documents, because the client was
    /// alone and held a read lease.
    unprobed,
    /// Queries that were sent so, and sent again with a probe: the lease was over when the answer
    /// came, or what the client's own transactions have changed could be shown in part.
    unprobed_in_vain,
    /// Commands or writes by which a validation has read several things again together.
    validation_questions,
    /// Times that a validation has read everything again because it could have changed meanwhile:
    /// others have decided, or the client has begun a connection, so that the answers may have come
    /// from two server processes.
    validations_disturbed,
    /// Validations that have read nothing again: nothing had changed what was read.
    validations_unasked,
    /// Validations that took something for unchanged which the later look did not show to be.
    validations_unasked_in_vain,
    /// Looks at the change stamps that were sent behind such reads, in the same write, and
    /// that a validation has rested on.
    looks_behind,
    /// Validations that have rested on reads sent behind the transaction's last insert, in the same
    /// write.
    validated_ahead,
    /// Requests for quiet, made by transactions that had failed their validation repeatedly.
    quiets,
    /// Decisions held back because another transaction had requested quiet.
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
    /// Number of all commands sent to the server; 0 if they are not counted.
    ///
    /// ```
    /// let metrics = mongotx::Metrics::default();
    /// assert_eq!(metrics.commands_sent(), 0);
    /// ```
    pub fn commands_sent(&self) -> u64 {
        self.commands.values().sum()
    }
}
