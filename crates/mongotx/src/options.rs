//! Options of clients and transactions, with their defaults, their limits and the check of both.
//! `docs/configuration.md` has a row for each, which a test compares.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use bson::Document;
use protocol::Concern;

pub use crate::namespace::Namespace;
use crate::{
    clock::Clock,
    error::{Error, Result},
    steps::Hook,
};

/// The isolation level of a transaction.
///
/// | forbids | read committed | repeatable read | snapshot | serializable |
/// | --- | --- | --- | --- | --- |
/// | dirty writes and reads | yes | yes | yes | yes |
/// | lost updates, read skew | no | yes | yes | yes |
/// | phantoms | no | no | yes | yes |
/// | write skew | no | among documents that were read | no | yes |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// No dirty writes, no dirty reads; every read sees the latest committed documents. Readers
    /// never wait or abort.
    ReadCommitted,
    /// Read committed, and besides, a document that was read does not change until the transaction
    /// ends. Readers take read locks.
    RepeatableRead,
    /// All that a transaction that commits has read was so at one moment, and no other transaction
    /// has changed since then what it writes: no lost updates, no read skew, no phantoms. Readers
    /// take no locks; the commit reads again what was read.
    #[default]
    Snapshot,
    /// Snapshot, and besides, the transactions that commit have an order in which they could have
    /// run one after the other, and it agrees with real time. A commit waits for, or gives way to,
    /// transactions that are about to change what it has read.
    Serializable,
}

impl Isolation {
    /// True for the levels at which the commit validates what was read.
    ///
    /// ```
    /// use mongotx::Isolation;
    ///
    /// assert!(Isolation::Snapshot.validates() && !Isolation::ReadCommitted.validates());
    /// ```
    pub fn validates(self) -> bool {
        matches!(self, Self::Snapshot | Self::Serializable)
    }
}

/// The form in which the outcome of transactions is stored. Only with the feature `testing`, and
/// outside of what versions promise.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// One record for each client; transactions that commit at the same time share a write to it.
    #[default]
    ClientRecord,
    /// For benchmarks: one record per transaction, inserted at its first write and removed at its
    /// end, as in section 4.1 of paper 000. Outcomes are not kept after the end, a transaction's
    /// lease is not extended while it runs, and, as published, a server that is killed while
    /// documents are being finished can lose half of a commit.
    Published,
}

/// The level of detail of an `explain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verbosity {
    /// The winning plan; the query is not run.
    #[default]
    QueryPlanner,
    /// The winning plan, and the figures of running it.
    ExecutionStats,
    /// The winning plan, and the figures of running it and of trying the other plans.
    AllPlansExecution,
}

impl Verbosity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::QueryPlanner => "queryPlanner",
            Self::ExecutionStats => "executionStats",
            Self::AllPlansExecution => "allPlansExecution",
        }
    }
}

/// The collections that are watched: transactions and single writes that change them leave events
/// for change streams ([`crate::Client::changes`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeStreams {
    /// Collections whose option `changeStreamPreAndPostImages` is `{enabled: true}`: it is set by
    /// `create` and `collMod`.
    #[default]
    SwitchedOn,
    /// All that transactions can write to, but those of the server's databases and of MongoTx's
    /// own.
    All,
}

/// Options of one transaction: its isolation level, how durable its commit is, and its time limits.
///
/// ```
/// use std::time::Duration;
///
/// use mongotx::{Isolation, TransactionOptions};
///
/// let options = TransactionOptions {
///     isolation: Some(Isolation::Serializable),
///     lock_wait: Duration::from_millis(200),
///     max_life: Some(Duration::from_secs(30)),
///     ..TransactionOptions::default()
/// };
/// # assert!(options.isolation.unwrap().validates());
/// ```
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// Isolation level of the transaction. `None`, the default: that of the client.
    pub isolation: Option<Isolation>,
    /// Write concern of the commit: what the server waits for before it answers. Default: the
    /// journal. On a replica set it waits for the journals of a majority at least, whatever is set
    /// here: with less, half of a commit could be lost.
    pub concern: Concern,
    /// Time that a write (and a repeatable read) waits for another transaction that holds its
    /// document, before it fails with a conflict. Default: zero, it fails at once.
    pub lock_wait: Duration,
    /// Time after the client's last sign of life for which other clients leave the transaction
    /// alone. Default: the client's lease.
    pub lease: Option<Duration>,
    /// Longest time between the beginning of the transaction and its commit; one that is used later
    /// is rolled back. Default: none.
    pub max_life: Option<Duration>,
    /// The transaction is rolled back by its client when it has a number (it has written, or read
    /// at repeatable read) and no statement was sent in it for this time; its next statement fails
    /// with [`crate::ErrorKind::Expired`]. Reading on in an open cursor is no statement. Default:
    /// the client's.
    pub idle_limit: Option<Duration>,
    /// Origin of the transaction, stored with each of its change events ([`crate::Event`]).
    pub origin: Option<Document>,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self {
            isolation: None,
            concern: Concern::default(),
            lock_wait: Duration::ZERO,
            lease: None,
            max_life: None,
            idle_limit: None,
            origin: None,
        }
    }
}

