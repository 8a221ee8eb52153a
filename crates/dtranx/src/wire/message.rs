//! What is said over a connection, beside the servers' own messages.

use serde::{Deserialize, Serialize};

use super::secret::{Nonce, Proof};
use crate::cluster::{Cluster, MapId};
use crate::core::{ClientId, CommitAnswer, Item, Key, KeyRange, ServerId, StoreId, Transaction};
use crate::stage::Readings;

/// The first message of the side that called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The cluster; a client may leave it empty and be told.
    pub cluster: String,
    /// Its servers and its map of keys, as the caller knows them; a client may leave it out and be told.
    pub map: Option<MapId>,
    /// The server that is meant; a client that does not know it leaves it out.
    pub to: Option<ServerId>,
    /// Who calls.
    pub from: Caller,
    /// Drawn for this connection.
    pub nonce: Nonce,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caller {
    /// A server of the cluster.
    Server {
        /// Which.
        server: ServerId,
        /// The store that it has.
        store: StoreId,
    },
    /// A client, and the name that it had before its connection broke.
    Client(Option<ClientId>),
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Welcome {
    /// The caller has to prove that it knows the secret.
    Challenge {
        /// Drawn for this connection.
        nonce: Nonce,
        /// That the side that was called knows it.
        proof: Proof,
    },
    /// To a server.
    Server {
        /// The store of the one that answers.
        store: StoreId,
    },
    /// To a client: its name (the old one, if it is remembered), the server, and the cluster.
    Client {
        /// The client's name.
        client: ClientId,
        /// The server that answers.
        server: ServerId,
        /// The cluster.
        cluster: Cluster,
        /// How many commits a client may have under way on this connection.
        window: u32,
    },
    /// The connection is closed.
    Refused {
        /// Why.
        why: String,
        /// May it be tried again later?
        is_temporary: bool,
    },
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its number: larger than that of every request before it, the same when it is sent again.
    pub id: u64,
    /// Was it sent before? A server that has no room then says nothing: the earlier copy may be under way.
    pub is_repeated: bool,
    /// What is asked.
    pub ask: Ask,
}

/// See [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// What some keys hold.
    Get(Vec<Key>),
    /// What a range holds on this server, up to so many items.
    Scan {
        /// The range.
        range: KeyRange,
        /// The most items.
        items: u32,
    },
    /// To commit a transaction, with this server as its coordinator.
    Commit(Transaction),
    /// How the server is.
    Status,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The request's number.
    pub id: u64,
    /// The answer.
    pub reply: Reply,
}

/// See [`Response`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Get`: what each key holds, in the order of the keys.
    Values(Vec<Option<Item>>),
    /// To `Scan`: what was found, in order, and whether that was all.
    Found {
        /// The items.
        items: Vec<(Key, Item)>,
        /// Was the whole range looked at? If not, it went up to and with the last key.
        complete: bool,
    },
    /// To `Commit`.
    Commit(CommitAnswer),
    /// To `Status`.
    Status(Box<ServerStatus>),
    /// The request was not carried out: the server has too much to do, or the request is beyond a limit.
    Refused(String),
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Id of the server.
    pub server: ServerId,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// The log's medium, in words.
    pub medium: String,
    /// Segments of the log.
    pub log_segments: u64,
    /// The room that they take.
    pub log_bytes: u64,
    /// The low-water mark of the server's own transactions.
    pub low_water: u64,
    /// Transactions that it coordinates and that are not complete.
    pub coordinating: u64,
    /// Parts of transactions that it is not done with.
    pub participating: u64,
    /// Of these: voted yes, for another server's transaction, and not told the outcome. While servers answer each other, each is
    /// so for a moment.
    pub in_doubt: u64,
    /// Of these: for so long that it asks other servers, or since before its last start.
    pub asking: u64,
    /// Transactions that hold or wait for locks.
    pub locking: u64,
    /// How often something happened that must not.
    pub anomalies: u64,
    /// Connected clients.
    pub clients: u64,
    /// Requests to read that its cache answered, without the read stage.
    pub cached_reads: u64,
    /// Transactions that it answered with commit.
    pub committed: u64,
    /// Transactions that it answered with a refusal.
    pub refused: u64,
    /// Servers that it is connected to.
    pub peers: Vec<ServerId>,
    /// The stages and queues.
    pub readings: Readings,
}
