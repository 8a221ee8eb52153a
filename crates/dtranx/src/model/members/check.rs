//! Properties of a state of members.

use super::{
    plan::Plan,
    state::{Action, State},
};
use crate::core::group::{Event, Flaw, Index, Timer, disk::Disk};
use crate::model::explore::Explored;

/// Elections after which the members have a leader.
const MAX_ELECTIONS: usize = 8;

impl Explored for Plan {
    type State = State;
    type Action = Action;
    type Flaw = Flaw;

    fn first(&self) -> State {
        State::new(self)
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        state.actions(self)
    }

    fn take(&self, state: &mut State, action: &Action) {
        state.take(self, action);
    }

    fn violation(&self, state: &State) -> Option<String> {
        let at_rest = || state.is_silent().then(|| unrest(state.clone())).flatten();
        state.broken.clone().or_else(|| lost(state)).or_else(|| forked(state)).or_else(at_rest)
    }

    fn with_flaw(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }
}

/// An entry that was acted on, and that a majority's disks have no more. While a member has no vote
/// the others have it in their hands; what they act on then shows whether it is lost.
fn lost(state: &State) -> Option<String> {
    if state.is_rejoining() {
        return None;
    }
    let lost = state.acted.iter().find(|entry| !state.is_kept(**entry, false))?;
    Some(format!("{lost:?} was acted on, and no majority's disks have it: {:?}", state.members))
}

/// Two logs that differ before an entry that both have.
fn forked(state: &State) -> Option<String> {
    let logs: Vec<&Disk> = state.members.iter().map(|member| &member.disk).collect();
    let mut pairs = logs.iter().enumerate().flat_map(|(at, one)| logs[..at].iter().map(move |other| (*one, *other)));
    pairs.find_map(|(one, other)| {
        let last = one.durable().entries.last_position().index.get();
        let same = |index: &u64| one.at(Index::new(*index)) == other.at(Index::new(*index));
        let common = (1..=last).rev().find(same)?;
        let differs = (1..common).find(|index| !same(index))?;
        Some(format!("logs have {common} in common, and not {differs}: {one:?}, {other:?}"))
    })
}

/// Describes why members with nothing under way do not come to rest.
fn unrest(mut state: State) -> Option<String> {
    for round in 0..MAX_ELECTIONS {
        // Without a leader that is heard of, members ask in turn, and the longest log is granted.
        for at in state.all() {
            state.on(at, Event::Tick(Timer::Silence));
        }
        let asking = round % state.members.len();
        state.on(asking, Event::Tick(Timer::Election));
        state.on(asking, Event::Tick(Timer::Election));
        state.come_to_silence();
        // A leader whose term is over hears so.
        for at in state.all() {
            state.heartbeat(at);
        }
        state.come_to_silence();
    }
    for _ in 0..2 {
        for at in state.all() {
            state.heartbeat(at);
        }
        state.come_to_silence();
    }
    let Some(leader) = state.leader() else { return Some("nobody leads".into()) };
    let entries = &state.members[leader].disk.durable().entries;
    let acted = state.acted.len() as u64 == entries.last_position().index.get();
    let in_force = &state.members[leader].group.in_force().configuration;
    let members = || state.members.iter().filter(|member| in_force.contains(member.store()));
    let same = members().all(|member| member.disk.durable().entries == *entries);
    let over = !in_force.is_joint() && members().all(|member| member.group.config().rejoins.is_none());
    let rest = || format!("member {leader} leads, and the logs differ: {:?}", state.members);
    state.broken.clone().or_else(|| (!acted || !same || !over).then(rest))
}
