//! Local recovery: a node from what is in the log (section 4.4 of the paper). It comes before all
//! stages, as in the paper: each of them begins with what it finds out. The node inquires of other
//! servers about the rest while it runs.
//!
//! 1. The GC record: the low-water marks, and how far numbers were reserved.
//! 2. Every record, in order. Committed writes are handed out to be applied again, in the order of
//!    the commits: per key that is the order in which they were applied before.
//! 3. What is `Ready` without an outcome: of this server's own coordination, aborted; at or below
//!    its coordinator's low-water mark, aborted; otherwise in doubt: it takes its locks again, and
//!    an inquiry goes to the coordinator.
//! 4. What this coordinator committed above its own low-water mark: the decision goes to the
//!    participants until they acknowledge.
//! 5. Numbers that are reserved and not committed are aborted. New ones are reserved before any is
//!    used.
//!
//! Marks in the log count like those of the GC record, and what records call complete above them,
//! too: it is forgotten, so that a recovery which goes on reading for long, as that of a follower
//! in a group does, keeps what is under way and little more, however long one transaction holds a
//! mark.
//!
//! A new incarnation begins a new segment of the log: every segment that is read here is sealed.

use std::collections::BTreeMap;

use crate::core::{
    acknowledgement::AckService,
    complete::Complete,
    config::NodeConfig,
    coordinator::Coordinator,
    epochs::Epochs,
    event::Command,
    flaw::Flaw,
    gc::Gc,
    id::{Epoch, SegmentId, ServerId, TranxId},
    item::{Item, Key},
    joining::Joining,
    journal::{Context, Journal},
    lock::LockService,
    machine::Outbox,
    map::{Map, Maps},
    message::Outcome,
    node::Node,
    participant::Participant,
    past_requests::PastRequests,
    range::{KeyRange, Ranges},
    record::{GcRecord, Record, SegmentSummary},
    recovery_service::RecoveryService,
    resolve::{Known, TransactionInDoubt},
    transaction::Write,
    tranx_service::TranxService,
    wanted::{Locks, exclusive},
};

/// Reads a log into a node.
#[derive(Debug)]
pub struct Recovery {
    config: NodeConfig,
    low_water: BTreeMap<ServerId, u64>,
    /// What is complete by the marks, and above them.
    complete: BTreeMap<ServerId, Complete>,
    /// True until a record of the log says as much as the marks of the GC record.
    is_behind: bool,
    reserved: u64,
    /// The largest number of this server in any record.
    largest: u64,
    segments: BTreeMap<SegmentId, SegmentSummary>,
    ready: BTreeMap<TranxId, Ready>,
    epochs_through: Epoch,
    commits: BTreeMap<u64, (Vec<ServerId>, Epoch)>,
    outcomes: BTreeMap<TranxId, Outcome>,
    past: PastRequests,
    map: Map,
}

#[derive(Debug)]
struct Ready {
    participants: Vec<ServerId>,
    shared: Vec<Key>,
    ranges: Vec<KeyRange>,
    writes: Vec<Write>,
}

impl Recovery {
    /// Step 1. `gc` is `None` if there is no GC record yet.
    pub fn new(config: NodeConfig, gc: Option<GcRecord>) -> Self {
        let gc = gc.unwrap_or_default();
        let low_water: BTreeMap<ServerId, u64> = gc.low_water.into_iter().collect();
        Self {
            // Commits up to this mark may be in segments that are removed.
            past: PastRequests::above(low_water.get(&config.me).copied().unwrap_or(0)),
            is_behind: !low_water.is_empty(),
            complete: low_water.iter().map(|(server, mark)| (*server, Complete::through(*mark))).collect(),
            low_water,
            reserved: gc.reserved_through,
            epochs_through: gc.epochs_through,
            largest: 0,
            segments: BTreeMap::new(),
            ready: BTreeMap::new(),
            commits: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            map: Map::from(&config.partition),
            config,
        }
    }

    /// Takes the item under [`Key::of_map`], as it is when all that this has returned is applied.
    /// Without a call, the map is as configured.
    ///
    /// # Errors
    /// The item holds no map.
    pub fn stored_map(&mut self, item: Option<&Item>) -> Result<(), String> {
        self.map = Map::stored(item, &self.config.partition)?;
        Ok(())
    }

    /// Notes a segment of the log, even if it has no records.
    pub fn segment(&mut self, segment: SegmentId) {
        self.segments.entry(segment).or_default();
    }

