//! Properties of the model. No refused transaction is applied in any state. From each state with
//! nothing under way, the cluster comes to rest without further faults, and then nothing is left
//! over and the history is strictly serializable.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    explore::Explored,
    plan::Plan,
    state::{Action, State},
};
use crate::core::{CommitAnswer, Decision, Key, TranxId, WorkId, flaw::Flaw};

/// Limit of the rounds of steps in which the cluster must come to rest.
const MAX_STEPS: usize = 400;

impl Explored for Plan {
    type State = State;
    type Action = Action;
    type Flaw = Flaw;

    fn first(&self) -> State {
        State::new(self)
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = state.steps(self);
        actions.extend(state.faults(self));
        actions
    }

    fn take(&self, state: &mut State, action: &Action) {
        state.take(self, action);
    }

    fn violation(&self, state: &State) -> Option<String> {
        if let Some(refused) = refused_but_applied(state) {
            return Some(refused);
        }
        if state.readers.iter().any(|reader| reader.is_too_early) {
            return Some("a server that takes part knows nothing of a snapshot that was made".to_owned());
        }
        if !state.is_silent() {
            return None;
        }
        let mut state = state.clone();
        if let Err(violation) = come_to_rest(self, &mut state) {
            return Some(violation);
        }
        leftovers(&state).or_else(|| elsewhere(self, &state)).or_else(|| not_serializable(self, &state))
    }

    fn with_flaw(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }
}

/// Takes steps without faults, in some order, and collects garbage when there are none left, until
/// the collection changes nothing.
fn come_to_rest(plan: &Plan, state: &mut State) -> Result<(), String> {
    for _ in 0..MAX_STEPS {
        let steps = state.steps(plan);
        // Timers go off on every server in one round. Otherwise one server's timers could recur for
        // ever while another server's timer, which ends the wait, never comes first.
        let are_timers = matches!(steps.first(), Some(Action::Tick(_)));
        for action in steps.iter().take(if are_timers { steps.len() } else { 1 }) {
            state.take(plan, action);
        }
        if !steps.is_empty() {
            continue;
        }
        let before = state.servers.clone();
        for server in 0..state.servers.len() {
            state.take(plan, &Action::Collect(server));
            while let Some(action) = state.steps(plan).first().cloned().filter(|_| !state.is_silent()) {
                state.take(plan, &action);
            }
        }
        if before == state.servers {
            return Ok(());
        }
    }
    let statuses = state.servers.iter().map(|server| server.node.as_ref().map(|node| node.status()));
    Err(format!("it does not come to rest: {:?}", statuses.collect::<Vec<_>>()))
}

fn refused_but_applied(state: &State) -> Option<String> {
    let mut undecided = state.applied.iter().filter(|(tranx, _)| !state.decided.contains_key(tranx));
    undecided.find_map(|(tranx, at)| {
        let is_refused = matches!(state.clients[*at].answer, Some(CommitAnswer::Refused(_)));
        is_refused.then(|| format!("{tranx} is applied, but refused"))
    })
}

/// Describes what is left on a server. As long as a server is away, the others remember what it has
/// not said to be complete; but nothing is locked or in doubt.
fn leftovers(state: &State) -> Option<String> {
    let is_away = state.servers.iter().any(|server| server.is_ruined);
    state.servers.iter().find_map(|server| {
        let status = server.node.as_ref()?.status();
        if is_away {
            let is_wrong = status.participating + status.locking + status.asking > 0 || status.anomalies > 0;
            return is_wrong.then(|| format!("left on server {}: {status:?}", server.id));
        }
        let open = status.coordinating + status.participating + status.remembered + status.locking;
        let is_wrong = open > 0 || status.anomalies > 0 || server.log_len() > 0;
        is_wrong.then(|| format!("left on server {}: {status:?}, {} records", server.id, server.log_len()))
    })
}

/// Describes a key that is stored where it is not held, or that not exactly one server holds.
fn elsewhere(plan: &Plan, state: &State) -> Option<String> {
    let maps: Vec<_> = state.servers.iter().map(|server| (server, server.map(plan))).collect();
    let keys = plan.txs.iter().flat_map(|tx| tx.reads.iter().chain(&tx.puts));
    for key in keys {
        let holders = maps.iter().filter(|(server, map)| map.server_of(key) == server.id).count();
        if holders != 1 {
            return Some(format!("{holders} servers hold the key {key:?}"));
        }
    }
    maps.iter().filter(|(server, _)| !server.is_ruined).find_map(|(server, map)| {
        let mut stored = server.items.keys().filter(|key| **key != Key::of_map());
        let key = stored.find(|key| map.server_of(key) != server.id)?;
        Some(format!("server {} stores the key {key:?}, which it does not hold", server.id))
    })
}

