//! What one step does to the [`State`] of the modelled cluster.

use std::collections::BTreeSet;

use super::{
    operator,
    plan::Plan,
    server::Server,
    state::{Action, Client, Post, Reader, State, index},
};
use crate::core::{
    Again, ClientId, Command, CommitAnswer, Input, Key, Map, MessageId, Node, Refusal, SnapshotAnswer, TranxId, Write,
};

impl State {
    /// Takes one step; a fault is taken from its budget.
    pub(crate) fn take(&mut self, plan: &Plan, action: &Action) {
        match action.clone() {
            Action::Read(at) => self.read(plan, at),
            Action::Commit(at) => self.commit(plan, at),
            Action::AskSnapshot(at) => self.ask_snapshot(plan, at),
            Action::ReadSnapshot(at) => self.read_snapshot(plan, at),
            Action::Deliver(post) => {
                self.network.remove(&post.digest());
                self.receive(post);
            }
            Action::Duplicate(post) => {
                self.duplicates -= 1;
                self.receive(post);
            }
            Action::Lose(post) => {
                self.losses -= 1;
                self.network.remove(&post.digest());
            }
            Action::Disconnect { at, from } => {
                self.disconnections -= 1;
                self.on(at, [Input::ServerGone { server: from }]);
            }
            Action::Tick(at) => self.tick(plan, at),
            Action::Collect(at) => {
                self.collections = self.collections.saturating_sub(1);
                self.on(at, [Input::CollectGarbage]);
            }
            Action::Flush(at) => self.act(at, Server::flush),
            Action::Chore(at) => self.act(at, Server::do_chore),
            Action::Pass(at, link) => self.act(at, |server, out, applied| server.pass(link, out, applied)),
            Action::Store(at, which) => self.act(at, |server, _, applied| server.work(which, applied)),
            Action::Hear(at, which) => self.act(at, |server, out, applied| server.hear(which, out, applied)),
            Action::Restart(at) => self.act(at, |server, out, applied| server.start(plan, out, applied)),
            Action::Crash { server, kept, persists } => {
                self.crashes -= 1;
                self.servers[server].crash(kept, persists);
            }
            Action::Extend(at) => {
                self.servers[at].crash(0, false);
                self.servers[at].knows_all = true;
            }
            Action::Meet(at) => self.on(at, [Input::Met]),
            Action::Ruin(at) => {
                self.servers[at].crash(0, false);
                self.servers[at].is_ruined = true;
            }
            Action::Resolve { at, tranx, decision, keeps } => {
                self.resolve(plan, operator::Resolution { at, tranx, decision, keeps });
            }
        }
    }

    /// Lets a server do something, and carries out what it wants done.
    fn act(&mut self, at: usize, act: impl FnOnce(&mut Server, &mut Vec<Command>, &mut Vec<(TranxId, Vec<Write>)>)) {
        let (mut out, mut applied) = (Vec::new(), Vec::new());
        let server = &mut self.servers[at];
        act(server, &mut out, &mut applied);
        server.is_in_use |= server.node.as_ref().is_some_and(Node::has_joined);
        self.spread(at, out, applied);
    }

    /// Gives a server events, one after the other.
    fn on(&mut self, at: usize, events: impl IntoIterator<Item = Input>) {
        self.act(at, |server, out, applied| events.into_iter().for_each(|event| server.on(event, out, applied)));
    }

    /// A message arrives.
    fn receive(&mut self, post: Post) {
        self.on(index(post.to), [Input::Receive { from: post.from, message: post.message }]);
    }

    fn tick(&mut self, plan: &Plan, at: usize) {
        let is_silent = self.is_silent();
        self.early_ticks = self.early_ticks.saturating_sub(u8::from(!is_silent));
        // An answer that is held back until a server is heard of is not held back for ever.
        if is_silent && plan.holds {
            self.servers[at].wait();
        }
        self.on(at, [Input::Tick]);
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
                // One whose list lacks the other takes nothing from it.
                Command::Send { to, .. } if !self.servers[index(to)].knows_all && self.servers[at].is_joiner => {}
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
            if let Some(map) = Map::written(&writes) {
                self.maps.insert((tranx, at), map);
            }
            let own = writes.iter().filter(|write| write.key != Key::of_map());
            let first_byte = own.into_iter().find_map(|write| write.value.as_ref()).map(|value| value.as_bytes()[0]);
            self.applied.extend(first_byte.map(|number| (tranx, usize::from(number))));
        }
    }

    pub(super) fn read(&mut self, plan: &Plan, at: usize) {
        if self.clients[at].seen.is_empty() {
            self.clients[at].after = self.answered();
        }
        let tx = &plan.txs[at];
        if let Some(moving) = &tx.moving {
            let items = &self.servers[index(moving.from)].items;
            let seen = tx.reads.iter().map(|key| items.get(key).map(|item| item.version));
            self.clients[at].seen = seen.collect();
            return;
        }
        let key = &tx.reads[self.clients[at].seen.len()];
        let server = &self.servers[index(self.asked(plan, key))];
        let version = server.items.get(key).map(|item| item.version);
        self.clients[at].seen.push(version);
    }

    fn ask_snapshot(&mut self, plan: &Plan, at: usize) {
        let (server, answered) = (index(plan.snaps[at].maker), self.answered());
        let incarnation = self.servers[server].node.as_ref().and_then(|node| node.incarnation()).unwrap();
        let client = ClientId { incarnation, number: 100 + at as u64 };
        self.readers[at] = Reader { asked_as: Some(client), after: answered, ..Reader::default() };
        self.on(server, [Input::ClientConnected { client }, Input::Snapshot { client, message: MessageId(1) }]);
    }

    fn read_snapshot(&mut self, plan: &Plan, at: usize) {
        let reader = &self.readers[at];
        let (Some(epoch), key) = (reader.snapshot, &plan.snaps[at].keys[reader.seen.len()]) else { return };
        let holder = self.holders_at(plan, epoch, key).map(|holders| holders.first().copied());
        let version = match holder {
            Some(Some(holder)) => self.servers[holder].read_at(epoch, key),
            Some(None) => Some(None),
            None => None,
        };
        let is_too_early = self.is_too_early(epoch);
        let reader = &mut self.readers[at];
        reader.is_too_early |= is_too_early;
        match version {
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

    fn commit(&mut self, plan: &Plan, at: usize) {
        let (tx, answered) = (&plan.txs[at], self.answered());
        let server = index(tx.coordinator);
        let incarnation = self.servers[server].node.as_ref().and_then(|node| node.incarnation()).unwrap();
        let asking = &mut self.clients[at];
        if tx.reads.is_empty() {
            asking.after = answered;
        }
        let client = ClientId { incarnation, number: at as u64 };
        asking.sent_as = Some(client);
        let transaction = tx.transaction(at, &asking.seen);
        let commit = Input::Commit { client, message: MessageId(1), transaction, again: self.again(plan, at) };
        self.on(server, [Input::ClientConnected { client }, commit]);
    }
}
