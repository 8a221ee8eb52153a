//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use stateright::{Model, Property};

use crate::{client, expiry, faults, janitor, meeting, properties as p, reader, state::State, transaction};

use crate::action::Action;
use crate::steps::ProtocolModel;

impl ProtocolModel {
    fn apply(&self, state: &mut State, action: Action) {
        let plan = &self.plan;
        match action {
            Action::Run(t) => transaction::advance(plan, state, t),
            Action::Record(c) => client::advance(plan, state, c),
            Action::Read => reader::advance(plan, state),
            Action::Janitor => janitor::advance(plan, state),
            Action::Look(doc) => janitor::look(state, doc),
            Action::Scan(c) => janitor::scan(plan, state, c),
            Action::Abort(actor) => {
                if let Some(holder) = self.active_holder(state, actor) {
                    meeting::abort(state, holder);
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
            Property::sometimes("a document is repaired", p::a_document_is_repaired),
            Property::sometimes("an expired document is written", p::an_expired_document_is_written),
        ]
    }
}