/// Options of a client: the defaults of its transactions, its lease, and its limits.
///
/// ```
/// use std::time::Duration;
///
/// use mongotx::{ClientOptions, Isolation};
///
/// let options = ClientOptions {
///     isolation: Isolation::Serializable,
///     write_wait: Duration::from_secs(5),
///     ..ClientOptions::default()
/// };
/// # assert_eq!(options.lease, Duration::from_secs(10));
/// ```
#[derive(Clone)]
pub struct ClientOptions {
    /// Name of the database that holds the client records. Every client and gateway of a deployment
    /// must use the same one. The user of the connection must be allowed to read and write there,
    /// also if the client only writes outside transactions: it gives notice of that to the others.
    /// Default: `mongotx`.
    pub tx_database: String,
    /// Name of the application, for people who look at what is in flight: it is stored in the
    /// client's record, with the machine's name and the number of the process. `None`: `appName` of
    /// the connection string.
    pub application: Option<String>,
    /// Form in which the outcome of transactions is stored. Only with the feature `testing`, and
    /// outside of what versions promise. Default: what every client without that feature has.
    #[cfg(feature = "testing")]
    pub layout: Layout,
    /// Isolation level of transactions that choose none. Default: snapshot.
    pub isolation: Isolation,
    /// Lease: when the client has given no sign of life for this time, by the server's clock, other
    /// clients may roll back its undecided transactions. Signs of life come three times as often.
    /// Default: 10 seconds.
    pub lease: Duration,
    /// Time that a transaction that may hold locks can be left without a statement before the
    /// client rolls it back: see [`TransactionOptions::idle_limit`]. The client's signs of life are
    /// for all of its transactions, so that the lease does not end for one that is forgotten.
    /// Default: 60 seconds.
    pub idle_limit: Duration,
    /// Time that a write outside a transaction waits for a transaction that holds its document.
    /// Default: 20 seconds.
    pub write_wait: Duration,
    /// Time for which a commit is tried before it is answered as indeterminate. Default: 30
    /// seconds.
    pub commit_timeout: Duration,
    /// Longest time for which `with_transaction` runs a transaction again. Default: 120 seconds.
    pub retry_limit: Duration,
    /// Time that the documents of a committed transaction stay locked so that one command makes
    /// those of several transactions free: until nothing was committed in their collection for this
    /// time, and four times as long at most. They are made free at once when 64 of a collection
    /// have come together, or when another transaction of this client needs them: for a query that
    /// has to see them, or a write that cannot take them over. Other clients that meet them have to
    /// look up the outcome, which costs them commands; once one has, nothing stays locked for a
    /// second. Zero to 10 seconds; default: 50 milliseconds.
    pub finish_delay: Duration,
    /// Number of documents that one transaction may hold, and one repeatable read may lock.
    /// Default: 100,000.
    pub max_documents: usize,
    /// True if the client looks for locks of dead clients when it starts and every few leases.
    /// Default: true.
    pub sweep: bool,
    /// True if the client sends its queries without a look for what other clients have committed
    /// and not finished, while it is the only one of its deployment. It makes sure of that by a
    /// lease of one second, which rests on the clocks of its machine: where a virtual machine may
    /// be stopped in such a way that its clocks stop with it, set this to false. A client that
    /// connects waits until the lease is over, two seconds at most, before its first transaction
    /// locks anything. What a transaction at snapshot or serializable has read is read again at its
    /// commit, without the lease. Default: true.
    pub read_lease: bool,
    /// True if commands that are sent are counted, by name ([`crate::Metrics::commands`]). For that
    /// the driver decodes each of its commands and answers once more, so a gateway does without.
    /// Default: true.
    pub count_commands: bool,
    /// The shard keys of collections, as dotted paths: every command about a document of theirs
    /// carries its values, and they cannot be changed in a transaction. On a router (`mongos`) keys
    /// need not be declared: they are read from its metadata.
    pub shard_keys: HashMap<Namespace, Vec<String>>,
    /// The collections that are watched. Every client of a deployment must have the same value.
    pub change_streams: ChangeStreams,
    /// Number of events of watched collections that are kept, of all collections together. Older
    /// ones are removed. Default: a million.
    pub change_events: u64,
    /// Clock from which change events get their times. Default: the machine's clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Called at every step of the protocol, to break it there. Only with the feature `testing`,
    /// and outside of what versions promise. Default: none.
    #[cfg(feature = "testing")]
    pub hook: Option<Arc<dyn crate::StepHook>>,
    /// Rounds of a thousand documents that a sweep repairs in each collection. Only with the
    /// feature `testing`, and outside of what versions promise. Default: a thousand rounds.
    #[cfg(feature = "testing")]
    pub sweep_rounds: Option<usize>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            tx_database: "mongotx".to_owned(),
            application: None,
            #[cfg(feature = "testing")]
            layout: Layout::default(),
            isolation: Isolation::default(),
            lease: Duration::from_secs(10),
            idle_limit: Duration::from_secs(60),
            write_wait: Duration::from_secs(20),
            commit_timeout: Duration::from_secs(30),
            retry_limit: Duration::from_secs(120),
            finish_delay: Duration::from_millis(50),
            max_documents: 100_000,
            sweep: true,
            read_lease: true,
            count_commands: true,
            shard_keys: HashMap::new(),
            change_streams: ChangeStreams::default(),
            change_events: 1_000_000,
            clock: None,
            #[cfg(feature = "testing")]
            hook: None,
            #[cfg(feature = "testing")]
            sweep_rounds: None,
        }
    }
}

