//! An operator decides about transactions that a server is in doubt about, because their
//! coordinator is lost for good. The server must not run, nor those whose folders are looked at:
//! their logs are locked until the decision is recorded. Logs are read, and of the items those that
//! transactions in doubt write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::engine::{lsm, medium};
use super::identity::Identity;
use super::inspect::{existing, inspect, must_keep};
use super::{ConfigError, ServerConfig, ServerError};
use crate::core::resolve::records;
use crate::core::{Decision, Doubt, Epoch, Known, Outcome, Recovery, ServerId, StoreId, TranxId, Undecided};
use crate::log::{Disk, LogReader, Medium, SegmentNumber, TranxLog};
use crate::storage::{Lsm, Storage};

/// Why nothing was recorded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// A folder cannot be read or written, or is not what it should be.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Decisions that are refused, each with the reason.
    #[error("nothing was recorded: {}", list(.0))]
    Refused(Vec<Undecided>),
}

/// A transaction in doubt, and what others know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// The transaction, and what it holds here.
    pub doubt: Doubt,
    /// State of the transaction at the servers that may know its outcome, and here if it is more
    /// than a doubt.
    pub known: BTreeMap<ServerId, Known>,
    /// The servers among those that are lost.
    pub lost: BTreeSet<ServerId>,
    /// Reason why it cannot be committed, if there is one.
    pub commit_refused: Option<Undecided>,
    /// Reason why it cannot be aborted, if there is one.
    pub abort_refused: Option<Undecided>,
}

/// The log of a server that is in doubt, with the logs of others that may know more.
pub struct Resolver {
    config: ServerConfig,
    identity: Identity,
    medium: Arc<dyn Medium>,
    log: Recovery,
    in_doubt: BTreeMap<TranxId, Doubt>,
    /// State of each transaction in doubt by the logs and items of servers, this one's among them.
    known: BTreeMap<TranxId, BTreeMap<ServerId, Known>>,
    /// The last epoch that any of the logs has reserved.
    last_epoch: Epoch,
    /// The other servers' logs, which stay locked.
    _locked: Vec<Arc<dyn Medium>>,
    lost: BTreeSet<ServerId>,
}

/// What a server has, by its folder.
struct Evidence {
    log: Recovery,
    items: Lsm,
    medium: Arc<dyn Medium>,
}

impl Resolver {
    /// Reads the log of a server and those in the folders of `others`. `lost` are the servers whose
    /// folders are gone for good.
    ///
    /// # Errors
    /// A folder is in use, damaged, of another store than this server knows; a server is named
    /// twice, or is not one of the cluster's others.
    pub fn open(
        config: &ServerConfig,
        others: &[(ServerId, PathBuf)],
        lost: &BTreeSet<ServerId>,
    ) -> Result<Self, ServerError> {
        config.validate()?;
        must_keep(config, "to be resolved")?;
        check_named(config, others, lost)?;
        let identity = Identity::existing(config)?;
        must_be_there(&config.log_folder)?;
        let medium = medium(config)?;
        let mine = Evidence::read(config, identity.store, medium.clone())?;
        let in_doubt: BTreeMap<_, _> = mine.log.doubts().into_iter().map(|doubt| (doubt.tranx, doubt)).collect();
        let mut known: BTreeMap<TranxId, BTreeMap<ServerId, Known>> = BTreeMap::new();
        let (mut last_epoch, mut locked) = (mine.log.epochs_through(), Vec::new());
        let mut note = |server: ServerId, evidence: &Evidence| -> Result<(), ServerError> {
            last_epoch = last_epoch.max(evidence.log.epochs_through());
            for tranx in in_doubt.keys() {
                known.entry(*tranx).or_default().insert(server, evidence.of(*tranx)?);
            }
            Ok(())
        };
        note(config.server, &mine)?;
        for (server, folder) in others {
            let evidence = other(config, &identity, *server, folder).map_err(|source| ServerError::Other {
                server: *server,
                folder: folder.display().to_string(),
                source: Box::new(source),
            })?;
            note(*server, &evidence)?;
            locked.push(evidence.medium);
        }
        let (config, lost, log) = (config.clone(), lost.clone(), mine.log);
        Ok(Self { config, identity, medium, log, in_doubt, known, last_epoch, _locked: locked, lost })
    }

    /// Transactions that the server is in doubt about, with what may be decided about each.
    pub fn in_doubt(&self) -> Vec<InDoubt> {
        let of = |doubt: &Doubt| {
            let (me, witnesses) = (self.config.server, doubt.witnesses(self.config.server));
            let mut known = self.known.get(&doubt.tranx).cloned().unwrap_or_default();
            known.retain(|server, known| witnesses.contains(server) || *server == me && *known != Known::InDoubt);
            let lost = self.lost.intersection(&witnesses).copied().collect();
            let commit_refused = self.decide(doubt, Decision::Commit).err();
            let abort_refused = self.decide(doubt, Decision::Abort).err();
            InDoubt { doubt: doubt.clone(), known, lost, commit_refused, abort_refused }
        };
        self.in_doubt.values().map(of).collect()
    }

