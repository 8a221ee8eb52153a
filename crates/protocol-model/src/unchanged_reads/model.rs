//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use stateright::{Model, Property};

use super::{
    catalog, look, other, own,
    plan::Plan,
    properties as p, server,
    state::State,
    steps::{Action, UnaskedModel},
    transaction, validating,
};
use crate::explore::{Report, explore_and_print, explore_model};

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("unasked {} {:?}", plan.name, plan.breakage);
    explore_and_print(&title, || explore_model(UnaskedModel { plan }))
}

impl UnaskedModel {
    fn apply(&self, state: &mut State, action: Action) {
        let plan = &self.plan;
        match action {
            Action::Begin => transaction::begin(plan, state),
            Action::Read { misses } => transaction::read(plan, state, misses),
            Action::Lock => transaction::lock(state),
            Action::Validate => validating::begin(plan, state),
            Action::Ask(doc) => validating::ask(state, doc),
            Action::Look => look::send(state),
            Action::LaterLook => validating::later_look(plan, state),
            Action::LookUp(doc) => catalog::look_up(state, doc),
            Action::Learn => catalog::learn(plan, state),
            Action::LookAtRecords => look::at_records(state),
            Action::LookForNotices => look::for_notices(state),
            Action::AnswerLook => {
                if let Some(later) = look::answer(state) {
                    validating::judge(plan, state, later);
                }
            }
            Action::Send(change) => own::send(plan, state, change),
            Action::CarryOut(change) => own::carry_out(plan, state, change),
            Action::Answer(change) => own::answer(plan, state, change),
            Action::HandOver(index) => own::hand_over(plan, state, index),
            Action::Lose(change) => own::lose(plan, state, change),
            Action::TheyDecide => other::decide(plan, state),
            Action::TheyKnow => other::know(state),
            Action::SendNotice(doc) => other::send_notice(state, doc),
            Action::InsertNotice(doc) => other::insert_notice(state, doc),
            Action::AnswerNotice(doc) => other::answer_notice(plan, state, doc),
            Action::EndNotice(doc) => other::end_notice(plan, state, doc),
            Action::CarryOutEnd(doc) => other::carry_out_end(state, doc),
            Action::RemoveNotice(doc) => other::remove_notice(state, doc),
            Action::TheyWrite => other::send_write(state),
            Action::TheirWrite(index) => other::write(plan, state, index),
            Action::Expire(doc) => server::expire(state, doc),
            Action::Restart => server::restart(state),
            Action::Tick => state.now += 1,
        }
        state.judge();
    }
}

impl Model for UnaskedModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.is_over() {
            return;
        }
        transaction::steps(&self.plan, state, actions);
        validating::steps(state, actions);
        look::steps(state, actions);
        catalog::steps(&self.plan, state, actions);
        own::steps(&self.plan, state, actions);
        other::steps(&self.plan, state, actions);
        server::steps(&self.plan, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("S1 reads are of one moment since the lock", p::is_of_one_moment),
            Property::always("S2 reads are of one moment since the validation began", p::is_not_stale),
            Property::sometimes("commits unasked", p::commits_unasked),
            Property::sometimes("commits half asked", p::commits_half_asked),
            Property::sometimes("commits asked", p::commits_asked),
            Property::sometimes("commits later", p::commits_later),
            Property::sometimes("conflicts", p::conflicts),
            Property::sometimes("commits beside a notice", p::commits_beside_a_notice),
            Property::sometimes("commits after a notice", p::commits_after_a_notice),
            Property::sometimes("commits after an end", p::commits_after_an_end),
            Property::sometimes("commits beside what may expire", p::commits_beside_what_may_expire),
            Property::sometimes("commits unasked after a change", p::commits_unasked_after_a_change),
        ]
    }
}
