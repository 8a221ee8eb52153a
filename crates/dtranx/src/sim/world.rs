//! The loop of events: everything that happens, in one order that the seed decides.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    client::{Client, MAX_RETRIES, MAX_SENDS, Request},
    history::{Attempt, Fate, History, value_of},
    options::Options,
    server::Server,
    workload::{Plan, key, keys},
};
use crate::core::{
    Advice, CheckAnswer, ClientId, Command, CommitAnswer, Input, Key, LogTicket, Message, MessageId, Partition, Read,
    Record, ScanRead, ServerId, Transaction, TranxId, Write,
};

/// How long a run may take to come to rest once nothing is disturbed any more.
const CALM_US: u64 = 20_000_000;

/// How often garbage is collected.
const COLLECT_US: u64 = 40_000;

/// Everything.
pub(crate) struct World<'a> {
    pub(crate) options: Options,
    pub(crate) partition: Partition,
    pub(crate) servers: BTreeMap<ServerId, Server>,
    pub(crate) history: History,
    pub(crate) crashes: usize,
    pub(crate) events: u64,
    pub(crate) most_segments: usize,
    clients: Vec<Client>,
    /// Is told every event and command.
    trace: Option<&'a mut dyn FnMut(&str)>,
    rng: StdRng,
    now_us: u64,
    /// How many events were ever put into the queue.
    scheduled: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    /// What is due, by its number in the queue.
    due: BTreeMap<u64, Event>,
    /// Which servers cannot reach each other until when.
    cuts: BTreeMap<(ServerId, ServerId), u64>,
    /// From when on nothing is disturbed any more.
    calm_from_us: u64,
}

#[derive(Debug)]
enum Event {
    Message {
        from: ServerId,
        to: ServerId,
        message: Message,
    },
    /// A server's disk is done with something, unless the server has crashed since.
    Done {
        server: ServerId,
        life: u64,
        work: Work,
    },
    Tick(ServerId),
    Collect(ServerId),
    Crash(ServerId),
    Restart(ServerId),
    Cut(ServerId, ServerId, u64),
    /// A server stands still for so long.
    Pause(ServerId, u64),
    /// A client goes on, unless its turn is over.
    Client {
        client: usize,
        turn: u64,
        step: Step,
    },
    Request {
        to: ServerId,
        client: ClientId,
        message: MessageId,
        transaction: Transaction,
    },
}

#[derive(Debug)]
enum Work {
    /// Records up to this one are durable.
    Flush(u64),
    Check(TranxId, Vec<Read>, Vec<ScanRead>),
    Apply(TranxId, Vec<Write>),
    Persist(usize),
    WriteGcRecord,
}

#[derive(Debug)]
enum Step {
    Begin,
    /// A server reads this.
    Read(Key),
    Scan(ServerId),
    /// What was read arrives.
    SawKey(Key, Option<TranxId>),
    SawRange(Vec<(Key, TranxId)>),
    Send,
    Answer(MessageId, CommitAnswer),
    /// No answer so far.
    Wait(MessageId),
}

impl<'a> World<'a> {
    pub(crate) fn new(seed: u64, options: &Options, trace: Option<&'a mut dyn FnMut(&str)>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let ids: Vec<ServerId> = (1..=options.servers.clamp(1, 5)).map(ServerId).collect();
        let partition = draw_partition(&mut rng, &ids, options);
        let servers = ids.iter().map(|id| (*id, Server::new(*id, partition.clone(), options, &mut rng))).collect();
        let new_client = |_| Client { left: options.transactions, ..Default::default() };
        let clients = (0..options.clients).map(new_client).collect();
        let calm_from_us = 20_000 * options.transactions as u64;
        let mut world = Self {
            options: options.clone(),
            partition,
            servers,
            history: History::default(),
            crashes: 0,
            events: 0,
            most_segments: 0,
            clients,
            trace,
            rng,
            now_us: 0,
            scheduled: 0,
            queue: BinaryHeap::new(),
            due: BTreeMap::new(),
            cuts: BTreeMap::new(),
            calm_from_us,
        };
        world.plan_events(&ids);
        world
    }

