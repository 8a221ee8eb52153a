//! [`State`] of the modelled cluster, and the steps from one state to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    operator,
    plan::{Plan, Snap, Tx},
    server::Server,
};
use crate::core::{
    Again, ClientId, Command, CommitAnswer, Decision, Epoch, Input, Message, MessageId, Refusal, ServerId,
    SnapshotAnswer, Transaction, TranxId, Write, node::Link,
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
            } else if reader.is_reading(snap) && self.is_up(plan.partition().server_of(&snap.keys[reader.seen.len()])) {
                Some(Action::ReadSnapshot(at))
            } else {
                None
            }
        }));
        actions.extend(operator::resolutions(&self.servers, plan).into_iter().map(Action::of_operator));
        if self.is_silent() {
            actions.extend(self.ticks());
        }
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
        self.servers[index(id)].node.as_ref().is_some_and(|node| node.incarnation().is_some())
    }

    fn holder(&self, plan: &Plan, tx: &Tx, client: &Client) -> ServerId {
        plan.partition().server_of(&tx.reads[client.seen.len()])
    }

    /// Takes one step; a fault is taken from its budget.
    pub(crate) fn take(&mut self, plan: &Plan, action: &Action) {
        let (mut out, mut applied) = (Vec::new(), Vec::new());
        let mut actor = None;
        let mut on = |servers: &mut Vec<Server>, at: usize, input| {
            actor = Some(at);
            servers[at].on(input, &mut out, &mut applied);
        };
        match action.clone() {
            Action::Read(at) => self.read(plan, at),
            Action::Commit(at) => {
                let (server, client, transaction) = self.commit(plan, at);
                let again = self.again(plan, at);
                on(&mut self.servers, server, Input::ClientConnected { client });
                on(&mut self.servers, server, Input::Commit { client, message: MessageId(1), transaction, again });
            }
            Action::AskSnapshot(at) => {
                let (server, client) = self.ask_snapshot(plan, at);
                on(&mut self.servers, server, Input::ClientConnected { client });
                on(&mut self.servers, server, Input::Snapshot { client, message: MessageId(1) });
            }
            Action::ReadSnapshot(at) => self.read_snapshot(plan, at),
            Action::Deliver(post) => {
                self.network.remove(&post.digest());
                on(&mut self.servers, index(post.to), Input::Receive { from: post.from, message: post.message });
            }
            Action::Duplicate(post) => {
                self.duplicates -= 1;
                on(&mut self.servers, index(post.to), Input::Receive { from: post.from, message: post.message });
            }
            Action::Lose(post) => {
                self.losses -= 1;
                self.network.remove(&post.digest());
            }
            Action::Disconnect { at, from } => {
                self.disconnections -= 1;
                on(&mut self.servers, at, Input::ServerGone { server: from });
            }
            Action::Tick(at) => {
                let is_silent = self.is_silent();
                self.early_ticks = self.early_ticks.saturating_sub(u8::from(!is_silent));
                // An answer that is held back until a server is heard of is not held back for ever.
                if is_silent && plan.holds {
                    self.servers[at].wait();
                }
                on(&mut self.servers, at, Input::Tick);
            }
            Action::Collect(at) => {
                self.collections = self.collections.saturating_sub(1);
                on(&mut self.servers, at, Input::CollectGarbage);
            }
            Action::Flush(at) => {
                actor = Some(at);
                self.servers[at].flush(&mut out, &mut applied);
            }
            Action::Chore(at) => {
                actor = Some(at);
                self.servers[at].do_chore(&mut out, &mut applied);
            }
            Action::Pass(at, link) => {
                actor = Some(at);
                self.servers[at].pass(link, &mut out, &mut applied);
            }
            Action::Store(at, which) => {
                actor = Some(at);
                self.servers[at].work(which, &mut applied);
            }
            Action::Hear(at, which) => {
                actor = Some(at);
                self.servers[at].hear(which, &mut out, &mut applied);
            }
            Action::Restart(at) => {
                actor = Some(at);
                self.servers[at].start(plan, &mut out, &mut applied);
            }
            Action::Crash { server, kept, persists } => {
                self.crashes -= 1;
                self.servers[server].crash(kept, persists);
            }
            Action::Ruin(at) => {
                self.servers[at].crash(0, false);
                self.servers[at].is_ruined = true;
            }
            Action::Resolve { at, tranx, decision, keeps } => {
                self.resolve(plan, operator::Resolution { at, tranx, decision, keeps });
            }
        }
        if let Some(at) = actor {
            self.spread(at, out, applied);
        }
    }

    /// An operator decides. What the lost server has sent is lost with the connections to it.
    fn resolve(&mut self, plan: &Plan, resolution: operator::Resolution) {
        let is_resolved = operator::resolve(&mut self.servers, plan, resolution);
        let lost = operator::lost(&self.servers);
        self.network.retain(|_, post| !lost.contains(&post.from));
        if is_resolved {
            self.decided.insert(resolution.tranx, resolution.decision);
        }
    }

    /// Delivers a server's commands: its messages to the network, its answers to the clients. Notes
    /// the transactions that it applied.
    fn spread(&mut self, at: usize, out: Vec<Command>, applied: Vec<(TranxId, Vec<Write>)>) {
        let from = self.servers[at].id;
        for command in out {
            match command {
                Command::Send { to, message } => {
                    let post = Post { from, to, message };
                    self.network.insert(post.digest(), post);
                }
                Command::Reply { client, answer, .. } => {
                    let asked = |other: &&mut Client| other.sent_as == Some(client);
                    if let Some(client) = self.clients.iter_mut().find(asked).filter(|client| client.answer.is_none()) {
                        client.answer = Some(answer);
                    }
                }
                Command::ReplySnapshot { client, answer, .. } => {
                    let asked = |other: &&mut Reader| other.asked_as == Some(client);
                    let unanswered = |reader: &&mut Reader| reader.snapshot.is_none() && !reader.is_refused;
                    if let Some(reader) = self.readers.iter_mut().find(asked).filter(unanswered) {
                        match answer {
                            SnapshotAnswer::Made(epoch) => reader.snapshot = Some(epoch),
                            SnapshotAnswer::Refused(_) => reader.is_refused = true,
                        }
                    }
                }
                _ => {}
            }
        }
        for (tranx, writes) in applied {
            let first_byte = writes.iter().find_map(|write| write.value.as_ref()).map(|value| value.as_bytes()[0]);
            self.applied.extend(first_byte.map(|number| (tranx, usize::from(number))));
        }
    }

    fn read(&mut self, plan: &Plan, at: usize) {
        if self.clients[at].seen.is_empty() {
            self.clients[at].after = self.answered();
        }
        let key = &plan.txs[at].reads[self.clients[at].seen.len()];
        let server = &self.servers[index(plan.partition().server_of(key))];
        let version = server.items.get(key).map(|item| item.version);
        self.clients[at].seen.push(version);
    }

    fn ask_snapshot(&mut self, plan: &Plan, at: usize) -> (usize, ClientId) {
        let (server, answered) = (index(plan.snaps[at].maker), self.answered());
        let incarnation = self.servers[server].node.as_ref().and_then(|node| node.incarnation()).unwrap();
        let client = ClientId { incarnation, number: 100 + at as u64 };
        self.readers[at] = Reader { asked_as: Some(client), after: answered, ..Reader::default() };
        (server, client)
    }

    fn read_snapshot(&mut self, plan: &Plan, at: usize) {
        let reader = &mut self.readers[at];
        let (Some(epoch), key) = (reader.snapshot, &plan.snaps[at].keys[reader.seen.len()]) else { return };
        match self.servers[index(plan.partition().server_of(key))].read_at(epoch, key) {
            Some(version) => reader.seen.push(version),
            None => reader.is_refused = true,
        }
    }

    /// Indices of the answered transactions, and of the snapshots that were made; the indices of
    /// snapshots follow those of transactions.
    fn answered(&self) -> BTreeSet<usize> {
        let clients = self.clients.iter().map(|client| client.answer.is_some());
        let readers = self.readers.iter().map(|reader| reader.snapshot.is_some());
        clients.chain(readers).enumerate().filter(|(_, is_answered)| *is_answered).map(|(at, _)| at).collect()
    }

    /// The client's facts about the attempt before, which is another transaction of the plan.
    fn again(&self, plan: &Plan, at: usize) -> Again {
        let kept = plan.txs[at].retries.and_then(|before| match &self.clients[before].answer {
            Some(CommitAnswer::Refused(Refusal::Stale { kept, .. })) => *kept,
            _ => None,
        });
        let named = plan.txs[at].names.map(|number| TranxId { server: plan.txs[at].coordinator, number });
        Again { waited_ms: plan.txs[at].waited_ms, keeps: plan.txs[at].keeps, kept: kept.or(named) }
    }

    fn commit(&mut self, plan: &Plan, at: usize) -> (usize, ClientId, Transaction) {
        let (tx, answered) = (&plan.txs[at], self.answered());
        let server = index(tx.coordinator);
        let incarnation = self.servers[server].node.as_ref().and_then(|node| node.incarnation()).unwrap();
        let client = &mut self.clients[at];
        if tx.reads.is_empty() {
            client.after = answered;
        }
        let id = ClientId { incarnation, number: at as u64 };
        client.sent_as = Some(id);
        (server, id, tx.transaction(at, &client.seen))
    }
}

fn index(id: ServerId) -> usize {
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