    /// Step 2: reads the next record. The writes that it returns are to be applied, with the
    /// transaction's id as version, before the node is called; in the order in which they are
    /// returned.
    pub fn record(&mut self, segment: SegmentId, record: Record) -> Option<(TranxId, Vec<Write>)> {
        self.segments.entry(segment).or_default().note(&record);
        if let Some(tranx) = record.tranx().filter(|tranx| tranx.server == self.config.me) {
            self.largest = self.largest.max(tranx.number);
        }
        match record {
            Record::Reserve { through } => {
                self.reserved = self.reserved.max(through);
                None
            }
            Record::Epochs { through } => {
                self.epochs_through = self.epochs_through.max(through);
                None
            }
            Record::OnePhase { tranx, writes, request } => {
                self.past.committed(&self.config, tranx.number, request);
                Some((tranx, writes))
            }
            Record::Ready { tranx, participants, shared, ranges, writes } => {
                self.ready.insert(tranx, Ready { participants, shared, ranges, writes });
                None
            }
            Record::Commit { tranx, participants, epoch, request } => {
                self.past.committed(&self.config, tranx.number, request);
                self.commits.insert(tranx.number, (participants, epoch));
                self.ready.remove(&tranx).map(|ready| (tranx, ready.writes))
            }
            Record::Outcome { tranx, outcome } => {
                self.outcomes.insert(tranx, outcome);
                let ready = self.ready.remove(&tranx).filter(|_| outcome.is_commit());
                ready.map(|ready| (tranx, ready.writes))
            }
            Record::Marks { low_water } => {
                for (server, number) in &low_water {
                    let mark = self.low_water.entry(*server).or_default();
                    *mark = (*mark).max(*number);
                    self.forget(*server, &Complete::through(*number));
                }
                let said: BTreeMap<ServerId, u64> = low_water.into_iter().collect();
                self.is_behind &=
                    self.low_water.iter().any(|(server, mark)| *mark > said.get(server).copied().unwrap_or(0));
                None
            }
            Record::Complete { server, through, incomplete } => {
                self.forget(server, &Complete::but_for(through, incomplete));
                None
            }
        }
    }

    /// Takes what is known of the segments that were read: who reads on keeps it.
    pub(crate) fn take_segments(&mut self) -> BTreeMap<SegmentId, SegmentSummary> {
        std::mem::take(&mut self.segments)
    }

    /// Contents of the GC log once the segments are removed that the marks make superfluous: if
    /// this [has caught up](Recovery::has_caught_up) with them.
    pub fn marks(&self) -> GcRecord {
        GcRecord {
            reserved_through: self.reserved,
            low_water: self.low_water.iter().map(|(server, number)| (*server, *number)).collect(),
            epochs_through: self.epochs_through,
        }
    }

    /// Returns true if everything is applied that the marks call complete, right behind a `Marks`
    /// record. The marks of the GC record may be ahead of the log that was read so far: in a member
    /// of a group that has got the items of another one, or that did not know, when it started, how
    /// much is committed.
    pub fn has_caught_up(&self) -> bool {
        !self.is_behind
    }

    /// Forgets what of a server's transactions is complete. What is `Ready` among it was aborted.
    fn forget(&mut self, server: ServerId, said: &Complete) {
        let complete = self.complete.entry(server).or_default();
        complete.add(said);
        forget_complete(&mut self.ready, server, said);
        forget_complete(&mut self.outcomes, server, said);
        if server == self.config.me {
            let later = self.commits.split_off(&said.last().saturating_add(1));
            self.commits.retain(|number, _| !said.contains(*number));
            self.commits.extend(later);
        }
    }

    /// Transactions that would be in doubt after step 3.
    pub fn doubts(&self) -> Vec<TransactionInDoubt> {
        self.ready.keys().filter_map(|tranx| self.doubt(*tranx)).collect()
    }

    /// A transaction that would be in doubt after step 3.
    pub fn doubt(&self, tranx: TranxId) -> Option<TransactionInDoubt> {
        let ready = self.ready.get(&tranx).filter(|_| self.is_in_doubt(tranx))?;
        Some(TransactionInDoubt {
            tranx,
            participants: ready.participants.clone(),
            shared: ready.shared.clone(),
            ranges: ready.ranges.clone(),
            writes: ready.writes.clone(),
        })
    }

    /// State of a transaction by this log, for a participant in doubt.
    pub fn known(&self, tranx: TranxId) -> Known {
        if tranx.server == self.config.me {
            return match self.commits.get(&tranx.number) {
                Some((_, epoch)) => Known::Committed(*epoch),
                None if tranx.number <= self.reserved => Known::Aborted,
                None => Known::Older,
            };
        }
        match self.outcomes.get(&tranx) {
            Some(Outcome::Commit(epoch)) => Known::Committed(*epoch),
            Some(Outcome::Abort) => Known::Aborted,
            // A commit is complete only when no participant is in doubt about it.
            None if self.is_complete(tranx) => Known::Aborted,
            None if self.ready.contains_key(&tranx) => Known::InDoubt,
            None => Known::NoVote,
        }
    }

