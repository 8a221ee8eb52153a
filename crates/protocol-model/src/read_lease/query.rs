//! The holder's plain queries: when one may be sent, and when its answer counts.

use super::{
    breakage::Breakage,
    own,
    plan::Plan,
    state::{Answer, Message, OWN, Own, Query, Settling, State, THEIRS},
    steps::{Action, Command},
};

/// Adds the next steps of the holder's query that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    let holder = &state.holder;
    match holder.query {
        None => {
            let ready = plan.collections().filter(|collection| may_query(plan, state, *collection));
            actions.extend(ready.map(|collection| Action::Send(Command::Query(collection))));
        }
        Some(Query { answer: None, collection, .. }) => {
            actions.push(Action::CarryOut(Command::Query(collection)));
        }
        Some(Query { collection, .. }) => actions.push(Action::Answer(Command::Query(collection))),
    }
    match holder.settling {
        None if holder.lease.is_some() => {
            let unsettled = plan.collections().filter(|collection| !is_settled(plan, state, *collection));
            actions.extend(unsettled.map(|collection| Action::Send(Command::Settle(collection))));
        }
        None => {}
        Some(settling) => actions.push(settling.message.step(Command::Settle(settling.collection))),
    }
}

fn is_settled(plan: &Plan, state: &State, collection: usize) -> bool {
    match state.holder.settled[collection] {
        _ if plan.restarts == 0 => true,
        Some(process) => process == state.holder.process || plan.has(Breakage::NotSettledAgain),
        None => false,
    }
}

fn may_query(plan: &Plan, state: &State, collection: usize) -> bool {
    state.holder.lease.is_some() && is_settled(plan, state, collection) && !own::is_unfinished(plan, state, collection)
}

/// Sends a look for pending documents.
pub fn send_settle(state: &mut State, collection: usize) {
    let process = state.holder.process;
    state.holder.settling = Some(Settling { collection, process, message: Message::Sent });
}

/// The server finds the pending documents of decided transactions and finishes them, also those
/// that the client remembers to have finished.
pub fn carry_out_settle(plan: &Plan, state: &mut State) {
    let Some(settling) = &mut state.holder.settling else { return };
    settling.message = Message::Done;
    let collection = settling.collection;
    let remembers = matches!(state.own, Own::Finishing(1, _)) && state.transactions[OWN].collections[1] != collection;
    state.transactions[THEIRS].finish(collection);
    if !remembers || !plan.has(Breakage::SettleTrustsMemory) {
        state.transactions[OWN].finish(collection);
    }
}

/// The collection is settled, in the process that was known before. A later one makes that
/// useless.
pub fn answer_settle(plan: &Plan, state: &mut State) {
    let Some(settling) = state.holder.settling.take() else { return };
    let in_later = plan.has(Breakage::SettledInLater);
    let process = if in_later { state.holder.process } else { settling.process };
    state.holder.settled[settling.collection] = Some(process);
}

/// The holder sends a plain query.
pub fn send_query(state: &mut State, collection: usize) {
    state.holder.query = Some(Query {
        collection,
        process: state.holder.process,
        same_period: true,
        known: state.transactions.map(|transaction| transaction.known),
        answer: None,
    });
}

/// The server reads what is finished.
pub fn carry_out_query(state: &mut State) {
    let transactions = state.transactions;
    if let Some(query) = &mut state.holder.query {
        query.answer = Some(Answer {
            misses: transactions.map(|transaction| transaction.is_missed(query.collection)),
            shows: transactions.map(|transaction| transaction.is_shown(query.collection)),
        });
    }
}

/// The answer that counts, if one is there and would count now.
pub fn counting_answer<'a>(plan: &Plan, state: &'a State) -> Option<(&'a Query, Answer)> {
    let query = state.holder.query.as_ref()?;
    let same_period = query.same_period || plan.has(Breakage::PeriodIgnored);
    let same_process = query.process == state.holder.process || plan.has(Breakage::ProcessNotCompared);
    let counts = state.holder.lease.is_some() && same_period && same_process;
    let answer = query.answer.filter(|_| counts || plan.has(Breakage::NoCheckAfter));
    answer.map(|answer| (query, answer))
}

/// The answer is given to the user, or thrown away.
pub fn answer_query(plan: &Plan, state: &mut State) {
    if let Some((_, answer)) = counting_answer(plan, state) {
        let shown = state.transactions.iter_mut().zip(answer.shows);
        shown.for_each(|(transaction, shows)| transaction.known.seen |= shows);
    }
    state.holder.query = None;
}
