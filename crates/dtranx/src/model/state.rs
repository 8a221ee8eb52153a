//! [`State`] of the modelled cluster, and the steps that are possible in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    operator,
    plan::{Asks, Plan, Snap, Tx},
    server::Server,
};
use crate::core::{
    ClientId, CommitAnswer, Decision, Epoch, Key, Map, Message, Node, ServerId, TranxId, flaw::Flaw, joining::Joining,
    node::Link,
};

/// State of the cluster, its network and its clients, with what is left of the budgets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) servers: Vec<Server>,
    /// Messages under way, by their digests; equal messages are one entry.
    pub(crate) network: BTreeMap<u64, Post>,
    pub(crate) clients: Vec<Client>,
    pub(crate) readers: Vec<Reader>,
    /// Transactions that a server has applied, even if a crash undid it, with the index of each in
    /// the plan.
    pub(crate) applied: BTreeMap<TranxId, usize>,
    /// The map that each move has left on a server, by the move and the server's index.
    pub(crate) maps: BTreeMap<(TranxId, usize), Map>,
    /// Transactions that an operator has decided.
    pub(crate) decided: BTreeMap<TranxId, Decision>,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) duplicates: u8,
    pub(crate) disconnections: u8,
    pub(crate) early_ticks: u8,
    pub(crate) collections: u8,
}

/// A message under way between two servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Post {
    pub(crate) from: ServerId,
    pub(crate) to: ServerId,
    pub(crate) message: Message,
}

/// A client with one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Versions that the client has read so far.
    pub(crate) seen: Vec<Option<TranxId>>,
    pub(crate) sent_as: Option<ClientId>,
    pub(crate) answer: Option<CommitAnswer>,
    /// Transactions and snapshots that were answered before this transaction began.
    pub(crate) after: BTreeSet<usize>,
}

/// A client that reads one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub(crate) asked_as: Option<ClientId>,
    /// Snapshot that the client was given; reads of it may still be refused.
    pub(crate) snapshot: Option<Epoch>,
    pub(crate) is_refused: bool,
    /// A server that takes part had not come to the end of the snapshot's epoch.
    pub(super) is_too_early: bool,
    pub(crate) seen: Vec<Option<TranxId>>,
    /// Transactions and snapshots that were answered before this snapshot was requested.
    pub(crate) after: BTreeSet<usize>,
}

/// A step of the cluster; servers and clients are given by their index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Read(usize),
    Commit(usize),
    AskSnapshot(usize),
    ReadSnapshot(usize),
    Deliver(Post),
    Duplicate(Post),
    Lose(Post),
    /// Server `at` learns that the connection from server `from` is lost.
    Disconnect {
        at: usize,
        from: ServerId,
    },
    Flush(usize),
    Chore(usize),
    Pass(usize, Link),
    /// A slow storage carries out one of its commands.
    Store(usize, usize),
    /// One answer of a slow storage arrives.
    Hear(usize, usize),
    Tick(usize),
    Collect(usize),
    Crash {
        server: usize,
        kept: usize,
        persists: bool,
    },
    Restart(usize),
    /// A server is stopped, and its list of servers has the last one from now on.
    Extend(usize),
    /// The server that joins learns that all others have it in their lists.
    Meet(usize),
    /// A server is lost for good, with its folder.
    Ruin(usize),
    /// An operator stops all servers and decides what one of them is in doubt about.
    Resolve {
        at: usize,
        tranx: TranxId,
        decision: Decision,
        keeps: operator::Keeps,
    },
}

impl Action {
    fn of_operator(resolution: operator::Resolution) -> Self {
        let operator::Resolution { at, tranx, decision, keeps } = resolution;
        Self::Resolve { at, tranx, decision, keeps }
    }
}

