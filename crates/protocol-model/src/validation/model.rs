//! The model as `stateright` explores it: the possible steps, what they do, and what must hold.

use stateright::{Model, Property};

use super::{
    deciding,
    plan::Plan,
    properties as p, quiet,
    state::State,
    statement,
    steps::{Action, ValidationModel},
};
use crate::explore::{Report, explore_and_print, explore_model};

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("validation {} {:?}", plan.name, plan.breakage);
    explore_and_print(&title, || explore_quietly(plan))
}

/// Explores every state that `plan` can reach, and prints nothing.
pub fn explore_quietly(plan: Plan) -> Report {
    explore_model(ValidationModel { plan })
}

impl Model for ValidationModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        self.directs(state, actions);
        if self.plan.restarts == 0 {
            let several = |client: &usize| deciding::together(&self.plan, state, *client).len() > 1;
            actions.extend(self.plan.writers().into_iter().filter(several).map(Action::Group));
        }
        if self.plan.restarts > 0 {
            // A remembered look matters only if it has seen stamps that a restart takes back.
            // Otherwise a look at the start serves as well.
            let looks = state.memories.iter().enumerate().filter(|(_, memory)| !memory.looked);
            actions.extend(looks.map(|(client, _)| Action::Look(client)));
        }
        if state.restarts > 0 {
            actions.push(if state.journal_end.is_some() { Action::Restart } else { Action::ForeseeRestart });
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Run(t) => statement::advance(&self.plan, &mut next, t),
            Action::Group(client) => deciding::decide_together(&self.plan, &mut next, client),
            Action::Clean(doc) => next.clean(&self.plan, doc),
            Action::EndQuiet(client) => quiet::end(&mut next, client),
            Action::Direct(at) => {
                let (doc, values) = self.plan.directs[at];
                next.write_directly(at, doc, values);
            }
            Action::Look(client) => next.look_besides(&self.plan, client),
            Action::ForeseeRestart => next.journal_end = Some(next.now.clone()),
            Action::Restart => next.restart(),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("V1 answers are of one moment", p::answers_are_of_one_moment),
            Property::always("V2 no update is lost", p::no_update_is_lost),
            Property::always("V3 a serial order exists", p::a_serial_order_exists),
            Property::always("V4 no transaction waits for ever", p::every_wait_ends),
            Property::always("V5 finishing changes nothing", p::finishing_changes_nothing),
            Property::sometimes("all commit", p::all_commit),
            Property::sometimes("a transaction is disturbed", p::a_transaction_is_disturbed),
            Property::sometimes("a disturbed one commits", p::a_disturbed_one_commits),
            Property::sometimes("one validated ahead commits", p::one_validated_ahead_commits),
            Property::sometimes("a transaction waits", p::a_transaction_waits),
            Property::sometimes("a transaction gives way", p::a_transaction_gives_way),
            Property::sometimes("a rival is passed by", p::a_rival_is_passed_by),
            Property::sometimes("a refused one commits", p::a_refused_one_commits),
        ]
    }
}
