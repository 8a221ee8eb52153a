//! The stage of a group's member: its machine (`core::group`), and around it what the machine does
//! not have: timers, the records of entries, and what waits for a round.
//!
//! - `known`: the members, by the configurations that this one knows. `changes`: how they change.
//! - `timers`: durations. `entries`: records of the node become entries. `batches`: which entries
//!   go to which follower. `answers`: what waits for a round. `translate`: messages as they travel.
//!   `retention`: how much of the log is kept for followers.
//!   `transfers`: who lacks entries that are removed.
//!
//! The log is written by the stage `wal`, which may wait for a disk; nothing here does, so that a
//! busy disk is no silence. A leader that steps down ends the engine, which is started again as if
//! the process had been: its log is read anew.

mod answers;
mod batches;
mod changes;
mod entries;
mod known;
mod retention;
mod timers;
mod transfers;
mod translate;

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use noraft::{ClusterConfig, LogEntry};

use self::answers::Answers;
use self::batches::{Batches, Next};
use self::changes::{CommitMarks, Said};
use self::entries::{Entries, Gathered};
use self::known::{At, Known};
use self::retention::{Retention, Room};
use self::timers::Timers;
use self::translate::{Outgoing, Payloads};
use super::BATCH;
use crate::cluster::Places;
use crate::core::StoreId;
use crate::core::group::{self, Command, Config, Event, Found, Group, MemberId, Rejoin, State, Term, Timer, Unchanged};
use crate::core::machine::TranxEvent;
use crate::log::{self, Outline, Position};
use crate::remark;
use crate::server::event::{Append, ToClient, ToServer};
use crate::server::member_event::{
    Fetch, FromLog, FromMembers, FromTransfer, Held, LogWork, Restart, ToMember, Transfer,
};
use crate::server::stats::ServerStats;
use crate::server::transfer::Whole;
use crate::stage::{Inlet, Outlet, Source, Stage};
use crate::wire::{MemberMessage, Told};

/// Messages of other members that are handled in one turn.
const HEARD: usize = 64;

pub(in crate::server) struct GroupStage {
    /// Number of this member in its group, from 1 on.
    me: u8,
    stats: Arc<ServerStats>,
    sources: Sources,
    outlets: Outlets,
    /// Content of the log when it was opened, until the machine begins.
    found: Option<(State, Outline)>,
    machine: Option<Group>,
    known: Option<Known>,
    /// Numbers of the members whose questions are heard, by their stores.
    members: BTreeMap<MemberId, u8>,
    /// What other members have told before the machine begins, by their numbers.
    told_early: BTreeMap<u8, Told>,
    /// What was said of the configurations that are in force and settled.
    said: Option<Said>,
    /// Reason why the change that was asked for last did not begin.
    unchanged: Option<Unchanged>,
    marks: CommitMarks,
    timers: Timers,
    entries: Entries,
    batches: Batches,
    answers: Answers,
    retention: Retention,
    /// Greatest index that was called spare, by this member or by a leader.
    spare: u64,
    /// Term in which this member leads.
    leads: Option<Term>,
    /// The life whose node runs here.
    serving: Option<Term>,
    /// Set when the engine is to be started again.
    restart: Arc<OnceLock<Restart>>,
    /// Followers that lack entries which are removed here. For the one that is given the items: the
    /// last entry before those that are kept for it.
    lacking: BTreeMap<u8, Option<u64>>,
    /// True if it was said that this member has no vote and hears of no leader.
    has_said_leaderless: bool,
    /// Members whose answers were said to be missing until this one has a vote.
    said_missing: Vec<u8>,
    /// Takes the items of a leader, with which the engine is to be started again.
    whole: Sender<Whole>,
    commands: Vec<Command>,
}

/// Queues from which the stage takes.
pub(in crate::server) struct Sources {
    pub(in crate::server) members: Source<FromMembers>,
    pub(in crate::server) records: Source<Append>,
    pub(in crate::server) answers: Source<Held>,
    pub(in crate::server) log: Source<FromLog>,
    pub(in crate::server) transfer: Source<FromTransfer>,
}

/// Queues to which it hands on.
pub(in crate::server) struct Outlets {
    pub(in crate::server) log: Outlet<LogWork>,
    pub(in crate::server) tranx: Outlet<TranxEvent>,
    pub(in crate::server) to_members: Outlet<ToMember>,
    pub(in crate::server) to_servers: Outlet<ToServer>,
    pub(in crate::server) to_clients: Outlet<ToClient>,
    /// Queue to the transfer stage. Events that do not fit are dropped.
    pub(in crate::server) transfer: Inlet<Transfer>,
}

