//! One server of the cluster: its node while it runs, its disk always, and a clock of its own.

use std::collections::BTreeSet;

use rand::{RngExt, rngs::StdRng};

use super::{disk::Disk, history::History, options::SimOptions, place::Place};
use crate::core::{ClientId, Command, Epoch, Input, Key, Node, NodeConfig, Partition, Recovery, ServerId, node::Link};

/// A server of the simulated cluster, or a member of one.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) disk: Disk,
    /// State that a member of a group has besides.
    #[cfg(test)]
    pub(crate) member: Option<super::member::Member>,
    /// `None` while it is down.
    pub(crate) node: Option<Node>,
    /// Links between its machines on which an event is under way.
    passing: BTreeSet<Link>,
    /// Number of its lives; work that was begun in an earlier one is never finished.
    pub(crate) life: u64,
    pub(super) config: NodeConfig,
    /// Number of records that the log had when this life began: its tickets count from there.
    tickets_from: u64,
    clock_ahead_ms: u64,
    clock_percent: u64,
    next_client: u64,
    /// Time until which the server stands still.
    pub(crate) paused_until_us: u64,
}

impl Server {
    pub(crate) fn new(
        place: Place,
        servers: &[ServerId],
        partition: Partition,
        options: &SimOptions,
        rng: &mut StdRng,
    ) -> Self {
        let mut config = NodeConfig::new(place.server, partition);
        config.servers = servers.to_vec();
        options.configure(&mut config);
        Self {
            place,
            disk: Disk::new(),
            #[cfg(test)]
            member: (place.member > 0).then(super::member::Member::new),
            node: None,
            passing: BTreeSet::new(),
            life: 0,
            config,
            tickets_from: 0,
            clock_ahead_ms: rng.random_range(0..1_000_000),
            clock_percent: rng.random_range(50..200),
            next_client: 0,
            paused_until_us: 0,
        }
    }

    pub(crate) const fn id(&self) -> ServerId {
        self.place.server
    }

    /// Returns true if the server can be read as of the end of an epoch, as far as that is its
    /// node's matter.
    pub(crate) fn serves(&self, epoch: Epoch) -> bool {
        let Some(node) = &self.node else { return false };
        epoch < node.tranx.epochs.readable(node.config())
    }

    /// Time that the server's clock shows.
    pub(crate) fn now_ms(&self, now_us: u64) -> u64 {
        self.clock_ahead_ms + now_us * self.clock_percent / 100_000
    }

    /// Time in which its clock goes on by this much.
    #[cfg(test)]
    pub(crate) fn lasts_us(&self, by_us: u64) -> u64 {
        by_us * 100 / self.clock_percent
    }

    /// Starts it from what is on its disk.
    pub(crate) fn start(&mut self, now_us: u64, history: &mut History) -> Vec<Command> {
        let mut recovery = Recovery::new(self.config.clone(), self.disk.gc_record.clone());
        let segments: Vec<_> = self.disk.segments.iter().cloned().collect();
        for segment in segments {
            recovery.segment(segment.id);
            for record in segment.records {
                if let Some((tranx, writes)) = recovery.record(segment.id, record) {
                    history.applied(self.place.server, tranx, &writes);
                    let concerned = history.concerned(tranx, &writes);
                    self.disk.apply(tranx, writes, concerned);
                }
            }
        }
        self.disk.begin_segment();
        self.tickets_from = self.disk.appended;
        let mut commands = Vec::new();
        recovery.stored_map(self.disk.items.get(&Key::of_map())).expect("the map is as it was written");
        let node = recovery.finish(self.now_ms(now_us), &mut commands);
        self.disk.begin_snapshots(node.tranx.epochs.now());
        self.node = Some(node);
        commands
    }

    pub(crate) fn crash(&mut self, rng: &mut StdRng) {
        self.stop();
        self.disk.crash(rng);
        #[cfg(test)]
        if let Some(member) = &mut self.member {
            member.crash(rng);
        }
    }

    /// Drops the node with all that it has in memory, as a crash or the end of a life does.
    pub(crate) fn stop(&mut self) {
        self.node = None;
        self.passing.clear();
        self.life += 1;
    }

    /// Returns true if it runs, as a member without a node does.
    pub(crate) fn is_up(&self) -> bool {
        #[cfg(test)]
        if let Some(member) = &self.member {
            return member.is_up();
        }
        self.node.is_some()
    }

    /// Returns true if its node has nothing under way, remembers nothing, and needs no segment.
    pub(crate) fn is_clean(&self) -> bool {
        self.node.as_ref().is_some_and(|node| {
            let status = node.status();
            let open = status.coordinating + status.participating + status.remembered + status.locking;
            open + status.segments == 0
        })
    }

    /// Returns true if its disk is gone for good.
    pub(crate) fn is_lost(&self) -> bool {
        #[cfg(test)]
        if let Some(member) = &self.member {
            return member.is_lost();
        }
        false
    }

    /// Has its node handle an event, if it is up.
    pub(crate) fn on(&mut self, now_us: u64, input: Input) -> Vec<Command> {
        let now_ms = self.now_ms(now_us);
        let mut commands = Vec::new();
        if let Some(node) = &mut self.node {
            node.take(now_ms, input, &mut commands);
            return commands;
        }
        #[cfg(test)]
        if let Some(member) = &mut self.member {
            return member.collect(&self.config, input);
        }
        commands
    }

    /// Delivers one event from one of its machines to another.
    pub(crate) fn pass(&mut self, now_us: u64, link: Link) -> Vec<Command> {
        let now_ms = self.now_ms(now_us);
        let mut commands = Vec::new();
        self.passing.remove(&link);
        if let Some(node) = &mut self.node {
            node.deliver(now_ms, link, &mut commands);
        }
        commands
    }

    /// Links between machines on which an event is to be delivered from now on: one at a time, in
    /// order.
    pub(crate) fn begin_to_pass(&mut self) -> Vec<Link> {
        let links = self.node.iter().flat_map(Node::links);
        let begun: Vec<Link> = links.filter(|link| !self.passing.contains(link)).collect();
        self.passing.extend(&begun);
        begun
    }

    /// Stands still, and finds that its clock has gone ahead by some more.
    pub(crate) fn pause(&mut self, until_us: u64, jump_ms: u64) {
        self.paused_until_us = until_us;
        self.clock_ahead_ms += jump_ms;
    }

    /// Returns true if a tick is due.
    pub(crate) fn is_due(&self, now_us: u64) -> bool {
        let deadline_ms = self.node.as_ref().and_then(Node::next_deadline_ms);
        deadline_ms.is_some_and(|deadline_ms| deadline_ms <= self.now_ms(now_us))
    }

    /// Ticket of the log's record `count` in this life.
    pub(crate) fn ticket(&self, count: u64) -> Option<u64> {
        count.checked_sub(self.tickets_from).filter(|ticket| *ticket > 0)
    }

    /// Names a new connection, if it may be accepted yet.
    pub(crate) fn accept(&mut self) -> Option<ClientId> {
        let incarnation = self.node.as_ref()?.incarnation()?;
        self.next_client += 1;
        Some(ClientId { incarnation, number: self.next_client })
    }

    /// Items that would still be there after a crash, with their versions: to compare with what
    /// should be.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&Key, &crate::core::Item)> {
        self.disk.items.iter()
    }
}