    fn plan_events(&mut self, ids: &[ServerId]) {
        for id in ids {
            self.later(0, Event::Restart(*id));
            self.later(1_000, Event::Tick(*id));
            let first_us = self.rng.random_range(1..COLLECT_US);
            self.later(first_us, Event::Collect(*id));
        }
        for client in 0..self.clients.len() {
            let first_us = self.rng.random_range(5_000..20_000);
            self.later(first_us, Event::Client { client, turn: 0, step: Step::Begin });
        }
        for _ in 0..self.options.crashes {
            let (server, at_us) = (self.pick(ids), self.rng.random_range(0..self.calm_from_us));
            self.later(at_us, Event::Crash(server));
        }
        for _ in 0..self.options.partitions {
            let (one, other, at_us) = (self.pick(ids), self.pick(ids), self.rng.random_range(0..self.calm_from_us));
            let until_us = at_us + self.rng.random_range(10_000..300_000);
            self.later(at_us, Event::Cut(one, other, until_us));
        }
        for _ in 0..self.options.pauses {
            let (server, at_us) = (self.pick(ids), self.rng.random_range(0..self.calm_from_us));
            let pause_us = self.rng.random_range(1_000..100_000);
            self.later(at_us, Event::Pause(server, pause_us));
        }
    }

    /// If it is for a server that stands still, an event happens when it goes on.
    fn paused_until_us(&self, event: &Event) -> Option<u64> {
        let server = match event {
            Event::Message { to, .. } | Event::Request { to, .. } => to,
            Event::Done { server, .. } | Event::Tick(server) | Event::Collect(server) => server,
            _ => return None,
        };
        self.servers.get(server).map(|server| server.paused_until_us).filter(|until_us| *until_us > self.now_us)
    }

