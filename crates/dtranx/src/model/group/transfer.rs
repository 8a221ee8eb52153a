//! Transfer of a leader's items to a follower that needs entries which the leader has removed.

use std::collections::BTreeMap;

use super::{
    member::Transfer,
    plan::{Flaw, Plan},
    state::State,
};
use crate::core::{Item, Key};
use crate::model::plan::key;

impl State {
    /// A follower gets the next of two pieces, each as it is when it is read. With the last one the
    /// items count, with a log that begins behind what the leader has removed; its entries come as
    /// they do to any follower. A transfer goes on under its own name only; under another one it
    /// begins with the first piece (G16).
    pub(super) fn piece(&mut self, plan: &Plan, from: usize, to: usize) {
        let leader = self.members[from].clone();
        let Some(lead) = &leader.lead else { return };
        self.hear_of(plan, to, lead.term);
        let name = (lead.term, leader.server.removed);
        let (first, last) = pieces(&leader.server.items);
        let follower = &mut self.members[to];
        let is_begun = |transfer: &Transfer| transfer.name == name || plan.has(Flaw::PiecesMixed);
        let Some(transfer) = follower.transfer.take().filter(is_begun) else {
            follower.transfer = Some(Transfer { name, items: first });
            return;
        };
        follower.install(&leader, transfer.items.into_iter().chain(last).collect());
        if plan.has(Flaw::StateTransferred) {
            let follower = &mut self.members[to];
            (follower.term, follower.recorded) = (leader.recorded, leader.recorded);
        }
    }
}

/// Divides items into two pieces, in the order of keys.
fn pieces(items: &BTreeMap<Key, Item>) -> (BTreeMap<Key, Item>, BTreeMap<Key, Item>) {
    let mut first = items.clone();
    let last = first.split_off(&key("1b"));
    (first, last)
}
