//! A link over TCP: one thread reads and connects, one writes what has gathered. Requests that were
//! under way when the connection broke are sent again over the next one, under the same name and
//! number. If the server gives another name then, because it was restarted or a group has another
//! leader, it is asked what became of the commits instead.
//!
//! A server that is a group has several addresses: a member that does not lead says who does, and
//! where none is reached, or a request gets no answer for long, the next one is called.
//!
//! A request that finds nothing else under way is written by the thread that sends it, which spares
//! waking the writer (`alone`); others are left to the writer, so that those that gather while it
//! writes go out together.

mod alone;
mod heard;
mod meet;
mod members;
mod state;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::heard::largest_number;
pub use self::meet::greet;
use self::meet::{Met, is_timeout, meet};
use self::members::Members;
use self::state::{Over, State, Waiting, stale};
use super::roster::Roster;
use super::stores::Stores;
use super::{Answer, Done, Generation, Link, Ticket};
use crate::backoff::Backoff;
use crate::cluster::Cluster;
use crate::core::ServerId;
use crate::wire::{Ask, Caller, Hello, Response, Secret, Welcome, WireError, decode, next_frame};

/// Time between two looks at the deadlines.
const TICK: Duration = Duration::from_millis(50);
/// A request without an answer is sent again after this (section 4.2); the server knows it by its
/// number.
const RESEND: Duration = Duration::from_secs(2);
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_millis(500);
/// The same for a group, whose members are asked in turn.
const LAST_RETRY_OF_GROUP: Duration = Duration::from_millis(100);
/// Calls by which a client that has no requests looks for the members of a group.
const MOST_CALLED: u32 = 20;
const CHUNK_BYTES: usize = 64 << 10;
/// Error of a new store that is no member of a group yet.
const WAITING: &str = "a new store waits there to be added to a group";

/// The most requests of one client that wait for the answers of one server. More are refused: they
/// were not carried out.
pub const MAX_WAITING: usize = 65_536;

/// A link to one server. Dropping it ends its threads.
pub(super) struct SocketLink {
    shared: Arc<Shared>,
}

struct Shared {
    /// True if the server is a group, whose members are called in turn.
    is_group: bool,
    roster: Roster,
    secret: Option<Secret>,
    server: ServerId,
    stores: Stores,
    state: Mutex<State>,
    /// Rings when there is something to write, or the link has ended.
    written: Condvar,
    /// Rings when there is a request and no connection, or the link has ended.
    asked: Condvar,
    ended: AtomicBool,
}

