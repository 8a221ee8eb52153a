//! What is said over a connection, beside the servers' own messages.

use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, MapId};
use crate::core::{
    Again, ClientId, CommitAnswer, Epoch, Item, Key, KeyRange, ServerId, SnapshotAnswer, StoreId, Transaction,
};
use crate::stage::Readings;

/// A number that is used once: 16 random bytes.
pub type Nonce = [u8; 16];

/// That whoever made it knows the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof(pub [u8; 32]);

/// The first message of the side that called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The cluster; a client may leave it empty and be told.
    pub cluster: String,
    /// Its servers and its map of keys, as the caller knows them; a client may leave it out and be
    /// told.
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
    /// Was it sent before? A server that has no room then says nothing: the earlier copy may be
    /// under way.
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
    /// A snapshot of all servers: [`Reply::Snapshot`].
    Snapshot,
    /// What some keys held at the end of an epoch that a snapshot has ended: [`Reply::Values`].
    GetAt {
        /// The snapshot.
        epoch: Epoch,
        /// The keys.
        keys: Vec<Key>,
    },
    /// What a range held then on this server: [`Reply::FoundAt`].
    ScanAt {
        /// The snapshot.
        epoch: Epoch,
        /// The range.
        range: KeyRange,
        /// The most items.
        items: u32,
    },
    /// To commit a transaction of which attempts were refused.
    CommitAgain {
        /// The transaction.
        transaction: Transaction,
        /// About the attempts before.
        again: Again,
    },
}

/// What a request begins with, which is enough to refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct RequestHead {
    pub(crate) id: u64,
    pub(crate) is_repeated: bool,
    pub(crate) kind: AskKind,
}

/// Which [`Ask`] it is: the same names in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum AskKind {
    Get,
    Scan,
    Commit,
    Status,
    Snapshot,
    GetAt,
    ScanAt,
    CommitAgain,
}

impl AskKind {
    /// Is it to commit?
    pub(crate) const fn is_commit(self) -> bool {
        matches!(self, Self::Commit | Self::CommitAgain)
    }
}

impl Ask {
    /// The transaction that is to be committed, and what is said about the attempts before.
    pub(crate) fn into_commit(self) -> Result<(Transaction, Again), Self> {
        match self {
            Self::Commit(transaction) => Ok((transaction, Again::default())),
            Self::CommitAgain { transaction, again } => Ok((transaction, again)),
            ask => Err(ask),
        }
    }

    /// Is it to commit?
    pub(crate) const fn is_commit(&self) -> bool {
        matches!(self, Self::Commit(_) | Self::CommitAgain { .. })
    }
}

impl RequestHead {
    /// That of the request whose encoding begins so.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        postcard::take_from_bytes(bytes).ok().map(|(head, _)| head)
    }
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
    /// The request was not carried out: the server has too much to do, or the request is beyond a
    /// limit.
    Refused(String),
    /// To `Snapshot`; and to `GetAt` and `ScanAt` if there is no such snapshot any more.
    Snapshot(SnapshotAnswer),
    /// To `ScanAt`: what was there, in order, and how far was looked.
    FoundAt {
        /// The items.
        items: Vec<(Key, Item)>,
        /// The last key that was looked at; `None`: the whole range was.
        through: Option<Key>,
    },
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
    /// Of these: voted yes, for another server's transaction, and not told the outcome. While
    /// servers answer each other, each is so for a moment.
    pub in_doubt: u64,
    /// Of these: for so long that it asks other servers, or since before its last start.
    pub asking: u64,
    /// Transactions that hold or wait for locks.
    pub locking: u64,
    /// Of these: they wait.
    pub lock_waiting: u64,
    /// How often something happened that must not.
    pub anomalies: u64,
    /// The epoch that it is in: how many snapshots there were, and more.
    pub epoch: Epoch,
    /// The oldest snapshot that it can be read as of.
    pub snapshots_from: Epoch,
    /// Bytes of what was replaced and is kept for snapshots.
    pub snapshot_bytes: u64,
    /// Connected clients.
    pub clients: u64,
    /// Requests to read that its cache answered, without the read stage.
    pub cached_reads: u64,
    /// Transactions that it answered with commit.
    pub committed: u64,
    /// Transactions that it answered with a refusal.
    pub refused: u64,
    /// What its connections take, and how many were refused or closed.
    pub doors: Doors,
    /// Servers that it is connected to.
    pub peers: Vec<ServerId>,
    /// The stages and queues.
    pub readings: Readings,
}

/// What a server's connections take, and what was refused or closed for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doors {
    /// How many files and connections its process may have open.
    pub descriptors: u64,
    /// Connections of clients.
    pub client_connections: u64,
    /// How many there may be.
    pub most_client_connections: u64,
    /// Bytes that clients hold: of requests that are on the way or under way, and of answers that
    /// are not sent.
    pub client_bytes: u64,
    /// How many they may hold.
    pub most_client_bytes: u64,
    /// Clients that were refused because there were as many as there may be.
    pub refused_clients: u64,
    /// Requests that were refused because clients held as many bytes as they may.
    pub refused_requests: u64,
    /// Connections that were closed before their callers had said who they are: too late, or in
    /// favour of newer ones.
    pub closed_strangers: u64,
    /// Connections that were closed because the rest of a message did not come in time.
    pub closed_slow: u64,
    /// Connections of clients that were closed because nothing was asked for long.
    pub closed_idle: u64,
    /// Connections of clients that were closed because they did not take their answers.
    pub closed_unread: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn head_of_a_request_says_what_the_request_is() {
        let asks = [
            (Ask::Get(vec![Key::smallest()]), AskKind::Get),
            (Ask::Scan { range: KeyRange::all(), items: 5 }, AskKind::Scan),
            (Ask::Commit(Transaction::default()), AskKind::Commit),
            (Ask::Status, AskKind::Status),
            (Ask::Snapshot, AskKind::Snapshot),
            (Ask::GetAt { epoch: Epoch(1), keys: vec![] }, AskKind::GetAt),
            (Ask::ScanAt { epoch: Epoch(1), range: KeyRange::all(), items: 5 }, AskKind::ScanAt),
            (Ask::CommitAgain { transaction: Transaction::default(), again: Again::default() }, AskKind::CommitAgain),
        ];
        for (ask, kind) in asks {
            for (id, is_repeated) in [(1, false), (u64::MAX, true)] {
                let bytes = postcard::to_stdvec(&Request { id, is_repeated, ask: ask.clone() }).unwrap();
                let head = RequestHead::of(&bytes[..bytes.len().min(16)]);
                assert_eq!(head, Some(RequestHead { id, is_repeated, kind }));
            }
        }
        assert_eq!(RequestHead::of(&[0xff; 16]), None);
    }
}
