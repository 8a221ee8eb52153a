//! What a caller may choose, and the limits that hold when nothing is chosen.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use protocol::Concern;

use crate::{
    error::{Error, Result},
    steps::StepHook,
};

/// A collection's full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// The database.
    pub db: String,
    /// The collection.
    pub coll: String,
}

impl Namespace {
    pub(crate) fn new(db: &str, coll: &str) -> Self {
        Self { db: db.to_owned(), coll: coll.to_owned() }
    }

    /// Reads `db.coll`; the collection may contain dots.
    pub fn parse_namespace(text: &str) -> Option<Self> {
        text.split_once('.')
            .filter(|(db, coll)| !db.is_empty() && !coll.is_empty())
            .map(|(db, coll)| Self::new(db, coll))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}

/// What a transaction is protected from. See `docs/isolation.md` for the anomalies that each level forbids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// No dirty writes, no dirty reads; every read sees the latest committed documents. Readers never wait or abort.
    ReadCommitted,
    /// Besides, a document once read does not change until the transaction ends. Readers take read locks.
    RepeatableRead,
    /// What a transaction that commits has read was so at one moment, and nobody has changed since then what it writes: no lost
    /// updates, no read skew, no phantoms. Readers take no locks; the commit reads again what was read.
    #[default]
    Snapshot,
    /// Besides, the transactions that commit have an order in which they could have run one after the other, and it is that of
    /// real time. A commit waits for, or gives way to, rivals that are about to change what it has read.
    Serializable,
}

impl Isolation {
    /// Is what was read validated at the commit?
    pub fn validates(self) -> bool {
        matches!(self, Self::Snapshot | Self::Serializable)
    }
}

/// How the fate of transactions is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// One record per client, decisions in groups.
    #[default]
    ClientRecord,
    /// One record per transaction, inserted at its first write and removed at its end, as in section 4.1 of paper 000.
    /// The baseline of the benchmarks, not for production: outcomes cannot be asked for after the end, a transaction's
    /// lease is not extended while it runs, and, as published, a server that is killed while documents are being
    /// finished can lose half of a commit.
    Published,
}

/// How much an `explain` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verbosity {
    /// The plan that wins; the query is not run.
    #[default]
    QueryPlanner,
    /// Besides, what running it took.
    ExecutionStats,
    /// Besides, what trying the other plans took.
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

/// Options of one transaction.
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// What it is protected from. Default: the client's.
    pub isolation: Option<Isolation>,
    /// What a commit waits for before it is answered: the journal, by default. Where several servers keep the data it waits for
    /// the majority of them at least, and for its journals, whatever is asked: with less, half of a commit could be lost.
    pub concern: Concern,
    /// How long a write (and a repeatable read) waits for an active rival before it fails with a conflict. Zero, the
    /// default, fails at once.
    pub lock_wait: Duration,
    /// How long after the client's last sign of life rivals have to leave the transaction alone. Default: the
    /// client's lease.
    pub lease: Option<Duration>,
    /// The transaction is rolled back when it is used, or committed, later than this after its beginning. Default: none.
    pub max_life: Option<Duration>,
    /// The transaction is rolled back by its client when it has a number (it has written, or read at repeatable read) and
    /// no statement was sent in it for so long; its next statement fails with [`crate::ErrorKind::Expired`]. Reading on
    /// in an open cursor is no statement. Default: the client's.
    pub idle_limit: Option<Duration>,
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
        }
    }
}

/// Options of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// The database that holds the collection `txs`. Every client of a deployment must use the same one.
    pub tx_database: String,
    /// Name of the application, for people who look at what is in flight: it is stored in the client's record, with the machine's name
    /// and the number of the process. `None`: `appName` of the connection string.
    pub application: Option<String>,
    /// How the fate of transactions is stored.
    pub layout: Layout,
    /// What transactions are protected from that choose nothing else: snapshot.
    pub isolation: Isolation,
    /// The default lease: rivals may roll back what a client left undecided when it has given no sign of life for so
    /// long, by the server's clock. Signs of life come three times as often.
    pub lease: Duration,
    /// How long a transaction that may hold locks can be left without a statement before the client rolls it back: see
    /// [`TransactionOptions::idle_limit`]. The client's signs of life are for all of its transactions, so that the lease does not
    /// end for one that is forgotten. 60 seconds.
    pub idle_limit: Duration,
    /// How long a write outside a transaction waits for a transaction that holds its document.
    pub write_wait: Duration,
    /// How long a commit is tried before it is answered as indeterminate.
    pub commit_timeout: Duration,
    /// The longest time that `with_transaction` goes on retrying.
    pub retry_limit: Duration,
    /// How long the documents of a committed transaction stay locked so that those of several
    /// transactions are made free by one command: until nothing was committed in their collection for
    /// so long, and four times as long at most. They are made free at once when 64 of a collection
    /// have come together, or when anybody of this client wants them: for a query that
    /// has to see them, or a write that cannot take them over. Others that meet them have to ask
    /// what became of them, which costs them commands; once they have, nothing stays locked for a
    /// second. Zero to 10 seconds; 50 milliseconds.
    pub finish_delay: Duration,
    /// How many documents one transaction may hold, and one repeatable read may lock.
    pub max_documents: usize,
    /// Look for leftovers of dead clients when the client starts, and every few leases.
    pub sweep: bool,
    /// Count the commands that are sent, by name ([`crate::Metrics::commands`]). For that the driver decodes each command and each answer
    /// once more that goes over it: a gateway, which passes many documents on, does without.
    pub count_commands: bool,
    /// The shard keys of collections, as dotted paths: every command about a document of theirs carries its values, and
    /// they cannot be changed in a transaction. On a router (`mongos`) keys need not be declared: they are read from its
    /// metadata.
    pub shard_keys: HashMap<Namespace, Vec<String>>,
    /// Called at every step of the protocol: for tests that break it there.
    pub hook: Option<Arc<dyn StepHook>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            tx_database: "mongotx".to_owned(),
            application: None,
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
            count_commands: true,
            shard_keys: HashMap::new(),
            hook: None,
        }
    }
}

/// The longest delay that [`ClientOptions::finish_delay`] may have.
const LONGEST_FINISH_DELAY: Duration = Duration::from_secs(10);

impl ClientOptions {
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for what is out of its bounds.
    pub(crate) fn check(&self) -> Result<()> {
        if self.finish_delay <= LONGEST_FINISH_DELAY {
            return Ok(());
        }
        let (given, longest) = (self.finish_delay, LONGEST_FINISH_DELAY);
        Err(Error::invalid(2, format!("documents can wait {longest:?} to be finished, at most, not {given:?}")))
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("tx_database", &self.tx_database)
            .field("layout", &self.layout)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
