//! Plans of members: budgets, and a rule that is broken on purpose.

use crate::core::group::Flaw;

/// Members to explore: three, if no others are named. The first leads, and all have its first
/// entry.
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
    /// Members with a vote in the first configuration; none: the first three.
    pub(super) voters: Vec<usize>,
    /// Members without one in that.
    pub(super) learners: Vec<usize>,
    /// Voters after each change, the first one first. Learners that get no vote stay.
    pub(super) changes: Vec<Vec<usize>>,
    /// Whether the first leader has begun the first change, and nobody has heard of it.
    pub(super) is_changing: bool,
    /// Whether the fourth is to go: only the first leader has the final configuration, and the
    /// joint one is committed. Then the fourth has stood, the third has voted for it, and is lost.
    pub(super) is_going: bool,
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
    /// Messages that are lost, and not sent again by themselves.
    pub(super) drops: u8,
    /// Changes of the plan that are still to begin.
    pub(super) changes: u8,
}

impl Plan {
    /// Members with a vote in the first configuration.
    pub(super) fn first_voters(&self) -> Vec<usize> {
        if self.voters.is_empty() { vec![0, 1, 2] } else { self.voters.clone() }
    }

    /// Voters after the next change, if this is left.
    pub(super) fn next_change(&self, left: &Budget) -> &[usize] {
        &self.changes[self.changes.len() - usize::from(left.changes)]
    }
}
