//! Results of transactions.

use bytes::Bytes;

use crate::core::TranxId;

/// Name of a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Id of the transaction, and the version of all that it wrote. `None` if it wrote nothing and
    /// is in no log.
    pub tranx: Option<TranxId>,
}

/// Items that a scan has found, and whether there may be more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Keys and values, in the order of the keys.
    pub items: Vec<(Bytes, Bytes)>,
    /// True if the whole range was read. If not, the limit was reached.
    pub complete: bool,
}
