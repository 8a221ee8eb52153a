//! The loop of events: everything that happens, in one order that the seed decides.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{client::Client, history::History, options::SimOptions, place::Place, server::Server, workload::key};
use crate::core::{
    Again, ClientId, CommitAnswer, Epoch, Input, Key, KeyRange, Message, MessageId, Partition, Read, RequestId,
    ScanRead, ServerId, SnapshotAnswer, Transaction, TranxId, WorkId, Write,
    node::{Link, Machine},
};

/// Time within which a run must come to rest once nothing is disturbed any more.
const CALM_US: u64 = 20_000_000;

/// Time between two collections of garbage.
const COLLECT_US: u64 = 40_000;

/// Everything in a run: servers, clients, network and time.
pub(crate) struct World<'a> {
    pub(crate) options: SimOptions,
    pub(crate) partition: Partition,
    /// Every place where a node of a server runs, or may run.
    pub(crate) servers: BTreeMap<Place, Server>,
    pub(crate) history: History,
    pub(crate) crashes: usize,
    pub(crate) events: u64,
    pub(crate) most_segments: usize,
    /// Number of requests whose outcome a later life has answered.
    pub(crate) told: usize,
    pub(super) clients: Vec<Client>,
    /// Called with every event and command.
    pub(super) trace: Option<&'a mut dyn FnMut(&str)>,
    pub(super) rng: StdRng,
    pub(super) now_us: u64,
    /// Number of events that were ever put into the queue.
    pub(super) scheduled: u64,
    pub(super) queue: BinaryHeap<Reverse<(u64, u64)>>,
    /// Events that are due, by their number in the queue.
    pub(super) due: BTreeMap<u64, Event>,
    /// Pairs of places that cannot reach each other, with the time when that ends.
    pub(super) cuts: BTreeMap<(Place, Place), u64>,
    /// Time from which on nothing is disturbed any more.
    pub(super) calm_from_us: u64,
    /// Records of the entries of groups. A place in a group's log has one content at most.
    #[cfg(test)]
    pub(super) contents: BTreeMap<(ServerId, crate::core::group::Position), Vec<crate::core::Record>>,
    /// Counts of what happened to the servers that are groups.
    #[cfg(test)]
    pub(crate) groups: super::group_counts::GroupCounts,
}

#[derive(Debug)]
pub(crate) enum Event {
    Message {
        from: ServerId,
        to: Place,
        message: Message,
    },
    /// A server's disk is done with something, unless the server has crashed since.
    Done {
        server: Place,
        life: u64,
        work: Work,
    },
    /// An event from one machine of a server to another arrives.
    Pass {
        server: Place,
        life: u64,
        link: Link,
    },
    #[cfg(test)]
    Group(Place, super::member::GroupEvent),
    Tick(Place),
    Collect(Place),
    Crash(Place),
    Restart(Place),
    Cut(Place, Place, u64),
    /// A server stands still for so long.
    Pause(Place, u64),
    /// A client goes on, unless its turn is over.
    Client {
        client: usize,
        turn: u64,
        step: Step,
    },
    Request {
        to: Place,
        client: ClientId,
        message: MessageId,
        transaction: Transaction,
        again: Again,
    },
    /// Question to a server about the outcome of a request.
    Question {
        to: Place,
        request: RequestId,
        above: u64,
    },
    SnapshotRequest {
        to: Place,
        client: ClientId,
        message: MessageId,
    },
}

#[derive(Debug)]
pub(crate) enum Work {
    /// Records up to this one are durable.
    Flush(u64),
    Check(WorkId, Vec<Read>, Vec<ScanRead>),
    Apply(TranxId, Epoch, Vec<Write>),
    /// The storage has answered.
    Answer(Input),
    Persist(usize),
    WriteGcRecord,
}

#[derive(Debug)]
pub(crate) enum Step {
    Begin,
    /// A server gets a client's read of this key.
    Read(Key),
    Scan(KeyRange, ServerId),
    /// The item that was read arrives.
    SawKey(Key, Option<TranxId>),
    SawRange(Vec<(Key, TranxId)>),
    Send,
    Answer(MessageId, CommitAnswer),
    /// No answer has come so far.
    Wait(MessageId),
    /// Steps of a client that reads a snapshot: its request, the answer, the wait for that, and the
    /// read of a key.
    AskSnapshot,
    Made(MessageId, SnapshotAnswer),
    WaitForSnapshot(MessageId),
    ReadAt(Key),
}

