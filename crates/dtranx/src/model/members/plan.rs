//! Plans of members: budgets, and a rule that is broken on purpose.

use crate::core::group::Flaw;

/// Three members to explore. The first leads, and all have its first entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Only these members stand for election, if any are named.
    pub(super) candidates: Vec<usize>,
    /// Only these members crash, if any are named.
    pub(super) crashing: Vec<usize>,
    /// Only these members lose their store, if any are named.
    pub(super) losing: Vec<usize>,
    /// Store of this member is lost when the exploration begins. It has acknowledged what only the
    /// first leader has, and that has not heard so.
    pub(super) lost: Option<usize>,
    /// Whether the second was elected by the third in the first term of all, and the first has
    /// heard of nothing.
    pub(super) is_begun_apart: bool,
    /// Whether the third was called lost while it ran: the first member has noted the next store in
    /// its place, and leads again, and the second has not noted it.
    pub(super) is_mistaken: bool,
    /// Pairs of members that do not reach each other.
    pub(super) cut: Vec<(usize, usize)>,
    /// Number of entries that only the first leader has when the exploration begins.
    pub(super) ahead: usize,
    /// Whether the third has elected the second before that, and the first has not heard of it.
    pub(super) is_replaced: bool,
    /// Only this member appends entries, and begins rounds by its timer, if one is named.
    pub(super) writer: Option<usize>,
    /// Whether batches still arrive that their receiver refuses, because it has a later term.
    pub(super) has_late: bool,
    pub(super) budget: Budget,
    pub(super) flaw: Option<Flaw>,
}

/// Number of times that each kind of step may still be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Times that a member stands for election.
    pub(super) elections: u8,
    /// Entries that nodes append.
    pub(super) entries: u8,
    /// Answers that a node says and that speak of now (G6).
    pub(super) answers: u8,
    /// Times that a member crashes and starts again.
    pub(super) crashes: u8,
    /// Messages that arrive and are still under way.
    pub(super) repeats: u8,
    /// Rounds that a leader begins by its timer, with batches for whom it takes to be behind.
    pub(super) heartbeats: u8,
    /// Leaders that step down by themselves.
    pub(super) ends: u8,
    /// Members whose store is lost, and whose place an empty one takes: at most one.
    pub(super) losses: u8,
}