impl State {
    /// First state of a plan: every server runs and has transaction numbers, and the plan's first
    /// transactions and snapshots are over.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut state = Self {
            servers: (1..=plan.servers).map(|id| Server::new(ServerId(id), plan)).collect(),
            network: BTreeMap::new(),
            clients: vec![Client::default(); plan.txs.len()],
            readers: vec![Reader::default(); plan.snaps.len()],
            applied: BTreeMap::new(),
            maps: BTreeMap::new(),
            decided: BTreeMap::new(),
            crashes: plan.crashes,
            losses: plan.losses,
            duplicates: plan.duplicates,
            disconnections: plan.disconnections,
            early_ticks: plan.early_ticks,
            collections: plan.collections,
        };
        for server in 0..state.servers.len() {
            state.take(plan, &Action::Restart(server));
            state.take(plan, &Action::Flush(server));
        }
        for (at, tx) in plan.txs.iter().enumerate().take(plan.before) {
            tx.reads.iter().for_each(|_| state.read(plan, at));
        }
        for at in 0..plan.before {
            state.take(plan, &Action::Commit(at));
            state.come_to_silence(plan);
        }
        // Twice: the first time the servers tell each other what is complete.
        for server in (0..state.servers.len()).cycle().take(if plan.collected { 2 * state.servers.len() } else { 0 }) {
            state.take(plan, &Action::Collect(server));
            state.come_to_silence(plan);
        }
        for at in 0..plan.snaps_before {
            state.take(plan, &Action::AskSnapshot(at));
            state.come_to_silence(plan);
        }
        state
    }

    /// Takes steps that are not a client's, in some order, until nothing is under way.
    fn come_to_silence(&mut self, plan: &Plan) {
        let is_asked = |action: &Action| {
            use Action::{AskSnapshot, Commit, Read, ReadSnapshot};
            matches!(action, Read(_) | Commit(_) | AskSnapshot(_) | ReadSnapshot(_))
        };
        while !self.is_silent() {
            let Some(action) = self.steps(plan).into_iter().find(|action| !is_asked(action)) else { return };
            self.take(plan, &action);
        }
    }

    /// Steps that are possible without a fault.
    pub(crate) fn steps(&self, plan: &Plan) -> Vec<Action> {
        let mut actions: Vec<Action> = self.network.values().cloned().map(Action::Deliver).collect();
        for (at, server) in self.servers.iter().enumerate() {
            match &server.node {
                None if server.is_ruined => {}
                None => actions.push(Action::Restart(at)),
                Some(_) if server.durable < server.log.len() => actions.push(Action::Flush(at)),
                Some(_) if !server.chores.is_empty() => actions.push(Action::Chore(at)),
                Some(_) => {}
            }
        }
        for (at, server) in self.servers.iter().enumerate() {
            actions.extend(server.links().map(|link| Action::Pass(at, link)));
            actions.extend((0..server.asked.len()).map(|which| Action::Store(at, which)));
            actions.extend((0..server.answers.len()).map(|which| Action::Hear(at, which)));
        }
        for (at, client) in self.clients.iter().enumerate() {
            if let Some(tx) = plan.txs.get(at).filter(|_| client.sent_as.is_none()) {
                let answered = |before: usize| self.clients[before].answer.is_some();
                let is_seen = tx.sees.is_none_or(|before| self.applied.values().any(|applied| *applied == before));
                let may_begin = tx.after.into_iter().chain(tx.retries).all(answered) && is_seen && self.is_in(tx);
                if client.seen.len() < tx.reads.len() && may_begin && self.is_up(self.holder(plan, tx, client)) {
                    actions.push(Action::Read(at));
                } else if client.seen.len() == tx.reads.len() && may_begin && self.is_open(tx) {
                    actions.push(Action::Commit(at));
                }
            }
        }
        actions.extend(plan.snaps.iter().zip(&self.readers).enumerate().filter_map(|(at, (snap, reader))| {
            let may_begin = snap.after.is_none_or(|before| self.clients[before].answer.is_some());
            if reader.asked_as.is_none() && may_begin && self.is_serving(snap.maker) {
                Some(Action::AskSnapshot(at))
            } else if reader.is_reading(snap) && self.may_read_at(plan, &snap.keys[reader.seen.len()]) {
                Some(Action::ReadSnapshot(at))
            } else {
                None
            }
        }));
        actions.extend(operator::resolutions(&self.servers, plan).into_iter().map(Action::of_operator));
        actions.extend(self.joining(plan));
        if self.is_silent() {
            actions.extend(self.ticks());
        }
        actions
    }

    /// Steps by which a server joins: others are restarted with the longer list, and it is told
    /// when all have that.
    fn joining(&self, plan: &Plan) -> Vec<Action> {
        let Some(joiner) = plan.joiner().map(index) else { return vec![] };
        let others = || self.servers.iter().enumerate().filter(|(at, _)| *at != joiner);
        let extends = others().filter(|(_, server)| server.node.is_some() && !server.knows_all);
        let mut actions: Vec<_> = extends.map(|(at, _)| Action::Extend(at)).collect();
        let is_met = others().all(|(_, server)| server.node.is_some() && server.knows_all);
        let is_unmet = self.servers[joiner].node.as_ref().is_some_and(|node| node.tranx.joining == Joining::Unmet);
        actions.extend((is_met && is_unmet).then_some(Action::Meet(joiner)));
        actions
    }

    /// Faults that the budgets still allow, with early timers and early garbage collection.
    pub(crate) fn faults(&self, plan: &Plan) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.losses > 0 {
            actions.extend(self.network.values().cloned().map(Action::Lose));
        }
        if self.duplicates > 0 {
            actions.extend(self.network.values().cloned().map(Action::Duplicate));
        }
        if self.disconnections > 0 {
            let pairs = (0..self.servers.len()).flat_map(|at| self.servers.iter().map(move |from| (at, from.id)));
            let is_pair = |(at, from): &(usize, ServerId)| self.servers[*at].id != *from;
            let pairs = pairs.filter(|pair| is_pair(pair) && self.servers[pair.0].node.is_some());
            actions.extend(pairs.map(|(at, from)| Action::Disconnect { at, from }));
        }
        if self.early_ticks > 0 && !self.is_silent() {
            let may = |action: &Action| match (plan.ticks_only, action) {
                (Some(only), Action::Tick(at)) => self.servers[*at].id.0 == only,
                _ => true,
            };
            actions.extend(self.ticks().filter(may));
        }
        for (at, server) in self.servers.iter().enumerate().filter(|(_, server)| server.node.is_some()) {
            if plan.ruins == Some(server.id.0) {
                actions.push(Action::Ruin(at));
            }
            if self.collections > 0 {
                actions.push(Action::Collect(at));
            }
            if self.crashes > 0 && plan.crash_only.is_none_or(|only| server.id.0 == only) {
                let kept = 0..=server.log.len() - server.durable;
                let crash = |kept, persists| Action::Crash { server: at, kept, persists };
                let persists = [false, true].into_iter().take(1 + usize::from(server.has_unpersisted()));
                actions.extend(kept.flat_map(|kept| persists.clone().map(move |persists| crash(kept, persists))));
            }
        }
        actions
    }

    /// Returns true if nothing is under way over the network, and every server runs and has nothing
    /// to do.
    pub(crate) fn is_silent(&self) -> bool {
        self.network.is_empty() && self.servers.iter().all(Server::is_silent)
    }

    /// Ticks of the servers that have a timer.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = Action> {
        let is_due = |server: &Server| server.node.as_ref().is_some_and(|node| node.next_deadline_ms().is_some());
        self.servers.iter().enumerate().filter(move |(_, server)| is_due(server)).map(|(at, _)| Action::Tick(at))
    }

    fn is_up(&self, id: ServerId) -> bool {
        self.servers[index(id)].node.is_some()
    }

    /// Returns true if the transaction's coordinator has reached the epoch that the plan makes it
    /// wait for.
    fn is_in(&self, tx: &Tx) -> bool {
        let node = self.servers[index(tx.coordinator)].node.as_ref();
        tx.from == Epoch(0) || node.is_some_and(|node| node.tranx.epochs.now() >= tx.from)
    }

    fn is_open(&self, tx: &Tx) -> bool {
        self.is_serving(tx.coordinator)
    }

    fn is_serving(&self, id: ServerId) -> bool {
        let server = &self.servers[index(id)];
        let serves = |node: &Node| {
            node.incarnation().is_some() && (server.is_in_use || node.config().has(Flaw::UnmetCoordinates))
        };
        server.node.as_ref().is_some_and(serves)
    }

    /// Server that a client asks for the next of its keys.
    fn holder(&self, plan: &Plan, tx: &Tx, client: &Client) -> ServerId {
        match &tx.moving {
            Some(moving) => moving.from,
            None => self.asked(plan, &tx.reads[client.seen.len()]),
        }
    }

    pub(super) fn asked(&self, plan: &Plan, key: &Key) -> ServerId {
        let mut server = plan.partition().server_of(key);
        for _ in 0..if plan.asks == Asks::Holder { self.servers.len() } else { 0 } {
            server = self.servers[index(server)].map(plan).server_of(key);
        }
        server
    }

    /// Returns true if a client that reads a snapshot can ask for the key. Where ranges move, it
    /// may have to ask every server for its map.
    fn may_read_at(&self, plan: &Plan, key: &Key) -> bool {
        let moves = plan.txs.iter().any(|tx| tx.moving.is_some());
        let all = || self.servers.iter().all(|server| server.node.is_some());
        if moves { all() } else { self.is_up(plan.partition().server_of(key)) }
    }

    /// Returns true if a server that takes part would say that there is no such snapshot: it has
    /// not come to the end of that epoch.
    pub(super) fn is_too_early(&self, epoch: Epoch) -> bool {
        self.servers.iter().any(|server| server.is_in_use && server.is_behind(epoch))
    }

    /// Servers that held the key at the end of an epoch, by the maps of then; `None` if one of them
    /// does not keep that epoch any more.
    pub(super) fn holders_at(&self, plan: &Plan, epoch: Epoch, key: &Key) -> Option<Vec<usize>> {
        if self.maps.is_empty() {
            return Some(vec![index(plan.partition().server_of(key))]);
        }
        let mut holders = Vec::new();
        for (at, server) in self.servers.iter().enumerate().filter(|(_, server)| server.takes_part()) {
            let map = match server.read_at(epoch, &Key::of_map())? {
                Some(version) => self.maps[&(version, at)].clone(),
                None => Map::from(&plan.partition()),
            };
            holders.extend((map.server_of(key) == server.id).then_some(at));
        }
        Some(holders)
    }
}

pub(super) fn index(id: ServerId) -> usize {
    usize::from(id.0) - 1
}

impl Reader {
    /// Returns true if the client has its snapshot and has not read all its keys.
    pub(super) fn is_reading(&self, snap: &Snap) -> bool {
        self.snapshot.is_some() && !self.is_refused && self.seen.len() < snap.keys.len()
    }
}

impl Post {
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
