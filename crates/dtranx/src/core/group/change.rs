//! Changes of the members (decision 0088): a leader appends a configuration, one at a time (C4),
//! and gives a vote only to learners that have caught up (C5). The crate appends the final one when
//! the joint one is committed (C3). Whom a member hears beside those that count is here, too (C6,
//! C7).

use std::collections::BTreeSet;

use super::{
    configuration::{Configuration, Placed},
    event::{Command, Unchanged},
    id::{Index, MemberId, Position},
    machine::Group,
    raft::Raft,
};

/// Most members with a vote.
const MAX_VOTERS: usize = 7;

/// Most members without one.
const MAX_LEARNERS: usize = 2;

impl Group {
    /// The configuration in force: the last one in the log.
    pub(crate) fn in_force(&self) -> &Placed {
        self.raft.in_force()
    }

    /// The last configuration that is known to be committed.
    pub(crate) fn settled(&self) -> Placed {
        self.raft.settled(self.committed)
    }

    /// Position in the log of the settled configuration.
    pub(crate) fn settled_at(&self) -> Position {
        self.raft.settled_at(self.committed)
    }

    /// Begins a change to these voters and learners, or says why not.
    pub(super) fn change(&mut self, voters: BTreeSet<MemberId>, learners: BTreeSet<MemberId>, out: &mut Vec<Command>) {
        let next = Configuration { next: BTreeSet::new(), voters, learners };
        if let Some(why) = self.refusal(&next) {
            return out.push(Command::Unchanged(why));
        }
        let old = self.members().voters.clone();
        let changed = if next.voters == old { next } else { Configuration { next: next.voters, voters: old, ..next } };
        self.raft.change(&changed);
        self.carry_out(out);
    }

    fn refusal(&self, next: &Configuration) -> Option<Unchanged> {
        let Placed { at, configuration: now } = self.in_force();
        if self.life.serving().is_none() {
            return Some(Unchanged::NoLeader);
        }
        if now.is_joint() || self.settled_at() != *at {
            return Some(Unchanged::UnderWay { at: at.index });
        }
        let is_too_large = next.voters.len() > MAX_VOTERS || next.learners.len() > MAX_LEARNERS;
        let has_two_roles = !next.learners.is_disjoint(&now.voters) || !next.learners.is_disjoint(&next.voters);
        if next.voters.is_empty() || is_too_large || has_two_roles || next == now {
            return Some(Unchanged::NoSuchGroup);
        }
        let is_behind = |member: &&MemberId| !now.learners.contains(member) || self.counted(**member) < self.committed;
        let behind = next.voters.difference(&now.voters).find(is_behind)?;
        Some(Unchanged::Behind { member: *behind, counted: self.counted(*behind), committed: self.committed })
    }

    /// The crate has appended the final configuration, in which this leader has no vote. With that
    /// in its log it could not stand, and who needs its vote would not get it, because of the
    /// longer log. So it gives that entry up before it is written, and steps down: one that has a
    /// vote next is elected with the joint configuration, and appends the final one (C8).
    pub(super) fn leave_the_final(&mut self) {
        self.note_committed();
        self.raft = Raft::new(&self.config, &self.state(), self.own.entries().clone());
    }

    /// Returns true if this member has a vote, and none in the final configuration that is to come.
    pub(super) fn is_leaving(&self) -> bool {
        let members = self.members();
        members.is_joint() && !members.next.contains(&self.config.me) && self.settled_at() == self.in_force().at
    }

    /// Another member has a configuration in force there: whom it names is heard, if it is later
    /// than what is settled here (C6).
    pub(super) fn meet(&mut self, at: Position, members: BTreeSet<MemberId>) {
        let settled = self.settled_at();
        self.met.retain(|_, known| *known > settled);
        for member in members.into_iter().filter(|_| at > settled) {
            let known = self.met.entry(member).or_insert(at);
            *known = at.max(*known);
        }
    }

    /// Returns true if questions of this store are heard: it is in the settled configuration or in
    /// a later one (C6, C7).
    pub(crate) fn knows(&self, store: MemberId) -> bool {
        if self.settled_at() == self.in_force().at && self.met.is_empty() {
            return self.members().contains(store);
        }
        let settled = self.settled();
        let is_met = self.met.get(&store).is_some_and(|at| *at > settled.at);
        is_met || settled.configuration.contains(store) || self.raft.is_named_behind(settled.at.index, store)
    }

    /// The configuration by which this member counts majorities now.
    pub(super) fn members(&self) -> &Configuration {
        &self.raft.in_force().configuration
    }

    /// What a leader may call committed: of its own entries what is synced here, also if it is the
    /// only one with a vote (G1, C12).
    pub(super) fn note_committed(&mut self) {
        let counted = self.raft.committed();
        let is_capped = self.lead.is_some() && !self.has_unsynced_commits();
        let counted = if is_capped { counted.min(self.own.synced()) } else { counted };
        self.committed = self.committed.max(counted);
    }

    /// The greatest index that a batch may call committed.
    pub(super) fn told(&self, committed: Index) -> Index {
        if self.has_unsynced_commits() { committed } else { committed.min(self.committed) }
    }
}
