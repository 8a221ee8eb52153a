//! The steps that are possible in a state: without faults, with them, and those of rivals. What
//! they do is in `model` and in the files of the participants.

use crate::{
    client, expiry, faults, janitor, meeting,
    plan::Plan,
    reader,
    state::{Meeting, Pump, State, Step, Task},
    transaction,
};

use crate::action::{Action, Actor};

/// The protocol under one plan.
#[derive(Clone, Debug)]
pub struct ProtocolModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

impl ProtocolModel {
    fn meeting_of<'a>(&self, state: &'a State, actor: Actor) -> Option<&'a Meeting> {
        match (actor, &state.janitor) {
            (Actor::Run(t), _) => match &state.runs[t].step {
                Step::Meeting(_, meeting) => Some(meeting),
                _ => None,
            },
            (Actor::Janitor, Some(Task::Meeting(meeting))) => Some(meeting),
            (Actor::Janitor, Some(Task::Sweep(sweep))) => sweep.meeting.as_ref(),
            (Actor::Janitor, None) => None,
        }
    }

    pub(crate) fn active_holder(&self, state: &State, actor: Actor) -> Option<protocol::TxId> {
        let meeting = self.meeting_of(state, actor)?;
        meeting::active_holder(&self.plan, state, meeting)
    }

    /// Returns true if the janitor has to wait until a client without a lease is fenced.
    fn must_fence(&self, state: &State) -> bool {
        let holder = self.active_holder(state, Actor::Janitor);
        holder.is_some_and(|tx| state.is_leaseless(crate::server::client_index(tx.client)))
    }

    /// Steps that processes take without a fault.
    pub(crate) fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        let runs = (0..state.runs.len()).filter(|t| transaction::has_step(&self.plan, state, *t));
        actions.extend(runs.map(Action::Run));
        let clients = 0..state.clients.len();
        actions.extend(clients.clone().filter(|c| client::has_step(&self.plan, state, *c)).map(Action::Record));
        actions.extend(clients.clone().filter(|c| client::has_held(state, *c)).map(Action::Release));
        actions.extend(clients.clone().filter(|c| janitor::may_fence(state, *c)).map(Action::Expire));
        actions.extend(reader::has_step(&self.plan, state).then_some(Action::Read));
        match &state.janitor {
            Some(_) if self.must_fence(state) => {}
            Some(_) => actions.push(Action::Janitor),
            None => {
                let docs = 0..state.server.now.docs.len();
                actions.extend(docs.filter(|d| janitor::may_look(&self.plan, state, *d)).map(Action::Look));
                actions.extend(clients.filter(|c| janitor::may_scan(&self.plan, state, *c)).map(Action::Scan));
            }
        }
    }

    /// Returns true if any process can take a step without a fault.
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }

    pub(crate) fn rivalry(&self, state: &State, actions: &mut Vec<Action>) {
        if state.faults.aborts > 0 {
            let actors = (0..state.runs.len()).map(Actor::Run).chain([Actor::Janitor]);
            actions.extend(actors.filter(|actor| self.active_holder(state, *actor).is_some()).map(Action::Abort));
        }
    }

    pub(crate) fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let (runs, clients, left) = (0..state.runs.len(), 0..state.clients.len(), &state.faults);
        actions.extend(runs.clone().filter(|t| faults::may_be_late(&self.plan, state, *t)).map(Action::WriteLate));
        if left.late_messages > 0 {
            actions.extend(clients.clone().filter(|c| client::is_sending(state, *c)).map(Action::RecordLate));
        }
        actions.extend((0..state.server.late.len()).map(Action::Deliver));
        actions.extend(clients.clone().filter(|c| faults::may_lose_answer(state, *c)).map(Action::LoseAnswer));
        if left.server_crashes > 0 {
            let foreseen = state.server.journal_end.is_some();
            actions.push(if foreseen { Action::Restart } else { Action::ForeseeRestart });
        }
        if left.expiries > 0 {
            let living = |c: &usize| !state.is_leaseless(*c) && janitor::is_unfenced(state, *c);
            actions.extend(clients.clone().filter(living).map(Action::Expire));
        }
        if left.give_ups > 0 {
            let examines = |c: &usize| state.clients[*c].alive && matches!(state.clients[*c].pump, Pump::Examine(_));
            actions.extend(clients.clone().filter(examines).map(Action::GiveUp));
        }
        let docs = (0..state.server.now.docs.len())
            .filter(|doc| state.server.now.docs[*doc].stored || state.server.now.docs[*doc].pending.is_some());
        if left.deletions > 0 {
            actions.extend(docs.clone().map(Action::Delete));
        }
        if left.strangers > 0 {
            let locked = |doc: &usize| state.server.now.docs[*doc].lock.writer.is_some();
            actions.extend(docs.clone().filter(locked).map(Action::Stranger));
        }
        if left.quiets > 0 {
            actions.extend(clients.clone().filter(|c| faults::may_be_refused(state, *c)).map(Action::Quiet));
        }
        let forgeries = docs.flat_map(|doc| runs.clone().map(move |t| (doc, t)));
        let forgeries = forgeries.filter(|(doc, t)| faults::may_forge(&self.plan, state, *doc, *t));
        actions.extend(forgeries.map(|(doc, t)| Action::Forge(doc, t)));
        expiry::possible(&self.plan, &state.server, actions);
        if left.client_deaths > 0 {
            actions.extend(clients.filter(|c| state.clients[*c].alive).map(Action::Die));
        }
    }
}
