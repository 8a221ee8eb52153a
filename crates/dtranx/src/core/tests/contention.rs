//! Two nodes and clients that want the same two keys, on a clock that the test moves: counts the
//! attempts of each client.

use std::collections::BTreeMap;

use super::*;

/// One key on each server.
const KEYS: [&str; 2] = ["1a", "2a"];
/// Time that a message, and a write to the storage, takes.
const HOP_MS: u64 = 1;
const RUN_MS: u64 = 3000;

/// A node and the items of its storage.
struct Server {
    node: Node,
    items: BTreeMap<Key, TranxId>,
}

/// Repeats one transaction, which writes both keys, as the library's retries would.
struct Client {
    coordinator: ServerId,
    /// True if it reads both keys before it writes them.
    reads: bool,
    /// Time from its reads to its commit.
    think_ms: u64,
    seen: Vec<Option<TranxId>>,
    since_ms: u64,
    attempts: u32,
    kept: Option<TranxId>,
    commits: u32,
    most_attempts: u32,
    longest_ms: u64,
}

enum Happening {
    Input(ServerId, Input),
    Read(usize),
    Commit(usize),
    Answer(usize, CommitAnswer),
}

/// The cluster, its clients, and what is going to happen, in order.
struct Contention {
    servers: BTreeMap<ServerId, Server>,
    clients: Vec<Client>,
    agenda: BTreeMap<(u64, u64), Happening>,
    now_ms: u64,
    planned: u64,
    messages: u64,
}

impl Client {
    fn new(coordinator: ServerId, reads: bool, think_ms: u64) -> Self {
        let (seen, kept, since_ms, attempts) = (vec![], None, 0, 0);
        let (commits, most_attempts, longest_ms) = (0, 0, 0);
        Self { coordinator, reads, think_ms, seen, since_ms, attempts, kept, commits, most_attempts, longest_ms }
    }
}

impl Contention {
    /// Has these clients repeat their transactions for [`RUN_MS`].
    fn run(clients: Vec<Client>, change: impl Fn(&mut NodeConfig)) -> Self {
        let mut world =
            Self { servers: BTreeMap::new(), clients, agenda: BTreeMap::new(), now_ms: 0, planned: 0, messages: 0 };
        for me in [ME, PEER] {
            let mut config = NodeConfig::new(me, Partition::Ranges(vec![(key(""), ME), (key("2"), PEER)]));
            change(&mut config);
            let mut commands = Vec::new();
            let node = Recovery::new(config, None).finish(0, &mut commands);
            world.servers.insert(me, Server { node, items: BTreeMap::new() });
            world.carry_out(me, commands);
        }
        for at in 0..world.clients.len() {
            world.later(HOP_MS, Happening::Read(at));
        }
        while let Some(now_ms) = world.next_ms().filter(|next_ms| *next_ms < RUN_MS) {
            world.now_ms = now_ms;
            world.step();
        }
        world
    }

    fn later(&mut self, after_ms: u64, what: Happening) {
        self.planned += 1;
        self.agenda.insert((self.now_ms + after_ms, self.planned), what);
    }

    fn next_ms(&self) -> Option<u64> {
        let timers = self.servers.values().filter_map(|server| server.node.next_deadline_ms());
        self.agenda.keys().map(|(at_ms, _)| *at_ms).take(1).chain(timers).min().map(|at_ms| at_ms.max(self.now_ms))
    }

    /// Handles the events that are due now, or else the timers.
    fn step(&mut self) {
        if self.agenda.first_key_value().is_some_and(|((at_ms, _), _)| *at_ms <= self.now_ms) {
            let Some((_, what)) = self.agenda.pop_first() else { return };
            return match what {
                Happening::Input(at, input) => self.on(at, input),
                Happening::Read(at) => self.read(at),
                Happening::Commit(at) => self.commit(at),
                Happening::Answer(at, answer) => self.answered(at, answer),
            };
        }
        for at in [ME, PEER] {
            if self.servers[&at].node.next_deadline_ms().is_some_and(|at_ms| at_ms <= self.now_ms) {
                self.on(at, Input::Tick);
            }
        }
    }

    fn on(&mut self, at: ServerId, input: Input) {
        let mut commands = Vec::new();
        self.servers.get_mut(&at).unwrap().node.on(self.now_ms, input, &mut commands);
        self.carry_out(at, commands);
    }