    /// Records decisions durably: all of them, or none if one is refused. The server acts on them
    /// when it starts, and from now on refuses the stores of the lost servers.
    ///
    /// # Errors
    /// A decision is refused; identity or log cannot be written.
    pub fn resolve(mut self, decisions: &BTreeMap<TranxId, Decision>) -> Result<(), ResolveError> {
        let (mut outcomes, mut refused) = (BTreeMap::new(), Vec::new());
        for (tranx, decision) in decisions {
            let decided = match self.in_doubt.get(tranx) {
                Some(doubt) => self.decide(doubt, *decision),
                None => Err(self.not_in_doubt(*tranx)),
            };
            match decided {
                Ok(outcome) => drop(outcomes.insert(*tranx, outcome)),
                Err(error) => refused.push(error),
            }
        }
        if !refused.is_empty() {
            return Err(ResolveError::Refused(refused));
        }
        if outcomes.is_empty() {
            return Ok(());
        }
        // First of all: without it, the coordinator could come back and say otherwise.
        self.identity.give_up(&self.lost)?;
        self.append(&outcomes)?;
        Ok(())
    }

    fn append(&self, outcomes: &BTreeMap<TranxId, Outcome>) -> Result<(), ServerError> {
        let options = existing(&self.config, self.identity.store);
        let mut log = TranxLog::read(self.medium.clone(), &options, &mut Skip)?.log;
        for record in records(outcomes, self.log.epochs_through()) {
            let bytes = postcard::to_stdvec(&record).map_err(|error| {
                let source = std::io::Error::other(error);
                ServerError::Io { action: "encode a record".to_owned(), source }
            })?;
            log.append(&bytes)?;
        }
        log.persist()?;
        // What says that it is durable, is durable itself with the next one.
        Ok(log.persist()?)
    }

    fn decide(&self, doubt: &Doubt, decision: Decision) -> Result<Outcome, Undecided> {
        let none = BTreeMap::new();
        let known = self.known.get(&doubt.tranx).unwrap_or(&none);
        doubt.decide(self.config.server, decision, known, &self.lost, self.last_epoch)
    }

    fn not_in_doubt(&self, tranx: TranxId) -> Undecided {
        let me = self.config.server;
        let what = if tranx.server == me {
            format!("server {me} coordinates it itself, and knows what became of it")
        } else {
            match self.log.known(tranx) {
                Known::Committed(_) => format!("server {me} knows that it is committed"),
                Known::Aborted => format!("server {me} knows that it is aborted"),
                _ => format!("server {me} has not voted for it"),
            }
        };
        Undecided::NotInDoubt { tranx, what }
    }
}

impl Evidence {
    fn read(config: &ServerConfig, store: StoreId, medium: Arc<dyn Medium>) -> Result<Self, ServerError> {
        let log = inspect(config, store, medium.clone())?.recovery;
        Ok(Self { log, items: lsm(config, store, true)?, medium })
    }

    /// State of a transaction by the log and, if that is in doubt, by the items.
    fn of(&self, tranx: TranxId) -> Result<Known, ServerError> {
        match (self.log.known(tranx), self.log.doubt(tranx)) {
            (Known::InDoubt, Some(doubt)) => {
                Ok(doubt.by_items(|key| self.items.get(key).map(|item| item.map(|item| item.version)))?)
            }
            (known, _) => Ok(known),
        }
    }
}

/// Every server that is named is another one of the cluster, and is named once.
fn check_named(
    config: &ServerConfig,
    others: &[(ServerId, PathBuf)],
    lost: &BTreeSet<ServerId>,
) -> Result<(), ServerError> {
    let wrong = |field: &str, what: String| ConfigError::Field { field: field.to_owned(), what };
    let mut named = BTreeSet::new();
    let given = others.iter().map(|(server, _)| ("other", *server));
    for (field, server) in given.chain(lost.iter().map(|server| ("lost", *server))) {
        if server == config.server {
            return Err(wrong(field, format!("server {server} is the one that is in doubt")).into());
        }
        if config.cluster.address(server).is_none() {
            return Err(wrong(field, format!("there is no server {server} in the cluster")).into());
        }
        if !named.insert(server) {
            return Err(wrong(field, format!("server {server} is named twice")).into());
        }
    }
    Ok(())
}

/// Opening a medium makes its folder; a folder that is missing has to stay so.
fn must_be_there(log_folder: &Path) -> Result<(), ServerError> {
    let action = || format!("find the log's folder {}", log_folder.display());
    match fs::metadata(log_folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(ServerError::Io { action: action(), source: std::io::ErrorKind::NotADirectory.into() }),
        Err(source) => Err(ServerError::Io { action: action(), source }),
    }
}

/// Reads what another server has; its log stays locked as long as the medium is there.
fn other(config: &ServerConfig, identity: &Identity, server: ServerId, folder: &Path) -> Result<Evidence, ServerError> {
    let mut theirs = config.clone();
    (theirs.server, theirs.folder, theirs.log_folder) = (server, folder.to_owned(), folder.join("log"));
    let found = Identity::existing(&theirs)?;
    if let Some(known) = identity.known(server).filter(|known| *known != found.store) {
        let what = format!("it is of the store {}, and server {} knows the store {known}", found.store, config.server);
        return Err(ServerError::Identity { file: folder.display().to_string(), what });
    }
    must_be_there(&theirs.log_folder)?;
    let medium: Arc<dyn Medium> = Arc::new(Disk::open(&theirs.log_folder)?);
    sync(&theirs.log_folder)?;
    Evidence::read(&theirs, found.store, medium)
}

/// A process that was killed may have left in the system's cache what is read now: a vote that is
/// decided upon must not be gone after a power failure.
fn sync(log_folder: &Path) -> Result<(), ServerError> {
    let failed = |source| ServerError::Io { action: format!("sync {}", log_folder.display()), source };
    for entry in fs::read_dir(log_folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed)?;
        }
    }
    Ok(())
}

/// The log was read before.
struct Skip;

impl LogReader for Skip {
    fn state(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _: SegmentNumber, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

fn list(refused: &[Undecided]) -> String {
    refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
