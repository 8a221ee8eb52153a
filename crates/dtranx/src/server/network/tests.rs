//! The limits of a network stage that works alone: what it hands on is taken only by the test, and
//! the test keeps its clock.

mod joining;
mod members;

use std::io::{ErrorKind, Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::NetworkStage;
use super::accepting::MOST_GONE;
use crate::cluster::{Cluster, PeerId, Server};
use crate::core::machine::TranxEvent;
use crate::core::{
    ClientId, CommitAnswer, Epoch, Incarnation, Key, Message, MessageId, Refusal, RequestId, ServerId, Standing,
    StoreId, Transaction, TranxId, ValidationId, Value, Write,
};
use crate::server::ServerConfig;
use crate::server::descriptors::HANDSHAKES;
use crate::server::engine::{MemberPort, Port};
use crate::server::event::{ReadFor, ToClient};
use crate::server::holding::Holding;
use crate::server::identity::{Identity, Met};
use crate::server::member_event::{FromMembers, Restart};
use crate::server::reads::Reads;
use crate::server::stats::ServerStats;
use crate::stage::{Counters, Inlet, Outlet, Signal, Source, Stage, queue};
use crate::storage::InMemory;
use crate::wire::{
    Ask, Caller, GroupMessage, Hello, MemberMessage, PREFACE_BYTES, Reply, Request, Response, Welcome, decode, encode,
    next_frame, preface,
};

const ME: ServerId = ServerId(1);
const OTHER: ServerId = ServerId(2);
const STORE: StoreId = StoreId([200; 16]);
/// Time limit of events on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn of<E>(capacity: usize) -> (Inlet<E>, Source<E>) {
    queue("test", capacity, &Arc::new(Signal::new()), &Counters::new())
}

/// A network stage and the other ends of its queues.
struct Rig {
    stage: NetworkStage,
    now_ms: u64,
    entry: Source<TranxEvent>,
    peers: Source<TranxEvent>,
    reads: Source<ReadFor>,
    answers: Outlet<ToClient>,
    heard: Source<FromMembers>,
    _folder: TempDir,
}

fn store_of(peer: PeerId) -> StoreId {
    peer.member.map_or(STORE, |member| StoreId([member; 16]))
}

impl Rig {
    fn new(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::with_room(4096, change)
    }

    /// A stage whose queue has room for so many requests of clients.
    fn with_room(entries: usize, change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::with(entries, change, |identity| {
            for peer in identity.waits_for() {
                identity.meet(peer, store_of(peer), &[]).unwrap();
                identity.welcomed(peer, true).unwrap();
            }
            identity.settle().unwrap();
        })
    }

    /// A stage of a new server, which has met no other one.
    fn unmet(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::with(4096, change, |_| {})
    }

    fn with(entries: usize, change: impl FnOnce(&mut ServerConfig), meet: impl FnOnce(&mut Identity)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // No server listens at the other server's address.
        let server = |id, port| Server { id, address: ([127, 0, 0, 1], port).into() };
        let cluster = Cluster::hashed("test", vec![server(ME, 0), server(OTHER, 1)]);
        let mut config = ServerConfig::new(cluster, ME, folder.path());
        change(&mut config);
        let mut identity = Identity::open(&config).unwrap();
        identity.settle().unwrap();
        meet(&mut identity);
        let ((group, heard), (_, to_members)) = (of(8), of(8));
        let members = config.member.map(|_| MemberPort { group, to_members, restart: Arc::default() });
        let stats = Arc::new(ServerStats::new(ME, "none".to_owned(), Counters::new(), u64::MAX));
        stats.open(Incarnation(1));
        let ((entry, from_entry), (peers, from_peers)) = (of(entries), of(2));
        let ((acknowledged, _), (inquiry_answers, _), (queue, reads)) = (of(8), of(8), of(4096));
        let ((_, to_servers), (answers, to_clients)) = (of(8), of(4096));
        let holding = Holding::new(ME, &config.cluster.partition);
        let reads_of = Reads { storage: Arc::new(InMemory::new()), holding, queue, stats: stats.clone() };
        let signal = Arc::new(Signal::new());
        let port = Port {
            stats,
            entry,
            peers,
            acknowledged,
            inquiry_answers,
            reads: reads_of,
            to_servers,
            to_clients,
            signal,
            identity,
            members,
        };
        let stage = NetworkStage::new(&config, port).unwrap();
        let (entry, peers, answers) = (from_entry, from_peers, answers.outlet());
        Self { stage, now_ms: 0, entry, peers, reads, answers, heard, _folder: folder }
    }