impl Outlets {
    fn flush(&mut self) -> bool {
        let inner = self.log.flush() & self.tranx.flush();
        inner & self.to_members.flush() & self.to_servers.flush() & self.to_clients.flush()
    }

    fn are_clear(&self) -> bool {
        let inner = self.log.is_clear() && self.tranx.is_clear();
        inner && self.to_members.is_clear() && self.to_servers.is_clear() && self.to_clients.is_clear()
    }
}

/// Records that belong to the entries which the machine wants written next.
enum Staged {
    Nothing,
    /// The node has filled an entry.
    Own(Gathered),
    /// A leader has sent them.
    Batch(Payloads),
}

impl GroupStage {
    /// A member that takes no part before it hears who the members are.
    pub(in crate::server) fn new(
        me: u8,
        stats: Arc<ServerStats>,
        opened: (&Outline, log::State),
        sources: Sources,
        outlets: Outlets,
        over: (Arc<OnceLock<Restart>>, Sender<Whole>),
    ) -> Self {
        let (restart, whole) = over;
        let (outline, state) = opened;
        let state = State { term: state.term, vote: state.vote.map(MemberId), committed: outline.committed };
        Self {
            me,
            stats,
            sources,
            outlets,
            found: Some((state, outline.clone())),
            machine: None,
            known: None,
            members: BTreeMap::new(),
            told_early: BTreeMap::new(),
            said: None,
            unchanged: None,
            marks: CommitMarks::default(),
            timers: Timers::default(),
            entries: Entries::default(),
            batches: Batches::default(),
            answers: Answers::default(),
            retention: Retention::default(),
            spare: 0,
            leads: None,
            serving: None,
            restart,
            lacking: BTreeMap::new(),
            has_said_leaderless: false,
            said_missing: Vec::new(),
            whole,
            commands: Vec::new(),
        }
    }

    /// Begins to take part: all stores of the group are known.
    fn begin(
        &mut self,
        stores: BTreeMap<u8, StoreId>,
        before: At,
        rejoins: Option<Rejoin>,
        now_ms: u64,
    ) -> Result<(), String> {
        let (Some((state, outline)), Some(own)) = (self.found.take(), stores.get(&self.me)) else { return Ok(()) };
        let me = id(own);
        let known = Known::new(self.me, stores, before, &outline)?;
        let config = Config {
            me,
            before: known.placed(),
            rejoins,
            #[cfg(test)]
            flaw: None,
        };
        let found = Found { state, entries: known.entries(&outline) };
        self.known = Some(known);
        self.machine = Some(Group::start(config, found, &mut self.commands));
        self.note_configurations(now_ms);
        self.carry_out(&mut Staged::Nothing, now_ms)?;
        let early = std::mem::take(&mut self.told_early);
        early.into_iter().try_for_each(|(from, told)| self.hear_told(from, &told, now_ms))
    }

    /// Gives the machine an event, and carries out what it wants.
    fn on(&mut self, event: Event, mut staged: Staged, now_ms: u64) -> Result<(), String> {
        let Some(machine) = &mut self.machine else { return Ok(()) };
        machine.on(event, &mut self.commands);
        self.carry_out(&mut staged, now_ms)
    }

