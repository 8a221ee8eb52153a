//! Gives a member's machine its events, and carries out what it wants.

use rand::RngExt;

use super::super::{
    disk::Disk,
    member::{GroupEvent, MEMBERS, Member, id},
    place::Place,
    server::Server,
    world::{Event, World},
};
use crate::core::{
    self, ServerId,
    group::{AnswerId, Command, Config, Entries, Event as Input, Group, Placed, Timer},
    message::{Settlement, SnapshotMessage, Vote},
};

/// Silence before an election, at least.
const SILENCE_US: u64 = 30_000;

impl World<'_> {
    pub(crate) fn plan_group_events(&mut self, places: &[Place]) {
        let members: Vec<Place> = places.iter().copied().filter(|place| place.member > 0).collect();
        if members.is_empty() {
            return;
        }
        for _ in 0..self.options.hangs {
            let (place, at_us) = (self.pick(&members), self.rng.random_range(0..self.calm_from_us));
            let hang_us = self.rng.random_range(5_000..200_000);
            self.later(at_us, Event::Group(place, GroupEvent::Hang(hang_us)));
        }
        for _ in 0..self.options.isolations {
            let (place, at_us) = (self.pick(&members), self.rng.random_range(0..self.calm_from_us));
            let last_us = self.rng.random_range(SILENCE_US..6 * SILENCE_US);
            self.later(at_us, Event::Group(place, GroupEvent::Isolate(last_us)));
        }
        let mut servers: Vec<ServerId> = members.iter().map(|place| place.server).collect();
        servers.dedup();
        for server in servers {
            if self.chance(self.options.lost_disks) {
                let (member, at_us) = (self.rng.random_range(1..=MEMBERS), self.rng.random_range(0..self.calm_from_us));
                self.later(at_us, Event::Group(Place { server, member }, GroupEvent::LoseDisk));
            }
        }
    }

    pub(crate) fn start_member(&mut self, place: Place) {
        let Some(member) = self.servers.get_mut(&place).and_then(|server| server.member.as_mut()) else { return };
        if member.is_lost || member.is_up() {
            return;
        }
        member.boot += 1;
        let members = (1..=MEMBERS).map(|member| id(Place { member, ..place })).collect();
        let before = Placed::first(members);
        let config = Config { me: id(place), before, rejoins: None, flaw: self.options.group_flaw };
        let mut out = Vec::new();
        member.machine = Some(Group::start(config, member.log.found(), &mut out));
        self.read_anew(place);
        self.carry_out_group(place, out);
    }

    pub(crate) fn group_event(&mut self, place: Place, event: GroupEvent) {
        let now_us = self.now_us;
        let Some(server) = self.servers.get_mut(&place) else { return };
        let life = server.life;
        let Some(member) = &mut server.member else { return };
        match event {
            GroupEvent::Timer { boot, timer, setting } => {
                if boot == member.boot && member.timers.get(&timer) == Some(&setting) {
                    self.on_group(place, Input::Tick(timer));
                }
            }
            GroupEvent::Synced { boot, .. } if boot != member.boot || !member.is_up() => {}
            GroupEvent::Synced { .. } if member.hung_until_us > now_us => {
                let wait_us = member.hung_until_us - now_us;
                self.later(wait_us, Event::Group(place, event));
            }
            GroupEvent::Synced { write, .. } => {
                member.log.sync(write);
                self.on_group(place, Input::Synced { through: write });
            }
            GroupEvent::Receive { from, message } => self.on_group(place, Input::Receive { from: id(from), message }),
            GroupEvent::Gather { life: of } => {
                if of == life {
                    self.fill_entry(place);
                }
            }
            GroupEvent::LoseDisk => {
                server.crash(&mut self.rng);
                server.member = Some(Member { is_lost: true, ..Member::new() });
                server.disk = Disk::new();
                self.groups.lost_disks += 1;
            }
            GroupEvent::Hang(hang_us) => member.hung_until_us = now_us + hang_us,
            GroupEvent::Isolate(last_us) => self.isolate(place, now_us + last_us),
        }
    }

    /// Cuts the leader off from the others of this member's group, or this member if there is no
    /// leader.
    fn isolate(&mut self, member: Place, until_us: u64) {
        let members = self.servers.values().filter(|other| other.id() == member.server);
        let leads = members.clone().find(|other| other.node.is_some()).map_or(member, |leader| leader.place);
        let others: Vec<Place> = members.map(|other| other.place).filter(|other| *other != leads).collect();
        for other in others {
            self.cuts.insert((leads, other), until_us);
            self.cuts.insert((other, leads), until_us);
        }
    }

    /// Makes the records that the node has logged since the last entry the next entry.
    fn fill_entry(&mut self, place: Place) {
        let Some(member) = self.servers.get_mut(&place).and_then(|server| server.member.as_mut()) else { return };
        let Some(life) = member.machine.as_ref().and_then(Group::serving) else { return };
        if member.gathered.is_empty() {
            return;
        }
        self.on_group(place, Input::Append { life });
    }

    fn on_group(&mut self, place: Place, input: Input) {
        let Some(member) = self.servers.get_mut(&place).and_then(|server| server.member.as_mut()) else { return };
        let is_append = matches!(input, Input::Append { .. });
        let mut out = Vec::new();
        if let Some(machine) = &mut member.machine {
            machine.on(input, &mut out);
        }
        if is_append && let Some(entries) = out.iter().find_map(written) {
            let at = entries.last_position();
            member.tickets.insert(at.index, member.last_ticket);
            let records = std::mem::take(&mut member.gathered);
            self.contents.insert((place.server, at), records);
        }
        self.carry_out_group(place, out);
    }

    fn carry_out_group(&mut self, place: Place, commands: Vec<Command>) {
        for command in commands {
            self.tell(|| format!("  member {place}: {command:?}"));
            match command {
                Command::Set(timer) => self.set_timer(place, timer),
                Command::Write { write, state, entries } => {
                    self.note_first(place, entries.as_ref());
                    let flush_us = self.rng.random_range(100..3_000);
                    let Some(server) = self.servers.get_mut(&place) else { return };
                    let Some(member) = &mut server.member else { return };
                    member.log.write(write, state, entries.as_ref());
                    let boot = member.boot;
                    self.later(flush_us, Event::Group(place, GroupEvent::Synced { boot, write }));
                }
                Command::Send { to, message } => {
                    let to = Place { member: to.0 as u8, ..place };
                    if !self.is_cut(place, to) {
                        for after_us in self.copies() {
                            let event = GroupEvent::Receive { from: place, message: message.clone() };
                            self.later(after_us, Event::Group(to, event));
                        }
                    }
                }
                Command::Apply { through } => self.apply(place, through),
                Command::Begin { .. } => self.begin_life(place),
                Command::Logged { through } => self.hear_logged(place, through),
                Command::End { .. } => self.end_life(place),
                Command::Release { answer } => self.release(place, answer),
                Command::Transfer { to } => self.history.complaints.push(format!("member {to} needs the items")),
                Command::Unchanged(why) => self.history.complaints.push(format!("member {place}: {why:?}")),
                Command::Follow(_) | Command::Rejoined => {
                    self.history.complaints.push(format!("member {place} rejoins, and has a vote"));
                }
                Command::Stop(damage) => self.history.complaints.push(format!("member {place} stops: {damage:?}")),
            }
        }
    }

    fn set_timer(&mut self, place: Place, timer: Timer) {
        let after_us = match timer {
            Timer::Election => self.rng.random_range(SILENCE_US..2 * SILENCE_US),
            Timer::Silence => SILENCE_US,
            // Nothing that is right rests on how soon an old leader steps down.
            Timer::Contact => self.rng.random_range(SILENCE_US..4 * SILENCE_US),
            Timer::Heartbeat => SILENCE_US / 4,
            Timer::Disk => 2 * SILENCE_US,
        };
        let setting = self.scheduled;
        let Some(server) = self.servers.get_mut(&place) else { return };
        let after_us = server.lasts_us(after_us);
        let Some(member) = &mut server.member else { return };
        member.timers.insert(timer, setting);
        let boot = member.boot;
        self.later(after_us, Event::Group(place, GroupEvent::Timer { boot, timer, setting }));
    }

    /// The first entry of a term, which is written when its leader is elected, is empty.
    fn note_first(&mut self, place: Place, entries: Option<&Entries>) {
        for (at, _) in entries.into_iter().flat_map(Entries::iter_with_positions) {
            self.contents.entry((place.server, at)).or_default();
        }
    }

    /// Takes a command of a member's node that a server which runs alone would carry out at once.
    /// Returns any other.
    pub(crate) fn take_from_node(&mut self, place: Place, command: core::Command) -> Option<core::Command> {
        let Some(server) = self.servers.get_mut(&place) else { return Some(command) };
        let life = server.life;
        let Some(member) = &mut server.member else { return Some(command) };
        match command {
            core::Command::Log { ticket, record, .. } => {
                member.last_ticket = ticket.0;
                member.gathered.push(record);
                if member.gathered.len() == 1 {
                    let after_us = self.rng.random_range(10..1_000);
                    self.later(after_us, Event::Group(place, GroupEvent::Gather { life }));
                }
                None
            }
            core::Command::RemoveSegments { through } => {
                member.superfluous = through.max(member.superfluous);
                self.remove_superfluous(place);
                None
            }
            command if speaks_of_now(&command) => {
                let life = member.machine.as_ref().and_then(Group::serving)?;
                member.answers += 1;
                let answer = member.answers;
                member.held.insert(answer, command);
                self.on_group(place, Input::Hold { life, answer: AnswerId(answer) });
                None
            }
            command => Some(command),
        }
    }

    fn release(&mut self, place: Place, answer: AnswerId) {
        let Some(member) = self.servers.get_mut(&place).and_then(|server| server.member.as_mut()) else { return };
        if let Some(command) = member.held.remove(&answer.0) {
            self.perform(place, command);
        }
    }

    /// Returns true if a group is at rest: one member leads, whose node is clean, and every other
    /// that has its disk has the same log.
    pub(crate) fn is_group_at_rest(&self, server: ServerId) -> bool {
        let members = || {
            let servers = self.servers.values().filter(move |other| other.id() == server);
            servers.filter_map(|other| Some((other, other.member.as_ref()?))).filter(|(_, member)| !member.is_lost)
        };
        let lasts = || members().map(|(_, member)| member.machine.as_ref().map(|machine| machine.last()));
        let has_one_log = lasts().all(|last| last.is_some() && Some(last) == lasts().next());
        let leading: Vec<&Server> = members().map(|(other, _)| other).filter(|other| other.node.is_some()).collect();
        let is_clean = leading.len() == 1 && leading[0].is_clean();
        has_one_log && is_clean && members().all(|(_, member)| member.log.is_synced())
    }

    /// In the end, every member crashes once more, and has what its log and its items have.
    pub(crate) fn end_members(&mut self) {
        let members = self.servers.values().filter(|server| server.member.is_some() && !server.is_lost());
        let places: Vec<Place> = members.map(|server| server.place).collect();
        places.into_iter().for_each(|place| self.end_member(place));
    }

    fn end_member(&mut self, place: Place) {
        let Some(server) = self.servers.get_mut(&place) else { return };
        server.crash(&mut self.rng);
        self.read_anew(place);
        let last = self.servers.get(&place).and_then(|server| server.member.as_ref()?.log.places().pop());
        if let Some((last, _)) = last {
            self.apply(place, last.index);
        }
    }
}

fn written(command: &Command) -> Option<&Entries> {
    if let Command::Write { entries, .. } = command { entries.as_ref() } else { None }
}

/// Returns true if a command speaks of now, and so waits for a round (G6).
fn speaks_of_now(command: &core::Command) -> bool {
    use core::{Command as Say, CommitAnswer, Message, SnapshotAnswer};
    match command {
        Say::Send { message: Message::Validated { vote, .. }, .. } => *vote == Vote::Yes,
        Say::Send { message: Message::Snapshot(SnapshotMessage::Settled { settlement, .. }), .. } => {
            *settlement == Settlement::Settled
        }
        Say::Reply { answer, .. } => matches!(answer, CommitAnswer::Validated(_)),
        Say::ReplySnapshot { answer, .. } => matches!(answer, SnapshotAnswer::Made(_)),
        _ => false,
    }
}
