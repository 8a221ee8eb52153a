//! Clients that read snapshots: they request one from any server, and then read every key of it,
//! one after the other, over a long time.

use rand::{RngExt, seq::SliceRandom};

use super::{
    client::{MAX_SENDS, Request},
    history::Snapshot,
    moves::HolderAt,
    place::Place,
    workload::keys,
    world::{Event, Step, World},
};
use crate::core::{ClientId, Epoch, Key, MessageId, SnapshotAnswer};

impl World<'_> {
    pub(super) fn reply_snapshot(&mut self, from: Place, client: ClientId, message: MessageId, answer: SnapshotAnswer) {
        let Some(index) = self.asker(from, client, message) else { return };
        for after_us in self.copies() {
            self.step_later(index, after_us, Step::Made(message, answer.clone()));
        }
    }

    pub(super) fn begin_snapshot(&mut self, index: usize) {
        let begun_us = self.now_us;
        let client = &mut self.clients[index];
        client.turn += 1;
        let (ended_us, epoch) = (u64::MAX, Epoch(0));
        client.snapshot = Some(Snapshot { begun_us, ended_us, epoch, seen: Default::default() });
        self.ask_snapshot(index);
    }

    pub(super) fn ask_snapshot(&mut self, index: usize) {
        let id = self.any_server();
        let id = self.reach(id);
        match self.request(index, id, 0) {
            Some(message) => self.ask_snapshot_again(index, message),
            None => self.step_later(index, 10_000, Step::AskSnapshot),
        }
    }

    pub(super) fn ask_snapshot_again(&mut self, index: usize, message: MessageId) {
        let client = &mut self.clients[index];
        let Some(request) = client.request.as_mut().filter(|request| request.message == message) else { return };
        request.sends += 1;
        let Request { server: to, client: name, sends, .. } = *request;
        if sends > MAX_SENDS {
            return self.end_snapshot(index, false);
        }
        for after_us in self.copies() {
            self.later(after_us, Event::SnapshotRequest { to, client: name, message });
        }
        self.step_later(index, 25_000, Step::WaitForSnapshot(message));
    }

    pub(super) fn snapshot_made(&mut self, index: usize, message: MessageId, answer: &SnapshotAnswer) {
        let client = &mut self.clients[index];
        if client.request.is_none_or(|request| request.message != message) {
            return;
        }
        let (SnapshotAnswer::Made(epoch), Some(snapshot)) = (answer, &mut client.snapshot) else {
            return self.end_snapshot(index, false);
        };
        snapshot.epoch = *epoch;
        client.request = None;
        client.turn += 1;
        let mut rest: Vec<Key> = keys(&self.options).collect();
        rest.shuffle(&mut self.rng);
        client.reads = rest.into();
        self.read_next(index);
    }

    fn read_next(&mut self, index: usize) {
        let after_us = if self.chance(10) { 20_000 } else { self.rng.random_range(50..2_000) };
        match self.clients[index].reads.pop_front() {
            Some(key) => self.step_later(index, after_us, Step::ReadAt(key)),
            None => self.end_snapshot(index, true),
        }
    }

    pub(super) fn read_at(&mut self, index: usize, key: Key) {
        let Some(epoch) = self.clients[index].snapshot.as_ref().map(|snapshot| snapshot.epoch) else { return };
        let place = match self.holder_at(epoch, &key) {
            HolderAt::Place(place) => place,
            HolderAt::Unknown => return self.step_later(index, 10_000, Step::ReadAt(key)),
            HolderAt::TooOld => return self.end_snapshot(index, false),
        };
        let Some(server) = self.servers.get(&place) else { return };
        let Some(snapshot) = &mut self.clients[index].snapshot else { return };
        let seen = server.disk.read_at(snapshot.epoch, &key, &self.history);
        let Some(seen) = seen.filter(|_| server.serves(snapshot.epoch)) else {
            return self.end_snapshot(index, false);
        };
        snapshot.seen.insert(key, seen);
        self.read_next(index);
    }

    fn end_snapshot(&mut self, index: usize, is_whole: bool) {
        let ended_us = self.now_us;
        let client = &mut self.clients[index];
        client.request = None;
        client.turn += 1;
        if let Some(snapshot) = client.snapshot.take().filter(|_| is_whole) {
            self.history.snapshots.push(Snapshot { ended_us, ..snapshot });
        }
        let pause_us = self.rng.random_range(10..5_000);
        self.step_later(index, pause_us, Step::Begin);
    }
}
