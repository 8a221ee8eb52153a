//! State of one transaction at a participant.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::{
    id::{Epoch, RequestId, ServerId, TranxId},
    transaction::{Transaction, Write},
};

/// Progress of one part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// Waits for the lock service.
    Locking(Work),
    /// The storage compares versions; the locks are held.
    Checking(Work),
    /// The record is not durable; the locks are held.
    Logging(Held),
    /// Voted yes; the locks are held.
    Ready { held: Held, doubt: InquiryPlan },
    /// Committed; the locks are held until it is applied. `later` is what must not be applied
    /// before the record of the outcome is durable.
    Committing { goal: Goal, epoch: Epoch, is_logged: bool, is_applied: bool, later: Vec<Write> },
    /// The transaction is committed and acknowledged.
    Committed(Epoch),
    /// `Outcome` is not durable; these peers want to know.
    Promising(BTreeSet<ServerId>),
    /// Will not be voted for. If final, not even after a crash.
    Aborted { is_final: bool },
}

/// Part of the server that finds the outcome out, if no message brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum InquiryPlan {
    /// No inquiry: the coordinator is this server, and sends the decision.
    Never,
    /// No part of it until this time.
    From(u64),
    /// The recovery service finds it out.
    HandedOver,
}

/// Work for which a part is prepared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    OnePhase { request: RequestId },
    Prepare { participants: Vec<ServerId> },
}

/// A part that is not checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Work {
    pub(super) goal: Goal,
    pub(super) part: Transaction,
    /// Whether its locks are kept if a read is stale.
    pub(super) keeps: bool,
}

/// A part that is checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) goal: Goal,
    /// Epoch in which the part was accepted.
    pub(super) accepted: Epoch,
    pub(super) writes: Vec<Write>,
}

/// Takes a transaction's state out of the table, if it is this one.
pub(super) fn take_if(
    tranxs: &mut BTreeMap<TranxId, State>,
    tranx: TranxId,
    is_it: impl FnOnce(&State) -> bool,
) -> Option<State> {
    if tranxs.get(&tranx).is_some_and(is_it) { tranxs.remove(&tranx) } else { None }
}
