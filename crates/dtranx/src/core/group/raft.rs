//! The crate's node as a value: everything that decides what it does next can be compared and
//! hashed, so that a model can hold it.

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
};

use noraft::{Actions, ClusterConfig, Error, Log, LogEntry, Node, Role};

use super::{
    config::Config,
    configuration::{Configuration, Placed},
    event::State,
    flaw::Flaw,
    id::{Entries, Index, MemberId, Position, Term},
};

/// The crate's node of one member, as a value.
#[derive(Clone, Debug)]
pub(super) struct Raft {
    node: Node,
    /// The configuration before the first entry, or a later one that is known to be committed.
    before: Placed,
    /// Indices of the configurations in the log.
    placed: BTreeSet<Index>,
    /// The last configuration in the log, or the one before it.
    in_force: Placed,
    /// Votes of the election in which this member stands: the crate's cannot be read.
    votes: BTreeSet<MemberId>,
}

/// Values by which two nodes are compared. Counters are not among them.
type Key<'a> = (Term, Option<noraft::NodeId>, Role, &'a Entries, Index, Vec<Option<Index>>, &'a BTreeSet<MemberId>);

impl Raft {
    /// A follower with this log.
    pub(super) fn new(config: &Config, state: &State, entries: Entries) -> Self {
        let entries = found(config, entries);
        let vote = state.vote.map(Into::into);
        let placed = placed(&entries, config.before.at.index).collect();
        let log = Log::new(ClusterConfig::from(&config.before.configuration), entries);
        let node = Node::restart(config.me.into(), Term::new(state.term), vote, log);
        let before = config.before.clone();
        let mut raft = Self { node, in_force: before.clone(), before, placed, votes: BTreeSet::new() };
        raft.look();
        raft
    }

    /// The last configuration in the log, or the one before it.
    pub(super) fn in_force(&self) -> &Placed {
        &self.in_force
    }

    /// The last configuration up to this index.
    pub(super) fn settled(&self, through: Index) -> Placed {
        let last = self.placed.range(..=through).next_back();
        last.and_then(|index| self.at(*index)).unwrap_or_else(|| self.before.clone())
    }

    /// Position in the log of the configuration that is settled up to this index.
    pub(super) fn settled_at(&self, through: Index) -> Position {
        let last = self.placed.range(..=through).next_back();
        last.and_then(|index| self.position(*index)).unwrap_or(self.before.at)
    }

    fn position(&self, index: Index) -> Option<Position> {
        self.entries().get_term(index).map(|term| Position { term, index })
    }

    /// Returns true if a configuration behind this index has this member.
    pub(super) fn is_named_behind(&self, index: Index, member: MemberId) -> bool {
        let behind = self.placed.iter().filter(|placed| **placed > index);
        behind.filter_map(|index| self.at(*index)).any(|placed| placed.configuration.contains(member))
    }

    fn at(&self, index: Index) -> Option<Placed> {
        let LogEntry::ClusterConfig(config) = self.entries().get_entry(index)? else { return None };
        Some(Placed { at: self.position(index)?, configuration: Configuration::from(&config) })
    }

    /// Appends a configuration, if this member leads.
    pub(super) fn change(&mut self, to: &Configuration) {
        self.node.propose_config(to.into());
        self.look();
    }

    /// Notices the configurations that have come into the log, and those that are gone.
    fn look(&mut self) {
        if let Some(new) = self.node.actions().append_log_entries.as_ref() {
            let before = new.prev_position().index;
            self.placed.retain(|index| *index <= before);
            self.placed.extend(placed(new, self.before.at.index));
        }
        let last = self.last().index;
        self.placed.retain(|index| *index <= last);
        if self.settled_at(last) != self.in_force.at {
            self.in_force = self.settled(last);
        }
        if !self.node.role().is_candidate() {
            self.votes.clear();
        }
    }

    pub(super) fn term(&self) -> Term {
        self.node.current_term()
    }

    pub(super) fn vote(&self) -> Option<MemberId> {
        self.node.voted_for().map(Into::into)
    }

    /// The term in which this member leads, if it does.
    pub(super) fn leads(&self) -> Option<Term> {
        self.node.role().is_leader().then(|| self.term())
    }

    /// The term in which it is a candidate, if it is one.
    #[cfg(test)]
    pub(super) fn stands(&self) -> Option<Term> {
        self.node.role().is_candidate().then(|| self.term())
    }

    /// The entries as the crate has them: a follower whose end contradicts the leader's log has
    /// given that end up here before anything is written.
    pub(super) fn entries(&self) -> &Entries {
        self.node.log().entries()
    }

    pub(super) fn last(&self) -> Position {
        self.node.log().last_position()
    }

    /// Greatest index that it calls committed; after a restart it begins anew.
    pub(super) fn committed(&self) -> Index {
        self.node.commit_index()
    }

    /// Greatest index that it has counted for a follower, if this member leads.
    pub(super) fn counted(&self, member: MemberId) -> Option<Index> {
        self.node.follower_match_index(member.into())
    }

    pub(super) fn stand(&mut self) {
        if self.leads().is_none() {
            self.node.handle_election_timeout();
            self.votes.clear();
            self.look();
        }
    }

    pub(super) fn heartbeat(&mut self) {
        self.node.heartbeat();
    }

    pub(super) fn propose(&mut self) {
        self.node.propose_command();
        self.look();
    }

    pub(super) fn receive(&mut self, message: &noraft::Message) -> Result<(), Error> {
        let done = self.node.handle_message(message);
        if let noraft::Message::RequestVoteReply { from, term, vote_granted: true } = message
            && *term == self.term()
        {
            self.votes.insert((*from).into());
        }
        self.look();
        done
    }

    /// Takes over the later term of another member, without a leader in it yet.
    pub(super) fn observe(&mut self, from: MemberId, term: Term) -> Result<(), Error> {
        self.receive(&noraft::Message::RequestVoteReply { from: from.into(), term, vote_granted: false })
    }

    /// Actions that the node demands. Everything is taken after each call, so nothing is ever
    /// merged.
    pub(super) fn take(&mut self) -> Actions {
        std::mem::take(self.node.actions_mut())
    }

    fn key(&self) -> Key<'_> {
        let counted = self.node.peers().map(|peer| self.node.follower_match_index(peer)).collect();
        (self.term(), self.node.voted_for(), self.node.role(), self.entries(), self.committed(), counted, &self.votes)
    }
}

impl PartialEq for Raft {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Raft {}

impl Hash for Raft {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Indices of the configurations among these entries. Those up to `before` are older than one that
/// is known to be committed: a log that is given to an empty store begins with them (0088, C9).
fn placed(entries: &Entries, before: Index) -> impl Iterator<Item = Index> {
    let is_placed =
        move |(at, entry): &(Position, LogEntry)| at.index > before && matches!(entry, LogEntry::ClusterConfig(_));
    entries.iter_with_positions().filter(is_placed).map(|(at, _)| at.index)
}

/// The entries of a log that a member finds when it starts, but for the flaw of C1.
fn found(config: &Config, entries: Entries) -> Entries {
    if !config.has(Flaw::ForgetsConfigurations) {
        return entries;
    }
    let forgotten = |entry| if matches!(entry, LogEntry::ClusterConfig(_)) { LogEntry::Command } else { entry };
    Entries::from_iter(entries.prev_position(), entries.iter().map(forgotten))
}
