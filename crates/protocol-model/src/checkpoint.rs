//! A checkpoint beside clients that register, decide and finish: a small model of decision 0049.
//!
//! Each client has two documents of its own, and each of its transactions changes both. The holder
//! copies all first documents, and then all second ones. A copy that it calls good must show one
//! moment.
//!
//! A client looks for a hold, inserts its record, looks for a hold again, and then decides as long
//! as its record is not fenced. A client that finds its record fenced registers anew. The holder
//! writes the hold, and then reads which records are open, and fences and sweeps them, until none
//! is open. It notes the decisions, copies, compares the decisions again, and ends the hold.
//!
//! The faults are: the holder dies; the hold lapses; the clock is set back, so that a lapsed hold
//! stands again.
//!
//! The model leaves out the steps of a lock, a decision and a sweep, which the other models explore
//! (the fence of a living client is there the fence of a client whose lease has ended too early),
//! and locks that arrive late, which the holder counts at the end.

use stateright::{Model, Property};

use crate::explore::{Report, explore_and_print, explore_model};

/// Rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// The client looks for a hold only before it inserts its record.
    LookBeforeInsert,
    /// The holder reads which records are open before it writes the hold, and not again.
    RecordsBeforeHold,
    /// Living clients are not fenced.
    LivingAreLeft,
    /// There is no sweep: only living clients finish their decided transactions.
    NoSweep,
    /// The holder trusts its hold, and does not compare the decisions before and after its copy.
    NoComparison,
    /// Decisions are noted although a record is open that has decided something.
    OpenAreNoted,
    /// The hold does not end by itself when its holder is dead.
    HoldForEver,
}

/// Plan of one exploration: clients, limits, and the rule that is broken.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Clients; true for each that is registered at the beginning.
    pub clients: Vec<bool>,
    /// Limit of transactions that each client may decide.
    pub decisions: u8,
    /// Budget of clock changes to an earlier time.
    pub jumps: u8,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

/// State of one client of the exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    /// The client has no record that it may use.
    Out,
    /// The client has seen no hold, and is about to insert its record.
    Free,
    /// The client has inserted its record.
    Inserted,
    /// The client uses its record.
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Record {
    None,
    Open,
    Fenced,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hold {
    None,
    Stands,
    Lapsed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Begins,
    /// The hold is stored.
    Holds,
    /// The open records are read, and these are to be fenced.
    Fences(Vec<usize>),
    /// The holder is about to sweep.
    Sweeps,
    /// No record is open any more: documents may be copied.
    Settled,
    /// Decisions are noted, by records that were all closed.
    Noted(Vec<u8>),
    /// The first documents are copied.
    Half(Vec<u8>, Vec<u8>),
    /// All three documents are copied; these are the copies.
    Copied(Vec<u8>, Vec<u8>, Vec<u8>),
    /// The copies are compared: good so far.
    Compared(Vec<u8>, Vec<u8>),
    /// Done: the holder calls this copy good.
    Good(Vec<u8>, Vec<u8>),
    /// Done: the holder has reported that the copy is useless.
    Broken,
    Dead,
}

/// State of the model of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    clients: Vec<Client>,
    records: Vec<Record>,
    /// For each client: whether it has a fenced record that was not swept.
    left: Vec<bool>,
    /// Number of transactions that each client has decided.
    decided: Vec<u8>,
    /// Number of transactions whose change each document shows, for the first documents and for the
    /// second ones.
    shown: [Vec<u8>; 2],
    hold: Hold,
    holder: Holder,
    jumps: u8,
    /// True if the hold has lapsed once.
    has_lapsed: bool,
    /// Number of transactions that each client had decided when the first documents were copied.
    true_half: Option<Vec<u8>>,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client goes on registering.
    Register(usize),
    /// A client decides a transaction, or finds that it cannot.
    Decide(usize),
    /// A client finishes one of its documents.
    Finish(usize, usize),
    /// The holder goes on with its next step.
    Hold,
    /// The holder dies, and its hold lapses.
    Die,
    /// The hold has not been renewed.
    Lapse,
    /// The clock is set back, and the hold stands again.
    Jump,
}