    fn carry_out(&mut self, at: ServerId, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Send { to, message } => {
                    self.later(HOP_MS, Happening::Input(to, Input::Receive { from: at, message }));
                }
                Command::Reply { client, answer, .. } => {
                    self.later(HOP_MS, Happening::Answer(client.number as usize, answer));
                }
                Command::Log { ticket, .. } => self.later(0, Happening::Input(at, Input::Logged { through: ticket })),
                Command::Check { work, reads, .. } => {
                    let answer = self.check(at, &reads);
                    self.later(0, Happening::Input(at, Input::Checked { work, answer }));
                }
                Command::Apply { tranx, writes, .. } => {
                    let items = &mut self.servers.get_mut(&at).unwrap().items;
                    items.extend(writes.into_iter().map(|write| (write.key, tranx)));
                    self.later(HOP_MS, Happening::Input(at, Input::Applied { tranx }));
                }
                _ => {}
            }
        }
    }

    fn check(&self, at: ServerId, reads: &[Read]) -> CheckAnswer {
        let items = &self.servers[&at].items;
        let is_stale = |read: &&Read| items.get(&read.key).copied() != read.version;
        let stale = reads.iter().filter(is_stale).map(|read| Current { key: read.key.clone(), item: None });
        CheckAnswer { stale: stale.collect(), stale_scans: false }
    }

    fn read(&mut self, at: usize) {
        let version = |name: &str| {
            let key = key(name);
            self.servers.values().find_map(|server| server.items.get(&key)).copied()
        };
        let seen = KEYS.iter().map(|name| version(name)).collect();
        let client = &mut self.clients[at];
        if client.attempts == 0 {
            client.since_ms = self.now_ms;
        }
        client.seen = seen;
        let think_ms = client.think_ms;
        self.later(think_ms, Happening::Commit(at));
    }

    fn commit(&mut self, at: usize) {
        self.messages += 1;
        let message = MessageId(self.messages);
        let client = &mut self.clients[at];
        client.attempts += 1;
        let read = |(name, version): (&&str, &Option<TranxId>)| Read { key: key(name), version: *version };
        let reads = KEYS.iter().zip(&client.seen).filter(|_| client.reads).map(read).collect();
        let transaction = Transaction { reads, ..put(&KEYS) };
        let waited_ms = u32::try_from(self.now_ms - client.since_ms).unwrap();
        let again = match client.attempts {
            1 => Again::default(),
            _ => Again { waited_ms, keeps: true, kept: client.kept.take() },
        };
        let coordinator = client.coordinator;
        let incarnation = self.servers[&coordinator].node.incarnation().unwrap();
        let client = ClientId { incarnation, number: at as u64 };
        self.on(coordinator, Input::ClientConnected { client });
        self.on(coordinator, Input::Commit { client, message, transaction, again });
    }

    fn answered(&mut self, at: usize, answer: CommitAnswer) {
        let client = &mut self.clients[at];
        match answer {
            CommitAnswer::Committed(_) => {
                client.commits += 1;
                client.most_attempts = client.most_attempts.max(client.attempts);
                client.longest_ms = client.longest_ms.max(self.now_ms - client.since_ms);
                (client.attempts, client.kept) = (0, None);
                self.read(at);
            }
            CommitAnswer::Refused(Refusal::Stale { kept, .. }) => {
                client.kept = kept;
                self.read(at);
            }
            CommitAnswer::Refused(refusal) if refusal.advice() == Advice::Restart => self.read(at),
            _ => self.later(HOP_MS, Happening::Commit(at)),
        }
    }

    fn summary(&self) -> String {
        let of = |client: &Client| (client.commits, client.most_attempts, client.longest_ms);
        format!("commits, most attempts, longest: {:?}", self.clients.iter().map(of).collect::<Vec<_>>())
    }
}

/// Fast ones commit between a slow one's reads and its commit, every time; only locks that are kept
/// for it help it.
#[test]
fn slow_client_commits_beside_fast_ones_because_locks_are_kept_for_it() {
    let clients = || {
        let fast = (0..6).map(|at| Client::new([ME, PEER][at % 2], true, 0));
        [Client::new(ME, true, 40)].into_iter().chain(fast).collect()
    };
    let kept = Contention::run(clients(), |_| ());
    let slow = &kept.clients[0];
    assert!(slow.commits >= 10 && slow.most_attempts <= 4, "{}", kept.summary());
    assert!(kept.clients.iter().all(|client| client.commits >= 10), "{}", kept.summary());
    let dropped = Contention::run(clients(), |config| config.lock_keep_ms = 0);
    assert_eq!(dropped.clients[0].commits, 0, "without kept locks it starves: {}", dropped.summary());
}

/// More clients than can be served at a time: the one that has waited for longest is next.
#[test]
fn who_waits_for_longest_is_served_first() {
    let clients = (0..12).map(|at| Client::new([ME, PEER][at % 2], false, 0)).collect();
    let world = Contention::run(clients, |_| ());
    let commits = || world.clients.iter().map(|client| client.commits);
    let (least, most) = (commits().min().unwrap(), commits().max().unwrap());
    assert!(least > 10 && most < 2 * least, "{}", world.summary());
    let longest_ms = world.clients.iter().map(|client| client.longest_ms).max().unwrap();
    assert!(longest_ms < 200, "{}", world.summary());
}
