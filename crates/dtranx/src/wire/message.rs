//! Messages of the handshake, clients' requests and servers' responses. The messages that servers
//! send each other are [`crate::core::Message`].

use serde::{Deserialize, Serialize};

use std::net::SocketAddr;

use super::member::{GroupStatus, Told};
use crate::cluster::{Cluster, MapId};
use crate::core::few::few;
use crate::core::{
    Again, ClientId, CommitAnswer, Epoch, Item, Key, KeyRange, Moved, RequestId, ServerId, SnapshotAnswer, StoreId,
    Transaction,
};
use crate::stage::Readings;

/// A number that is used once: 16 random bytes.
pub type Nonce = [u8; 16];

/// Proof that its sender knows the secret: an HMAC-SHA-256, as
/// [`Secret::prove`](super::Secret::prove) makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof(pub [u8; 32]);

/// First message of the side that opened the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name of the cluster. A client may leave it empty; [`Welcome::Client`] then gives the name.
    pub cluster: String,
    /// The cluster's servers and a digest of its map of keys, as the caller knows them. A client
    /// may leave it out; [`Welcome::Client`] then gives both.
    pub map: Option<MapId>,
    /// Server that the caller wants to reach. A client that does not know its id leaves it out.
    pub to: Option<ServerId>,
    /// Identity that the caller claims.
    pub from: Caller,
    /// Nonce of the caller, drawn for this connection.
    pub nonce: Nonce,
}

/// Identity of the side that opened a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caller {
    /// A server of the cluster.
    Server {
        /// Id of the calling server.
        server: ServerId,
        /// Id of the calling server's store.
        store: StoreId,
        /// True if the server is new, and may not be known to all others: they do not note its
        /// store yet.
        is_new: bool,
    },
    /// A client, with the name under which it was connected before, if it was.
    Client(Option<ClientId>),
    /// A member of a server that is a group.
    Member {
        /// Id of the group's server.
        server: ServerId,
        /// Number of the calling member.
        member: u8,
        /// Id of the calling member's store.
        store: StoreId,
        /// Ids of the lost stores whose place that one takes, or has taken.
        replaces: Vec<StoreId>,
        /// The configuration that is in force on the calling member, if it calls one of its own
        /// group and knows it.
        told: Option<Told>,
    },
}

impl Caller {
    /// Returns true for a server that says that it is new.
    pub(crate) const fn is_new(&self) -> bool {
        matches!(self, Self::Server { is_new: true, .. })
    }

    /// The configuration that a member says is in force there.
    pub(crate) const fn told(&self) -> Option<&Told> {
        match self {
            Self::Member { told, .. } => told.as_ref(),
            Self::Client(_) | Self::Server { .. } => None,
        }
    }
}

/// Answer to [`Hello`], and to the caller's [`Proof`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Welcome {
    /// The caller has to prove that it knows the secret.
    Challenge {
        /// Nonce of the server that answers, drawn for this connection.
        nonce: Nonce,
        /// Proof that the server that answers knows the secret.
        proof: Proof,
    },
    /// The calling server is accepted.
    Server {
        /// Id of the store of the server that answers.
        store: StoreId,
    },
    /// The calling client is accepted.
    Client {
        /// Name of the client: its old one if the server still remembers it, or a new one.
        client: ClientId,
        /// Id of the server that answers.
        server: ServerId,
        /// Id of the store of that server; of a group, the store of its first member.
        store: StoreId,
        /// Configuration of the cluster: its name, its servers and its map of keys.
        cluster: Cluster,
        /// Index of the configuration of the group from which the addresses of its members are; 0
        /// for the first one, and for a server that is no group.
        addresses_of: u64,
        /// Limit of commits that the client may have under way on this connection.
        window: u32,
    },
    /// The caller is refused, and the connection is closed.
    Refused {
        /// Cause, as text for people.
        why: String,
        /// True if the caller may be accepted if it tries again later.
        is_temporary: bool,
    },
    /// The calling client is refused, and the connection is closed: this member of a group does
    /// not lead, or has not begun to serve.
    NotLeading {
        /// Place of the address of the member that leads among those of the group, from 1 on, if
        /// the answering one knows it.
        leads: Option<u8>,
        /// Configuration of the cluster, with the addresses of the group's members.
        cluster: Cluster,
        /// Index of the configuration of the group from which these addresses are.
        addresses_of: u64,
    },
    /// The calling server or member is accepted, by a member of a group.
    Member {
        /// Number of the member that answers. The caller ends the connection if it has called
        /// another one.
        member: u8,
        /// Id of the store of the member that answers.
        store: StoreId,
        /// The configuration that is in force there, for a member of the same group.
        told: Option<Told>,
    },
    /// The calling member is refused, and the connection is closed: its place was removed.
    Removed {
        /// Index of the configuration by which this is known, and which is committed.
        at: u64,
    },
    /// The caller is refused, and the connection is closed: here is a new store that waits to be
    /// added to a group.
    Waiting {
        /// Name of the cluster that it is configured for.
        cluster: String,
        /// Id of the group's server.
        server: ServerId,
        /// Id of the store.
        store: StoreId,
    },
}

