//! [`Group`]: one member's machine. The kept Raft decides; what it wants done is turned into
//! commands that keep the rules.

use std::collections::BTreeMap;

use super::{
    acknowledgement::Acknowledgements,
    canvass::Canvass,
    config::Config,
    configuration::Configuration,
    contact::Contact,
    event::{Command, Damage, Event, Found, State, Timer},
    flaw::Flaw,
    id::{AnswerId, Index, MemberId, Position, Term, WriteId},
    life::Life,
    log::OwnLog,
    message::Message,
    outbox::Outbox,
    promised::{Rejoin, Rejoining},
    raft::Raft,
    rounds::Rounds,
};

/// The machine of one member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(super) config: Config,
    pub(super) raft: Raft,
    pub(super) own: OwnLog,
    /// Greatest index known to be committed: what the crate says, and what was known at the start.
    pub(super) committed: Index,
    /// The newest state that is written.
    pub(super) saved: State,
    /// The write with the newest term and vote.
    pub(super) vote_written: WriteId,
    /// The leader whose batches are written, and not acknowledged to their end.
    pub(super) owed: Option<MemberId>,
    pub(super) outbox: Outbox,
    /// The term in which this member leads, with the first entry of it.
    pub(super) lead: Option<(Term, Index)>,
    pub(super) life: Life,
    pub(super) acknowledged: Acknowledgements,
    pub(super) rounds: Rounds,
    pub(super) canvass: Canvass,
    pub(super) contact: Contact,
    /// Answers of the others, while this member rejoins.
    pub(super) rejoining: Rejoining,
    /// Stores of configurations that others have told of, with the place of the latest that names
    /// each.
    pub(super) met: BTreeMap<MemberId, Position>,
    pub(super) is_stopped: bool,
}

impl Group {
    /// The machine of a member that starts, for the first time or again.
    pub(crate) fn start(config: Config, found: Found, out: &mut Vec<Command>) -> Self {
        let raft = Raft::new(&config, &found.state, found.entries.clone());
        let own = OwnLog::new(found.entries);
        let committed = Index::new(found.state.committed).max(own.beginning());
        let mut group = Self {
            config,
            raft,
            committed,
            saved: found.state,
            vote_written: WriteId(0),
            owed: None,
            outbox: Outbox::default(),
            lead: None,
            life: Life::new(own.beginning()),
            acknowledged: Acknowledgements::default(),
            rounds: Rounds::default(),
            canvass: Canvass::default(),
            contact: Contact::default(),
            rejoining: Rejoining::default(),
            met: BTreeMap::new(),
            is_stopped: false,
            own,
        };
        let last = group.own.last();
        if committed > last {
            group.stop(Damage::Missing { committed, last }, out);
            return group;
        }
        if group.has(Flaw::AppliesAll) {
            group.life.act(last, out);
        }
        if let Some(Rejoin::Following(promised)) = group.config.rejoins {
            group.enter(promised.term, out);
        }
        group.carry_out(out);
        group.act(out);
        group.rejoin(out);
        group
    }

    /// Handles one event. The commands are to be carried out in order.
    pub(crate) fn on(&mut self, event: Event, out: &mut Vec<Command>) {
        if self.is_stopped {
            return;
        }
        match event {
            Event::Tick(timer) => self.tick(timer, out),
            Event::Receive { from, message } => self.receive(from, message, out),
            Event::Append { life } => {
                if self.life.serving() == Some(life) {
                    self.raft.propose();
                    self.carry_out(out);
                }
            }
            Event::Synced { through } => self.sync(through, out),
            Event::Hold { life, answer } => {
                if self.life.serving() == Some(life) {
                    self.hold(answer, out);
                }
            }
            Event::Change { voters, learners } => self.change(voters, learners, out),
            Event::Meet { at, members } => self.meet(at, members),
        }
        self.act(out);
        if !self.is_stopped {
            self.rejoin(out);
        }
    }

    #[cfg(test)]
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// The term in which this member leads, if it does.
    pub(crate) fn leads(&self) -> Option<Term> {
        self.lead.map(|(term, _)| term)
    }

    /// The term in which this member stands for election, if it does.
    #[cfg(test)]
    pub(crate) fn stands(&self) -> Option<Term> {
        self.raft.stands()
    }

    /// The life whose node runs here.
    #[cfg(test)]
    pub(crate) fn serving(&self) -> Option<Term> {
        self.life.serving()
    }

    pub(crate) fn term(&self) -> Term {
        self.raft.term()
    }

    /// Greatest index up to which the own log is synced as it is written.
    pub(crate) fn synced(&self) -> Index {
        self.own.synced()
    }

    /// Greatest index up to which a follower is known to have this leader's log, synced.
    pub(crate) fn counted(&self, member: MemberId) -> Index {
        self.raft.counted(member).unwrap_or(Index::ZERO)
    }

    /// Returns true if this member needs a leader's items instead of entries up to this one, which
    /// it does not have. Entries that the crate has given up may be in the log still: they were not
    /// committed then, and are not acknowledged in this term.
    pub(crate) fn lacks(&self, before: Position) -> bool {
        self.lead.is_none() && self.committed < before.index && !self.raft.entries().contains(before)
    }

    /// Place before the first entry of the own log, as it was found.
    pub(crate) fn beginning(&self) -> Index {
        self.own.beginning()
    }

    /// Last entry that is written and not void.
    #[cfg(test)]
    pub(crate) fn last(&self) -> Position {
        self.own.position(self.own.last())
    }

