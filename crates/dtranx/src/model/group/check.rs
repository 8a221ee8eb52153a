//! Properties: no entry that a member has acted on is lost or replaced, no refused transaction is
//! applied. From each state with nothing under way the group comes to rest without further faults;
//! then nothing is left over, all members have the same items, and the history is strictly
//! serializable.

use std::collections::BTreeMap;

use super::{
    member::MEMBERS,
    plan::{Flaw, Plan},
    state::{Action, OTHER, State},
};
use crate::core::{CommitAnswer, Key, WorkId};
use crate::model::{
    explore::Explored,
    properties::{Work, is_explained},
};

/// Limit of the steps in which the group must come to rest.
const MAX_STEPS: usize = 400;

impl Explored for Plan {
    type State = State;
    type Action = Action;
    type Flaw = Flaw;

    fn first(&self) -> State {
        State::new(self)
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        if state.broken.is_some() {
            return vec![];
        }
        let mut actions = state.busy(self);
        if actions.is_empty() {
            actions.extend(state.ticks());
        }
        actions.extend(state.asked(self));
        actions.extend(state.faults(self));
        actions
    }

    fn take(&self, state: &mut State, action: &Action) {
        state.take(self, action);
    }

    fn violation(&self, state: &State) -> Option<String> {
        if state.broken.is_some() {
            return state.broken.clone();
        }
        if state.is_contradicted() {
            return Some("a transaction is applied, but refused".to_owned());
        }
        if !state.busy(self).is_empty() {
            return None;
        }
        let mut state = state.clone();
        let leader = match come_to_rest(self, &mut state) {
            Ok(leader) => leader,
            Err(violation) => return Some(violation),
        };
        let broken = state.broken.clone().or_else(|| leftovers(&state, leader));
        broken.or_else(|| not_serializable(self, &state, leader)).or_else(|| differing(self, &mut state, leader))
    }

    fn with_flaw(self, flaw: Flaw) -> Self {
        self.broken(flaw)
    }
}

/// Takes steps without faults until there are none left. Returns the member that leads then.
fn come_to_rest(plan: &Plan, state: &mut State) -> Result<usize, String> {
    let reached = Plan { cut_off: None, is_deaf: false, ..plan.clone() };
    let healed = Plan { candidates: vec![], voter: None, elects_after: None, ..reached };
    for at in 0..MEMBERS {
        if !state.members[at].is_up {
            state.take(&healed, &Action::Restart(at));
        }
    }
    let mut has_collected = false;
    for _ in 0..MAX_STEPS {
        let leader = (0..MEMBERS).find(|at| {
            let member = &state.members[*at];
            member.lead.as_ref().is_some_and(|lead| lead.term == state.term())
        });
        let Some(leader) = leader else {
            let Some(election) = state.elections(&healed).pop() else {
                return Err("no member can be elected".to_owned());
            };
            state.budget.elections = 1;
            state.take(&healed, &election);
            continue;
        };
        // A message reaches the new leader in the end.
        let is_right = |action: &&Action| match action {
            Action::Deliver(_, at) => *at == leader || *at == OTHER,
            _ => true,
        };
        if let Some(action) = state.busy(&healed).iter().find(is_right).cloned() {
            state.take(&healed, &action);
            continue;
        }
        let ticks = state.ticks();
        if ticks.is_empty() && state.is_full(plan) && !has_collected {
            has_collected = true;
            make_room(&healed, state, leader);
            continue;
        }
        if ticks.is_empty() && !state.members[leader].is_serving() {
            return Err(format!("member {leader} is elected, and its life does not begin"));
        }
        if ticks.is_empty() {
            return Ok(leader);
        }
        for tick in ticks {
            state.take(&healed, &tick);
        }
    }
    let status = |at| state.node(at).map(|node| node.status());
    Err(format!("it does not come to rest: {:?}", (0..=OTHER).map(status).collect::<Vec<_>>()))
}

/// Has the leader append marks, and every member remove what these cover.
fn make_room(plan: &Plan, state: &mut State, leader: usize) {
    state.take(plan, &Action::Mark(leader));
    while let Some(action) = state.busy(plan).first().cloned() {
        state.take(plan, &action);
    }
    for at in 0..MEMBERS {
        state.budget.collections = 1;
        state.take(plan, &Action::Collect(at));
    }
}

/// Describes what is left on a server at rest.
fn leftovers(state: &State, leader: usize) -> Option<String> {
    [leader, OTHER].into_iter().find_map(|at| {
        let status = state.node(at)?.status();
        let open = status.coordinating + status.participating + status.locking + status.asking;
        (open > 0 || status.anomalies > 0).then(|| format!("left at {at}: {status:?}"))
    })
}

/// A member whose items differ from the leader's once it has applied its log.
fn differing(plan: &Plan, state: &mut State, leader: usize) -> Option<String> {
    for at in (0..MEMBERS).filter(|at| *at != leader && !state.members[*at].is_hung).collect::<Vec<_>>() {
        let through = state.members[at].len();
        drop(state.members[at].server.replay(&plan.base, through, &mut vec![]));
        let (items, leaders) = (&state.members[at].server.items, &state.members[leader].server.items);
        if items != leaders {
            return Some(format!("the items of member {at} differ: {items:?}, {leaders:?}"));
        }
    }
    None
}

/// Describes the history if it is not strictly serializable.
fn not_serializable(plan: &Plan, state: &State, leader: usize) -> Option<String> {
    let mut committed: BTreeMap<usize, WorkId> = BTreeMap::new();
    for (tranx, at) in &state.applied {
        if committed.insert(*at, (*tranx).into()).is_some() {
            return Some(format!("transaction {at} is committed twice"));
        }
    }
    for (at, client) in state.clients.iter().enumerate() {
        match client.answer {
            Some(CommitAnswer::Committed(tranx)) => drop(committed.insert(at, tranx.into())),
            Some(CommitAnswer::Validated(validation)) => drop(committed.insert(at, validation.into())),
            _ => {}
        }
    }
    let servers = [&state.members[leader].server, &state.other];
    let items = servers.into_iter().flat_map(|server| &server.items);
    let stored: BTreeMap<Key, WorkId> = items.map(|(key, item)| (key.clone(), item.version.into())).collect();
    let work = |at: &usize| {
        let (tx, client) = (&plan.base.txs[*at], &state.clients[*at]);
        Work { at: *at, reads: &tx.reads, seen: &client.seen, after: &client.after }
    };
    let snapshots = plan.base.snaps.iter().zip(&state.readers).enumerate().filter_map(|(at, (snap, reader))| {
        let is_whole = reader.snapshot.is_some() && !reader.is_refused && reader.seen.len() == snap.keys.len();
        let at = at + plan.base.txs.len();
        is_whole.then_some(Work { at, reads: &snap.keys, seen: &reader.seen, after: &reader.after })
    });
    let all: Vec<Work<'_>> = committed.keys().map(work).chain(snapshots).collect();
    let found = is_explained(&plan.base, &committed, &all, |_| true, &stored);
    let (clients, readers) = (&state.clients, &state.readers);
    (!found).then(|| format!("not strictly serializable: {committed:?} {clients:?} {readers:?} {stored:?}"))
}
