//! Messages that a member receives. Nothing of another store gets past the first line (G10).

use std::collections::BTreeSet;

use noraft::{ClusterConfig, LogEntry};

use super::{
    event::{Command, Damage, State, Timer},
    flaw::Flaw,
    id::{Entries, Index, MemberId, Position, Term},
    machine::Group,
    message::Message,
    promised::Promised,
    raft::Raft,
};

impl Group {
    pub(super) fn receive(&mut self, from: MemberId, message: Message, out: &mut Vec<Command>) {
        let me = self.config.me;
        if from == me || !self.knows(from) || !self.knows(me) || !message.is_plausible() {
            return;
        }
        if !self.hears(&message) {
            return;
        }
        match message {
            Message::Raft(message) if MemberId::from(message.from()) == from => self.receive_raft(from, message, out),
            Message::Raft(_) => {}
            Message::Round { term, number } => {
                if term == self.raft.term() {
                    self.tell(from, Message::Confirm { term, number }, out);
                }
            }
            Message::Confirm { term, number } => {
                if self.leads() == Some(term) {
                    self.contact.hear(from);
                    self.rounds.confirm(from, number);
                    self.go_round(out);
                }
            }
            Message::Ask { term, last } => self.answer(from, term, last, out),
            Message::Would { term, asked, grants } => self.hear_answer(from, term, asked, grants, out),
            Message::Rejoin => self.answer_rejoining(from, out),
            Message::RejoinAnswer { term, last, rejoins, members, settled } => {
                self.hear_rejoin_answer(from, (Promised { term, last }, rejoins), (&members, settled), out);
            }
        }
    }

    /// Says whether this member would vote: not while it hears of a leader, or leads (PreVote).
    fn answer(&mut self, from: MemberId, asked: Term, last: Position, out: &mut Vec<Command>) {
        let hears = self.canvass.hears() || self.lead.is_some();
        let term = self.raft.term();
        let grants = !hears && asked > term && last >= self.raft.last() && !self.rejoins();
        self.tell(from, Message::Would { term, asked, grants }, out);
    }

    fn hear_answer(&mut self, from: MemberId, term: Term, asked: Term, grants: bool, out: &mut Vec<Command>) {
        if self.lead.is_some() {
            return;
        }
        if !grants && term > self.raft.term() {
            // Who stood for this term in vain would never vote in an earlier one.
            self.canvass.clear();
            return self.hand_over(|raft| raft.observe(from, term), out);
        }
        if grants {
            self.canvass.grant(from, asked);
            self.stand_if_granted(out);
        }
    }

    /// Stands for election if a majority would vote.
    pub(super) fn stand_if_granted(&mut self, out: &mut Vec<Command>) {
        if self.canvass.is_granted(&self.raft.in_force().configuration) {
            self.raft.stand();
            self.carry_out(out);
        }
    }

    fn receive_raft(&mut self, from: MemberId, message: noraft::Message, out: &mut Vec<Command>) {
        let is_own_term = message.term() == self.raft.term();
        if is_own_term && self.lead.is_some() {
            self.contact.hear(from);
        }
        match message {
            noraft::Message::AppendEntriesCall { .. } => self.receive_batch(message, out),
            noraft::Message::AppendEntriesReply { last_position, .. } if is_own_term && self.lead.is_some() => {
                self.receive_acknowledgement(from, last_position, out);
            }
            message => {
                if message.term() > self.raft.term() {
                    self.canvass.clear();
                }
                self.hand_over(|raft| raft.receive(&message), out);
            }
        }
    }

    /// A leader's batch: refused if its term is over, which the crate does (G2).
    fn receive_batch(&mut self, mut message: noraft::Message, out: &mut Vec<Command>) {
        let own_term = self.raft.term();
        let noraft::Message::AppendEntriesCall { term, entries, .. } = &mut message else { return };
        if self.has(Flaw::GoesByNextVoters) {
            *entries = by_next_voters(entries);
        }
        if *term < own_term && self.has(Flaw::OldTermAccepted) && self.lead.is_none() {
            *term = own_term;
        }
        if *term >= own_term {
            // The crate drops what a leader contradicts without a look at what is committed.
            if let Some(damage) = self.own.contradicted(entries, self.committed) {
                return self.stop(damage, out);
            }
            self.canvass.hear();
            out.push(Command::Set(Timer::Silence));
            let last = entries.last_position();
            if self.has(Flaw::CutsWithoutConflict) && self.lead.is_none() && self.own.entries().contains(last) {
                self.cut(last, out);
            }
        }
        self.hand_over(|raft| raft.receive(&message), out);
    }

    /// A follower's acknowledgement, in the term of this leader.
    fn receive_acknowledgement(&mut self, from: MemberId, last: Position, out: &mut Vec<Command>) {
        let counted = self.counted(from);
        let last = if self.has(Flaw::CountsUnsynced) {
            Some(last)
        } else if self.has(Flaw::ConflictCounted) {
            Some(self.own.position(last.index.min(self.own.synced())))
        } else {
            self.acknowledged.take(from, last, &self.own, counted)
        };
        if let Some(last) = last {
            self.count(from, last, out);
        }
    }

    /// Hands an acknowledgement to the crate, which counts it or sends what is lacking.
    pub(super) fn count(&mut self, from: MemberId, last_position: Position, out: &mut Vec<Command>) {
        let reply = noraft::Message::AppendEntriesReply { from: from.into(), term: self.raft.term(), last_position };
        self.hand_over(|raft| raft.receive(&reply), out);
    }

    fn hand_over(&mut self, step: impl FnOnce(&mut Raft) -> Result<(), noraft::Error>, out: &mut Vec<Command>) {
        match step(&mut self.raft) {
            Ok(()) => self.carry_out(out),
            Err(noraft::Error::LocalSnapshotMismatch) => self.stop(Damage::Beginning, out),
        }
    }

    /// The flaw of G8: the log ends with this entry, which is written again.
    fn cut(&mut self, last: Position, out: &mut Vec<Command>) {
        let mut entries = self.own.entries().clone();
        let before = self.own.position(Index::new(last.index.get().saturating_sub(1)));
        if last.index >= self.own.last() || before.index >= last.index {
            return;
        }
        entries.truncate((last.index.get() - self.own.beginning().get()) as usize);
        let Some(again) = entries.since(before) else { return };
        let write = self.own.write(Some(&again));
        out.push(Command::Write { write, state: None, entries: Some(again) });
        let state = State { term: self.raft.term().get(), vote: self.raft.vote(), committed: self.committed.get() };
        self.raft = Raft::new(&self.config, &state, entries);
        drop(self.raft.take());
    }
}

/// The flaw of C2: entries whose joint configurations are the final ones already.
fn by_next_voters(entries: &Entries) -> Entries {
    let changed = |entry| match entry {
        LogEntry::ClusterConfig(config) if config.is_joint_consensus() => {
            let voters = config.new_voters.clone();
            LogEntry::ClusterConfig(ClusterConfig { voters, new_voters: BTreeSet::new(), ..config })
        }
        entry => entry,
    };
    Entries::from_iter(entries.prev_position(), entries.iter().map(changed))
}