impl<'a> World<'a> {
    pub(crate) fn new(seed: u64, options: &SimOptions, trace: Option<&'a mut dyn FnMut(&str)>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let ids: Vec<ServerId> = (1..=options.servers.clamp(1, 5)).map(ServerId).collect();
        let partition = draw_partition(&mut rng, &ids, options);
        let places: Vec<Place> = ids.iter().flat_map(|id| options.places(*id)).collect();
        let new_server = |place: &Place| (*place, Server::new(*place, &ids, partition.clone(), options, &mut rng));
        let servers = places.iter().map(new_server).collect();
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
            told: 0,
            clients,
            trace,
            rng,
            now_us: 0,
            scheduled: 0,
            queue: BinaryHeap::new(),
            due: BTreeMap::new(),
            cuts: BTreeMap::new(),
            calm_from_us,
            #[cfg(test)]
            contents: BTreeMap::new(),
            #[cfg(test)]
            groups: super::group_counts::GroupCounts::default(),
        };
        world.plan_events(&places);
        world
    }

    fn plan_events(&mut self, places: &[Place]) {
        for id in places {
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
            let (server, at_us) = (self.pick(places), self.rng.random_range(0..self.calm_from_us));
            self.later(at_us, Event::Crash(server));
        }
        for _ in 0..self.options.partitions {
            let (one, other) = (self.pick(places), self.pick(places));
            let at_us = self.rng.random_range(0..self.calm_from_us);
            let until_us = at_us + self.rng.random_range(10_000..300_000);
            self.later(at_us, Event::Cut(one, other, until_us));
        }
        #[cfg(test)]
        self.plan_group_events(places);
        for _ in 0..self.options.pauses {
            let (server, at_us) = (self.pick(places), self.rng.random_range(0..self.calm_from_us));
            let pause_us = self.rng.random_range(1_000..100_000);
            self.later(at_us, Event::Pause(server, pause_us));
        }
    }

    /// If it is for a server that stands still, an event happens when it goes on.
    fn paused_until_us(&self, event: &Event) -> Option<u64> {
        let server = match event {
            Event::Message { to, .. } | Event::Request { to, .. } => to,
            Event::Question { to, .. } | Event::SnapshotRequest { to, .. } => to,
            Event::Done { server, .. } | Event::Pass { server, .. } => server,
            Event::Tick(server) | Event::Collect(server) => server,
            #[cfg(test)]
            Event::Group(server, _) => server,
            _ => return None,
        };
        self.servers.get(server).map(|server| server.paused_until_us).filter(|until_us| *until_us > self.now_us)
    }

    /// Runs until everything is done and nothing is left.
    pub(crate) fn run_to_end(&mut self) -> Result<(), String> {
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

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(&line());
        }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.now_us >= self.calm_from_us
    }

    fn is_at_rest(&self) -> bool {
        let clients_rest = self.clients.iter().all(|client| client.left == 0 && client.request.is_none());
        let rests = |server: &Server| {
            #[cfg(test)]
            if server.member.is_some() {
                return self.is_group_at_rest(server.id());
            }
            server.is_clean()
        };
        self.is_calm() && clients_rest && self.due.values().all(is_idle) && self.servers.values().all(rests)
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
                return Err(format!("server {}: {:?}", server.place, node.status()));
            }
            #[cfg(test)]
            if server.member.is_some() {
                continue;
            }
            server.crash(&mut self.rng);
            server.start(self.now_us, &mut self.history);
        }
        #[cfg(test)]
        self.end_members();
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Message { from, to, message } => self.input(to, Input::Receive { from, message }),
            Event::Done { server, life, work } => self.done(server, life, work),
            Event::Pass { server, life, link } => self.pass(server, life, link),
            Event::Tick(server) => {
                if self.servers.get(&server).is_some_and(|server| server.is_due(self.now_us)) {
                    self.input(server, Input::Tick);
                }
                self.later(1_000, Event::Tick(server));
            }
            #[cfg(test)]
            Event::Group(place, event) => self.group_event(place, event),
            Event::Collect(server) => {
                self.input(server, Input::CollectGarbage);
                #[cfg(test)]
                self.remove_superfluous(server);
                self.later(COLLECT_US, Event::Collect(server));
            }
            Event::Crash(server) => self.crash(server),
            Event::Restart(server) => {
                #[cfg(test)]
                if server.member > 0 {
                    return self.start_member(server);
                }
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
            Event::Request { to, client, message, transaction, again } => {
                self.input(to, Input::Commit { client, message, transaction, again });
            }
            // The name of the request serves as that of the question, too.
            Event::Question { to, request, above } => {
                let RequestId { client, message } = request;
                self.input(to, Input::RequestOutcome { client, message, request, above });
            }
            Event::SnapshotRequest { to, client, message } => self.input(to, Input::Snapshot { client, message }),
        }
    }

    fn crash(&mut self, id: Place) {
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.is_up()) else { return };
        server.crash(&mut self.rng);
        self.crashes += 1;
        let down_us = self.rng.random_range(1_000..100_000);
        self.later(down_us, Event::Restart(id));
    }

    pub(super) fn input(&mut self, id: Place, input: Input) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let commands = server.on(self.now_us, input);
        self.carry_out(id, commands);
        self.pass_on(id);
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.rng.random_range(0..among.len())]
    }

    /// A place that a message to a server reaches: one with a node, or any if there is none. What
    /// reaches a place without a node is dropped.
    pub(super) fn reach(&mut self, server: ServerId) -> Place {
        let places = self.servers.values().filter(|place| place.id() == server);
        let (up, down): (Vec<&Server>, Vec<&Server>) = places.partition(|place| place.node.is_some());
        let among: Vec<Place> = if up.is_empty() { down } else { up }.into_iter().map(|found| found.place).collect();
        if among.len() == 1 { among[0] } else { self.pick(&among) }
    }

    pub(super) fn later(&mut self, after_us: u64, event: Event) {
        self.scheduled += 1;
        self.due.insert(self.scheduled, event);
        self.queue.push(Reverse((self.now_us + after_us, self.scheduled)));
    }
}

/// Returns true if the event recurs for ever, so that it need not be waited for.
fn is_idle(event: &Event) -> bool {
    match event {
        Event::Tick(_) | Event::Collect(_) | Event::Done { .. } => true,
        #[cfg(test)]
        Event::Group(_, event) => !matches!(event, super::member::GroupEvent::Gather { .. }),
        Event::Pass { link, .. } => link.to == Machine::Gc,
        Event::Message { message, .. } => matches!(message, Message::LowWater { .. }),
        Event::Client { step, .. } => matches!(step, Step::Begin | Step::Wait(_) | Step::Answer(..)),
        _ => false,
    }
}

fn draw_partition(rng: &mut StdRng, ids: &[ServerId], options: &SimOptions) -> Partition {
    let is_by_hash: bool = rng.random();
    if is_by_hash && options.moves == 0 {
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