/// The checkpoint under one plan.
#[derive(Clone, Debug)]
pub struct CheckpointModel {
    plan: Plan,
}

/// Explores every state that `plan` can reach.
pub fn explore(plan: Plan) -> Report {
    let title = format!("checkpoint {:?}", plan);
    explore_and_print(&title, || explore_model(CheckpointModel { plan }))
}

impl CheckpointModel {
    fn is(&self, breakage: Breakage) -> bool {
        self.plan.breakage == Some(breakage)
    }

    fn register(&self, state: &mut State, client: usize) {
        let is_held = state.hold == Hold::Stands;
        state.clients[client] = match state.clients[client] {
            Client::Out if is_held => Client::Out,
            Client::Out => Client::Free,
            Client::Free => {
                state.left[client] |= state.records[client] == Record::Fenced;
                state.records[client] = Record::Open;
                Client::Inserted
            }
            Client::Inserted if is_held && !self.is(Breakage::LookBeforeInsert) => {
                state.records[client] = Record::Closed;
                Client::Out
            }
            Client::Inserted | Client::In => Client::In,
        };
    }

    fn decide(state: &mut State, client: usize) {
        if state.records[client] == Record::Open {
            state.decided[client] += 1;
        } else {
            state.clients[client] = Client::Out;
        }
    }

    fn open_records(&self, state: &State) -> Vec<usize> {
        (0..state.records.len()).filter(|client| state.records[*client] == Record::Open).collect()
    }

    fn has_decided_and_is_open(&self, state: &State) -> bool {
        self.open_records(state).iter().any(|client| state.decided[*client] > 0)
    }

    fn hold(&self, state: &mut State) {
        state.holder = match state.holder.clone() {
            Holder::Begins if self.is(Breakage::RecordsBeforeHold) => Holder::Fences(self.open_records(state)),
            Holder::Begins => {
                state.hold = Hold::Stands;
                Holder::Holds
            }
            Holder::Holds if self.is(Breakage::LivingAreLeft) => Holder::Settled,
            Holder::Holds => Holder::Fences(self.open_records(state)),
            Holder::Fences(mut open) => match open.pop() {
                Some(client) => {
                    if state.records[client] == Record::Open {
                        state.records[client] = Record::Fenced;
                    }
                    Holder::Fences(open)
                }
                None => Holder::Sweeps,
            },
            Holder::Sweeps => self.sweep(state),
            Holder::Settled if self.has_decided_and_is_open(state) && !self.is(Breakage::OpenAreNoted) => {
                Holder::Fences(self.open_records(state))
            }
            Holder::Settled => Holder::Noted(state.decided.clone()),
            Holder::Noted(noted) => {
                state.true_half = Some(state.decided.clone());
                Holder::Half(noted, state.shown[0].clone())
            }
            Holder::Half(noted, first) => Holder::Copied(noted, first, state.shown[1].clone()),
            Holder::Copied(noted, ..) if noted != state.decided && !self.is(Breakage::NoComparison) => Holder::Broken,
            Holder::Copied(_, first, second) => Holder::Compared(first, second),
            Holder::Compared(first, second) => match std::mem::replace(&mut state.hold, Hold::None) {
                Hold::Stands => Holder::Good(first, second),
                _ => Holder::Broken,
            },
            done => done,
        };
    }

