//! Cleaning of a decided transaction's document: by its owner, by a rival that meets it, or by the
//! janitor.
//!
//! 1. Finish or undo it.
//! 2. Finishing is refused, because another document of the same transaction still has the safe
//!    value: set the slot on everything that the transaction still has locked, one document after
//!    the other.
//! 3. Finish it again.

use protocol::{
    Repair, TxStatus,
    lock::{repair_committed, repair_rolled_back},
};

use super::{
    breakage::Breakage,
    documents::{Refused, Stored},
    plan::Plan,
    state::{Flaw, Mending, State, Step},
};

/// A step of a client that is not the owner; `None` when the document is clean.
pub fn proceed(plan: &Plan, state: &mut State, mending: Mending) -> Option<Mending> {
    let Mending { doc, holder, .. } = mending;
    state.documents.held(doc, holder)?;
    let gives_up = plan.has(Breakage::RivalSetsNoSlot);
    let slotting = clean(plan, state, mending, gives_up);
    match state.documents.held(doc, holder) {
        Some(_) if state.flaw.is_none() => Some(Mending { slotting, ..mending }),
        _ => {
            state.repaired = true;
            state.slotted |= slotting;
            None
        }
    }
}

/// Takes one step towards a clean document. Returns true if the slot has to be set first. With
/// `gives_up`, no slot is set.
pub fn clean(plan: &Plan, state: &mut State, mending: Mending, gives_up: bool) -> bool {
    let Mending { doc, holder, slotting } = mending;
    let Some(stored) = state.documents.held(doc, holder) else {
        return slotting;
    };
    if slotting && let Some(next) = next_without_slot(plan, state, mending) {
        set_slot(state, next);
        return true;
    }
    match attempt(plan, state, doc, stored, holder) {
        Ok(()) => slotting,
        Err(Refused::ByUserIndex) if !slotting && !gives_up && !plan.has(Breakage::NoSlotAtFinishing) => true,
        Err(_) => {
            state.flaw = Some(Flaw::RepairRefused);
            slotting
        }
    }
}

fn next_without_slot(plan: &Plan, state: &State, mending: Mending) -> Option<usize> {
    let bare = |doc: &usize| state.documents.docs[*doc].is_some_and(|stored| stored.slot.is_none());
    if plan.has(Breakage::SlotOnOneOnly) {
        return Some(mending.doc).filter(bare);
    }
    state.documents.held_by(mending.holder).find(bare)
}

fn set_slot(state: &mut State, doc: usize) {
    let stored = state.documents.docs[doc].map(|stored| Stored { slot: Some(doc), ..stored });
    if state.documents.put(doc, stored).is_err() {
        state.flaw = Some(Flaw::RepairRefused);
    }
    state.slotted = true;
}

fn attempt(plan: &Plan, state: &mut State, doc: usize, stored: Stored, holder: usize) -> Result<(), Refused> {
    let lock = stored.lock_state();
    let committed = state.statuses[holder] == TxStatus::Committed;
    let left = match if committed { repair_committed(&lock) } else { repair_rolled_back(&lock) } {
        Repair::Delete => None,
        Repair::DropUnsafe => Some(Stored { lock: None, ..stored }),
        Repair::ReplaceWithUnsafe => {
            let slot = stored.slot.filter(|_| plan.has(Breakage::FinishKeepsSlot));
            Some(Stored { safe: stored.pending(), slot, lock: None })
        }
    };
    state.documents.put(doc, left)
}

/// Returns true if the janitor may take this document. It then rolls back the transaction of a dead
/// client.
pub fn may_look(plan: &Plan, state: &State, doc: usize) -> bool {
    let holder = state.documents.docs[doc].and_then(|stored| stored.holder());
    holder.is_some_and(|t| match state.runs[t].step {
        Step::Dead | Step::Over => true,
        _ => plan.eager_janitor && state.statuses[t] != TxStatus::Active,
    })
}

/// The janitor takes a document.
pub fn look(state: &mut State, doc: usize) {
    if let Some(holder) = state.documents.docs[doc].and_then(|stored| stored.holder()) {
        state.roll_back(holder);
        state.janitor = Some(Mending { doc, holder, slotting: false });
    }
}
