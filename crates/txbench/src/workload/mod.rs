//! Workloads: what is done, and what must be true of the data afterwards. A folder each, and a line
//! in [`registry`].
//!
//! A workload never knows its target. All it draws it draws from the seed it is given, so that two
//! runs do the same work.

pub mod bank;
pub mod checkin;
pub(crate) mod documents;
pub mod hotspot;
pub(crate) mod pages;
pub mod registry;
pub mod tpcc;
pub mod transfer;
pub mod ycsb;

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;
pub use benchkit::run::Chosen;
use clap::Args;
use serde::Serialize;

use crate::{
    error::{BenchError, OpResult},
    targets::{Feature, Session, Target, TxOptions},
};

/// Options of a workload, which the command line takes and worker processes receive.
pub trait WorkloadOptions: Args + Serialize {
    /// The workload with these options.
    ///
    /// # Errors
    /// [`BenchError::Refused`], which names the option.
    fn make(&self) -> Result<Box<dyn Workload>, BenchError>;
}

/// Result of a check of the data.
pub type Check = Result<(), Broken>;

/// Result of a check that has not passed.
#[derive(Debug)]
pub enum Broken {
    /// A promise does not hold: the run is reported as broken, with this text.
    Promise(String),
    /// The check could not be made.
    Error(BenchError),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Promise(what) => f.write_str(what),
            Self::Error(error) => write!(f, "{error}"),
        }
    }
}

impl<E: Into<BenchError>> From<E> for Broken {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl From<crate::error::OpError> for Broken {
    fn from(error: crate::error::OpError) -> Self {
        Self::Error(BenchError::Failed(error.to_string()))
    }
}

/// Identity of one of the clients of a run.
#[derive(Clone, Copy, Debug)]
pub struct ClientId {
    /// Number of the client, from 0.
    pub index: u32,
    /// Clients in all, those of other processes included.
    pub of: u32,
    /// Differs between runs and clients; the same when the same run is made again, for every
    /// target.
    pub seed: u64,
}

/// End of an attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The transaction was committed, and the commit acknowledged.
    Committed,
    /// Rolled back because the workload wants it so (TPC-C's 1 %).
    RolledBack,
    /// Nothing more to do: the client ends (a replay whose file is at its end).
    Finished,
}

/// Progress of a load: documents so far, of all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Send + Sync);

/// Sums since the data was loaded; warm-up and the end of the run are included.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of transactions that were acknowledged.
    pub committed: u64,
    /// Transactions that may or may not have happened.
    pub unknown: u64,
    /// The sums of the numbers that clients report ([`Client::effects`]).
    pub effects: BTreeMap<String, u64>,
}

impl Totals {
    /// Sum of one effect; 0 if no client has reported it.
    pub fn effect(&self, name: &str) -> u64 {
        self.effects.get(name).copied().unwrap_or(0)
    }
}

/// A workload with its options.
#[async_trait]
pub trait Workload: Send + Sync {
    /// Name in the command, with what distinguishes this variant ("ycsb a").
    fn title(&self) -> String;

    /// One line for the report: what is done, on how much data.
    fn about(&self) -> String;

    /// Features that it needs of a target.
    fn needs(&self) -> Vec<Feature>;

    /// Options that single transactions of it are begun with, where they are others than the run's.
    fn transactions(&self) -> Vec<TxOptions> {
        Vec::new()
    }

    /// The collections that it uses.
    fn collections(&self) -> Vec<&'static str>;

    /// Makes the collections and fills them. The same seed makes the same data.
    async fn load(&self, target: &dyn Target, seed: u64, progress: Progress<'_>) -> Result<(), BenchError>;

    /// Returns true if a run may go on with the data that the run before it left. If not, it is
    /// loaded anew for each.
    fn reusable(&self) -> bool {
        true
    }

    /// Makes the generator of one client.
    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError>;

    /// Looks at the data once all clients have ended and nothing is in flight.
    async fn check(&self, session: &mut dyn Session, totals: &Totals) -> Check;
}

/// One client of a workload.
#[async_trait]
pub trait Client: Send {
    /// Chooses what to do next.
    fn choose(&mut self) -> Chosen;

    /// Tries what was chosen, once: begins, works, commits. Called again, with the same choice,
    /// after a conflict. An attempt that fails need not roll back: the caller does.
    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done>;

    /// Effects that this client's acknowledged transactions must have had on the data since it
    /// began, in numbers of the workload's own: for its check.
    fn effects(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    /// Called once, after the last transaction and outside what is measured. The client puts the
    /// facts about itself that [`Workload::check`] needs (its progress) into the data here: the two
    /// may be in different processes.
    async fn finish(&mut self, _session: &mut dyn Session) -> OpResult<()> {
        Ok(())
    }

    /// Number of violations that this client has seen since it began, such as a sum that is not
    /// consistent.
    fn violations(&self) -> u64 {
        0
    }
}
