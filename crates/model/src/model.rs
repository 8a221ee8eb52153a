//! The model as `stateright` explores it: which steps are possible in a state, and what they do.

use stateright::{Model, Property};

use crate::{
    client, expiry, faults, janitor, meeting,
    plan::Plan,
    properties as p, reader,
    state::{Meeting, Pump, State, Step, Task},
    transaction,
};

/// The process that meets a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The transaction with this index.
    Run(usize),
    /// The janitor, in a sweep or not.
    Janitor,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A transaction takes its next step.
    Run(usize),
    /// A client goes on about its record.
    Record(usize),
    /// The reader takes its next step.
    Read,
    /// The janitor takes its next step.
    Janitor,
    /// The janitor fetches a document.
    Look(usize),
    /// The janitor begins to sweep up after a fenced client.
    Scan(usize),
    /// A client's lease is found expired, with or without a lock of it in the way.
    Expire(usize),
    /// A process rolls back the one transaction whose lock it has met.
    Kill(Actor),
    /// A transaction's next message is given up by its sender.
    WriteLate(usize),
    /// A client's next record write is given up by its sender.
    RecordLate(usize),
    /// A late message arrives at the server.
    Deliver(usize),
    /// Nothing that is written from here on will survive the next restart.
    ForeseeRestart,
    /// The server restarts as foreseen.
    Restart,
    /// An answer from before a restart is lost.
    LoseAnswer(usize),
    /// An owner waits no longer for the fate of its record write.
    GiveUp(usize),
    /// A client's next decision is refused for the quiet of a reader, whom the first of its
    /// transactions would disturb.
    Quiet(usize),
    /// A client tries again to decide those that it has held back.
    Release(usize),
    /// A client dies, and takes no further step.
    Die(usize),
    /// A document is deleted from outside.
    Delete(usize),
    /// A client of another tx database meets a lock.
    Stranger(usize),
    /// A write outside transactions gives a document what looks like a lock of this transaction.
    Forge(usize, usize),
    /// From here on the date that a document had at the start is over.
    DateOver(usize),
    /// The TTL monitor finds a document in its index.
    MonitorFinds(usize),
    /// The TTL monitor removes what it has found, if it has expired still.
    MonitorRemoves(usize),
}

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

    fn active_holder(&self, state: &State, actor: Actor) -> Option<protocol::TxId> {
        let meeting = self.meeting_of(state, actor)?;
        meeting::active_holder(&self.plan, state, meeting)
    }

    /// The janitor waits until a client without lease is fenced.
    fn must_fence(&self, state: &State) -> bool {
        let holder = self.active_holder(state, Actor::Janitor);
        holder.is_some_and(|tx| state.is_leaseless(crate::server::client_index(tx.client)))
    }

    /// Steps that processes take without a fault.
    fn progress(&self, state: &State, actions: &mut Vec<Action>) {
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

    /// Is anybody able to go on, faults aside?
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }

    fn rivalry(&self, state: &State, actions: &mut Vec<Action>) {
        if state.faults.kills > 0 {
            let actors = (0..state.runs.len()).map(Actor::Run).chain([Actor::Janitor]);
            actions.extend(actors.filter(|actor| self.active_holder(state, *actor).is_some()).map(Action::Kill));
        }
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
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

    fn apply(&self, state: &mut State, action: Action) {
        let plan = &self.plan;
        match action {
            Action::Run(t) => transaction::advance(plan, state, t),
            Action::Record(c) => client::advance(plan, state, c),
            Action::Read => reader::advance(plan, state),
            Action::Janitor => janitor::advance(plan, state),
            Action::Look(doc) => janitor::look(state, doc),
            Action::Scan(c) => janitor::scan(plan, state, c),
            Action::Kill(actor) => {
                if let Some(holder) = self.active_holder(state, actor) {
                    meeting::kill(state, holder);
                }
            }
            Action::Expire(c) => meeting::expire(state, c),
            Action::WriteLate(t) => faults::write_late(plan, state, t),
            Action::Delete(doc) => faults::delete(state, doc),
            Action::Stranger(doc) => faults::stranger(plan, state, doc),
            Action::Forge(doc, t) => faults::forge(plan, state, doc, t),
            Action::DateOver(doc) => state.server.over |= 1 << doc,
            Action::MonitorFinds(doc) => state.server.found |= 1 << doc,
            Action::MonitorRemoves(doc) => expiry::remove(&mut state.server, doc),
            Action::RecordLate(c) => faults::record_late(plan, state, c),
            Action::Deliver(index) => faults::deliver(plan, state, index),
            Action::ForeseeRestart => state.server.foresee_restart(),
            Action::Restart => faults::restart(plan, state),
            Action::LoseAnswer(c) => faults::lose_answer(plan, state, c),
            Action::GiveUp(c) => client::give_up(plan, state, c),
            Action::Quiet(c) => faults::quiet(plan, state, c),
            Action::Release(c) => state.clients[c].recorder.release(),
            Action::Die(c) => faults::die(plan, state, c),
        }
    }
}

impl Model for ProtocolModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        self.rivalry(state, actions);
        self.faults(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("P1 P3 committed is visible", p::committed_is_visible),
            Property::always("P1 P2 uncommitted is invisible", p::uncommitted_is_invisible),
            Property::always("P1 applied once", p::applied_once),
            Property::always("P1 presence agrees", p::presence_agrees),
            Property::always("P2 reads are clean", p::reads_are_clean),
            Property::always("P3 reads are latest", p::reads_are_latest),
            Property::always("P9 answers are true", p::answers_are_true),
            Property::always("P7 P10 quiescent is clean", p::quiescent_is_clean),
            Property::always("P7 undone is free", p::undone_is_free),
            Property::sometimes("all commit", p::all_commit),
            Property::sometimes("somebody repairs", p::somebody_repairs),
            Property::sometimes("somebody outlives", p::somebody_outlives),
        ]
    }
}
