//! [`Command`]: a read under way, with its query, its progress and the documents found. `scan`
//! carries it out.

use super::{
    breakage::Breakage,
    plan::Plan,
    query::{Docs, Query},
};

/// Progress of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// About to fetch the one document.
    Fetching,
    /// About to look for the document that has the key in its safe version.
    Keyed,
    /// About to look for the document that has the key in its unsafe version.
    KeyedPending,
    /// About to find the next pending document from this position on.
    Probing(usize),
    /// About to find the next document from this position on.
    Scanning(usize),
    /// About to read the status of the first rival whose status is not known.
    Asking,
}

/// State of a read that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    pub(super) query: Query,
    pub(super) own: bool,
    pub(super) phase: Phase,
    pub(super) scanned: bool,
    /// True if the documents found have the key, in one of two looks.
    pub(super) by_key: bool,
    pub(super) found: Docs,
    /// The unsafe version of the one document.
    pub(super) pending: Docs,
    pub(super) rivals: u8,
    pub(super) active: u8,
    pub(super) decided: u8,
}

impl Command {
    /// Makes a read of the committed versions, or with `own` of the transaction's own view.
    pub fn new(plan: &Plan, query: Query, own: bool) -> Self {
        let phase = match (query.point, plan.has(Breakage::ProbeAfterScan)) {
            (true, _) => Phase::Fetching,
            (false, _) if query.key && !own => Phase::Keyed,
            (false, false) => Phase::Probing(0),
            (false, true) => Phase::Scanning(0),
        };
        Self::at(query, own, phase)
    }

    pub(super) fn at(query: Query, own: bool, phase: Phase) -> Self {
        let (by_key, scanned) = (phase == Phase::Keyed, false);
        Self { query, own, phase, scanned, by_key, found: 0, pending: 0, rivals: 0, active: 0, decided: 0 }
    }

    /// The read from its beginning.
    #[must_use]
    pub fn again(self) -> Self {
        let phase = if self.query.point { Phase::Fetching } else { Phase::Probing(0) };
        Self::at(self.query, self.own, phase)
    }
}
