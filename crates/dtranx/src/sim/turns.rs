//! Turns of clients in the world: the steps of [`Client`], each an event.

use rand::RngExt;

use super::{
    client::{Client, MAX_QUESTIONS, MAX_RETRIES, MAX_SENDS, Request},
    history::{Attempt, AttemptResult, value_of},
    place::Place,
    workload::Plan,
    world::{Event, Step, World},
};
use crate::core::{
    Advice, Again, ClientId, CommitAnswer, Input, MessageId, Read, Refusal, RequestId, ScanRead, ServerId, Transaction,
    TranxId, Write,
};

impl World<'_> {
    pub(super) fn reply(&mut self, from: Place, client: ClientId, message: MessageId, answer: CommitAnswer) {
        let Some(index) = self.asker(from, client, message) else { return };
        for after_us in self.copies() {
            self.step_later(index, after_us, Step::Answer(message, answer.clone()));
        }
    }

    /// Client that waits for the answer to this.
    pub(super) fn asker(&self, from: Place, client: ClientId, message: MessageId) -> Option<usize> {
        let asks = |request: &Request| request.server == from && request.client == client && request.message == message;
        self.clients.iter().position(|other| other.request.as_ref().is_some_and(asks))
    }

    pub(super) fn any_server(&mut self) -> ServerId {
        let ids: Vec<ServerId> = self.servers.keys().map(|place| place.server).collect();
        self.pick(&ids)
    }

    pub(super) fn step_later(&mut self, client: usize, after_us: u64, step: Step) {
        let turn = self.clients.get(client).map_or(0, |client| client.turn);
        self.later(after_us, Event::Client { client, turn, step });
    }

    pub(super) fn client_step(&mut self, index: usize, step: Step) {
        let hop_us = self.rng.random_range(50..1_000);
        match step {
            Step::Begin => self.begin(index),
            Step::Read(key) => match self.holder_of(&key).and_then(|place| self.servers.get(&place)) {
                Some(server) => {
                    let version = server.disk.items.get(&key).map(|item| item.version);
                    self.step_later(index, hop_us, Step::SawKey(key, version));
                }
                None => self.step_later(index, 10_000, Step::Read(key)),
            },
            Step::Scan(range, id) => {
                match self.holder_of_range(id, &range).and_then(|place| self.servers.get(&place)) {
                    Some(server) => {
                        let found = server.disk.scan(&range);
                        self.clients[index].values = server.disk.values(&range);
                        self.step_later(index, hop_us, Step::SawRange(found));
                    }
                    None if self.clients[index].moving.is_some() => self.end(index, AttemptResult::Refused),
                    None => {
                        // The range may have moved.
                        let mut parts = self.parts_of(&range);
                        let first = parts.pop_front();
                        parts.extend(std::mem::take(&mut self.clients[index].scans));
                        self.clients[index].scans = parts;
                        first.into_iter().for_each(|(range, id)| self.step_later(index, 10_000, Step::Scan(range, id)));
                    }
                }
            }
            Step::SawKey(key, version) => {
                let client = &mut self.clients[index];
                version.into_iter().for_each(|version| client.hear(version));
                client.cache.insert(key.clone(), version);
                client.transaction.reads.push(Read { key, version });
                self.go_on(index);
            }
            Step::SawRange(found) => {
                found.iter().for_each(|(_, version)| self.clients[index].hear(*version));
                self.clients[index].found.extend(found);
                self.go_on(index);
            }
            Step::Send => self.commit(index, 0),
            Step::Answer(message, answer) => {
                if self.clients[index].request.is_some_and(|request| request.message == message) {
                    self.answered(index, answer);
                }
            }
            Step::Wait(message) => self.send_again(index, message),
            Step::AskSnapshot => self.ask_snapshot(index),
            Step::Made(message, answer) => self.snapshot_made(index, message, &answer),
            Step::WaitForSnapshot(message) => self.ask_snapshot_again(index, message),
            Step::ReadAt(key) => self.read_at(index, key),
        }
    }

    pub(super) fn begin(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index).filter(|client| client.left > 0) else { return };
        client.left -= 1;
        let plan = Plan::draw(&mut self.rng, &self.options);
        if std::mem::take(&mut client.repeats) {
            client.plan.uses_cache |= plan.uses_cache;
        } else {
            client.plan = plan;
            client.again = Again { kept: client.again.kept, ..Again::default() };
        }
        if client.plan.is_snapshot {
            return self.begin_snapshot(index);
        }
        client.attempt = self.history.attempts.len();
        client.reads = client.plan.reads.iter().cloned().collect();
        client.found.clear();
        client.transaction = Transaction::default();
        self.plan_scans(index);
        let attempt = Attempt {
            begun_us: self.now_us,
            ended_us: u64::MAX,
            transaction: Transaction::default(),
            outcome: AttemptResult::Unknown,
        };
        self.history.attempts.push(attempt);
        self.go_on(index);
    }

    /// Sends the next read, or the commit.
    pub(super) fn go_on(&mut self, index: usize) {
        let hop_us = self.rng.random_range(50..1_000);
        let client = &mut self.clients[index];
        client.turn += 1;
        if let Some(key) = client.reads.pop_front() {
            match client.cache.get(&key).copied().filter(|_| client.plan.uses_cache) {
                Some(version) => self.step_later(index, 1, Step::SawKey(key, version)),
                None => self.step_later(index, hop_us, Step::Read(key)),
            }
        } else if let Some((range, server)) = client.scans.pop_front() {
            self.step_later(index, hop_us, Step::Scan(range, server));
        } else {
            client.complete();
            self.history.attempts[client.attempt].transaction = client.transaction.clone();
            self.step_later(index, hop_us, Step::Send);
        }
    }

    /// Sends the transaction to a coordinator, over a new connection if need be.
    pub(super) fn commit(&mut self, index: usize, retries: u32) {
        let any = self.any_server();
        let client = &mut self.clients[index];
        let first = client.transaction.writes.first().map(|write| self.partition.server_of(&write.key));
        let id = first.filter(|_| self.rng.random_ratio(1, 2)).unwrap_or(any);
        let id = self.reach(id);
        match self.request(index, id, retries) {
            Some(message) => self.send_again(index, message),
            None => self.step_later(index, 10_000, Step::Send),
        }
    }

    /// Sends a new request to a server, over a new connection if need be; `None` if the server
    /// accepts no connection.
    pub(super) fn request(&mut self, index: usize, id: Place, retries: u32) -> Option<MessageId> {
        let client = &mut self.clients[index];
        let server = self.servers.get_mut(&id)?;
        let incarnation = server.node.as_ref().and_then(|node| node.incarnation());
        let known = client.connections.get(&id).filter(|known| Some(known.incarnation) == incarnation).copied();
        let name = known.or_else(|| server.accept())?;
        client.last_message += 1;
        let message = MessageId(client.last_message);
        client.connections.insert(id, name);
        let above = client.heard.get(&id.server).copied().unwrap_or(0);
        client.request = Some(Request { server: id, client: name, message, sends: 0, retries, above, questions: 0 });
        client.turn += 1;
        if known.is_none() {
            self.input(id, Input::ClientConnected { client: name });
        }
        Some(message)
    }

    pub(super) fn send_again(&mut self, index: usize, message: MessageId) {
        let client = &mut self.clients[index];
        let Some(request) = client.request.as_mut().filter(|request| request.message == message) else { return };
        if request.questions > 0 {
            return self.ask_later_life(index);
        }
        request.sends += 1;
        let (Request { server: to, client: name, sends, .. }, transaction) = (*request, client.transaction.clone());
        let again = client.again;
        if sends > MAX_SENDS {
            return self.ask_later_life(index);
        }
        for after_us in self.copies() {
            self.later(after_us, Event::Request { to, client: name, message, transaction: transaction.clone(), again });
        }
        self.step_later(index, 25_000, Step::Wait(message));
    }

    pub(super) fn answered(&mut self, index: usize, answer: CommitAnswer) {
        let Some(Request { retries, questions, .. }) = self.clients[index].request else { return };
        if questions > 0 {
            return self.end_as_told(index, &answer);
        }
        match answer {
            CommitAnswer::Committed(tranx) => {
                self.clients[index].hear(tranx);
                self.end(index, AttemptResult::Committed(tranx.into()));
            }
            CommitAnswer::Validated(validation) => self.end(index, AttemptResult::Committed(validation.into())),
            CommitAnswer::Indeterminate => self.ask_later_life(index),
            CommitAnswer::Refused(refusal) if refusal.advice() == Advice::RetryLater && retries < MAX_RETRIES => {
                self.say_again(index, None);
                self.commit(index, retries + 1);
            }
            CommitAnswer::Refused(refusal) => {
                if let Refusal::Stale { current, kept } = refusal {
                    let cache = &mut self.clients[index].cache;
                    cache.extend(current.into_iter().map(|now| (now.key, now.item.map(|item| item.version))));
                    self.say_again(index, kept);
                    self.clients[index].repeats = self.rng.random_ratio(2, 3);
                }
                self.end(index, AttemptResult::Refused);
            }
        }
    }

    /// Asks a later life of the server what became of a request without an answer, or gives up.
    fn ask_later_life(&mut self, index: usize) {
        let Some(Request { server, client, message, above, questions, .. }) = self.clients[index].request else {
            return;
        };
        if questions >= MAX_QUESTIONS {
            return self.end(index, AttemptResult::Unknown);
        }
        let to = self.reach(server.server);
        if let Some(request) = &mut self.clients[index].request {
            (request.server, request.questions) = (to, questions + 1);
        }
        for after_us in self.copies() {
            self.later(after_us, Event::Question { to, request: RequestId { client, message }, above });
        }
        self.step_later(index, 25_000, Step::Wait(message));
    }

    /// Ends a request by the answer to that question, or by a late one to the request itself.
    fn end_as_told(&mut self, index: usize, answer: &CommitAnswer) {
        let outcome = match answer {
            CommitAnswer::Committed(tranx) => AttemptResult::Committed((*tranx).into()),
            CommitAnswer::Validated(validation) => AttemptResult::Committed((*validation).into()),
            CommitAnswer::Refused(_) => AttemptResult::Refused,
            CommitAnswer::Indeterminate => AttemptResult::Unknown,
        };
        self.told += usize::from(outcome != AttemptResult::Unknown);
        self.end(index, outcome);
    }

    /// Draws the facts that the client states with its next request: they need not be true.
    fn say_again(&mut self, index: usize, kept: Option<TranxId>) {
        let waited_ms = self.rng.random_range(0..200);
        let keeps = self.rng.random_ratio(2, 3);
        let seen = self.clients[index].cache.values().flatten().next_back().copied();
        let claimed = if self.rng.random_ratio(1, 4) { seen } else { kept };
        self.clients[index].again = Again { waited_ms, keeps, kept: claimed };
    }

    pub(super) fn end(&mut self, index: usize, outcome: AttemptResult) {
        let client = &mut self.clients[index];
        client.request = None;
        client.turn += 1;
        let attempt = &mut self.history.attempts[client.attempt];
        attempt.outcome = outcome;
        attempt.ended_us = self.now_us;
        if self.rng.random_ratio(1, 10)
            && let Some((server, name)) = client.connections.pop_first()
        {
            self.input(server, Input::ClientGone { client: name });
        }
        let pause_us = self.rng.random_range(10..5_000);
        self.step_later(index, pause_us, Step::Begin);
    }
}

impl Client {
    /// Adds the scanned ranges and the writes to the transaction.
    fn complete(&mut self) {
        if let Some(range) = self.plan.scan.clone() {
            self.found.sort_unstable();
            self.transaction.scans = vec![ScanRead { range, found: std::mem::take(&mut self.found) }];
        }
        if let Some(moving) = self.moving.take() {
            let put = |(key, value)| Write { key, value: Some(value) };
            self.transaction.writes = std::mem::take(&mut self.values).into_iter().map(put).collect();
            self.transaction.moving = Some(Box::new(moving));
            return;
        }
        let value = value_of(self.attempt);
        let put = self.plan.puts.iter().map(|key| Write { key: key.clone(), value: value.clone() });
        let delete = self.plan.deletes.iter().map(|key| Write { key: key.clone(), value: None });
        self.transaction.writes = put.chain(delete).collect();
    }
}