/// The longest delay that [`ClientOptions::finish_delay`] may have.
const LONGEST_FINISH_DELAY: Duration = Duration::from_secs(10);
/// The longest lease: for so long a dead client may stop others.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3_600);
/// The longest time that anything is waited for or tried.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3_600);
/// Default of [`ClientOptions::sweep_rounds`].
const SWEEP_ROUNDS: usize = 1_000;

/// # Errors
/// [`crate::ErrorKind::Invalid`] for a time that is longer than it may be.
fn check_time(option: &str, given: Duration, longest: Duration) -> Result<()> {
    if given <= longest {
        return Ok(());
    }
    Err(Error::invalid(2, format!("{option} can be {longest:?} at most, not {given:?}")))
}

impl TransactionOptions {
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a time that is longer than it may be.
    pub(crate) fn check(&self) -> Result<()> {
        check_time("lock_wait", self.lock_wait, LONGEST_WAIT)?;
        self.lease.map_or(Ok(()), |lease| check_time("lease", lease, LONGEST_LEASE))
    }
}

impl ClientOptions {
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for what is out of its bounds.
    pub(crate) fn check(&self) -> Result<()> {
        let limits = [
            ("lease", self.lease, LONGEST_LEASE),
            ("write_wait", self.write_wait, LONGEST_WAIT),
            ("commit_timeout", self.commit_timeout, LONGEST_WAIT),
            ("retry_limit", self.retry_limit, LONGEST_WAIT),
            ("finish_delay", self.finish_delay, LONGEST_FINISH_DELAY),
        ];
        limits.into_iter().try_for_each(|(option, given, longest)| check_time(option, given, longest))
    }

    /// Rounds of a thousand documents that a sweep repairs in each collection.
    pub(crate) fn sweep_rounds(&self) -> usize {
        #[cfg(feature = "testing")]
        {
            self.sweep_rounds.unwrap_or(SWEEP_ROUNDS)
        }
        #[cfg(not(feature = "testing"))]
        {
            SWEEP_ROUNDS
        }
    }

    /// True if outcomes are stored in the published layout, the benchmarks' baseline.
    pub(crate) fn is_published(&self) -> bool {
        #[cfg(feature = "testing")]
        {
            self.layout == Layout::Published
        }
        #[cfg(not(feature = "testing"))]
        {
            false
        }
    }

    /// The function that is called at each step of the protocol, in tests.
    pub(crate) fn hook(&self) -> Hook {
        #[cfg(feature = "testing")]
        {
            if self.hook.is_some() {
                // `packaging/test` looks for this text in the released program.
                tracing::debug!("the steps of this client call a hook");
            }
            Hook::new(self.hook.clone())
        }
        #[cfg(not(feature = "testing"))]
        {
            Hook::default()
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("tx_database", &self.tx_database)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Names of the public fields of a struct in this file, but for those of the feature `testing`.
    fn fields(of: &str) -> BTreeSet<&'static str> {
        let body = include_str!("options.rs").split(&format!("pub struct {of} {{")).nth(1).unwrap();
        let fields = body.split("\n}").next().unwrap().split("    pub ").skip(1);
        let for_tests = ["hook", "layout", "sweep_rounds"];
        fields.map(|field| field.split(':').next().unwrap()).filter(|name| !for_tests.contains(name)).collect()
    }

    #[test]
    fn every_option_is_on_the_page() {
        let page = include_str!("../../../docs/configuration.md");
        for of in ["ClientOptions", "TransactionOptions"] {
            let section = page.split(&format!("\n## `{of}`")).nth(1).unwrap().split("\n## ").next().unwrap();
            let first = |line: &'static str| line.strip_prefix("| `")?.split_once("` | ").map(|(name, _)| name);
            let rows: BTreeSet<&str> = section.lines().filter_map(first).filter(|name| !name.contains(' ')).collect();
            let fields = fields(of);
            assert!(fields.len() > 5, "{of}: {fields:?}");
            assert_eq!(rows, fields, "docs/configuration.md, {of}");
        }
    }
}
