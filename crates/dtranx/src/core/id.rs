//! Names of servers, transactions, clients and their messages, and of places in the log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a server in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerId(pub u16);

/// Id of a transaction: its coordinator, and the coordinator's number for it, counted from 1 and
/// never used twice, not even after a crash (section 3.3.2 of the paper). It is also the version of
/// every item that the transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TranxId {
    /// Server that coordinates the transaction.
    pub server: ServerId,
    /// The coordinator's number for it.
    pub number: u64,
}

/// Id of a validation: a transaction that only reads, and that is checked without a record in any
/// log. It takes no transaction number, so that low-water marks do not concern reads. The
/// incarnation makes it distinct over restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValidationId {
    /// Server that coordinates the validation.
    pub server: ServerId,
    /// Life of the coordinator in which it began the validation.
    pub incarnation: Incarnation,
    /// Counted from 1 by that incarnation.
    pub number: u64,
}

/// Id of a store, which is a server's items and log. Drawn at random when they are made, so that no
/// two stores ever have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId(pub [u8; 16]);

/// Id of the work for which a participant locks and checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkId {
    /// A transaction with a number of its own.
    Tranx(TranxId),
    /// A transaction that only reads and has no number.
    Validation(ValidationId),
}

impl WorkId {
    /// Server that coordinates the work.
    pub(crate) const fn server(self) -> ServerId {
        match self {
            Self::Tranx(tranx) => tranx.server,
            Self::Validation(validation) => validation.server,
        }
    }
}

impl From<TranxId> for WorkId {
    fn from(tranx: TranxId) -> Self {
        Self::Tranx(tranx)
    }
}

impl From<ValidationId> for WorkId {
    fn from(validation: ValidationId) -> Self {
        Self::Validation(validation)
    }
}

/// A server's life, between a start and the crash that ends it, by the first transaction number
/// that it reserved. A later life has a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// Name of a client's connection, given by the server that accepted it (section 4.2 of the paper:
/// distinct for each TCP connection). A server refuses requests under names that another
/// incarnation gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId {
    /// The incarnation that gave the name.
    pub incarnation: Incarnation,
    /// Number of the connection, counted by that incarnation.
    pub number: u64,
}

/// Number of a client's request. It grows with each new request and is the same when one is sent
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId(pub u64);

/// Name of a client's request to commit, which is the same when the request is sent again. At most
/// one transaction is committed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// Name of the client's connection, with the life of the server that gave it.
    pub client: ClientId,
    /// The client's number of the request.
    pub message: MessageId,
}

/// A span of the cluster's life, between two snapshots. Every committed transaction takes place in
/// one: the largest that any participant was in when it accepted its part. A snapshot is the end of
/// an epoch: all transactions of it and of those before. The servers count epochs together, and end
/// one only when a client requests a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// Place of a record in the log: records are appended in the order of their tickets, counted from 1
/// in each incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogTicket(pub u64);

/// Number of a segment (file) of the log: a later one has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SegmentId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Epoch {
    /// Number of the next segment.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl StoreId {
    /// Reads an id from its 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(|id| Self(id.to_be_bytes()))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for ValidationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}v{}", self.server, self.incarnation.0, self.number)
    }
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tranx(tranx) => tranx.fmt(f),
            Self::Validation(validation) => validation.fmt(f),
        }
    }
}

impl fmt::Display for TranxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.server, self.number)
    }
}
