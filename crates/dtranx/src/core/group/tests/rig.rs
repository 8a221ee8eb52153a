//! Three machines, their disks, and the messages under way between them.

use crate::core::group::{
    Command, Config, Configuration, Entries, Event, Found, Group, Index, MemberId, Message, Placed, Position, State,
    Term, Timer, disk::Disk,
};

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;

/// Greatest number of turns in which everything is delivered and synced.
const MAX_TURNS: usize = 100;

pub(super) struct Rig {
    pub(super) groups: Vec<Group>,
    pub(super) disks: Vec<Disk>,
    /// Sender, receiver and message.
    pub(super) mail: Vec<(usize, usize, Message)>,
    /// The configuration before the log of each.
    before: Placed,
}

pub(super) fn id(member: usize) -> MemberId {
    MemberId(10 + member as u64)
}

pub(super) fn at(term: u64, index: u64) -> Position {
    Position { term: Term::new(term), index: Index::new(index) }
}

/// A log in which the entries from the first on have these terms.
pub(super) fn log(terms: &[u64]) -> Entries {
    extend(Position::ZERO, terms)
}

fn extend(before: Position, terms: &[u64]) -> Entries {
    let mut entries = Entries::new(before);
    for term in terms {
        let begins = entries.last_position().term.get() != *term;
        entries.push(if begins { noraft::LogEntry::Term(Term::new(*term)) } else { noraft::LogEntry::Command });
    }
    entries
}

/// A batch of a leader: entries with these terms, behind this place.
pub(super) fn batch(from: usize, term: u64, before: Position, terms: &[u64], committed: u64) -> Message {
    Message::Raft(noraft::Message::AppendEntriesCall {
        from: id(from).into(),
        term: Term::new(term),
        commit_index: Index::new(committed),
        entries: extend(before, terms),
    })
}

impl Rig {
    /// Three new members.
    pub(super) fn new() -> Self {
        Self::with([(0, 0, &[]), (0, 0, &[]), (0, 0, &[])])
    }

    /// Members that start with a term, a committed index, and entries of these terms.
    pub(super) fn with(found: [(u64, u64, &[u64]); 3]) -> Self {
        Self::of(config(A).before.configuration, &found)
    }

    /// Members of a group with this configuration, and what each starts with.
    pub(super) fn of(configuration: Configuration, found: &[(u64, u64, &[u64])]) -> Self {
        let before = Placed { at: Position::ZERO, configuration };
        let mut rig = Self { groups: vec![], disks: vec![], mail: vec![], before };
        for (member, (term, committed, terms)) in found.iter().copied().enumerate() {
            let found = Found { state: State { term, vote: None, committed }, entries: log(terms) };
            rig.groups.push(Group::start(rig.config(member), found.clone(), &mut vec![]));
            rig.disks.push(Disk::with(found));
        }
        rig
    }

    fn config(&self, member: usize) -> Config {
        Config { before: self.before.clone(), ..config(member) }
    }

    /// Members of which `A` leads and serves in term 1, with one entry, and all have heard of it.
    pub(super) fn led() -> Self {
        let mut rig = Self::new();
        rig.elect(A);
        rig
    }

    /// Gives a member an event. Its writes reach its disk, and what it sends waits.
    pub(super) fn on(&mut self, member: usize, event: Event) -> Vec<Command> {
        let mut out = Vec::new();
        self.groups[member].on(event, &mut out);
        self.carry_out(member, &out);
        out
    }

    fn carry_out(&mut self, member: usize, out: &[Command]) {
        for command in out {
            match command.clone() {
                Command::Write { write, state, entries } => self.disks[member].write(write, state, entries),
                Command::Send { to, message } => {
                    let to = (0..self.groups.len()).find(|other| id(*other) == to);
                    self.mail.extend(to.map(|to| (member, to, message)));
                }
                _ => {}
            }
        }
    }

    pub(super) fn receive(&mut self, member: usize, from: usize, message: Message) -> Vec<Command> {
        self.on(member, Event::Receive { from: id(from), message })
    }

    pub(super) fn tick(&mut self, member: usize, timer: Timer) -> Vec<Command> {
        self.on(member, Event::Tick(timer))
    }

    pub(super) fn append(&mut self, member: usize) -> Vec<Command> {
        let life = self.groups[member].serving().unwrap();
        self.on(member, Event::Append { life })
    }

    /// Syncs all that a member has written.
    pub(super) fn sync(&mut self, member: usize) -> Vec<Command> {
        let through = self.groups[member].last_write();
        self.disks[member].sync(through);
        self.on(member, Event::Synced { through })
    }

    /// Delivers what is under way from one member to another.
    pub(super) fn deliver(&mut self, from: usize, to: usize) -> Vec<Command> {
        let (due, rest) = std::mem::take(&mut self.mail).into_iter().partition(|post| (post.0, post.1) == (from, to));
        self.mail = rest;
        let due: Vec<(usize, usize, Message)> = due;
        due.into_iter().flat_map(|(_, _, message)| self.receive(to, from, message)).collect()
    }

    /// Syncs and delivers among these members until nothing is left, and drops the rest. Returns
    /// each command with its member.
    pub(super) fn settle(&mut self, members: &[usize]) -> Vec<(usize, Command)> {
        let mut all = Vec::new();
        for _ in 0..MAX_TURNS {
            for member in members {
                all.extend(self.sync(*member).into_iter().map(|command| (*member, command)));
            }
            self.mail.retain(|(from, to, _)| members.contains(from) && members.contains(to));
            let Some((from, to, _)) = self.mail.first().cloned() else { return all };
            all.extend(self.deliver(from, to).into_iter().map(|command| (to, command)));
        }
        panic!("it does not come to rest");
    }

    /// Has a member elected by all that would vote, and lets everything settle.
    pub(super) fn elect(&mut self, member: usize) -> Vec<(usize, Command)> {
        self.elect_among(member, &[A, B, C])
    }

    pub(super) fn elect_among(&mut self, member: usize, members: &[usize]) -> Vec<(usize, Command)> {
        for other in members {
            self.tick(*other, Timer::Silence);
        }
        self.tick(member, Timer::Election);
        let mut all = self.settle(members);
        self.tick(member, Timer::Heartbeat);
        all.extend(self.settle(members));
        assert_eq!(self.groups[member].serving(), Some(self.groups[member].term()));
        all
    }

    /// A member crashes, keeps this many of its records that were not synced, and starts again.
    pub(super) fn crash(&mut self, member: usize, kept: usize) -> Vec<Command> {
        let found = self.disks[member].crash(kept);
        let mut out = Vec::new();
        self.groups[member] = Group::start(self.config(member), found, &mut out);
        self.carry_out(member, &out);
        out
    }
}

pub(super) fn config(member: usize) -> Config {
    Config { me: id(member), before: Placed::first((A..=C).map(id).collect()), rejoins: None, flaw: None }
}