    /// Outcomes of other servers' transactions that the log has records of.
    pub fn outcomes(&self) -> &BTreeMap<TranxId, Outcome> {
        &self.outcomes
    }

    /// The last epoch that the log has reserved.
    pub fn epochs_through(&self) -> Epoch {
        self.epochs_through
    }

    /// Steps 3 to 5: returns the node; adds the commands that it wants carried out first.
    pub fn finish(mut self, now_ms: u64, commands: &mut Vec<Command>) -> Node {
        let mut participant = Participant::default();
        for (server, complete) in &self.complete {
            participant.restore_complete(*server, complete.clone());
        }
        for (tranx, outcome) in std::mem::take(&mut self.outcomes) {
            if !self.is_complete(tranx) {
                participant.restore_outcome(tranx, outcome);
            }
        }
        let reused = self.config.has(Flaw::EpochsReused);
        let mut epochs = Epochs::restored(&self.config, if reused { Epoch(0) } else { self.epochs_through });
        let (locks, recovery) = self.restore_doubts(&mut participant, &mut epochs);
        let reserved = if self.config.has(Flaw::NumbersReused) { self.largest } else { self.reserved };
        let mut coordinator = Coordinator::new(reserved, std::mem::take(&mut self.past));
        let acks = self.restore_commits(&mut coordinator);
        let mut gc = Gc::default();
        for (segment, summary) in self.segments {
            gc.sealed(segment, summary);
        }
        let (mut journal, mut local, mut out) = (Journal::default(), Default::default(), Outbox::default());
        let config = &self.config;
        let mut maps = Maps::new(self.map);
        let mut joining = Joining::new(config);
        let mut ctx = Context {
            now_ms,
            config,
            journal: &mut journal,
            epochs: &mut epochs,
            maps: &mut maps,
            joining: &mut joining,
            local: &mut local,
            out: &mut out,
        };
        coordinator.reserve(&mut ctx);
        commands.extend(out.commands);
        let tranx = TranxService { coordinator, participant, journal, epochs, maps, joining };
        Node { config: self.config, tranx, locks, acks, recovery, gc, mail: BTreeMap::new() }
    }

    fn is_complete(&self, tranx: TranxId) -> bool {
        self.complete.get(&tranx.server).is_some_and(|complete| complete.contains(tranx.number))
    }

    fn is_in_doubt(&self, tranx: TranxId) -> bool {
        tranx.server != self.config.me && !self.is_complete(tranx)
    }

    /// Step 3: restores the parts that are in doubt.
    fn restore_doubts(&mut self, participant: &mut Participant, epochs: &mut Epochs) -> (LockService, RecoveryService) {
        let (mut locks, mut recovery) = (LockService::default(), RecoveryService::default());
        for (tranx, ready) in std::mem::take(&mut self.ready) {
            if !self.is_in_doubt(tranx) {
                continue;
            }
            let exclusive = exclusive(&ready.writes);
            // A move has scanned its range on both servers, and nothing else.
            let is_move = exclusive.contains(&Key::of_map()) && !self.config.has(Flaw::FenceNotRestored);
            let fence = ready.ranges.first().filter(|_| is_move).cloned();
            let mut wanted =
                Locks { shared: ready.shared, ranges: ready.ranges.into_iter().collect(), exclusive, fence };
            if self.config.has(Flaw::ReadLocksNotRestored) {
                wanted.shared.clear();
                wanted.ranges = Ranges::default();
            }
            locks.restore(tranx.into(), wanted);
            recovery.restore(tranx, ready.participants.clone());
            participant.restore(tranx, ready.participants, ready.writes);
            epochs.restore(tranx);
        }
        (locks, recovery)
    }

    /// Step 4: restores the decisions that are not acknowledged.
    fn restore_commits(&mut self, coordinator: &mut Coordinator) -> AckService {
        let (me, mut acks) = (self.config.me, AckService::default());
        for (number, (mut participants, epoch)) in std::mem::take(&mut self.commits) {
            participants.retain(|server| *server != me);
            if !self.is_complete(TranxId { server: me, number }) && !participants.is_empty() {
                coordinator.restore(number, epoch);
                acks.restore(number, participants, epoch);
            }
        }
        acks
    }
}

/// Removes a server's transactions that are said to be complete.
fn forget_complete<V>(transactions: &mut BTreeMap<TranxId, V>, server: ServerId, said: &Complete) {
    let all = TranxId { server, number: 0 }..=TranxId { server, number: said.last() };
    let numbered = transactions.range(all).map(|(tranx, _)| *tranx);
    let complete: Vec<TranxId> = numbered.filter(|tranx| said.contains(tranx.number)).collect();
    for tranx in &complete {
        transactions.remove(tranx);
    }
}