    /// Runs until everything is done and nothing is left.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        while let Some(Reverse((at_us, number))) = self.queue.pop() {
            self.now_us = at_us;
            if at_us > self.calm_from_us + CALM_US {
                return Err(format!("it does not come to rest: {}", self.leftovers()));
            }
            let Some(event) = self.due.remove(&number) else { continue };
            if let Some(until_us) = self.paused_until_us(&event) {
                self.later(until_us - at_us, event);
                continue;
            }
            self.events += 1;
            let is_collection = matches!(event, Event::Collect(_));
            self.tell(|| format!("{at_us} us: {event:?}"));
            self.happen(event);
            if is_collection && self.is_at_rest() {
                return self.restart_all();
            }
        }
        Err("nothing happens any more".to_owned())
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(&line());
        }
    }

    fn is_calm(&self) -> bool {
        self.now_us >= self.calm_from_us
    }

    fn is_at_rest(&self) -> bool {
        let clients_rest = self.clients.iter().all(|client| client.left == 0 && client.request.is_none());
        let is_clean = |server: &Server| {
            server.node.as_ref().is_some_and(|node| {
                let status = node.status();
                let open = status.coordinating + status.participating + status.remembered + status.locking;
                open + status.segments == 0
            })
        };
        self.is_calm() && clients_rest && self.due.values().all(is_idle) && self.servers.values().all(is_clean)
    }

    fn leftovers(&self) -> String {
        let status = |server: &Server| format!("{:?}", server.node.as_ref().map(|node| node.status()));
        let statuses: Vec<String> = self.servers.values().map(status).collect();
        let clients: Vec<_> = self.clients.iter().map(|client| (client.left, client.request)).collect();
        format!("{statuses:?} {clients:?}")
    }

    /// In the end, every server crashes once more: what is stored must survive that.
    fn restart_all(&mut self) -> Result<(), String> {
        for server in self.servers.values_mut() {
            if let Some(node) = server.node.as_ref().filter(|node| node.status().anomalies > 0) {
                return Err(format!("server {}: {:?}", server.id, node.status()));
            }
            server.crash(&mut self.rng);
            server.start(self.now_us, &mut self.history);
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Message { from, to, message } => self.input(to, Input::Receive { from, message }),
            Event::Done { server, life, work } => self.done(server, life, work),
            Event::Tick(server) => {
                if self.servers.get(&server).is_some_and(|server| server.is_due(self.now_us)) {
                    self.input(server, Input::Tick);
                }
                self.later(1_000, Event::Tick(server));
            }
            Event::Collect(server) => {
                self.input(server, Input::CollectGarbage);
                self.later(COLLECT_US, Event::Collect(server));
            }
            Event::Crash(server) => self.crash(server),
            Event::Restart(server) => {
                let Some(down) = self.servers.get_mut(&server).filter(|server| server.node.is_none()) else { return };
                let commands = down.start(self.now_us, &mut self.history);
                self.carry_out(server, commands);
            }
            Event::Cut(one, other, until_us) => {
                self.cuts.insert((one, other), until_us);
                self.cuts.insert((other, one), until_us);
            }
            Event::Pause(server, pause_us) => {
                if let Some(server) = self.servers.get_mut(&server) {
                    server.pause(self.now_us + pause_us, self.rng.random_range(0..100));
                }
            }
            Event::Client { client, turn, step } => {
                if self.clients.get(client).is_some_and(|client| client.turn == turn) {
                    self.client_step(client, step);
                }
            }
            Event::Request { to, client, message, transaction } => {
                self.input(to, Input::Commit { client, message, transaction });
            }
        }
    }

    fn crash(&mut self, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.node.is_some()) else { return };
        server.crash(&mut self.rng);
        self.crashes += 1;
        let down_us = self.rng.random_range(1_000..100_000);
        self.later(down_us, Event::Restart(id));
    }

    fn input(&mut self, id: ServerId, input: Input) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let commands = server.on(self.now_us, input);
        self.carry_out(id, commands);
    }

    fn carry_out(&mut self, id: ServerId, commands: Vec<Command>) {
        for command in commands {
            self.tell(|| format!("  server {id}: {command:?}"));
            match command {
                Command::Send { to, message } => self.send(id, to, message),
                Command::Reply { client, message, answer } => self.reply(id, client, message, answer),
                Command::Log { record, durable, .. } => self.append(id, record, durable),
                Command::Check { tranx, reads, scans } => self.work(id, 500, Work::Check(tranx, reads, scans)),
                Command::Apply { tranx, writes } => self.work(id, 500, Work::Apply(tranx, writes)),
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
    }

    fn append(&mut self, id: ServerId, record: Record, durable: bool) {
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

    fn work(&mut self, id: ServerId, most_us: u64, work: Work) {
        let life = self.servers.get(&id).map_or(0, |server| server.life);
        let after_us = self.rng.random_range(1..most_us);
        self.later(after_us, Event::Done { server: id, life, work });
    }

    fn done(&mut self, id: ServerId, life: u64, work: Work) {
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.life == life) else { return };
        let input = match work {
            Work::Flush(count) => {
                server.disk.durable = server.disk.durable.max(count);
                server.ticket(count).map(|ticket| Input::Logged { through: LogTicket(ticket) })
            }
            Work::Check(tranx, reads, scans) => {
                let answer = server.disk.check(&reads, &scans);
                if answer == CheckAnswer::default() {
                    let concerned = keys(&self.options).filter(|key| {
                        scans.iter().any(|scan| scan.range.contains(key)) || reads.iter().any(|read| read.key == *key)
                    });
                    self.history.checked(tranx, id, self.now_us, concerned);
                }
                Some(Input::Checked { tranx, answer })
            }
            Work::Apply(tranx, writes) => {
                self.history.applied(tranx, &writes);
                server.disk.apply(tranx, writes);
                Some(Input::Applied { tranx })
            }
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

    fn send(&mut self, from: ServerId, to: ServerId, message: Message) {
        if self.cuts.get(&(from, to)).is_some_and(|until_us| *until_us > self.now_us) && !self.is_calm() {
            return;
        }
        for after_us in self.copies() {
            self.later(after_us, Event::Message { from, to, message: message.clone() });
        }
    }

    /// When the copies of a message arrive: none if it is lost.
    fn copies(&mut self) -> Vec<u64> {
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

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn pick(&mut self, ids: &[ServerId]) -> ServerId {
        ids.get(self.rng.random_range(0..ids.len().max(1))).copied().unwrap_or(ServerId(1))
    }

    fn later(&mut self, after_us: u64, event: Event) {
        self.scheduled += 1;
        self.due.insert(self.scheduled, event);
        self.queue.push(Reverse((self.now_us + after_us, self.scheduled)));
    }

    fn reply(&mut self, from: ServerId, client: ClientId, message: MessageId, answer: CommitAnswer) {
        let asks = |request: &Request| request.server == from && request.client == client && request.message == message;
        let Some(index) = self.clients.iter().position(|other| other.request.as_ref().is_some_and(asks)) else {
            return;
        };
        for after_us in self.copies() {
            self.step_later(index, after_us, Step::Answer(message, answer.clone()));
        }
    }

    fn step_later(&mut self, client: usize, after_us: u64, step: Step) {
        let turn = self.clients.get(client).map_or(0, |client| client.turn);
        self.later(after_us, Event::Client { client, turn, step });
    }

    fn client_step(&mut self, index: usize, step: Step) {
        let hop_us = self.rng.random_range(50..1_000);
        match step {
            Step::Begin => self.begin(index),
            Step::Read(key) => match self.servers.get(&self.partition.server_of(&key)).filter(|up| up.node.is_some()) {
                Some(server) => {
                    let version = server.disk.items.get(&key).map(|item| item.version);
                    self.step_later(index, hop_us, Step::SawKey(key, version));
                }
                None => self.step_later(index, 10_000, Step::Read(key)),
            },
            Step::Scan(id) => match self.servers.get(&id).filter(|up| up.node.is_some()) {
                Some(server) => {
                    let range = self.clients[index].plan.scan.clone();
                    let found = range.map(|range| server.disk.scan(&range)).unwrap_or_default();
                    self.step_later(index, hop_us, Step::SawRange(found));
                }
                None => self.step_later(index, 10_000, Step::Scan(id)),
            },
            Step::SawKey(key, version) => {
                let client = &mut self.clients[index];
                client.cache.insert(key.clone(), version);
                client.transaction.reads.push(Read { key, version });
                self.go_on(index);
            }
            Step::SawRange(found) => {
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
        }
    }

    fn begin(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index).filter(|client| client.left > 0) else { return };
        client.left -= 1;
        client.attempt = self.history.attempts.len();
        client.plan = Plan::draw(&mut self.rng, &self.options);
        client.reads = client.plan.reads.iter().cloned().collect();
        client.found.clear();
        client.transaction = Transaction::default();
        client.scans = client.plan.scan.iter().flat_map(|range| self.partition.servers_of(range)).collect();
        let attempt = Attempt {
            begun_us: self.now_us,
            ended_us: u64::MAX,
            transaction: Transaction::default(),
            fate: Fate::Unknown,
        };
        self.history.attempts.push(attempt);
        self.go_on(index);
    }

    /// The next read, or the commit.
    fn go_on(&mut self, index: usize) {
        let hop_us = self.rng.random_range(50..1_000);
        let client = &mut self.clients[index];
        client.turn += 1;
        if let Some(key) = client.reads.pop_front() {
            match client.cache.get(&key).copied().filter(|_| client.plan.uses_cache) {
                Some(version) => self.step_later(index, 1, Step::SawKey(key, version)),
                None => self.step_later(index, hop_us, Step::Read(key)),
            }
        } else if let Some(server) = client.scans.pop_front() {
            self.step_later(index, hop_us, Step::Scan(server));
        } else {
            client.complete();
            self.history.attempts[client.attempt].transaction = client.transaction.clone();
            self.step_later(index, hop_us, Step::Send);
        }
    }

    /// Sends the transaction to a coordinator, over a new connection if need be.
    fn commit(&mut self, index: usize, retries: u32) {
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        let any = self.pick(&ids);
        let client = &mut self.clients[index];
        let first = client.transaction.writes.first().map(|write| self.partition.server_of(&write.key));
        let id = first.filter(|_| self.rng.random_ratio(1, 2)).unwrap_or(any);
        let Some(server) = self.servers.get_mut(&id) else { return };
        let incarnation = server.node.as_ref().and_then(|node| node.incarnation());
        let known = client.connections.get(&id).filter(|known| Some(known.incarnation) == incarnation).copied();
        let Some(name) = known.or_else(|| server.accept()) else {
            return self.step_later(index, 10_000, Step::Send);
        };
        client.last_message += 1;
        let message = MessageId(client.last_message);
        client.connections.insert(id, name);
        client.request = Some(Request { server: id, client: name, message, sends: 0, retries });
        client.turn += 1;
        if known.is_none() {
            self.input(id, Input::ClientConnected { client: name });
        }
        self.send_again(index, message);
    }

    fn send_again(&mut self, index: usize, message: MessageId) {
        let client = &mut self.clients[index];
        let Some(request) = client.request.as_mut().filter(|request| request.message == message) else { return };
        request.sends += 1;
        let (Request { server: to, client: name, sends, .. }, transaction) = (*request, client.transaction.clone());
        if sends > MAX_SENDS {
            return self.end(index, Fate::Unknown);
        }
        for after_us in self.copies() {
            self.later(after_us, Event::Request { to, client: name, message, transaction: transaction.clone() });
        }
        self.step_later(index, 25_000, Step::Wait(message));
    }

    fn answered(&mut self, index: usize, answer: CommitAnswer) {
        let retries = self.clients[index].request.map_or(0, |request| request.retries);
        match answer {
            CommitAnswer::Committed(tranx) => self.end(index, Fate::Committed(tranx)),
            CommitAnswer::Indeterminate => self.end(index, Fate::Unknown),
            CommitAnswer::Refused(refusal) if refusal.advice() == Advice::RetryLater && retries < MAX_RETRIES => {
                self.commit(index, retries + 1);
            }
            CommitAnswer::Refused(refusal) => {
                if let crate::core::Refusal::Stale { current } = refusal {
                    let cache = &mut self.clients[index].cache;
                    cache.extend(current.into_iter().map(|now| (now.key, now.item.map(|item| item.version))));
                }
                self.end(index, Fate::Refused);
            }
        }
    }

    fn end(&mut self, index: usize, fate: Fate) {
        let client = &mut self.clients[index];
        client.request = None;
        client.turn += 1;
        let attempt = &mut self.history.attempts[client.attempt];
        attempt.fate = fate;
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
    /// Adds what was scanned and what is written.
    fn complete(&mut self) {
        if let Some(range) = self.plan.scan.clone() {
            self.found.sort_unstable();
            self.transaction.scans = vec![ScanRead { range, found: std::mem::take(&mut self.found) }];
        }
        let value = value_of(self.attempt);
        let put = self.plan.puts.iter().map(|key| Write { key: key.clone(), value: value.clone() });
        let delete = self.plan.deletes.iter().map(|key| Write { key: key.clone(), value: None });
        self.transaction.writes = put.chain(delete).collect();
    }
}

/// Does this go on for ever, so that it need not be waited for?
fn is_idle(event: &Event) -> bool {
    match event {
        Event::Tick(_) | Event::Collect(_) | Event::Done { .. } => true,
        Event::Message { message, .. } => matches!(message, Message::LowWater { .. }),
        Event::Client { step, .. } => matches!(step, Step::Begin | Step::Wait(_) | Step::Answer(..)),
        _ => false,
    }
}

fn draw_partition(rng: &mut StdRng, ids: &[ServerId], options: &Options) -> Partition {
    if rng.random() {
        return Partition::Hash(ids.to_vec());
    }
    let keys = usize::from(options.keys.clamp(1, 26));
    let mut firsts: Vec<(Key, ServerId)> = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let first = if at == 0 { Key::smallest() } else { key((at * keys / ids.len()) as u8) };
        if firsts.last().is_none_or(|(before, _)| *before < first) {
            firsts.push((first, *id));
        }
    }
    Partition::Ranges(firsts)
}
