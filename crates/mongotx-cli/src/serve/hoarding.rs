//! Limits on what clients keep for themselves, and for how long.

use std::time::Duration;

use clap::Args;
use mongotx_gateway::{Limits, SessionLimits};

/// Limits of what clients keep between commands.
#[derive(Args, Clone)]
pub(crate) struct HoardingOptions {
    /// Client connections of one address at the same time; 0: as many as --max-connections says
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    max_connections_per_address: u32,
    /// Time of silence after which a connection that has not logged in is closed, where --users is
    /// given; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    login_timeout: u32,
    /// Longest time from the opening of a connection to its first message
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    first_message_timeout: u32,
    /// Longest time from the first byte of a message to its last
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    message_timeout: u32,
    /// Longest time for a client to accept an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    answer_timeout: u32,
    /// Connections to the server for commands that are passed on, at the same time
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_upstream_connections: u32,
    /// How long a command waits for a connection to the server (--max-upstream-connections)
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    upstream_wait: u32,
    /// Sessions that are kept at a time. Those that hold no transaction and remember no write make
    /// room for others; a user who has logged in has half of them at most
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    max_sessions: u32,
    /// Time after which an unused session is removed, with its transaction and its cursors
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    session_timeout: u32,
    /// How long a transaction may be open, as transactionLifetimeLimitSeconds of MongoDB; 0: as
    /// long as its session is used
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=604_800))]
    transaction_lifetime: u32,
    /// Documents that a transaction may write, reads of it that are validated at its commit, and
    /// documents that a read at snapshot or linearizable outside transactions may answer. A
    /// document that is written takes about 1 KiB here until it is finished
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    max_transaction_documents: u32,
    /// Size of what a read at snapshot or linearizable outside transactions may answer: all of it
    /// is kept until it is fetched
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    max_snapshot_read_mib: u32,
    /// Cursors that are open at a time. A user who has logged in has half of them at most
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_cursors: u32,
    /// Time after which an unused cursor is closed; with noCursorTimeout it is kept as long as a
    /// session
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    cursor_timeout: u32,
}

impl HoardingOptions {
    /// These limits, and others as they are.
    pub(super) fn limits(&self, others: Limits) -> Limits {
        Limits {
            connections_per_address: (self.max_connections_per_address > 0)
                .then(|| count(self.max_connections_per_address)),
            login: (self.login_timeout > 0).then(|| seconds(self.login_timeout)),
            first_message: seconds(self.first_message_timeout),
            message: seconds(self.message_timeout),
            answer: seconds(self.answer_timeout),
            upstream: count(self.max_upstream_connections),
            upstream_wait: seconds(self.upstream_wait),
            ..others
        }
    }

    /// Of these options, those that a gateway which runs cannot change.
    pub(super) fn fixed(&self) -> [(&'static str, String); 3] {
        [
            ("max-upstream-connections", self.max_upstream_connections.to_string()),
            ("upstream-wait", self.upstream_wait.to_string()),
            ("max-transaction-documents", self.max_transaction_documents.to_string()),
        ]
    }

    pub(super) fn transaction_documents(&self) -> usize {
        count(self.max_transaction_documents)
    }

    pub(super) fn sessions(&self) -> SessionLimits {
        SessionLimits {
            sessions: count(self.max_sessions),
            session_timeout: seconds(self.session_timeout),
            transaction_lifetime: match self.transaction_lifetime {
                0 => Duration::MAX,
                lifetime => seconds(lifetime),
            },
            cursors: count(self.max_cursors),
            cursor_timeout: seconds(self.cursor_timeout),
            validated_read_documents: self.transaction_documents(),
            validated_read_bytes: usize::try_from(u64::from(self.max_snapshot_read_mib) << 20).unwrap_or(usize::MAX),
        }
    }
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}