    fn carry_out(&mut self, staged: &mut Staged, now_ms: u64) -> Result<(), String> {
        let leads = self.machine.as_ref().and_then(Group::leads);
        if leads != self.leads {
            self.leads = leads;
            self.batches.clear();
            let (own, members) = (self.me, self.members.iter());
            let others = members.filter(|(_, member)| **member != own).map(|(id, _)| *id);
            self.retention.begin(others, now_ms);
            self.marks = CommitMarks::default();
            self.give_nothing();
            self.stats.note_leader(None);
        }
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            self.carry_out_one(command, staged, now_ms)?;
        }
        self.commands = commands;
        self.note_configurations(now_ms);
        Ok(())
    }

    fn carry_out_one(&mut self, command: Command, staged: &mut Staged, now_ms: u64) -> Result<(), String> {
        match command {
            Command::Set(timer) => self.timers.set(timer, now_ms),
            Command::Write { write, state, entries } => {
                let vote = |state: State| state.vote.map(|member| member.0);
                let state = state.map(|s| log::State { term: s.term, vote: vote(s), committed: s.committed });
                let entries = self.with_payloads(entries.as_ref(), staged)?;
                self.outlets.log.send(LogWork::Write { write, state, entries });
            }
            Command::Send { to, message } => self.send(to, message, now_ms),
            Command::Apply { through } => {
                self.outlets.log.send(LogWork::Act { through: through.get(), applies: true });
            }
            Command::Begin { life } => {
                self.serving = Some(life);
                self.stats.note_leader(Some(self.me));
                self.stats.note_life(life.get());
                self.outlets.log.send(LogWork::Begin);
            }
            Command::Logged { through } => {
                self.outlets.log.send(LogWork::Act { through: through.get(), applies: false });
                if let Some(through) = self.entries.committed(through.get()) {
                    self.outlets.tranx.send(TranxEvent::Logged { through });
                }
            }
            Command::End { .. } => {
                return Err(self.start_again(Restart::SteppedDown, "this member no longer leads"));
            }
            Command::Follow(promised) => {
                let why = "this member knows what the lost store can have promised";
                return Err(self.start_again(Restart::Follow(promised), why));
            }
            Command::Rejoined => {
                return Err(self.start_again(Restart::Rejoined, "this member gets a vote"));
            }
            Command::Release { answer } => match self.answers.take(answer) {
                Some(Held::ToServer(message)) => self.outlets.to_servers.send(message),
                Some(Held::ToClient(message)) => self.outlets.to_clients.send(message),
                None => {}
            },
            Command::Transfer { to } => {
                if let Some(member) = self.members.get(&to).copied() {
                    self.give(member);
                }
            }
            Command::Stop(damage) => return Err(stopped(damage)),
            Command::Unchanged(why) => self.unchanged = Some(why),
        }
        Ok(())
    }

    /// Ends the engine, which is started again. Returns the error that ends this stage.
    fn start_again(&self, reason: Restart, why: &str) -> String {
        // Another reason to start again does as well.
        let _ = self.restart.set(reason);
        why.to_owned()
    }

    /// Says for which members this one waits until it has a vote, when these are others than
    /// before.
    fn say_what_is_missing(&mut self) {
        let Some(machine) = &self.machine else { return };
        if machine.follows_without_a_vote() && !self.has_said_leaderless {
            self.has_said_leaderless = true;
            remark::say(format_args!("member {}: it has no vote yet, and hears of no leader", self.me));
        }
        let missing: Vec<u8> = machine.waits_for().iter().filter_map(|id| self.members.get(id).copied()).collect();
        if missing != self.said_missing && !missing.is_empty() {
            remark::say(format_args!(
                "member {}: it takes a lost one's place, and waits for the members {missing:?}",
                self.me
            ));
        }
        self.said_missing = missing;
    }

    /// Entries up to this one are spare, here and on the followers, who may not hear of it.
    fn tell_what_is_spare(&mut self, now_ms: u64) {
        let (Some(machine), Some(term)) = (&self.machine, self.leads) else { return };
        let room = Room { bytes: self.stats.log_bytes(), limit_bytes: self.stats.log_limit_bytes };
        let through = self.retention.spare(machine, room, now_ms);
        let message = MemberMessage::Spare { term: term.get(), through };
        for to in self.members.values().copied().filter(|member| *member != self.me) {
            self.outlets.to_members.send(ToMember { to, message: message.clone() });
        }
        self.note_spare(through);
    }

    fn note_spare(&mut self, through: u64) {
        if through > self.spare {
            self.spare = through;
            self.outlets.log.send(LogWork::Spare { through });
        }
    }

    /// The entries that are to be written, each with its records.
    fn with_payloads(
        &mut self,
        entries: Option<&group::Entries>,
        staged: &mut Staged,
    ) -> Result<Vec<(Position, Bytes)>, String> {
        let Some(entries) = entries else { return Ok(Vec::new()) };
        let mut written = Vec::new();
        for (at, kind) in entries.iter_with_positions() {
            let entry = translate::spelled(at);
            let is_own = self.leads.is_some_and(|term| term.get() == entry.term);
            let payload = match (&mut *staged, kind) {
                // The first entry of a leader's own term.
                (_, LogEntry::Term(_)) if is_own => Bytes::new(),
                (_, LogEntry::ClusterConfig(config)) if is_own => {
                    self.spelled(&config).ok_or_else(|| format!("{entry} has a member that is not known"))?
                }
                (Staged::Batch(payloads), _) => {
                    let found = payloads.remove(&entry.index).filter(|(term, _)| *term == entry.term);
                    found.map(|(_, payload)| payload).ok_or_else(|| format!("{entry} was not in the leader's batch"))?
                }
                (Staged::Own(_), _) => {
                    let Staged::Own(gathered) = std::mem::replace(staged, Staged::Nothing) else { continue };
                    self.entries.written(entry.index, &gathered);
                    gathered.payload
                }
                (Staged::Nothing, _) => return Err(format!("{entry} has no records")),
            };
            if let Some(known) = &mut self.known {
                known.written(entry, log::configuration(&payload).and_then(Places::decode));
            }
            if self.leads.is_some() {
                self.batches.keep(entry.index, entry.term, payload.clone());
            }
            written.push((entry, payload));
        }
        Ok(written)
    }

    /// The payload of a configuration that this leader appends.
    fn spelled(&self, config: &ClusterConfig) -> Option<Bytes> {
        let places = self.known.as_ref()?.spelled(config)?;
        Some(log::configuration_payload(&places.encode()).into())
    }

    fn send(&mut self, to: MemberId, message: group::Message, now_ms: u64) {
        let Some(number) = self.members.get(&to).copied() else { return };
        let message = match translate::spell(message, self.stats.is_log_full()) {
            Outgoing::Message(message) => message,
            Outgoing::Batch(call) => match self.batches.next(to, &call, now_ms) {
                Next::Send(message) => message,
                Next::Fetch(wanted) => {
                    let before = translate::spelled(call.entries.prev_position());
                    let before = wanted.first().map_or(before, |first| place_before(&call.entries, first.index));
                    let (term, committed) = (call.term, call.committed);
                    let fetch = Fetch { to: number, term, committed, before, wanted };
                    return self.outlets.log.send(LogWork::Fetch(fetch));
                }
                Next::Nothing => return,
            },
        };
        self.outlets.to_members.send(ToMember { to: number, message });
    }

    fn hear(&mut self, from: u8, message: MemberMessage, now_ms: u64) -> Result<(), String> {
        let Some(from_id) = self.members.iter().find(|(_, member)| **member == from).map(|(id, _)| *id) else {
            // The group's stores are not known yet.
            return Ok(());
        };
        let Some(message) = self.hear_of_items(from, message) else { return Ok(()) };
        let batch_term = if let MemberMessage::Batch { term, .. } = &message { Some(*term) } else { None };
        let acknowledges = matches!(message, MemberMessage::Acknowledge { .. });
        if let MemberMessage::Acknowledge { last, is_full, .. } = &message {
            self.batches.acknowledged(from_id, last.index, now_ms);
            if !self.lacking.contains_key(&from) {
                self.retention.acknowledged(from_id, now_ms);
            }
            if *is_full {
                self.stats.note_full_member(now_ms);
            }
        }
        if let MemberMessage::Spare { term, through } = message {
            let is_leader = |machine: &Group| machine.leads().is_none() && machine.term().get() == term;
            if self.machine.as_ref().is_some_and(is_leader) {
                self.note_spare(through);
            }
            return Ok(());
        }
        if let MemberMessage::Told(told) = message {
            return self.hear_told(from, &told, now_ms);
        }
        let known = &mut self.known;
        let configuration = |bytes: &[u8]| known.as_mut().and_then(|known| known.understood(bytes));
        let Some((message, payloads)) = translate::understand(from_id, message, configuration) else { return Ok(()) };
        self.on(Event::Receive { from: from_id, message }, Staged::Batch(payloads), now_ms)?;
        if acknowledges {
            self.note_reached(from, from_id, now_ms);
            self.promote(now_ms)?;
        }
        let follows = |machine: &Group| machine.leads().is_none() && Some(machine.term().get()) == batch_term;
        if self.machine.as_ref().is_some_and(follows) {
            self.stats.note_leader(Some(from));
        }
        Ok(())
    }

    fn hear_of_log(&mut self, event: FromLog, now_ms: u64) -> Result<(), String> {
        match event {
            FromLog::Synced(through) => {
                self.on(Event::Synced { through }, Staged::Nothing, now_ms)?;
                if let Some(machine) = &self.machine {
                    self.entries.synced(machine.synced().get());
                }
            }
            FromLog::Fetched { fetch, payloads } => {
                let to = self.members.iter().find(|(_, member)| **member == fetch.to).map(|(id, _)| *id);
                let Some(to) = to.filter(|_| self.leads.is_some_and(|term| term.get() == fetch.term)) else {
                    return Ok(());
                };
                let number = fetch.to;
                let message = self.batches.fetched(to, fetch, payloads, now_ms);
                self.outlets.to_members.send(ToMember { to: number, message });
            }
            FromLog::Removed { to } => {
                if let Some((id, _)) = self.members.iter().find(|(_, member)| **member == to) {
                    self.batches.removed(*id);
                }
                self.give(to);
            }
        }
        Ok(())
    }

    /// Hands the machine the next entry of the node, if it is time for one.
    fn append(&mut self, now_ms: u64) -> Result<(), String> {
        if self.entries.admits() {
            let mut records = Vec::new();
            self.sources.records.take(BATCH, &mut records);
            self.entries.take(records.into_iter(), now_ms);
        }
        let Some(life) = self.serving else { return Ok(()) };
        while let Some(gathered) = self.entries.gather(now_ms)? {
            self.on(Event::Append { life }, Staged::Own(gathered), now_ms)?;
        }
        Ok(())
    }
}

