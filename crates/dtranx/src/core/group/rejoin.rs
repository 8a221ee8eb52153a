//! An empty store in the place of a lost one (decision 0081): it follows, and has no vote, until it
//! has all that the lost store may have promised.
//!
//! - It asks all other members first, and takes nothing else ([`Rejoin::Asking`], R2). What they
//!   answer bounds what the lost store has voted, by the latest term, and what it has acknowledged,
//!   by the newest entry.
//! - The caller keeps these bounds and starts the machine again, which then follows
//!   ([`Rejoin::Following`], R3, R4).
//! - When its log has what the others had, it has rejoined, and is started again with a vote (R5).

use std::collections::BTreeSet;

use super::{
    event::{Command, State, Timer},
    flaw::Flaw,
    id::{MemberId, Position, Term},
    machine::Group,
    message::Message,
    promised::{Promised, Rejoin},
    raft::Raft,
};

impl Group {
    /// Returns true if this member has no vote, because its store has taken a lost one's place.
    pub(super) const fn rejoins(&self) -> bool {
        self.config.rejoins.is_some()
    }

    /// Returns true if this member follows, and has no vote.
    pub(crate) const fn follows_without_a_vote(&self) -> bool {
        matches!(self.config.rejoins, Some(Rejoin::Following(_)))
    }

    /// The members that a rejoining one waits for before it follows.
    pub(crate) fn waits_for(&self) -> Vec<MemberId> {
        let asks = self.config.rejoins == Some(Rejoin::Asking) && !self.rejoining.is_said;
        if asks { self.rejoining.missing(self.others()) } else { vec![] }
    }

    /// Asks the members whose answers are missing, and again after the time of an election.
    pub(super) fn ask_to_rejoin(&mut self, out: &mut Vec<Command>) {
        out.push(Command::Set(Timer::Election));
        let missing = self.waits_for();
        out.extend(missing.into_iter().map(|to| Command::Send { to, message: Message::Rejoin }));
    }

    /// Tells a rejoining member what the lost store can have promised. That one is not among the
    /// members here any more, so it promises nothing from now on (R1).
    pub(super) fn answer_rejoining(&mut self, from: MemberId, out: &mut Vec<Command>) {
        let last = self.raft.last().max(self.own.position(self.own.last()));
        let in_force = self.in_force();
        let (term, members) = (self.raft.term(), in_force.configuration.members());
        let is_settled = !in_force.configuration.is_joint() && self.settled_at() == in_force.at;
        let settled = is_settled.then_some(in_force.at);
        let message = Message::RejoinAnswer { term, last, rejoins: self.rejoins(), members, settled };
        self.tell(from, message, out);
    }

    /// Takes what another member knows, if it refuses the same lost stores as this one, and no
    /// change of the members is under way there (0088, C11).
    pub(super) fn hear_rejoin_answer(
        &mut self,
        from: MemberId,
        (knows, rejoins): (Promised, bool),
        (members, settled): (&BTreeSet<MemberId>, Option<Position>),
        out: &mut Vec<Command>,
    ) {
        let own = self.in_force();
        let is_same = *members == own.configuration.members() && settled == Some(own.at);
        let is_same = is_same || self.has(Flaw::RejoinsDuringChange) && members.contains(&self.config.me);
        if self.config.rejoins != Some(Rejoin::Asking) || !is_same || self.rejoining.is_said {
            return;
        }
        self.rejoining.hear(from, knows, rejoins);
        let bounds = if self.has(Flaw::RejoinsByMajority) {
            self.rejoining.greatest()
        } else {
            self.rejoining.bounds(&self.others(), self.members())
        };
        if let Some(promised) = bounds {
            self.rejoining.is_said = true;
            out.push(Command::Follow(promised));
        }
    }

    /// Enters a term in which the lost store may have voted: with a vote, so that there is none to
    /// give (R3).
    pub(super) fn enter(&mut self, latest: Term, out: &mut Vec<Command>) {
        let (own, me) = (self.state(), self.config.me);
        let state = match latest.get() {
            _ if self.has(Flaw::RejoinsInAnyTerm) => return,
            term if term > own.term => State { term, vote: Some(me), ..own },
            term if term == own.term && own.vote.is_none() => State { vote: Some(me), ..own },
            _ => return,
        };
        self.raft = Raft::new(&self.config, &state, self.own.entries().clone());
        let write = self.own.write(None);
        (self.saved, self.vote_written) = (state, write);
        out.push(Command::Write { write, state: Some(state), entries: None });
    }

    /// Says once that this member may have a vote: its synced log is at least as new as what the
    /// others had, and so has all that the lost store can have acknowledged (R5).
    pub(super) fn rejoin(&mut self, out: &mut Vec<Command>) {
        let Some(Rejoin::Following(promised)) = self.config.rejoins else { return };
        let is_new_enough = self.own.position(self.own.synced()) >= promised.last || self.has(Flaw::RejoinsEmpty);
        let is_term_synced = self.vote_written <= self.own.synced_write();
        if is_new_enough && is_term_synced && !self.rejoining.is_said {
            self.rejoining.is_said = true;
            out.push(Command::Rejoined);
        }
    }

    /// Returns true if this member takes such a message: a rejoining one gives no vote (R4), and
    /// takes nothing before it follows (R2). It always answers one that asks.
    pub(super) fn hears(&self, message: &Message) -> bool {
        if self.has(Flaw::VotesBeforeItRejoined) && self.follows_without_a_vote() {
            return true;
        }
        let is_candidacy = matches!(message, Message::Raft(noraft::Message::RequestVoteCall { .. }));
        match self.config.rejoins {
            None => true,
            Some(Rejoin::Asking) => matches!(message, Message::Rejoin | Message::RejoinAnswer { .. }),
            Some(Rejoin::Following(_)) => !is_candidacy,
        }
    }
}