    /// Returns true if this entry is written and not void.
    #[cfg(test)]
    pub(crate) fn has_written(&self, entry: Position) -> bool {
        self.own.entries().contains(entry)
    }

    /// The last write that was asked for.
    #[cfg(test)]
    pub(crate) fn last_write(&self) -> WriteId {
        self.own.last_write()
    }

    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.config.has(flaw)
    }

    /// Returns true if a flaw lets a leader call committed what it has not synced.
    pub(super) fn has_unsynced_commits(&self) -> bool {
        self.has(Flaw::CountsUnsynced) || self.has(Flaw::CommitsAlone)
    }

    /// The other members, those without a vote too.
    pub(super) fn others(&self) -> Vec<MemberId> {
        self.members().members().into_iter().filter(|member| *member != self.config.me).collect()
    }

    /// The other members that have a vote.
    pub(super) fn other_voters(&self) -> Vec<MemberId> {
        self.others().into_iter().filter(|member| self.members().has_vote(*member)).collect()
    }

    fn tick(&mut self, timer: Timer, out: &mut Vec<Command>) {
        match timer {
            Timer::Election if self.rejoins() => self.ask_to_rejoin(out),
            Timer::Election => self.ask(out),
            Timer::Silence => self.canvass.silence(),
            Timer::Heartbeat if self.lead.is_some() => {
                self.raft.heartbeat();
                self.carry_out(out);
                self.begin_round(out);
            }
            Timer::Contact if self.lead.is_some() => {
                out.push(Command::Set(timer));
                if !self.contact.has_majority(&self.raft.in_force().configuration, self.config.me) {
                    self.step_down(out);
                }
            }
            Timer::Disk if self.lead.is_some() => {
                out.push(Command::Set(timer));
                if !self.contact.is_synced(self.own.synced_write(), self.own.last_write()) {
                    self.step_down(out);
                }
            }
            Timer::Heartbeat | Timer::Contact | Timer::Disk => {}
        }
    }

    /// Asks the others whether they would vote for this member (PreVote).
    fn ask(&mut self, out: &mut Vec<Command>) {
        if self.lead.is_some() || !self.members().has_vote(self.config.me) {
            return;
        }
        out.push(Command::Set(Timer::Election));
        if self.is_leaving() && self.canvass.waits_once() {
            return;
        }
        let (term, last) = (self.raft.term() + Term::new(1), self.raft.last());
        self.canvass.ask(self.config.me, term);
        let asked = self.other_voters().into_iter();
        out.extend(asked.map(|to| Command::Send { to, message: Message::Ask { term, last } }));
        self.stand_if_granted(out);
    }

    /// More of the own log is synced: what waited for that leaves, and more is counted.
    fn sync(&mut self, through: WriteId, out: &mut Vec<Command>) {
        self.own.sync(through);
        self.note_committed();
        self.outbox.leave(self.own.synced_write(), out);
        self.acknowledge(out);
        for from in self.others() {
            let counted = self.counted(from);
            if let Some(last) = self.acknowledged.synced(from, &self.own, counted).filter(|_| self.lead.is_some()) {
                self.count(from, last, out);
            }
        }
    }

    /// The node has said something that speaks of now.
    fn hold(&mut self, answer: AnswerId, out: &mut Vec<Command>) {
        let (through, begun) = (self.confirmed_through(), self.rounds.begun());
        if self.has(Flaw::Unconfirmed) {
            out.push(Command::Release { answer });
        } else if self.has(Flaw::ConfirmedBefore) && through > 0 {
            self.rounds.hold_for(through, answer);
        } else if self.has(Flaw::LatecomersLeave) && begun > through {
            self.rounds.hold_for(begun, answer);
        } else {
            self.rounds.hold(answer);
        }
        self.go_round(out);
    }

    /// Lets leave what is confirmed, and begins the next round if something waits for it.
    pub(super) fn go_round(&mut self, out: &mut Vec<Command>) {
        self.rounds.release(self.confirmed_through(), out);
        if self.rounds.is_due(self.confirmed_through()) {
            self.begin_round(out);
            // One that alone has a vote has confirmed it.
            self.rounds.release(self.confirmed_through(), out);
        }
    }

    /// The last round that a majority has confirmed.
    fn confirmed_through(&self) -> u64 {
        let (members, me) = (self.members(), self.config.me);
        if self.has(Flaw::RoundsByNextVoters) && members.is_joint() {
            return self.rounds.through(&Configuration::of(members.next.clone()), me);
        }
        self.rounds.through(members, me)
    }

    fn begin_round(&mut self, out: &mut Vec<Command>) {
        let message = Message::Round { term: self.raft.term(), number: self.rounds.begin() };
        // Learners, too: one that gets a vote while a round is under way has been asked.
        out.extend(self.others().into_iter().map(|to| Command::Send { to, message: message.clone() }));
    }

    /// Stops leading, as if this member had been started: the crate follows only a message of a
    /// later term, and there is none.
    fn step_down(&mut self, out: &mut Vec<Command>) {
        let state = self.state();
        self.raft = Raft::new(&self.config, &state, self.own.entries().clone());
        self.carry_out(out);
    }

    /// The latest term and vote, written or not.
    pub(crate) fn state(&self) -> State {
        State { term: self.raft.term().get(), vote: self.raft.vote(), committed: self.committed.get() }
    }
}