/// A message from a client to a server, which answers it with a [`Response`] of the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number of the request: larger than the number of every earlier request of the client, and
    /// unchanged when the request is sent again.
    pub id: u64,
    /// True if the request was sent before. A server without room does not answer a repeated
    /// commit, because the earlier copy may be under way.
    pub is_repeated: bool,
    /// Operation that the client requests.
    pub ask: Ask,
}

/// Operation that a client requests in a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Reads the current items of some keys: [`Reply::Values`].
    Get(#[serde(deserialize_with = "few")] Vec<Key>),
    /// Reads this server's current items of a range: [`Reply::Found`].
    Scan {
        /// Range of keys to read.
        range: KeyRange,
        /// Limit of items in the answer.
        items: u32,
    },
    /// Commits a transaction with this server as its coordinator: [`Reply::Commit`].
    Commit(Transaction),
    /// Reads the server's state and counters: [`Reply::Status`].
    Status,
    /// Makes a snapshot of all servers: [`Reply::Snapshot`].
    Snapshot,
    /// Reads some keys as of a snapshot: [`Reply::Values`].
    GetAt {
        /// Epoch that the snapshot has ended.
        epoch: Epoch,
        /// Keys that are read, in the order of the answer.
        #[serde(deserialize_with = "few")]
        keys: Vec<Key>,
    },
    /// Reads this server's items of a range as of a snapshot: [`Reply::FoundAt`].
    ScanAt {
        /// Epoch that the snapshot has ended.
        epoch: Epoch,
        /// Range of keys to read.
        range: KeyRange,
        /// Limit of items in the answer.
        items: u32,
    },
    /// Commits a transaction whose earlier attempts were refused: [`Reply::Commit`].
    CommitAgain {
        /// The transaction, as the new attempt has read and written.
        transaction: Transaction,
        /// Facts about the earlier attempts.
        again: Again,
    },
    /// Asks what became of a request to commit that an earlier life of the server got:
    /// [`Reply::Commit`].
    RequestOutcome {
        /// Name of the request: the client's name then, and the request's number.
        request: RequestId,
        /// Largest number of this server's transactions that the client had heard of before it sent
        /// the request for the first time; 0 if it had heard of none.
        above: u64,
    },
    /// Adds a new store to a group, as a member that gets a vote once it has caught up:
    /// [`Reply::Place`].
    AddMember {
        /// Address on which the new store waits.
        address: SocketAddr,
        /// Id of the new store.
        store: StoreId,
    },
    /// Removes a member from a group: [`Reply::Place`].
    RemoveMember(u8),
}

/// First fields of a request's encoding. They are enough to refuse a request whose rest is not
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct RequestHead {
    pub(crate) id: u64,
    pub(crate) is_repeated: bool,
    pub(crate) kind: AskKind,
}

