//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use stateright::{Model, Property};

use super::{
    lease, newcomer, own,
    plan::Plan,
    properties as p, query, server,
    state::State,
    steps::{Action, Command, ReadLeaseModel},
};
use crate::explore::{Report, explore_and_print, explore_model};

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("read lease {} {:?}", plan.name, plan.breakage);
    explore_and_print(&title, || explore_model(ReadLeaseModel { plan }))
}

impl ReadLeaseModel {
    fn send(&self, state: &mut State, command: Command) {
        match command {
            Command::Flag => lease::send_flag(state),
            Command::List => lease::send_list(state),
            Command::Unset => lease::send_unset(state),
            Command::Settle(collection) => query::send_settle(state, collection),
            Command::Query(collection) => query::send_query(state, collection),
            Command::Decision => own::send_decision(state),
            // The finisher sends it as soon as it can.
            Command::Finish => {}
            Command::Insert => newcomer::send_insert(&self.plan, state),
            Command::Look => newcomer::send_look(state),
            // The end of the wait sends it.
            Command::Unflag => {}
            Command::TheirDecision => newcomer::send_decision(state),
        }
    }

    fn carry_out(&self, state: &mut State, command: Command) {
        if !matches!(command, Command::Insert | Command::Look | Command::Unflag | Command::TheirDecision) {
            state.greet_holder();
        }
        match command {
            Command::Flag => lease::carry_out_flag(state),
            Command::List => lease::carry_out_list(&self.plan, state),
            Command::Unset => lease::carry_out_unset(state),
            Command::Settle(_) => query::carry_out_settle(&self.plan, state),
            Command::Query(_) => query::carry_out_query(state),
            Command::Decision => own::carry_out_decision(state),
            Command::Finish => own::carry_out_finish(state),
            Command::Insert => newcomer::carry_out_insert(state),
            Command::Look => newcomer::carry_out_look(&self.plan, state),
            Command::Unflag => newcomer::carry_out_unflag(&self.plan, state),
            Command::TheirDecision => newcomer::carry_out_decision(state),
        }
    }

    fn answer(&self, state: &mut State, command: Command) {
        match command {
            Command::Flag => lease::answer_flag(state),
            Command::List => lease::answer_list(&self.plan, state),
            Command::Unset => lease::answer_unset(&self.plan, state),
            Command::Settle(_) => query::answer_settle(&self.plan, state),
            Command::Query(_) => query::answer_query(&self.plan, state),
            Command::Decision => own::answer_decision(state),
            Command::Finish => own::answer_finish(state),
            Command::Insert => newcomer::answer_insert(state),
            Command::Look => newcomer::answer_look(state),
            Command::Unflag => newcomer::answer_unflag(state),
            Command::TheirDecision => newcomer::acknowledge(state),
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Send(command) => self.send(state, command),
            Action::CarryOut(command) => self.carry_out(state, command),
            Action::Answer(command) => self.answer(state, command),
            Action::Drop => lease::end(&self.plan, state, false),
            Action::ForgetUnset => lease::forget_unset(state),
            Action::LateUnset => lease::late_unset(state),
            Action::Register => own::register(state),
            Action::LoseAnswer => own::lose_answer(&self.plan, state),
            Action::HandOver => own::hand_over(state),
            Action::StopWaiting => newcomer::stop_waiting(state),
            Action::LateUnflag => newcomer::late_unflag(&self.plan, state),
            Action::FinishTheirs => newcomer::finish(state),
            Action::CloseTheirs => newcomer::close(state),
            Action::Fence => server::fence(state),
            Action::CloseOwn => server::close_own(state),
            Action::Restart(back) => server::restart(state, back),
            Action::ReadById(transaction) => server::read_by_id(state, transaction),
            Action::Tick => server::tick(&self.plan, state),
            Action::MissTick => server::miss_tick(state),
        }
    }
}

impl Model for ReadLeaseModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        lease::steps(&self.plan, state, actions);
        query::steps(&self.plan, state, actions);
        own::steps(&self.plan, state, actions);
        newcomer::steps(&self.plan, state, actions);
        server::steps(&self.plan, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("L1 what was acknowledged is shown", p::acknowledged_is_shown),
            Property::always("L2 what was seen in part is shown as a whole", p::seen_is_shown),
            Property::always("L3 what a newcomer had decided is shown", p::decided_is_shown),
            Property::sometimes("counts", p::counts),
            Property::sometimes("comes too late", p::comes_too_late),
            Property::sometimes("comes from another process", p::comes_from_another_process),
            Property::sometimes("shows own", p::shows_own),
            Property::sometimes("shows own where it is clean", p::shows_own_where_clean),
            Property::sometimes("shows theirs", p::shows_theirs),
            Property::sometimes("newcomer decides", p::newcomer_decides),
            Property::sometimes("newcomer waits", p::newcomer_waits),
            Property::sometimes("newcomer is let in", p::newcomer_is_let_in),
            Property::sometimes("drops", p::drops),
            Property::sometimes("holds when closed", p::holds_when_closed),
        ]
    }
}
