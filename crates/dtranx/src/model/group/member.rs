//! One member of a group: a log whose entries have terms, items, and, while it leads, a node.

use std::collections::BTreeMap;

use crate::core::{Command, Epoch, GcRecord, Item, Key, Message, Record, ServerId};
use crate::model::server::Server;

use super::plan::{Flaw, Plan};

/// Number of members.
pub(super) const MEMBERS: usize = 3;
/// Number of members that are a majority.
pub(super) const MAJORITY: usize = 2;
/// Id of the group.
pub(super) const GROUP: ServerId = ServerId(1);

/// A member with its log and its items.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) server: Server,
    /// Facts about each entry besides its record.
    pub(super) tags: Vec<Tag>,
    /// The latest term that it knows of.
    pub(super) term: u64,
    /// Number of entries that it knows to be committed.
    pub(super) committed: usize,
    pub(super) lead: Option<Lead>,
    /// Term that its GC log has: the one it knew when it last removed entries.
    pub(super) recorded: u64,
    /// Folder beside, with the first piece of a leader's items.
    pub(super) transfer: Option<Transfer>,
    pub(super) is_up: bool,
    /// Whether its disk syncs nothing any more.
    pub(super) is_hung: bool,
    /// Whether its store is one of those that the group counts.
    pub(super) has_vote: bool,
}

/// Facts about an entry besides its record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tag {
    pub(super) term: u64,
    /// Whether the entry has no record of a node.
    pub(super) is_empty: bool,
}

/// State of a member that believes to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lead {
    pub(super) term: u64,
    /// Index of the first entry of this term.
    pub(super) first: usize,
    /// Number of entries that each member has acknowledged to this leader.
    pub(super) acknowledged: [usize; MEMBERS],
    /// Commands that wait for a round.
    pub(super) held: Vec<Command>,
    /// Commands that leave when the round that is under way ends.
    pub(super) round: Vec<Command>,
    /// Whether a round has ended; counts only where rounds of before are believed.
    pub(super) was_confirmed: bool,
}

/// Items that a follower has got so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Transfer {
    /// Term of the leader, and the index at which the leader's log begins.
    pub(super) name: (u64, usize),
    pub(super) items: BTreeMap<Key, Item>,
}

impl Member {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            server: Server::new(GROUP, &plan.base),
            tags: vec![],
            term: 0,
            committed: 0,
            lead: None,
            recorded: 0,
            transfer: None,
            is_up: true,
            is_hung: false,
            has_vote: true,
        }
    }

    /// Appends an entry without a record, for which one stands that says nothing.
    pub(super) fn append_empty(&mut self) {
        self.server.log.push(Record::Epochs { through: Epoch(0) });
        self.tags.push(Tag { term: self.term, is_empty: true });
    }

    /// Gives the records that the node has appended their term.
    pub(super) fn tag(&mut self) {
        let term = self.lead.as_ref().map_or(self.term, |lead| lead.term);
        self.tags.resize(self.server.log.len(), Tag { term, is_empty: false });
    }

    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    /// Returns true if a member with this log may vote for one with the other's.
    pub(super) fn is_at_most(&self, other: &Self) -> bool {
        let last = |member: &Self| (member.tags.last().map_or(0, |tag| tag.term), member.len());
        last(self) <= last(other)
    }

    /// Number of entries at the beginning that both logs have.
    pub(super) fn common(&self, other: &[Tag]) -> usize {
        self.tags.iter().zip(other).take_while(|(mine, others)| mine.term == others.term).count()
    }

    /// Number of entries that its log has and that are not removed.
    pub(super) fn held(&self) -> usize {
        self.len() - self.server.removed
    }

    /// Drops the node; what it kept of replaced items goes with it (G19).
    pub(super) fn step_down(&mut self, plan: &Plan) {
        self.lead = None;
        let history = self.server.history.clone();
        self.server.stop();
        if plan.has(Flaw::HistoryGoesOn) {
            self.server.history = history;
        }
    }

    /// Crashes: the first `kept` entries that were not synced survive.
    pub(super) fn crash(&mut self, kept: usize, persists: bool) {
        self.server.crash(kept, persists);
        self.tags.truncate(self.server.log.len());
        self.committed = self.committed.min(self.len());
        self.lead = None;
        self.is_up = false;
    }

    /// Number of entries without a record among the first `through`, from `first` on.
    pub(super) fn empty(&self, first: usize, through: usize) -> usize {
        self.tags[first..through].iter().filter(|tag| tag.is_empty).count()
    }

    /// Returns true if it runs the node of a life.
    pub(super) fn is_serving(&self) -> bool {
        self.server.node.is_some()
    }

    /// Returns true if a command of the node speaks of now, and so waits for a round (G6).
    pub(super) fn is_held(&self, plan: &Plan, command: &Command) -> bool {
        let is_left_out = match command {
            Command::Send { message: Message::Validated { .. }, .. } | Command::Reply { .. } => {
                plan.has(Flaw::Unconfirmed)
            }
            Command::Send { message: Message::Snapshot(_), .. } => plan.has(Flaw::SettledUnconfirmed),
            Command::ReplySnapshot { .. } => plan.has(Flaw::SnapshotUnconfirmed),
            _ => false,
        };
        let speaks_of_now = command.speaks_of_now() && !is_left_out;
        let was_confirmed = self.lead.as_ref().is_some_and(|lead| lead.was_confirmed);
        let is_believed = plan.has(Flaw::ConfirmedBefore) && was_confirmed;
        speaks_of_now && !is_believed
    }

    /// Removes the first entries, after the items have what these say.
    pub(super) fn remove(&mut self, record: GcRecord, removed: usize) {
        self.server.persisted = self.server.items.clone();
        self.server.gc_record = Some(record);
        self.server.removed = removed;
        self.recorded = self.term;
    }

    /// Puts the items of `from` in the place of its own, and a log that begins, and ends, behind
    /// what `from` has removed: the entries come later, and the items may be ahead of them. Its
    /// term stays its own (G15).
    pub(super) fn install(&mut self, from: &Self, items: BTreeMap<Key, Item>) {
        let removed = from.server.removed;
        self.server.persisted = items.clone();
        self.server.items = items;
        self.tags = from.tags[..removed].to_vec();
        self.server.log = from.server.log[..removed].to_vec();
        (self.server.durable, self.committed) = (removed, removed);
        self.begin_at(&from.server);
        self.recorded = self.term;
    }

    /// Takes over what `from` has removed.
    pub(super) fn begin_at(&mut self, from: &Server) {
        self.server.gc_record = from.gc_record.clone();
        self.server.removed = from.removed;
    }
}

impl Lead {
    pub(super) fn new(term: u64, first: usize) -> Self {
        Self { term, first, acknowledged: [0; MEMBERS], held: vec![], round: vec![], was_confirmed: false }
    }
}