/// Kind of an [`Ask`]. The encoding needs the same cases in the same order as [`Ask`].
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
    RequestOutcome,
    AddMember,
    RemoveMember,
}

impl AskKind {
    /// Returns true if the request is to commit a transaction.
    pub(crate) const fn is_commit(self) -> bool {
        matches!(self, Self::Commit | Self::CommitAgain)
    }
}

impl Ask {
    /// The transaction to commit and the facts about its earlier attempts; any other request comes
    /// back as the error.
    pub(crate) fn into_commit(self) -> Result<(Transaction, Again), Self> {
        match self {
            Self::Commit(transaction) => Ok((transaction, Again::default())),
            Self::CommitAgain { transaction, again } => Ok((transaction, again)),
            ask => Err(ask),
        }
    }

    /// Returns true if the request is to commit a transaction.
    pub(crate) const fn is_commit(&self) -> bool {
        matches!(self, Self::Commit(_) | Self::CommitAgain { .. })
    }

    /// Returns true if the request asks what became of another one.
    pub(crate) const fn is_request_outcome(&self) -> bool {
        matches!(self, Self::RequestOutcome { .. })
    }
}

impl RequestHead {
    /// Head of the request whose encoding begins with `bytes`; `None` if the bytes do not hold all
    /// of it.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        postcard::take_from_bytes(bytes).ok().map(|(head, _)| head)
    }
}

/// A message from a server to a client: the answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// Number of the request that is answered.
    pub id: u64,
    /// Result of the requested operation.
    pub reply: Reply,
}

/// Result of an operation, which a server sends in a [`Response`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Items for [`Ask::Get`] and [`Ask::GetAt`], in the order of the request's keys; `None` for an
    /// absent key.
    Values(Vec<Option<Item>>),
    /// Items for [`Ask::Scan`], in the order of their keys.
    Found {
        /// Items of the range, in the order of their keys.
        items: Vec<(Key, Item)>,
        /// True if the whole range was read. If not, it was read up to and including the last key
        /// in `items`.
        complete: bool,
    },
    /// Answer to [`Ask::Commit`], [`Ask::CommitAgain`] and [`Ask::RequestOutcome`].
    Commit(CommitAnswer),
    /// State and counters for [`Ask::Status`].
    Status(Box<ServerStatus>),
    /// The request was not carried out, because the server is overloaded or the request exceeds a
    /// limit. The text names the limit.
    Refused(String),
    /// Answer to [`Ask::Snapshot`], and to [`Ask::GetAt`] and [`Ask::ScanAt`] if the server cannot
    /// be read as of that snapshot any more.
    Snapshot(SnapshotAnswer),
    /// Items for [`Ask::ScanAt`], in the order of their keys.
    FoundAt {
        /// Items that the range held in the snapshot, in the order of their keys.
        items: Vec<(Key, Item)>,
        /// Last key that was read; `None` if the whole range was.
        through: Option<Key>,
    },
    /// The server does not hold what was to be read, or did not hold it at the snapshot's moment:
    /// where the range of its first key is or was, as the server knows.
    NotHere(Moved),
    /// Answer to [`Ask::AddMember`] and [`Ask::RemoveMember`]: the change has begun, or is over.
    /// This is the number of the member. [`Ask::Status`] says how far it is.
    Place(u8),
}

