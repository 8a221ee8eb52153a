//! Effects of a node's commands in the world: messages that arrive or are lost, and disks that
//! finish after a while.

use rand::RngExt;

use super::{
    place::Place,
    workload::keys,
    world::{Event, Work, World},
};
use crate::core::{CheckAnswer, Command, Input, LogTicket, Message, Record, ServerId, Transaction};

impl World<'_> {
    pub(super) fn carry_out(&mut self, id: Place, commands: Vec<Command>) {
        for command in commands {
            self.tell(|| format!("  server {id}: {command:?}"));
            #[cfg(test)]
            let Some(command) = self.take_from_node(id, command) else { continue };
            self.perform(id, command);
        }
    }

    /// Carries out one command of the node at this place.
    pub(super) fn perform(&mut self, id: Place, command: Command) {
        match command {
            Command::Send { to, message } => self.send(id, to, message),
            Command::Reply { client, message, answer } => self.reply(id, client, message, answer),
            Command::Log { record, durable, .. } => self.append(id, record, durable),
            Command::Check { work, reads, scans } => self.work(id, 500, Work::Check(work, reads, scans)),
            Command::ReplySnapshot { client, message, answer } => self.reply_snapshot(id, client, message, answer),
            Command::Apply { tranx, epoch, writes } => self.work(id, 500, Work::Apply(tranx, epoch, writes)),
            Command::PersistStorage => {
                let applied = self.servers.get(&id).map_or(0, |server| server.disk.unpersisted());
                self.work(id, 5_000, Work::Persist(applied));
            }
            Command::WriteGcRecord(record) => {
                if let Some(server) = self.servers.get_mut(&id) {
                    server.disk.gc_writing = Some(record);
                }
                self.work(id, 5_000, Work::WriteGcRecord);
            }
            Command::RemoveSegments { through } => {
                if let Some(server) = self.servers.get_mut(&id) {
                    server.disk.remove_through(through);
                }
            }
        }
    }

    pub(super) fn append(&mut self, id: Place, record: Record, durable: bool) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let sealed = server.disk.append(record);
        let (appended, life) = (server.disk.appended, server.life);
        let most = server.disk.segments.len().saturating_sub(1);
        self.most_segments = self.most_segments.max(most);
        let flush_us = self.rng.random_range(if durable { 100..3_000 } else { 2_000..10_000 });
        self.later(flush_us, Event::Done { server: id, life, work: Work::Flush(appended) });
        if let Some((segment, summary)) = sealed {
            self.input(id, Input::SegmentSealed { segment, summary });
        }
    }

    pub(super) fn work(&mut self, id: Place, most_us: u64, work: Work) {
        let life = self.servers.get(&id).map_or(0, |server| server.life);
        let after_us = self.rng.random_range(1..most_us);
        self.later(after_us, Event::Done { server: id, life, work });
    }

    pub(super) fn done(&mut self, id: Place, life: u64, work: Work) {
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.life == life) else { return };
        let input = match work {
            Work::Flush(count) => {
                server.disk.durable = server.disk.durable.max(count);
                server.ticket(count).map(|ticket| Input::Logged { through: LogTicket(ticket) })
            }
            Work::Check(work, reads, scans) => {
                let answer = server.disk.check(&reads, &scans);
                if answer == CheckAnswer::default() {
                    let map = server.disk.map(&self.partition);
                    let concerned = keys(&self.options).filter(|key| {
                        scans.iter().any(|scan| scan.range.contains(key)) || reads.iter().any(|read| read.key == *key)
                    });
                    // The server that takes a range has seen nothing of it.
                    let concerned = concerned.filter(|key| map.server_of(key) == id.server);
                    let seen = concerned.map(|key| (key.clone(), server.disk.seen(&key, &self.history).writes));
                    let seen = seen.collect();
                    self.history.checked(work, id.server, self.now_us, seen);
                }
                return self.answer(id, Input::Checked { work, answer });
            }
            Work::Apply(tranx, epoch, writes) => {
                let concerned = self.history.concerned(tranx, &writes);
                server.disk.keep(epoch, &writes, &concerned, &self.history);
                self.history.applied(id.server, tranx, &writes);
                server.disk.apply(tranx, writes, concerned);
                return self.answer(id, Input::Applied { tranx });
            }
            Work::Answer(input) => Some(input),
            Work::Persist(count) => {
                server.disk.persist(count);
                Some(Input::StoragePersisted)
            }
            Work::WriteGcRecord => {
                server.disk.gc_record = server.disk.gc_writing.take();
                Some(Input::GcRecorded)
            }
        };
        if let Some(input) = input {
            self.input(id, input);
        }
    }

    /// Answers as the storage, as if by one of several threads: a later request may be answered
    /// first.
    fn answer(&mut self, id: Place, input: Input) {
        let most_us = self.hop_us();
        self.work(id, most_us, Work::Answer(input));
    }

    pub(super) fn send(&mut self, from: Place, to: ServerId, message: Message) {
        if let Message::Prepare { tranx, part: Transaction { moving: Some(moving), .. }, .. } = &message {
            let within = keys(&self.options).filter(|key| moving.range.contains(key));
            self.history.moves(*tranx, moving, within);
        }
        let to = self.reach(to);
        if self.is_cut(from, to) {
            return;
        }
        for after_us in self.copies() {
            self.later(after_us, Event::Message { from: from.server, to, message: message.clone() });
        }
    }

    /// Returns true if these places cannot reach each other now.
    pub(super) fn is_cut(&self, from: Place, to: Place) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|until_us| *until_us > self.now_us) && !self.is_calm()
    }

    /// Times at which the copies of a message arrive: none if it is lost.
    pub(super) fn copies(&mut self) -> Vec<u64> {
        let mut after_us = vec![self.rng.random_range(50..2_000)];
        if self.is_calm() {
            return after_us;
        }
        if self.chance(self.options.duplication) {
            after_us.push(self.rng.random_range(50..200_000));
        }
        if self.chance(self.options.loss) {
            after_us.remove(0);
        }
        if self.chance(self.options.duplication) {
            after_us.iter_mut().for_each(|after_us| *after_us *= 10);
        }
        after_us
    }
}