    /// Runs the stage until the test has what it waits for.
    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            self.stage.run(self.now_ms).unwrap();
            if let Some(found) = look(self) {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "still no {what}");
        }
    }

    fn call(&self) -> Socket {
        let stream = TcpStream::connect(self.stage.address()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut caller = Socket { stream, unsent: preface().to_vec(), said: Vec::new(), is_greeted: false };
        caller.write();
        caller
    }

    fn greet(&mut self, from: Caller) -> (Socket, Welcome) {
        let mut caller = self.call();
        let map = Some(self.stage.map.clone());
        caller.say(&Hello { cluster: "test".to_owned(), map, to: Some(ME), from, nonce: [0; 16] });
        let welcome = self.until("welcome", |_| caller.hear());
        (caller, welcome)
    }

    fn client(&mut self) -> Socket {
        let (caller, welcome) = self.greet(Caller::Client(None));
        assert!(matches!(welcome, Welcome::Client { .. }), "{welcome:?}");
        caller
    }

    fn server(&mut self) -> Socket {
        let (caller, welcome) = self.greet(Caller::Server { server: OTHER, store: STORE, is_new: false });
        assert!(matches!(welcome, Welcome::Server { .. }), "{welcome:?}");
        caller
    }

    /// The requests to commit that were handed on, by number.
    fn commits(&self) -> Vec<u64> {
        let mut taken = Vec::new();
        self.entry.take(usize::MAX, &mut taken);
        let id = |event| if let TranxEvent::Commit { message, .. } = event { Some(message.0) } else { None };
        taken.into_iter().filter_map(id).collect()
    }

    fn response(&mut self, caller: &mut Socket) -> Response {
        self.until("response", |_| caller.hear())
    }

    fn assert_goes_on(&mut self, caller: &mut Socket) {
        caller.say(&Request { id: 99, is_repeated: false, ask: Ask::Status });
        assert!(matches!(self.response(caller).reply, Reply::Status(_)));
    }
}

/// Socket of a caller.
struct Socket {
    stream: TcpStream,
    unsent: Vec<u8>,
    said: Vec<u8>,
    is_greeted: bool,
}

impl Socket {
    fn say(&mut self, message: &impl Serialize) {
        encode(message, &mut self.unsent).unwrap();
        self.write();
    }

    fn write(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(bytes) => drop(self.unsent.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The connection is closed.
                Err(_) => self.unsent.clear(),
            }
        }
    }

    /// Reads what has come. Returns whether the connection is closed.
    fn is_closed(&mut self) -> bool {
        self.write();
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return true,
                Ok(bytes) => self.said.extend_from_slice(&chunk[..bytes]),
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }

    fn hear<T: DeserializeOwned>(&mut self) -> Option<T> {
        self.is_closed();
        if !self.is_greeted && self.said.len() >= PREFACE_BYTES {
            self.is_greeted = true;
            self.said.drain(..PREFACE_BYTES);
        }
        let (payload, taken) = next_frame(&self.said).unwrap()?;
        let heard = decode(payload).unwrap();
        self.said.drain(..taken);
        Some(heard)
    }
}

fn write(bytes: usize) -> Transaction {
    let write = Write { key: Key::smallest(), value: Some(Value::new(vec![7; bytes]).unwrap()) };
    Transaction { writes: vec![write], ..Transaction::default() }
}

fn commit(id: u64, bytes: usize) -> Request {
    Request { id, is_repeated: false, ask: Ask::Commit(write(bytes)) }
}

fn encoded(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    bytes
}

