//! The steps that are possible in a state of a replica set. What they do is in `members`, `owner`
//! and `sweeper`.

use super::{
    breakage::Breakage,
    members::{MEMBERS, Sent},
    owner,
    plan::Plan,
    state::{DOCS, State},
    sweeper,
};

/// The client that has sent a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// The owner of the transaction.
    Transaction,
    /// The owner, for its record.
    Record,
    /// The rival, which sweeps and repairs.
    Sweeper,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The next command is sent to this primary, which executes it.
    Send(Who, usize),
    /// The command is acknowledged, because the majority has it.
    Acknowledge(Who),
    /// The command is not acknowledged; it is unknown whether it stays.
    Lose(Who),
    /// A sweep begins with what this primary shows.
    Sweep(usize),
    /// A rival meets a locked document on this primary.
    Meet(usize, usize),
    /// A member becomes primary, with the vote of another.
    Elect(usize, usize),
    /// A member takes over the log of a primary.
    Follow(usize),
    /// The owner of the transaction dies.
    Die,
}

/// The protocol under one plan.
#[derive(Clone, Debug)]
pub struct ReplicasModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

impl ReplicasModel {
    fn send(&self, state: &State, actions: &mut Vec<Action>) {
        let to = |known| state.primaries(&self.plan, known).into_iter();
        let [documents, record] = state.owner.known;
        if owner::is_writing(state) {
            actions.extend(to(documents).map(|m| Action::Send(Who::Transaction, m)));
        }
        if owner::is_recording(state) {
            actions.extend(to(record).map(|m| Action::Send(Who::Record, m)));
        }
        if sweeper::is_sending(state) {
            actions.extend(to(state.sweeper.known).map(|m| Action::Send(Who::Sweeper, m)));
        }
    }

    fn answer(&self, state: &State, actions: &mut Vec<Action>) {
        let waiting = [
            (Who::Transaction, owner::written(&self.plan, state)),
            (Who::Record, owner::recorded(&self.plan, state)),
            (Who::Sweeper, sweeper::sent(&self.plan, state)),
        ];
        for (who, sent) in waiting {
            let Some((sent, cheap)) = sent else { continue };
            if cheap || self.is_acknowledged(state, sent) {
                actions.push(Action::Acknowledge(who));
            }
            if state.members.is_outdated(sent) {
                actions.push(Action::Lose(who));
            }
        }
    }

    fn is_acknowledged(&self, state: &State, sent: Sent) -> bool {
        state.members.is_acknowledged(sent) || self.plan.has(Breakage::WriteConcernErrorIgnored)
    }

    /// Tasks that rivals begin; `faults`: those that they begin only because of a fault.
    pub(super) fn rivals(&self, state: &State, faults: bool, actions: &mut Vec<Action>) {
        if state.sweeper.task.is_some() {
            return;
        }
        for m in state.primaries(&self.plan, state.sweeper.known) {
            if sweeper::may_begin(state, m) == Some(faults) {
                actions.push(Action::Sweep(m));
            }
            for doc in 0..DOCS {
                match sweeper::is_locked(state, m, doc) {
                    Some(true) if !faults => actions.push(Action::Meet(m, doc)),
                    Some(false) if faults && state.faults.meetings > 0 => actions.push(Action::Meet(m, doc)),
                    _ => {}
                }
            }
        }
    }

    /// Steps that are taken without a fault.
    pub(super) fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        self.send(state, actions);
        self.answer(state, actions);
        self.rivals(state, false, actions);
        let members = (0..MEMBERS).filter(|m| state.members.to_follow(*m).is_some());
        actions.extend(members.map(Action::Follow));
    }

    /// Returns true if any process can take a step without a fault.
    pub fn has_progress(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        !actions.is_empty()
    }
}
