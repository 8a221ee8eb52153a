//! What the crate wants done, as commands: what is to be written, then what is to be sent.

use noraft::Actions;

use super::{
    contact::Contact,
    event::{Command, Damage, Timer},
    flaw::Flaw,
    id::{Index, MemberId},
    machine::Group,
    message::Message,
    rounds::Rounds,
};

impl Group {
    /// Carries out what the crate wants: what is to be written, then what is to be sent.
    pub(super) fn carry_out(&mut self, out: &mut Vec<Command>) {
        if self.lead.is_some() && !self.members().has_vote(self.config.me) && !self.has(Flaw::LeavesWithTheFinal) {
            self.leave_the_final();
        }
        let actions = self.raft.take();
        self.follow_role(out);
        self.write(&actions, out);
        self.note_committed();
        if actions.set_election_timeout {
            let timer = if self.lead.is_some() { Timer::Heartbeat } else { Timer::Election };
            out.push(Command::Set(timer));
        }
        if let Some(message) = actions.broadcast_message {
            let is_candidacy = matches!(message, noraft::Message::RequestVoteCall { .. });
            for to in if is_candidacy { self.other_voters() } else { self.others() } {
                self.send(to, message.clone(), out);
            }
        }
        for (to, message) in actions.send_messages {
            self.send(to.into(), message, out);
        }
        out.extend(actions.install_snapshots.into_iter().map(|to| Command::Transfer { to: to.into() }));
    }

    /// Notices an election that is won, or a leader's end.
    fn follow_role(&mut self, out: &mut Vec<Command>) {
        let leads = self.raft.leads();
        if self.leads() == leads {
            return;
        }
        if self.lead.take().is_some() && !self.has(Flaw::NodeKept) {
            self.life.end(self.own.beginning(), out);
        }
        self.acknowledged.clear();
        self.rounds = Rounds::default();
        self.canvass.clear();
        if let Some(term) = leads {
            self.lead = Some((term, self.raft.last().index));
            self.contact = Contact::new(self.own.last_write());
            out.extend([Timer::Contact, Timer::Disk].map(Command::Set));
        }
    }

    /// Writes what has changed: the state, and what of the entries the own log does not have (G8).
    fn write(&mut self, actions: &Actions, out: &mut Vec<Command>) {
        let has_new_term = actions.save_current_term || actions.save_voted_for;
        let entries = actions.append_log_entries.as_ref().and_then(|entries| self.own.missing(entries));
        let knows_more = entries.is_some() && self.committed.get() > self.saved.committed;
        let state = (has_new_term || knows_more).then(|| self.state());
        if state.is_none() && entries.is_none() {
            return;
        }
        let write = self.own.write(entries.as_ref());
        self.saved = state.unwrap_or(self.saved);
        if has_new_term {
            self.vote_written = write;
            self.owed = None;
        }
        out.push(Command::Write { write, state, entries });
    }

    /// Sends a message of the crate's, now or when what it tells is synced (G3).
    fn send(&mut self, to: MemberId, message: noraft::Message, out: &mut Vec<Command>) {
        match message {
            noraft::Message::AppendEntriesCall { from, term, commit_index, entries } => {
                if let Some(entries) = self.acknowledged.unsaid(to, entries) {
                    let commit_index = self.told(commit_index);
                    let call = noraft::Message::AppendEntriesCall { from, term, commit_index, entries };
                    // A term that nobody else has heard of is synced first (0088, C12).
                    self.tell(to, Message::Raft(call), out);
                }
            }
            noraft::Message::AppendEntriesReply { from, term, .. } if self.raft.vote() != Some(to) => {
                // To a leader whose term is over, which only has to hear of the later one.
                let last_position = self.own.position(self.raft.last().index.min(self.own.synced()));
                let reply = noraft::Message::AppendEntriesReply { from, term, last_position };
                self.tell(to, Message::Raft(reply), out);
            }
            noraft::Message::AppendEntriesReply { .. } => {
                self.owed = Some(to);
                if self.raft.last().index <= self.own.synced() || self.has(Flaw::AcknowledgesUnsynced) {
                    self.acknowledge(out);
                }
            }
            message => self.tell(to, Message::Raft(message), out),
        }
    }

    /// Sends a message that tells of the term or the vote, when that is synced (G3).
    pub(super) fn tell(&mut self, to: MemberId, message: Message, out: &mut Vec<Command>) {
        if self.has(Flaw::VotesUnsynced) {
            return out.push(Command::Send { to, message });
        }
        self.outbox.send(self.vote_written, to, message);
        self.outbox.leave(self.own.synced_write(), out);
    }

    /// Acknowledges what is synced of the leader's entries (G3). The rest follows at a later sync.
    pub(super) fn acknowledge(&mut self, out: &mut Vec<Command>) {
        let is_early = self.has(Flaw::AcknowledgesUnsynced);
        let Some(to) = self.owed.filter(|_| is_early || self.vote_written <= self.own.synced_write()) else { return };
        let last = self.raft.last();
        let through = if is_early { last.index } else { last.index.min(self.own.synced()) };
        if through == last.index {
            self.owed = None;
        }
        let last_position = self.own.position(through);
        let (from, term) = (self.config.me.into(), self.raft.term());
        let reply = noraft::Message::AppendEntriesReply { from, term, last_position };
        out.push(Command::Send { to, message: Message::Raft(reply) });
    }

    /// Acts on what is committed and synced here (G1, G5), and begins a life (G4).
    pub(super) fn act(&mut self, out: &mut Vec<Command>) {
        if self.is_stopped {
            return;
        }
        let synced = self.own.synced();
        let through = match self.lead {
            Some(_) if self.has(Flaw::OwnSync) => synced,
            _ if self.has(Flaw::AppliesUnsynced) => self.committed,
            _ => self.committed.min(synced),
        };
        self.life.act(through, out);
        if let Some((term, first)) = self.lead {
            let first = if self.has(Flaw::BeginsBeforeFirstEntry) { Index::ZERO } else { first };
            self.life.begin(term, first, out);
        }
    }

    pub(super) fn stop(&mut self, damage: Damage, out: &mut Vec<Command>) {
        self.is_stopped = true;
        out.push(Command::Stop(damage));
    }
}