/// Describes the history if it is not strictly serializable. It is if some order of the committed
/// transactions and snapshots explains every read and the stored items, and puts no transaction
/// before one that was answered before it began.
fn not_serializable(plan: &Plan, state: &State) -> Option<String> {
    let mut committed: BTreeMap<usize, WorkId> = BTreeMap::new();
    // Where an operator has decided an abort, an answer to a client, or a write that was applied
    // without a durable record, may say otherwise: no log has those any more.
    let is_aborted = |tranx: &TranxId| state.decided.get(tranx) == Some(&Decision::Abort);
    for (tranx, at) in state.applied.iter().filter(|(tranx, _)| !is_aborted(tranx)) {
        if committed.insert(*at, (*tranx).into()).is_some() {
            return Some(format!("transaction {at} is committed twice"));
        }
    }
    for (at, client) in state.clients.iter().enumerate() {
        match client.answer {
            Some(CommitAnswer::Committed(tranx)) if is_aborted(&tranx) => {}
            Some(CommitAnswer::Committed(tranx)) => drop(committed.insert(at, tranx.into())),
            Some(CommitAnswer::Validated(validation)) => drop(committed.insert(at, validation.into())),
            _ => {}
        }
    }
    let stored: BTreeMap<Key, WorkId> = state
        .servers
        .iter()
        .filter(|server| !server.is_ruined)
        .flat_map(|server| &server.items)
        .filter(|(key, _)| **key != Key::of_map())
        .map(|(key, item)| (key.clone(), item.version.into()))
        .collect();
    let is_lost = |key: &Key| {
        let holder = plan.partition().server_of(key);
        state.servers.iter().any(|server| server.id == holder && server.is_ruined)
    };
    let whole = |at: &usize| {
        let (snap, reader) = (&plan.snaps[*at], &state.readers[*at]);
        reader.snapshot.is_some() && !reader.is_refused && reader.seen.len() == snap.keys.len()
    };
    let snapshots = (0..plan.snaps.len()).filter(whole).map(|at| at + plan.txs.len());
    let all: Vec<Work<'_>> =
        committed.keys().copied().chain(snapshots).map(|at| what_it_saw(plan, state, at)).collect();
    let found = is_explained(plan, &committed, &all, |key| !is_lost(key), &stored);
    let (clients, readers) = (&state.clients, &state.readers);
    (!found).then(|| format!("not strictly serializable: {committed:?} {clients:?} {readers:?} {stored:?}"))
}

/// Returns true if some order of the committed transactions and snapshots explains every read and
/// the stored items, and puts none before one that was answered before it began. Keys that are not
/// `is_kept` are not among the stored items.
pub(super) fn is_explained(
    plan: &Plan,
    committed: &BTreeMap<usize, WorkId>,
    all: &[Work<'_>],
    is_kept: impl Fn(&Key) -> bool,
    stored: &BTreeMap<Key, WorkId>,
) -> bool {
    let fits = |order: &[usize]| {
        let mut items: BTreeMap<Key, WorkId> = BTreeMap::new();
        for (place, work) in order.iter().enumerate() {
            let Work { at, reads, seen, after } = &all[*work];
            let overtaken = order[place + 1..].iter().any(|later| after.contains(&all[*later].at));
            let mut pairs = reads.iter().zip(*seen);
            let as_read = pairs.all(|(key, seen)| items.get(key).copied() == seen.map(WorkId::Tranx));
            if overtaken || !as_read {
                return false;
            }
            let Some(tx) = plan.txs.get(*at) else { continue };
            items.extend(tx.put_keys(seen).into_iter().map(|key| (key, committed[at])));
            items.retain(|key, _| !tx.deletes.contains(key));
        }
        items.retain(|key, _| is_kept(key));
        items == *stored
    };
    let mut orders = vec![vec![]];
    for work in 0..all.len() {
        orders = orders.iter().flat_map(|order: &Vec<usize>| insertions(order, work)).collect();
    }
    orders.iter().any(|order| fits(order))
}

/// A transaction or a snapshot, as an order of them has to explain it.
pub(super) struct Work<'a> {
    /// Index of the transaction; those of snapshots follow.
    pub(super) at: usize,
    /// Keys that it read.
    pub(super) reads: &'a [Key],
    /// Versions that were found under these keys.
    pub(super) seen: &'a [Option<TranxId>],
    /// Transactions and snapshots that were answered before it began.
    pub(super) after: &'a BTreeSet<usize>,
}

fn what_it_saw<'a>(plan: &'a Plan, state: &'a State, at: usize) -> Work<'a> {
    match (plan.txs.get(at), state.clients.get(at)) {
        (Some(tx), Some(client)) => Work { at, reads: &tx.reads, seen: &client.seen, after: &client.after },
        _ => {
            let (snap, reader) = (&plan.snaps[at - plan.txs.len()], &state.readers[at - plan.txs.len()]);
            Work { at, reads: &snap.keys, seen: &reader.seen, after: &reader.after }
        }
    }
}

/// All orders that come from `order` by inserting `at` in one place.
fn insertions(order: &[usize], at: usize) -> Vec<Vec<usize>> {
    let insert = |place| {
        let mut longer = order.to_vec();
        longer.insert(place, at);
        longer
    };
    (0..=order.len()).map(insert).collect()
}
