//! A new store that is to become a member of a group (decision 0088, C10). It listens, and tells
//! clients its id, until a member of the group calls that has it in its configuration: that says
//! which place it has, and who the others are. It is written down, and the member starts.
//!
//! One caller after the other is answered; each has a short time for what it says.

use std::cmp::Ordering;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::data;
use super::identity::Identity;
use super::{ServerConfig, ServerError};
use crate::log::{LogOptions, TranxLog};
use crate::remark;
use crate::wire::{
    Caller, Hello, Nonce, PREFACE_BYTES, Proof, Secret, Side, Told, Welcome, WireError, check_preface, decode, encode,
    next_frame, preface,
};

/// Greatest size of what a caller says.
const GREETING_LIMIT_BYTES: usize = 16 << 10;

/// The configuration of a member whose number is known. A store that joins a group and has no
/// number yet waits here for it.
pub(super) fn placed(config: &ServerConfig) -> Result<ServerConfig, ServerError> {
    let config = config.clone().with_number()?;
    let (Some(join), None) = (config.join, config.member) else { return Ok(config) };
    let (medium, mut identity) = data::open(&config, Identity::open_waiting)?;
    let address = config.listen.unwrap_or(join);
    let failed = |source| ServerError::Io { action: format!("listen on {address}"), source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    remark::say(format_args!(
        "server {}: the store {} waits on {join} to be added to the group",
        config.server, identity.store
    ));
    let told = loop {
        let called = listener.accept().ok().and_then(|(stream, _)| Waiting::new(&config, &identity, stream).answer());
        if let Some(told) = called {
            break told;
        }
    };
    // From the moment on that the store counts, its log and its items have to be there.
    data::storage(&config, &identity)?;
    let options = LogOptions { is_member: true, ..data::log_options(&config, &identity) };
    TranxLog::open(medium, &options, |_, _| Ok(()))?;
    let number = identity.placed(&told)?;
    remark::say(format_args!("server {}: the store is member {number}", config.server));
    Ok(ServerConfig { member: Some(number), ..config })
}

/// A store that waits, and a caller.
struct Waiting<'a> {
    config: &'a ServerConfig,
    identity: &'a Identity,
    stream: TcpStream,
    incoming: Vec<u8>,
    until: Instant,
}

impl<'a> Waiting<'a> {
    fn new(config: &'a ServerConfig, identity: &'a Identity, stream: TcpStream) -> Self {
        let until = Instant::now() + Duration::from_millis(config.handshake_ms);
        Self { config, identity, stream, incoming: Vec::new(), until }
    }

    /// Answers the caller. Returns what a member of the group tells of this store's place; `None`:
    /// it was another caller, or one that broke the rules.
    fn answer(mut self) -> Option<Told> {
        self.say_bytes(&preface())?;
        let preface = self.preface()?;
        check_preface(&preface).ok()?;
        let hello: Hello = self.hear()?;
        let secret = match hello.from {
            Caller::Client(_) => self.config.client_secret.clone(),
            Caller::Server { .. } | Caller::Member { .. } => self.config.server_secret.clone(),
        };
        if let Some(secret) = secret {
            self.challenge(&hello, &secret)?;
        }
        match self.judge(hello) {
            Ok(told) => Some(told),
            Err(welcome) => {
                self.say(&*welcome)?;
                None
            }
        }
    }

    /// The configuration that a member of the group tells; or the answer to any other caller.
    fn judge(&self, hello: Hello) -> Result<Told, Box<Welcome>> {
        let (config, store) = (self.config, self.identity.store);
        let refused = |why: String| Err(Box::new(Welcome::Refused { why, is_temporary: false }));
        let Caller::Member { server, told, .. } = hello.from else {
            let (cluster, server) = (config.cluster.name.clone(), config.server);
            return Err(Box::new(Welcome::Waiting { cluster, server, store }));
        };
        if hello.cluster != config.cluster.name || server != config.server {
            let here = format!("this is a store for server {} of {:?}", config.server, config.cluster.name);
            return refused(format!("{here}, not for server {server} of {:?}", hello.cluster));
        }
        let map = config.cluster.map_id();
        if hello.map.and_then(|named| map.compare(&named)) != Some(Ordering::Equal) {
            return refused(format!("server {server} has other servers, or another map of keys, in its configuration"));
        }
        let has_this = |told: &Told| told.places.places.iter().any(|place| place.store == store);
        match told.filter(|told| told.is_possible() && has_this(told)) {
            Some(told) if told.is_settled => Ok(told),
            Some(_) => refused(format!("the change that adds the store {store} is under way")),
            None => refused(format!("here the store {store} waits, which the group does not have")),
        }
    }

    fn challenge(&mut self, hello: &Hello, secret: &Secret) -> Option<()> {
        let nonce: Nonce = rand::random();
        let proof = secret.prove(Side::Called, hello, &nonce).ok()?;
        self.say(&Welcome::Challenge { nonce, proof })?;
        let proof: Proof = self.hear()?;
        if secret.is_proven(Side::Caller, hello, &nonce, &proof).ok()? {
            return Some(());
        }
        let why = "the caller does not know the secret".to_owned();
        self.say(&Welcome::Refused { why, is_temporary: false })?;
        None
    }

    fn say(&mut self, message: &impl serde::Serialize) -> Option<()> {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).ok()?;
        self.say_bytes(&bytes)
    }

    fn say_bytes(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.set_write_timeout(Some(self.left()?)).ok()?;
        self.stream.write_all(bytes).ok()
    }

    fn preface(&mut self) -> Option<[u8; PREFACE_BYTES]> {
        loop {
            if let Some((bytes, _)) = self.incoming.split_first_chunk::<PREFACE_BYTES>() {
                let preface = *bytes;
                self.incoming.drain(..PREFACE_BYTES);
                return Some(preface);
            }
            self.read()?;
        }
    }

    fn hear<T: serde::de::DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            let found = next_frame(&self.incoming).ok()?;
            let found: Option<(Result<T, WireError>, usize)> = found.map(|(payload, taken)| (decode(payload), taken));
            if let Some((message, taken)) = found {
                self.incoming.drain(..taken);
                return message.ok();
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Option<()> {
        if self.incoming.len() > GREETING_LIMIT_BYTES {
            return None;
        }
        self.stream.set_read_timeout(Some(self.left()?)).ok()?;
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => None,
            Ok(bytes) => {
                self.incoming.extend_from_slice(&chunk[..bytes]);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Some(()),
            Err(_) => None,
        }
    }

    /// Time that the caller still has.
    fn left(&self) -> Option<Duration> {
        self.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}
