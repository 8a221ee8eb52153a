//! Plans of explorations of validation without reads: changes of both clients, notices, faults, and
//! the rule that is broken.

use super::breakage::Breakage;

/// A set of documents: one for each, whether it is in the set.
pub type Docs = [bool; 2];

/// The first document that is read.
pub const X: Docs = [true, false];
/// The second of the two documents.
pub const Y: Docs = [false, true];
/// Both documents of the model.
pub const BOTH: Docs = [true, true];

/// Plan of one exploration: the changes of both clients, and the faults.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Name of the plan, for reports of explorations.
    pub name: &'static str,
    /// True if the transaction locks a third document when it has read.
    pub locks: bool,
    /// True if the later look is sent together with the reads, behind them.
    pub together: bool,
    /// Number of looks that the client sends besides those of the transaction.
    pub looks: u8,
    /// Documents that each of the client's own other transactions writes.
    pub decisions: &'static [Docs],
    /// The documents of the client's own plain writes, one after the other.
    pub plain: &'static [usize],
    /// True if outcomes of own plain writes and decisions may stay unknown.
    pub losses: bool,
    /// Documents that each transaction of the other client writes.
    pub their_decisions: &'static [Docs],
    /// The documents of the other client's plain writes.
    pub their_plain: &'static [usize],
    /// True if these make indexes by which the server removes documents, and change no values.
    pub expires: bool,
    /// Number of its notices that the other client may end, and follow by new ones.
    pub their_ends: u8,
    /// Number of restarts of the server.
    pub restarts: u8,
    /// The tick at which an exploration ends.
    pub end: u8,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Plan {
    /// Number of ticks for which a notice lets its client send plain writes.
    pub const FRESH: u8 = 1;
    /// Number of ticks that a plain write may take until the server carries it out.
    pub const LATE: u8 = 1;
    /// Number of ticks for which a notice stays at least.
    pub const LIFE: u8 = Self::FRESH + Self::LATE + 1;
    /// Number of ticks that may be between the two looks of a transaction.
    pub const BETWEEN: u8 = 1;
    /// Number of rounds after which a validation is given up.
    pub const ROUNDS: u8 = 3;

    /// Returns true if this rule is broken on purpose.
    pub fn has(&self, breakage: Breakage) -> bool {
        self.breakage == Some(breakage)
    }
}
