//! An operator decides about transactions that a server is in doubt about, because their
//! coordinator is lost for good. The server must not run, nor those whose folders are looked at:
//! their logs are locked until the decision is recorded. Logs are read, and of the items those that
//! transactions in doubt write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::data::{self, lsm, must_be_there};
use super::identity::Identity;
use super::inspect::{existing, inspect, must_keep};
use super::{ConfigError, LogMedium, ServerConfig, ServerError};
use crate::core::resolve::records;
use crate::core::{
    Decision, Epoch, Known, Outcome, Recovery, ServerId, StoreId, TransactionInDoubt, TranxId, Undecided,
};
use crate::log::{LogReader, Medium, SegmentNumber, TranxLog};
use crate::storage::{Lsm, Storage};

/// Reason why decisions were not recorded, or may not have been.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Decisions that are refused, each with the reason.
    #[error("nothing was recorded: {}", list(.0))]
    Refused(Vec<Undecided>),
    /// Lost servers could not be given up everywhere.
    #[error(
        "no decision was recorded, but some servers may refuse the lost ones already; run the same command again: {0}"
    )]
    NotGivenUp(#[source] ServerError),
    /// The decisions could not be written, or could not be made durable.
    #[error("the decisions may have been recorded; run the same command again: {0}")]
    PerhapsRecorded(#[source] ServerError),
}

/// A transaction in doubt, and what other servers know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// The transaction, with its keys and writes on this server.
    pub doubt: TransactionInDoubt,
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

/// A lost server's store, which is refused from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The server that is lost for good.
    pub server: ServerId,
    /// Store of the server; `None`: none of the others has met it, so none can refuse it.
    pub store: Option<StoreId>,
    /// The servers that refuse the store: those whose folders are here.
    pub by: Vec<ServerId>,
}

/// The log of a server that is in doubt, with the logs of others that may know more.
pub struct Resolver {
    mine: Folder,
    /// The other servers' folders, whose logs stay locked.
    others: Vec<Folder>,
    /// Outcomes that the server's log has records of.
    outcomes: BTreeMap<TranxId, Outcome>,
    /// The last epoch that the server's log has reserved.
    reserved: Epoch,
    in_doubt: BTreeMap<TranxId, TransactionInDoubt>,
    /// State of each transaction in doubt by the logs and items of servers, this one's among them.
    known: BTreeMap<TranxId, BTreeMap<ServerId, Known>>,
    /// The last epoch that any of the logs has reserved.
    last_epoch: Epoch,
    lost: BTreeSet<ServerId>,
}

/// A server's folder, whose log is locked.
struct Folder {
    config: ServerConfig,
    identity: Identity,
    medium: Arc<dyn Medium>,
}