/// Name of the limit in a refusal.
fn limit(response: &Response) -> &str {
    match &response.reply {
        Reply::Commit(CommitAnswer::Refused(Refusal::Overloaded { limit })) => limit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn servers_question_is_handed_on_while_clients_requests_fill_their_queue() {
    let mut rig = Rig::with_room(4, |_| {});
    let (mut client, mut server) = (rig.client(), rig.server());
    (1..=50).for_each(|id| client.say(&commit(id, 5)));
    // The client itself took one place, and the test takes nothing out of the queue.
    for _ in 0..47 {
        assert_eq!(limit(&rig.response(&mut client)), "requests that wait at the server");
    }
    let prepare = |number| {
        let tranx = TranxId { server: OTHER, number };
        Message::Prepare { tranx, participants: vec![ME, OTHER], part: write(5), standing: Standing::default() }
    };
    server.say(&prepare(1));
    let asked = rig.until("question", |rig| {
        let mut taken = Vec::new();
        rig.peers.take(8, &mut taken);
        taken.pop()
    });
    assert!(matches!(asked, TranxEvent::Receive { from: OTHER, .. }));
    assert_eq!(rig.commits(), [1, 2, 3], "they have waited all the time");
}

#[test]
fn servers_question_without_room_is_answered_with_no() {
    let rig = Rig::new(|_| {});
    let validation = ValidationId { server: OTHER, incarnation: Incarnation(1), number: 3 };
    let ask = || Message::Validate { validation, part: Transaction::default(), epoch: Epoch(0) };
    assert!((0..2).all(|_| rig.stage.port.receive(OTHER, ask()).is_none()));
    let refused = rig.stage.port.receive(OTHER, ask());
    assert!(matches!(refused, Some(Message::Validated { validation: of, .. }) if of == validation), "{refused:?}");
    assert!(rig.stage.port.receive(OTHER, Message::Inquire { tranx: TranxId { server: ME, number: 1 } }).is_none());
}

#[test]
fn half_messages_beyond_the_budget_are_not_kept_and_others_go_on() {
    let mut rig = Rig::new(|config| config.client_bytes = 1 << 20);
    let message = encoded(&commit(1, 300 << 10));
    let half = message.len() - 5;
    let mut halves: Vec<_> = (0..20).map(|_| rig.client()).collect();
    halves.iter_mut().for_each(|client| client.unsent.extend(&message[..half]));
    rig.until("halves", |rig| {
        assert!(rig.stage.budget.held() <= 1 << 20, "{}", rig.stage.budget.held());
        halves.iter_mut().for_each(Socket::write);
        let kept = rig.stage.connections.values().map(|connection| connection.incoming.held_bytes());
        let is_sent = halves.iter().all(|client| client.unsent.is_empty());
        // Three fit whole; of the others nothing is left.
        (is_sent && kept.filter(|bytes| *bytes > 0).eq([half; 3])).then_some(())
    });
    let mut other = rig.client();
    other.say(&commit(7, 1000));
    rig.until("request of another client", |rig| (rig.commits() == [7]).then_some(()));
    let mut refused = 0;
    for client in &mut halves {
        client.unsent.extend(&message[half..]);
        let is_refused = rig.until("answer", |rig| {
            client.write();
            let handed_on = (rig.commits() == [1]).then_some(false);
            let answer =
                client.hear::<Response>().inspect(|response| assert!(limit(response).contains("limits.client_mib")));
            answer.map(|_| true).or(handed_on)
        });
        refused += u32::from(is_refused);
        rig.assert_goes_on(client);
    }
    assert!(refused >= 17, "{refused}");
    assert!(rig.stage.connection_stats.refused_requests >= 17);
}

#[test]
fn half_message_of_a_server_is_kept_whatever_clients_hold() {
    let mut rig = Rig::new(|config| config.client_bytes = 1 << 20);
    let (mut server, mut client) = (rig.server(), rig.client());
    let part = Transaction { writes: write(1 << 20).writes, ..Transaction::default() };
    let validation = ValidationId { server: OTHER, incarnation: Incarnation(1), number: 3 };
    let message = encoded(&Message::Validate { validation, part: part.clone(), epoch: Epoch(0) });
    server.unsent.extend(&message[..message.len() - 5]);
    // More than the clients' budget alone.
    let whole = encoded(&Request { id: 1, is_repeated: false, ask: Ask::Commit(part) });
    client.unsent.extend(&whole[..whole.len() - 5]);
    rig.until("halves", |rig| {
        server.write();
        client.write();
        let is_sent = server.unsent.is_empty() && client.unsent.is_empty();
        (is_sent && rig.stage.connection_stats.refused_requests == 1).then_some(())
    });
    server.unsent.extend(&message[message.len() - 5..]);
    rig.until("message", |rig| {
        server.write();
        (!rig.peers.is_empty()).then_some(())
    });
}

#[test]
fn requests_under_way_are_counted_until_they_are_answered() {
    let mut rig = Rig::new(|config| config.client_bytes = 1 << 20);
    let (mut first, mut second) = (rig.client(), rig.client());
    // Three eighths are for one client.
    (1..=4).for_each(|id| first.say(&commit(id, 100 << 10)));
    let refused = rig.response(&mut first);
    assert!(refused.id == 4 && limit(&refused).contains("limits.client_mib"), "{refused:?}");
    second.say(&commit(1, 100 << 10));
    rig.until("request of another client", |rig| (rig.commits() == [1, 2, 3, 1]).then_some(()));
    // A repeated one counts once, and is not answered for want of room.
    first.say(&Request { is_repeated: true, ..commit(3, 1) });
    first.say(&Request { is_repeated: true, ..commit(5, 100 << 10) });
    rig.assert_goes_on(&mut first);
    assert_eq!(rig.commits(), [3]);
    let held = rig.stage.budget.held();
    let client = ClientId { incarnation: Incarnation(1), number: 1 };
    let reply = Reply::Commit(CommitAnswer::Indeterminate);
    rig.answers.send(ToClient { client, response: Response { id: 2, reply } });
    rig.answers.flush();
    assert_eq!(rig.response(&mut first).id, 2);
    assert!(rig.stage.budget.held() + (100 << 10) <= held);
    first.say(&commit(6, 100 << 10));
    rig.until("request", |rig| (rig.commits() == [6]).then_some(()));
    assert!(rig.reads.is_empty());
}

#[test]
fn message_that_is_not_completed_in_time_is_refused_and_its_connection_closed() {
    let mut rig = Rig::new(|config| config.frame_ms = 700);
    let (mut slow, mut other) = (rig.client(), rig.client());
    let message = encoded(&commit(5, 1000));
    for sent in (10..=90).step_by(10) {
        slow.unsent.extend(&message[sent - 10..sent]);
        slow.write();
        rig.assert_goes_on(&mut other);
        rig.until("part", |rig| (rig.stage.budget.held() == sent).then_some(()));
        rig.now_ms += 70;
    }
    // Each part came in time, the whole does not.
    assert!(!slow.is_closed());
    rig.now_ms += 200;
    let refused = rig.response(&mut slow);
    assert!(refused.id == 5 && limit(&refused).contains("limits.frame_ms"), "{refused:?}");
    rig.until("end", |_| slow.is_closed().then_some(()));
    assert_eq!(rig.stage.connection_stats.closed_slow, 1);
    rig.assert_goes_on(&mut other);
}

#[test]
fn client_that_asks_nothing_is_closed_and_one_that_waits_for_an_answer_is_not() {
    let mut rig = Rig::new(|config| config.client_idle_ms = 1000);
    let (mut idle, mut waiting, mut server) = (rig.client(), rig.client(), rig.server());
    waiting.say(&commit(1, 5));
    rig.until("request", |rig| (rig.commits() == [1]).then_some(()));
    rig.now_ms = 1000;
    rig.assert_goes_on(&mut idle);
    rig.now_ms = 1900;
    rig.stage.run(rig.now_ms).unwrap();
    rig.assert_goes_on(&mut idle);
    rig.now_ms = 60_000;
    rig.until("end", |_| idle.is_closed().then_some(()));
    assert!(!waiting.is_closed() && !server.is_closed());
    assert_eq!(rig.stage.connection_stats.closed_idle, 1);
}

#[test]
fn caller_that_does_not_greet_in_time_is_closed() {
    let mut rig = Rig::new(|config| config.handshake_ms = 500);
    let (mut silent, mut client) = (rig.call(), rig.client());
    rig.now_ms = 500;
    rig.assert_goes_on(&mut client);
    assert!(!silent.is_closed());
    rig.now_ms = 700;
    rig.until("end", |_| silent.is_closed().then_some(()));
    assert!(!client.is_closed());
}

#[test]
fn silent_callers_and_too_many_clients_keep_neither_a_server_nor_the_clients_there_out() {
    let mut rig = Rig::new(|config| config.client_connections = Some(3));
    let mut clients: Vec<_> = (0..3).map(|_| rig.client()).collect();
    let (mut strangers, mut refusals) = (Vec::new(), 0);
    for _ in 0..3 * HANDSHAKES {
        strangers.push(rig.call());
        rig.until("call", |rig| (rig.stage.strangers.len() == strangers.len().min(HANDSHAKES as usize)).then_some(()));
    }
    for _ in 0..5 {
        let (mut caller, welcome) = rig.greet(Caller::Client(None));
        let Welcome::Refused { why, is_temporary: true } = welcome else { panic!("{welcome:?}") };
        assert_eq!(why, "limits.client_connections: 3 clients are connected");
        rig.until("end", |_| caller.is_closed().then_some(()));
        refusals += 1;
    }
    assert!(rig.stage.connections.len() <= 3 + HANDSHAKES as usize + 1);
    let mut first = rig.server();
    // The same server once more: the old connection has no use.
    let mut second = rig.server();
    rig.until("end", |_| first.is_closed().then_some(()));
    second.say(&Message::Inquire { tranx: TranxId { server: ME, number: 1 } });
    rig.until("message", |rig| (!rig.peers.is_empty()).then_some(()));
    clients.iter_mut().for_each(|client| rig.assert_goes_on(client));
    assert_eq!(rig.stage.connection_stats.refused_clients, refusals);
    drop(clients.pop());
    rig.until("end", |rig| (rig.stage.connection_stats.client_connections == 2).then_some(()));
    rig.client();
}

/// A client believes a refusal of the question no more than none: it says nothing about the commit.
#[test]
fn question_about_an_earlier_request_is_handed_on_or_refused_like_a_read() {
    let mut rig = Rig::with_room(2, |_| {});
    let mut caller = rig.client();
    let client = ClientId { incarnation: Incarnation(0), number: 1 };
    let about = |message| RequestId { client, message: MessageId(message) };
    let question =
        |id, is_repeated| Request { id, is_repeated, ask: Ask::RequestOutcome { request: about(id + 50), above: 3 } };
    caller.say(&question(1, false));
    rig.until("question", |rig| (!rig.entry.is_empty()).then_some(()));
    caller.say(&question(2, true));
    let Response { id: 2, reply: Reply::Refused(why) } = rig.response(&mut caller) else { panic!("another answer") };
    assert!(why.contains("requests that wait"), "{why}");
    let mut taken = Vec::new();
    rig.entry.take(usize::MAX, &mut taken);
    taken.retain(|event| !matches!(event, TranxEvent::ClientConnected { .. }));
    let [TranxEvent::RequestOutcome { message: MessageId(1), request, above: 3, .. }] = taken[..] else {
        panic!("{taken:?}")
    };
    assert_eq!(request, about(51));
}

/// Each is remembered for a while after it has gone: not without end.
#[test]
fn clients_that_come_and_go_are_forgotten_in_their_order() {
    let mut rig = Rig::new(|config| config.client_connections = Some(3));
    for number in 0..20 {
        drop(rig.client());
        rig.until("end", |rig| (rig.stage.connection_stats.client_connections == 0).then_some(()));
        rig.now_ms += 200;
        assert!(rig.stage.sessions.len() <= 6, "{number}");
    }
    assert!(rig.stage.gone.len() < MOST_GONE);
}