impl Stage for GroupStage {
    fn name(&self) -> &'static str {
        "group"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let mut handled = 0;
        let mut of_log = Vec::new();
        handled += self.sources.log.take(BATCH, &mut of_log);
        for event in of_log {
            self.hear_of_log(event, now_ms)?;
        }
        let mut of_transfer = Vec::new();
        handled += self.sources.transfer.take(BATCH, &mut of_transfer);
        for event in of_transfer {
            self.hear_of_transfer(event)?;
        }
        let mut heard = Vec::new();
        handled += self.sources.members.take(HEARD, &mut heard);
        for event in heard {
            match event {
                FromMembers::Met { stores, before, rejoins } => self.begin(stores, before, rejoins, now_ms)?,
                FromMembers::Heard { from, message } => self.hear(from, message, now_ms)?,
                FromMembers::Told { from, told } => self.hear_told(from, &told, now_ms)?,
                FromMembers::Asked { client, id, change } => self.change(client, id, change, now_ms)?,
            }
        }
        let mut answers = Vec::new();
        handled += self.sources.answers.take(BATCH, &mut answers);
        for held in answers {
            if let (Some(life), Some(answer)) = (self.serving, self.answers.keep(held)) {
                self.on(Event::Hold { life, answer }, Staged::Nothing, now_ms)?;
            }
        }
        self.append(now_ms)?;
        while let Some(timer) = self.timers.take_due(now_ms) {
            if timer == Timer::Election {
                self.stats.note_leader(None);
                self.say_what_is_missing();
            }
            self.on(Event::Tick(timer), Staged::Nothing, now_ms)?;
            if timer == Timer::Heartbeat {
                self.tell_what_is_spare(now_ms);
                self.promote(now_ms)?;
                self.note_progress();
            }
        }
        self.outlets.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        let has_records = self.entries.admits() && !self.sources.records.is_empty();
        let is_asked = !self.sources.members.is_empty() || !self.sources.answers.is_empty();
        let is_told = !self.sources.log.is_empty() || !self.sources.transfer.is_empty();
        has_records || is_asked || is_told || !self.outlets.are_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.timers.next_ms().into_iter().chain(self.entries.next_ms()).min()
    }
}

/// The id of a member: the first 64 bits of its store's, which are random.
fn id(store: &StoreId) -> MemberId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&store.0[..8]);
    MemberId(u64::from_be_bytes(bytes))
}

/// Place of the entry before this one.
fn place_before(entries: &group::Entries, index: u64) -> Position {
    let before = group::Index::new(index.saturating_sub(1));
    let term = entries.get_term(before).map_or(0, Term::get);
    Position { term, index: before.get() }
}

fn stopped(damage: group::Damage) -> String {
    match damage {
        group::Damage::Cut { index, ours, theirs } => format!(
            "the leader's log has entry {} in term {}, and this one has it committed in term {}: one of the two logs \
             is not what it was",
            index.get(),
            theirs.get(),
            ours.get()
        ),
        group::Damage::Missing { committed, last } => format!(
            "entries up to {} are called committed, and the log ends with entry {}",
            committed.get(),
            last.get()
        ),
        group::Damage::Beginning => {
            "the leader's log has another entry where this log begins: one of the two is not what it was".to_owned()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
