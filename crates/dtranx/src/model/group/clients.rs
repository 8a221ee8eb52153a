//! Steps of the clients: reads, commits, snapshots, and the question about a commit that has no
//! answer.

use std::collections::BTreeSet;

use super::{
    member::GROUP,
    plan::Plan,
    state::{Action, OTHER, State},
};
use crate::core::{Again, ClientId, CommitAnswer, Epoch, Input, MessageId, Node, RequestId};
use crate::model::state::Reader;

impl State {
    /// Steps that clients may take.
    pub(super) fn asked(&self, plan: &Plan) -> Vec<Action> {
        let mut actions = Vec::new();
        for (client, tx) in plan.base.txs.iter().enumerate() {
            let state = &self.clients[client];
            let may_begin = tx.after.is_none_or(|before| self.clients[before].answer.is_some());
            let is_seen = tx.sees.is_none_or(|before| self.applied.values().any(|applied| *applied == before));
            if state.answer.is_none() && self.budget.asks > 0 {
                let at =
                    self.nodes(tx.coordinator).filter(|at| *at != OTHER && self.request_outcome(client, *at).is_some());
                actions.extend(at.map(|at| Action::AskAgain { client, at }));
            }
            let is_later = plan.begins_later != Some(client) || self.term() > 1;
            let is_in = tx.from == Epoch(0) || self.nodes(tx.coordinator).any(|at| self.epoch(at) >= tx.from);
            if state.sent_as.is_some() || !may_begin || !is_seen || !is_in || !is_later {
                continue;
            }
            if let Some(key) = tx.reads.get(state.seen.len()) {
                let holder = plan.base.partition().server_of(key);
                actions.extend(self.nodes(holder).map(|at| Action::Read { client, at }));
            } else {
                let is_full = self.is_full(plan);
                let at = self.nodes(tx.coordinator).filter(|at| !is_full && self.serves(*at));
                actions.extend(at.map(|at| Action::Commit { client, at }));
            }
        }
        for (reader, snap) in plan.base.snaps.iter().enumerate() {
            let state = &self.readers[reader];
            let may_begin = snap.after.is_none_or(|before| self.clients[before].answer.is_some());
            if state.asked_as.is_none() && may_begin {
                let at = self.nodes(snap.maker).filter(|at| self.serves(*at));
                actions.extend(at.map(|at| Action::AskSnapshot { reader, at }));
            } else if state.is_reading(snap) {
                let holder = plan.base.partition().server_of(&snap.keys[state.seen.len()]);
                actions.extend(self.nodes(holder).map(|at| Action::ReadSnapshot { reader, at }));
            }
        }
        actions
    }

    fn serves(&self, at: usize) -> bool {
        self.node(at).is_some_and(|node| node.incarnation().is_some())
    }

    /// Returns true if the log of some member is so full that transactions are refused (G20).
    pub(super) fn is_full(&self, plan: &Plan) -> bool {
        plan.room.is_some_and(|room| self.members.iter().any(|member| member.held() >= room))
    }

    fn epoch(&self, at: usize) -> Epoch {
        self.node(at).map_or(Epoch(0), |node| node.tranx.epochs.now())
    }

    /// Answer of a leader to a client that asks after its request, if it can tell what became of
    /// that.
    fn request_outcome(&self, client: usize, at: usize) -> Option<CommitAnswer> {
        let request = RequestId { client: self.clients[client].sent_as?, message: MessageId(1) };
        Some(self.node(at)?.request_outcome(request, 0).answer(GROUP))
            .filter(|answer| *answer != CommitAnswer::Indeterminate)
    }

    /// A leader answers a client by what it knows of earlier lives.
    pub(super) fn ask_again(&mut self, client: usize, at: usize) {
        self.budget.asks -= 1;
        self.clients[client].answer = self.request_outcome(client, at);
    }

    /// Indices of the answered transactions, and of the snapshots that were made, which follow.
    fn answered(&self) -> BTreeSet<usize> {
        let clients = self.clients.iter().map(|client| client.answer.is_some());
        let readers = self.readers.iter().map(|reader| reader.snapshot.is_some());
        clients.chain(readers).enumerate().filter(|(_, is_answered)| *is_answered).map(|(at, _)| at).collect()
    }

    pub(super) fn read(&mut self, plan: &Plan, client: usize, at: usize) {
        if self.clients[client].seen.is_empty() {
            self.clients[client].after = self.answered();
        }
        let key = &plan.base.txs[client].reads[self.clients[client].seen.len()];
        let version = self.server_mut(at).items.get(key).map(|item| item.version);
        self.clients[client].seen.push(version);
    }

    pub(super) fn commit(&mut self, plan: &Plan, client: usize, at: usize) {
        let tx = &plan.base.txs[client];
        if tx.reads.is_empty() {
            self.clients[client].after = self.answered();
        }
        let Some(incarnation) = self.node(at).and_then(Node::incarnation) else { return };
        let id = ClientId { incarnation, number: client as u64 };
        self.clients[client].sent_as = Some(id);
        let transaction = tx.transaction(client, &self.clients[client].seen);
        let again = Again { waited_ms: 0, keeps: false, kept: None };
        self.on(plan, at, Input::ClientConnected { client: id });
        self.on(plan, at, Input::Commit { client: id, message: MessageId(1), transaction, again });
    }

    pub(super) fn ask_snapshot(&mut self, plan: &Plan, reader: usize, at: usize) {
        let Some(incarnation) = self.node(at).and_then(Node::incarnation) else { return };
        let client = ClientId { incarnation, number: 100 + reader as u64 };
        self.readers[reader] = Reader { asked_as: Some(client), after: self.answered(), ..Reader::default() };
        self.on(plan, at, Input::ClientConnected { client });
        self.on(plan, at, Input::Snapshot { client, message: MessageId(1) });
    }

    pub(super) fn read_snapshot(&mut self, plan: &Plan, reader: usize, at: usize) {
        let state = &self.readers[reader];
        let (Some(epoch), key) = (state.snapshot, &plan.base.snaps[reader].keys[state.seen.len()]) else { return };
        let is_over = self.node(at).is_some_and(|node| epoch < node.tranx.epochs.readable(node.config()));
        let found = self.server_mut(at).read_at(epoch, key).filter(|_| is_over);
        match found {
            Some(version) => self.readers[reader].seen.push(version),
            None => self.readers[reader].is_refused = true,
        }
    }
}
