//! The crate's node as a value: everything that decides what it does next can be compared and
//! hashed, so that a model can hold it.

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
};

use noraft::{Actions, ClusterConfig, Error, Log, Node, Role};

use super::{
    event::State,
    id::{Entries, Index, MemberId, Position, Term},
};

/// The crate's node of one member, as a value.
#[derive(Clone, Debug)]
pub(super) struct Raft {
    node: Node,
}

/// Values by which two nodes are compared. Counters are not among them, nor are the votes of an
/// election that is not won: a candidate of three members that has one vote more is a leader. Of
/// five it would not be, so a model of five has to keep these votes itself.
type Key<'a> = (Term, Option<noraft::NodeId>, Role, &'a Entries, Index, Vec<Option<Index>>);

impl Raft {
    /// A follower with this log, of a group whose voters are these members.
    pub(super) fn new(me: MemberId, members: &BTreeSet<MemberId>, state: &State, entries: Entries) -> Self {
        let mut config = ClusterConfig::new();
        config.voters.extend(members.iter().map(|member| noraft::NodeId::from(*member)));
        let vote = state.vote.map(Into::into);
        let log = Log::new(config, entries);
        Self { node: Node::restart(me.into(), Term::new(state.term), vote, log) }
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
        }
    }

    pub(super) fn heartbeat(&mut self) {
        self.node.heartbeat();
    }

    pub(super) fn propose(&mut self) {
        self.node.propose_command();
    }

    pub(super) fn receive(&mut self, message: &noraft::Message) -> Result<(), Error> {
        self.node.handle_message(message)
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
        (self.term(), self.node.voted_for(), self.node.role(), self.entries(), self.committed(), counted)
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