    fn sweep(&self, state: &mut State) -> Holder {
        for client in 0..state.records.len() {
            let is_left = state.left[client] && state.records[client] != Record::Open;
            if is_left || state.records[client] == Record::Fenced {
                if !self.is(Breakage::NoSweep) {
                    state.shown.iter_mut().for_each(|shown| shown[client] = state.decided[client]);
                }
                state.records[client] = Record::Closed;
                state.left[client] = false;
            }
        }
        match self.open_records(state) {
            _ if self.is(Breakage::RecordsBeforeHold) => {
                state.hold = Hold::Stands;
                Holder::Settled
            }
            open if open.is_empty() => Holder::Settled,
            open => Holder::Fences(open),
        }
    }

    fn holder_is_at_work(state: &State) -> bool {
        !matches!(state.holder, Holder::Good(..) | Holder::Broken | Holder::Dead)
    }
}

impl Model for CheckpointModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let registered = &self.plan.clients;
        let all = vec![0; registered.len()];
        vec![State {
            clients: registered.iter().map(|is_in| if *is_in { Client::In } else { Client::Out }).collect(),
            records: registered.iter().map(|is_in| if *is_in { Record::Open } else { Record::None }).collect(),
            left: vec![false; registered.len()],
            decided: all.clone(),
            shown: [all.clone(), all],
            hold: Hold::None,
            holder: Holder::Begins,
            jumps: self.plan.jumps,
            has_lapsed: false,
            true_half: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (client, at) in state.clients.iter().enumerate() {
            match at {
                Client::In if state.decided[client] < self.plan.decisions => actions.push(Action::Decide(client)),
                Client::In => {}
                Client::Out if state.hold == Hold::Stands => {}
                _ => actions.push(Action::Register(client)),
            }
            let behind = (0..2).filter(|document| state.shown[*document][client] < state.decided[client]);
            actions.extend(behind.map(|document| Action::Finish(client, document)));
        }
        if Self::holder_is_at_work(state) {
            actions.extend([Action::Hold, Action::Die]);
        }
        if state.hold == Hold::Stands && !(self.is(Breakage::HoldForEver) && state.holder == Holder::Dead) {
            actions.push(Action::Lapse);
        }
        if state.hold == Hold::Lapsed && state.jumps > 0 {
            actions.push(Action::Jump);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Register(client) => self.register(&mut next, client),
            Action::Decide(client) => Self::decide(&mut next, client),
            Action::Finish(client, document) => next.shown[document][client] = next.decided[client],
            Action::Hold => self.hold(&mut next),
            Action::Die => next.holder = Holder::Dead,
            Action::Lapse => {
                next.hold = Hold::Lapsed;
                next.has_lapsed = true;
            }
            Action::Jump => {
                next.jumps -= 1;
                next.hold = Hold::Stands;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("H1 a good copy is of one moment", |_, state: &State| match &state.holder {
                Holder::Good(first, second) => first == second,
                _ => true,
            }),
            Property::always("H2 a good copy has all that was decided", |_, state: &State| match &state.holder {
                Holder::Good(first, _) => state.true_half.as_ref() == Some(first),
                _ => true,
            }),
            Property::always("H4 a hold that stands is not broken", |_, state: &State| {
                state.holder != Holder::Broken || state.has_lapsed
            }),
            Property::always("H3 no client waits for ever", |model: &Self, state: &State| {
                let waits = |client: usize| {
                    state.clients[client] == Client::Out && state.decided[client] < model.plan.decisions
                };
                let a_transaction_waits = (0..state.clients.len()).any(waits);
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !a_transaction_waits || !actions.is_empty()
            }),
            Property::sometimes("a good copy", |_, state: &State| matches!(state.holder, Holder::Good(..))),
            Property::sometimes("a good copy of something", |_, state: &State| match &state.holder {
                Holder::Good(first, _) => first.iter().any(|shown| *shown > 0),
                _ => false,
            }),
            Property::sometimes("a broken hold", |_, state: &State| state.holder == Holder::Broken),
            Property::sometimes("everything is decided", |model: &Self, state: &State| {
                state.decided.iter().all(|decided| *decided == model.plan.decisions)
            }),
        ]
    }
}