/// Log and items of a server, from its folder.
struct Evidence {
    log: Recovery,
    items: Lsm,
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
        if config.member.is_some() {
            // A record in the log of one member is not in those of the others.
            let what = "what an operator decides would have to be in the log of the whole group: not built yet";
            return Err(ConfigError::Field { field: "member".to_owned(), what: what.to_owned() }.into());
        }
        must_keep(config, "to be resolved")?;
        check_named(config, others, lost)?;
        let mine = Folder::lock(config.clone())?;
        let evidence = mine.read()?;
        let in_doubt = evidence.log.doubts().into_iter().map(|doubt| (doubt.tranx, doubt)).collect();
        let (outcomes, lost) = (evidence.log.outcomes().clone(), lost.clone());
        let mut resolver = Self {
            reserved: evidence.log.epochs_through(),
            mine,
            others: Vec::new(),
            outcomes,
            in_doubt,
            known: BTreeMap::new(),
            last_epoch: Epoch(0),
            lost,
        };
        resolver.note(config.server, &evidence)?;
        for (server, folder) in others {
            resolver.ask(*server, folder).map_err(|source| ServerError::Other {
                server: *server,
                folder: folder.display().to_string(),
                source: Box::new(source),
            })?;
        }
        Ok(resolver)
    }

    /// Reads log and items of another server.
    fn ask(&mut self, server: ServerId, folder: &Path) -> Result<(), ServerError> {
        let (mut theirs, me) = (self.mine.config.clone(), self.mine.config.server);
        (theirs.server, theirs.folder, theirs.log_folder) = (server, folder.to_owned(), folder.join("log"));
        // Bytes on persistent memory can be read like those on a disk.
        theirs.medium = LogMedium::Disk;
        let found = Folder::lock(theirs)?;
        let store = found.identity.store;
        if let Some(known) = self.mine.identity.known(server).filter(|known| *known != store) {
            let what = format!("it is of the store {store}, and server {me} knows the store {known}");
            return Err(ServerError::Identity { file: folder.display().to_string(), what });
        }
        let evidence = found.read()?;
        self.note(server, &evidence)?;
        self.others.push(found);
        Ok(())
    }

    fn note(&mut self, server: ServerId, evidence: &Evidence) -> Result<(), ServerError> {
        self.last_epoch = self.last_epoch.max(evidence.log.epochs_through());
        for tranx in self.in_doubt.keys() {
            self.known.entry(*tranx).or_default().insert(server, evidence.of(*tranx)?);
        }
        Ok(())
    }

    /// Transactions that the server is in doubt about, with what may be decided about each.
    pub fn in_doubt(&self) -> Vec<InDoubt> {
        let of = |doubt: &TransactionInDoubt| {
            let me = self.mine.config.server;
            let witnesses = doubt.witnesses(me);
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
    /// when it starts. The stores of lost servers that may have known the outcomes are given up
    /// before, in every folder that is here. What is recorded already is done: the same call may be
    /// made again.
    ///
    /// # Errors
    /// A decision is refused; identity or log cannot be written.
    pub fn resolve(mut self, decisions: &BTreeMap<TranxId, Decision>) -> Result<Vec<GivenUp>, ResolveError> {
        let outcomes = self.decided(decisions).map_err(ResolveError::Refused)?;
        // First of all: without it, the coordinator could come back and say otherwise.
        let given_up = self.give_up(&outcomes).map_err(ResolveError::NotGivenUp)?;
        // Also without an outcome: an attempt before may have left it where no sync has reached.
        self.append(&outcomes).map_err(ResolveError::PerhapsRecorded)?;
        Ok(given_up)
    }

    /// Outcomes that are to be recorded.
    fn decided(&self, decisions: &BTreeMap<TranxId, Decision>) -> Result<BTreeMap<TranxId, Outcome>, Vec<Undecided>> {
        let (mut outcomes, mut refused) = (BTreeMap::new(), Vec::new());
        for (tranx, decision) in decisions {
            if self.outcomes.get(tranx).is_some_and(|outcome| decision.is(*outcome)) {
                continue;
            }
            let decided = match self.in_doubt.get(tranx) {
                Some(doubt) => self.decide(doubt, *decision),
                None => Err(self.not_in_doubt(*tranx)),
            };
            match decided {
                Ok(outcome) => drop(outcomes.insert(*tranx, outcome)),
                Err(error) => refused.push(error),
            }
        }
        if refused.is_empty() { Ok(outcomes) } else { Err(refused) }
    }

    /// Writes into every folder that the stores of those lost servers are refused that may have
    /// known one of the outcomes.
    fn give_up(&mut self, outcomes: &BTreeMap<TranxId, Outcome>) -> Result<Vec<GivenUp>, ServerError> {
        let me = self.mine.config.server;
        let decided = self.in_doubt.values().filter(|doubt| outcomes.contains_key(&doubt.tranx));
        let witnesses: BTreeSet<ServerId> = decided.flat_map(|doubt| doubt.witnesses(me)).collect();
        let mut folders: Vec<&mut Folder> = self.others.iter_mut().chain([&mut self.mine]).collect();
        let store = |server: &ServerId| folders.iter().rev().find_map(|folder| folder.identity.known(*server));
        let lost: Vec<_> = self.lost.intersection(&witnesses).map(|server| (*server, store(server))).collect();
        let stores: BTreeMap<_, _> = lost.iter().filter_map(|(server, store)| Some((*server, (*store)?))).collect();
        if !stores.is_empty() {
            folders.iter_mut().try_for_each(|folder| folder.identity.give_up(&stores))?;
        }
        let by: BTreeSet<ServerId> = folders.iter().map(|folder| folder.config.server).collect();
        let given_up = |(server, store): (ServerId, Option<StoreId>)| {
            let by = if store.is_some() { by.iter().copied().collect() } else { Vec::new() };
            GivenUp { server, store, by }
        };
        Ok(lost.into_iter().map(given_up).collect())
    }

    fn append(&self, outcomes: &BTreeMap<TranxId, Outcome>) -> Result<(), ServerError> {
        let options = existing(&self.mine.config, self.mine.identity.store);
        let mut log = TranxLog::read(self.mine.medium.clone(), &options, &mut Skip)?.log;
        for record in records(outcomes, self.reserved) {
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

    fn decide(&self, doubt: &TransactionInDoubt, decision: Decision) -> Result<Outcome, Undecided> {
        let none = BTreeMap::new();
        let known = self.known.get(&doubt.tranx).unwrap_or(&none);
        doubt.decide(self.mine.config.server, decision, known, &self.lost, self.last_epoch)
    }

    fn not_in_doubt(&self, tranx: TranxId) -> Undecided {
        let me = self.mine.config.server;
        let what = match self.outcomes.get(&tranx) {
            _ if tranx.server == me => format!("server {me} coordinates it itself, and knows what became of it"),
            Some(Outcome::Commit(_)) => format!("server {me} knows that it is committed"),
            Some(Outcome::Abort) => format!("server {me} knows that it is aborted"),
            None => format!("server {me} is not in doubt about it: it has not voted for it, or all of it is done"),
        };
        Undecided::NotInDoubt { tranx, what }
    }
}

impl Folder {
    /// Locks the log, and reads the identity then: a server that runs writes it.
    fn lock(config: ServerConfig) -> Result<Self, ServerError> {
        must_be_there(&config.log_folder)?;
        let (medium, identity) = data::open(&config, Identity::existing)?;
        Ok(Self { config, identity, medium })
    }

    /// Reads log and items. What is read of the log is durable: a vote that is decided upon must
    /// not be gone after a power failure.
    fn read(&self) -> Result<Evidence, ServerError> {
        let options = existing(&self.config, self.identity.store);
        let log = inspect(&self.config, &options, self.medium.clone())?.recovery;
        Ok(Evidence { log, items: lsm(&self.config, &self.identity, true)? })
    }
}

impl Evidence {
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

/// Checks that each named server is another one of the cluster, and is named once.
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

/// A reader that ignores the records, because the log was read before.
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