impl SocketLink {
    pub(super) fn new(
        roster: &Roster,
        server: ServerId,
        secret: Option<Secret>,
        stores: Stores,
    ) -> std::io::Result<Self> {
        let state = Mutex::new(State::new());
        let shared = Arc::new(Shared {
            is_group: roster.cluster().is_group(server),
            roster: roster.clone(),
            secret,
            server,
            stores,
            state,
            written: Condvar::new(),
            asked: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let (reader, writer) = (shared.clone(), shared.clone());
        thread::Builder::new().name("dtranx-reader".to_owned()).spawn(move || reader.keep_connected())?;
        thread::Builder::new().name("dtranx-writer".to_owned()).spawn(move || writer.keep_writing())?;
        Ok(Self { shared })
    }

    /// Fetches the description of the cluster from a server. A server that is recovering gets the
    /// request again until the time is up, and a slow one has until then.
    pub(super) fn discover(address: SocketAddr, secret: Option<&Secret>, until: Instant) -> Result<Cluster, String> {
        loop {
            match greet(address, secret, until.saturating_duration_since(Instant::now()))? {
                Welcome::Client { cluster, .. } | Welcome::NotLeading { cluster, .. } => return Ok(cluster),
                Welcome::Refused { is_temporary: true, .. } if Instant::now() < until => thread::sleep(FIRST_RETRY),
                Welcome::Refused { why, .. } => return Err(why),
                Welcome::Waiting { .. } => return Err(WAITING.to_owned()),
                Welcome::Server { .. }
                | Welcome::Member { .. }
                | Welcome::Removed { .. }
                | Welcome::Challenge { .. } => return Err("it took a client for a server".to_owned()),
            }
        }
    }
}

impl Drop for SocketLink {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.written.notify_all();
        self.shared.asked.notify_all();
        if let Some(stream) = &self.shared.lock().stream {
            // An error means that the stream is closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Link for SocketLink {
    fn ask(&self, ask: Ask, read_in: Option<Generation>, until: Instant, done: Done) {
        let mut state = self.shared.lock();
        if read_in.is_some_and(|read_in| read_in != self.shared.stores.generation()) {
            drop(state);
            return done(Answer::Reply(stale()));
        }
        let id = state.next_id;
        state.next_id += 1;
        let mut waiting = Waiting::new(ask, until, done);
        waiting.has_read = read_in.is_some();
        self.shared.add(state, id, waiting);
    }

    fn has_met(&self) -> bool {
        self.shared.lock().name.is_some()
    }

    fn ask_again(&self, ticket: Ticket, ask: Ask, until: Instant, done: Done) {
        let state = self.shared.lock();
        if state.store != ticket.store {
            drop(state);
            return done(Answer::Silence(ticket));
        }
        let mut waiting = Waiting::again(ticket, ask, until, done);
        if let Some(name) = state.name {
            waiting.ask_after(ticket.id, name);
        }
        self.shared.add(state, ticket.id, waiting);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn add(&self, mut state: MutexGuard<'_, State>, id: u64, waiting: Waiting) {
        let why = match &state.fatal {
            Some(why) => Some(why.clone()),
            None if state.waiting.len() >= MAX_WAITING => Some(format!("{MAX_WAITING} requests are under way already")),
            None => None,
        };
        if let Some(why) = why {
            drop(state);
            return waiting.over(id, &why).tell();
        }
        state.waiting.insert(id, waiting);
        state.asked = Some(Instant::now());
        if state.stream.is_none() {
            self.asked.notify_one();
        }
        let refused = state.send(id);
        let alone = state.take_alone();
        let wakes_writer = state.can_write() && std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if let Some(refused) = refused {
            refused.tell();
        }
        if let Some(alone) = alone {
            self.write_alone(alone);
        } else if wakes_writer {
            self.written.notify_one();
        }
    }

    fn keep_writing(&self) {
        let mut bytes = Vec::new();
        let mut looked = Instant::now();
        while !self.is_over() {
            if looked.elapsed() >= TICK {
                self.expire();
                looked = Instant::now();
            }
            let mut state = self.lock();
            if !state.can_write() {
                state.writer_sleeps = true;
                // Looked at again soon, even without a wake-up.
                drop(self.written.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            let stream = state.stream.clone();
            bytes.clear();
            std::mem::swap(&mut bytes, &mut state.out);
            state.is_writing = true;
            let over = state.catch_up();
            drop(state);
            over.into_iter().for_each(Over::tell);
            if let Some(stream) = stream
                && (&*stream).write_all(&bytes).is_err()
            {
                // The reader notices, and connects anew.
                let _ = stream.shutdown(Shutdown::Both);
            }
            self.lock().is_writing = false;
        }
    }

    fn keep_connected(&self) {
        let mut members = Members::new(self.roster.cluster().addresses(self.server));
        let mut retry = Backoff::new(FIRST_RETRY, if self.is_group { LAST_RETRY_OF_GROUP } else { LAST_RETRY });
        // Number of members that are still asked who the members are. A member ends its connections
        // when others have come or gone.
        let mut to_hear = 0;
        while !self.is_over() {
            match meet(members.address(), &self.hello(), self.secret.as_ref(), Duration::ZERO) {
                Ok(Met { welcome, .. }) if to_hear > 0 && self.lock().is_resting(Instant::now()) => {
                    self.hear(&welcome);
                    to_hear = if matches!(welcome, Welcome::Client { .. }) { 0 } else { to_hear - 1 };
                    members.renew(self.roster.cluster().addresses(self.server));
                    members.go_on(leads(&welcome));
                }
                Ok(met) => {
                    let leads = leads(&met.welcome);
                    if let Some((stream, rest)) = self.welcomed(met) {
                        retry.restart();
                        let error = self.read(&stream, rest);
                        self.lost(error);
                        to_hear = if self.is_group { MOST_CALLED } else { 0 };
                    }
                    // A place among the addresses that came along, or later ones.
                    members.renew(self.roster.cluster().addresses(self.server));
                    members.go_on(leads);
                }
                Err(error) => {
                    self.lost(error);
                    members.go_on(None);
                    to_hear = to_hear.saturating_sub(1);
                }
            }
            self.expire();
            if self.lock().fatal.is_some() {
                break;
            }
            thread::sleep(retry.next());
            if to_hear == 0 {
                self.rest();
            }
        }
        let waiting = std::mem::take(&mut self.lock().waiting);
        waiting.into_iter().for_each(|(id, waiting)| waiting.over(id, "the client has ended").tell());
    }

    fn hello(&self) -> Hello {
        let (cluster, from) = (self.roster.cluster(), Caller::Client(self.lock().name));
        let (map, cluster) = (Some(cluster.map_id()), cluster.name.clone());
        Hello { cluster, map, to: Some(self.server), from, nonce: rand::random() }
    }

    /// Hears which servers there are, and at which addresses the members of this one.
    fn hear(&self, welcome: &Welcome) {
        if let Welcome::Client { cluster, addresses_of, .. } | Welcome::NotLeading { cluster, addresses_of, .. } =
            welcome
        {
            self.roster.heard(cluster, self.server, *addresses_of);
        }
    }

    /// Waits as long as a connection would be of no use, because a server has places for so many
    /// only.
    fn rest(&self) {
        let mut state = self.lock();
        while !self.is_over() && state.is_resting(Instant::now()) {
            state = self.asked.wait_timeout(state, LAST_RETRY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn welcomed(&self, met: Met) -> Option<(Arc<TcpStream>, Vec<u8>)> {
        let mut over = Vec::new();
        // Before any answer that may name a server which has joined.
        self.hear(&met.welcome);
        let mut state = self.lock();
        let result = match met.welcome {
            Welcome::Client { client, store, .. } if state.is_outdated(client, store) => {
                state.last_error = format!("server {} gave a name of an earlier life", self.server);
                None
            }
            Welcome::Client { client, store, .. } => {
                let stream = Arc::new(met.stream);
                over = state.met_store(store, &self.stores);
                state.renamed(client);
                state.stream = Some(stream.clone());
                over.extend(state.send_all(|_| true));
                Some((stream, met.rest))
            }
            Welcome::Refused { why, is_temporary } => {
                state.last_error.clone_from(&why);
                state.fatal = (!is_temporary).then_some(why);
                None
            }
            Welcome::NotLeading { leads, .. } => {
                state.last_error = match leads {
                    Some(at) => {
                        format!("the member at place {at} of server {} leads, and was not reached yet", self.server)
                    }
                    None => format!("no member of server {} leads", self.server),
                };
                None
            }
            Welcome::Waiting { .. } => {
                state.last_error = WAITING.to_owned();
                None
            }
            Welcome::Server { .. } | Welcome::Member { .. } | Welcome::Removed { .. } | Welcome::Challenge { .. } => {
                state.fatal = Some("it took a client for a server".to_owned());
                None
            }
        };
        drop(state);
        over.into_iter().for_each(Over::tell);
        self.written.notify_one();
        result
    }

    /// Reads answers until the connection is lost; returns the reason.
    fn read(&self, stream: &TcpStream, mut incoming: Vec<u8>) -> String {
        let mut reader = stream;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            if let Err(error) = self.take_answers(&mut incoming) {
                return error.to_string();
            }
            if self.is_over() {
                return "the client has ended".to_owned();
            }
            match reader.read(&mut chunk) {
                Ok(0) => return "the server closed the connection".to_owned(),
                Ok(bytes) => incoming.extend_from_slice(&chunk[..bytes]),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return error.to_string(),
            }
        }
    }

    fn take_answers(&self, incoming: &mut Vec<u8>) -> Result<(), WireError> {
        let mut at = 0;
        let mut responses = Vec::new();
        while let Some((payload, taken)) = next_frame(&incoming[at..])? {
            responses.push(decode::<Response>(payload)?);
            at += taken;
        }
        incoming.drain(..at);
        if responses.is_empty() {
            return Ok(());
        }
        let heard = largest_number(self.server, &responses);
        let mut state = self.lock();
        state.heard = state.heard.max(heard);
        let over: Vec<_> = responses.into_iter().filter_map(|response| state.answered(response)).collect();
        drop(state);
        over.into_iter().for_each(Over::tell);
        Ok(())
    }

    fn lost(&self, error: String) {
        let mut state = self.lock();
        state.stream = None;
        state.forget_connection();
        state.last_error = error;
    }

    /// Gives up requests whose time is over, and repeats those without an answer for long.
    fn expire(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let why = state.fatal.clone().unwrap_or_else(|| state.last_error.clone());
        let is_fatal = state.fatal.is_some();
        let late: Vec<u64> =
            state.waiting.iter().filter(|(_, w)| is_fatal || w.until <= now).map(|(id, _)| *id).collect();
        let mut over: Vec<_> =
            late.into_iter().filter_map(|id| state.waiting.remove(&id).map(|waiting| waiting.over(id, &why))).collect();
        let is_late = |w: &Waiting| w.sent.is_some_and(|at| now.duration_since(at) >= RESEND);
        if self.is_group && state.waiting.values().any(is_late) {
            // Another member may lead by now. The reader notices, and calls the next one.
            state.stream.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        } else {
            over.extend(state.send_all(|waiting| waiting.sent.is_none() || is_late(waiting)));
        }
        drop(state);
        over.into_iter().for_each(Over::tell);
        self.written.notify_one();
    }
}

/// Place of the member that leads, by what another one says.
fn leads(welcome: &Welcome) -> Option<u8> {
    if let Welcome::NotLeading { leads, .. } = welcome { *leads } else { None }
}