/// State and counters of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Id of the server in its cluster.
    pub server: ServerId,
    /// Time since the server's start, in milliseconds.
    pub uptime_ms: u64,
    /// Name of the medium that holds the log.
    pub medium: String,
    /// Number of the log's segments.
    pub log_segments: u64,
    /// Size of the log's segments, in bytes.
    pub log_bytes: u64,
    /// Low-water mark of the transactions that the server coordinates: all with this number or a
    /// lower one are complete.
    pub low_water: u64,
    /// Number of transactions that the server coordinates and that are not complete.
    pub coordinating: u64,
    /// Number of transactions' parts that the server has not finished as a participant.
    pub participating: u64,
    /// Number of these parts in doubt: voted yes for another server's transaction, and without an
    /// outcome yet. Between a vote and its outcome each part is in doubt for a moment.
    pub in_doubt: u64,
    /// Number of these in doubt for so long that the server inquires of other servers, or since
    /// before its last start.
    pub asking: u64,
    /// Number of transactions that hold or wait for locks, and of probes that wait for keys to be
    /// free.
    pub locking: u64,
    /// Number of these transactions and probes that wait.
    pub lock_waiting: u64,
    /// Number of events that contradict the protocol; zero unless something is wrong.
    pub anomalies: u64,
    /// Current epoch of the server. Each snapshot ends one epoch, and a restart may skip some.
    pub epoch: Epoch,
    /// Oldest snapshot as of which the server can be read.
    pub snapshots_from: Epoch,
    /// Size of the replaced items that are kept for snapshots, in bytes.
    pub snapshot_bytes: u64,
    /// Number of clients that have a name: those connected, and those whose connection broke and
    /// that may come back.
    pub clients: u64,
    /// Number of requests to read that the cache answered without the read stage.
    pub cached_reads: u64,
    /// Number of transactions answered as committed or validated.
    pub committed: u64,
    /// Number of transactions answered with a refusal.
    pub refused: u64,
    /// Resources of the connections, and counts of those refused or closed.
    pub connections: ConnectionStats,
    /// Servers that the server is connected to.
    pub peers: Vec<ServerId>,
    /// Counters of the stages and queues.
    pub readings: Readings,
    /// Members of the group, if the server is one.
    pub group: Option<GroupStatus>,
}

/// Resources that a server's connections take, their limits, and counts of refusals and closed
/// connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStats {
    /// Limit of files and connections that the server's process may have open.
    pub descriptors: u64,
    /// Number of connections that clients have open.
    pub client_connections: u64,
    /// Greatest number of connections that clients may have open.
    pub most_client_connections: u64,
    /// Memory that clients' messages take, in bytes: partly received requests, requests under way,
    /// and answers that are not sent.
    pub client_bytes: u64,
    /// Limit of the memory for clients' messages, in bytes.
    pub most_client_bytes: u64,
    /// Number of clients refused at the limit of connections.
    pub refused_clients: u64,
    /// Number of requests refused at the limit of memory for clients' messages.
    pub refused_requests: u64,
    /// Number of connections closed before the end of their handshake, because its time was over or
    /// newer connections needed the place.
    pub closed_strangers: u64,
    /// Number of connections closed because the rest of a message did not arrive in time.
    pub closed_slow: u64,
    /// Number of clients' connections closed after a long time without a request.
    pub closed_idle: u64,
    /// Number of clients' connections closed because the client did not take its answers.
    pub closed_unread: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{Incarnation, MessageId};

    #[test]
    fn head_of_a_request_says_what_the_request_is() {
        let client = ClientId { incarnation: Incarnation(1), number: 1 };
        let request = RequestId { client, message: MessageId(1) };
        let asks = [
            (Ask::Get(vec![Key::smallest()]), AskKind::Get),
            (Ask::Scan { range: KeyRange::all(), items: 5 }, AskKind::Scan),
            (Ask::Commit(Transaction::default()), AskKind::Commit),
            (Ask::Status, AskKind::Status),
            (Ask::Snapshot, AskKind::Snapshot),
            (Ask::GetAt { epoch: Epoch(1), keys: vec![] }, AskKind::GetAt),
            (Ask::ScanAt { epoch: Epoch(1), range: KeyRange::all(), items: 5 }, AskKind::ScanAt),
            (Ask::CommitAgain { transaction: Transaction::default(), again: Again::default() }, AskKind::CommitAgain),
            (Ask::RequestOutcome { request, above: 5 }, AskKind::RequestOutcome),
            (Ask::AddMember { address: ([127, 0, 0, 1], 7).into(), store: StoreId::default() }, AskKind::AddMember),
            (Ask::RemoveMember(3), AskKind::RemoveMember),
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
