//! The state machine of one session: which transaction is its newest, what became of it, and what a
//! command with a transaction number means there. Pure: no I/O, no clock.
//!
//! | newest number | plain write | first statement | later statement | commit | abort |
//! | --- | --- | --- | --- | --- | --- |
//! | is older | write | open | 251 | 251 | 251 |
//! | written by it | the same write again | 117 | 251 | 251 | 251 |
//! | open | 217 | 117 | run | commit | roll back |
//! | in doubt | 217 | 117 | 256 | find out the outcome | roll back, or 256 |
//! | committed | 217 | 117 | 256 | the same answer | 256 |
//! | aborted | 217 | 117 | 251 | 251 | 251 |
//!
//! A number below the newest is always 225; a new one ends what is open under an older number.

use super::refusal::Refusal;

/// State of the newest transaction number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// No number was used yet.
    #[default]
    None,
    /// The number was given to a retryable write.
    Written,
    /// The transaction with it is open.
    Open,
    /// A commit was sent, and its outcome is unknown.
    InDoubt,
    /// The transaction with it is committed.
    Committed,
    /// Rolled back: by the client, after an error, or because its time was over.
    Aborted,
}

/// A command that carries a transaction number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first statement, with `startTransaction: true`.
    Begin,
    /// A later statement of the transaction.
    Continue,
    /// The command `commitTransaction`, perhaps sent again.
    Commit,
    /// The command `abortTransaction`, perhaps sent again.
    Abort,
    /// A retryable write outside transactions.
    Write,
}

/// The step that the event demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Open a transaction; first roll back the older one, if there is an open one.
    Open,
    /// Run the statement in the open transaction.
    Run,
    /// Commit the transaction that is open in the session.
    Commit,
    /// Find out the outcome of the commit that was sent before.
    Learn,
    /// The transaction was committed before: answer so again.
    AnswerCommitted,
    /// Roll back what is open.
    Abort,
    /// Find out whether the transaction can still be rolled back.
    AbortInDoubt,
    /// Run the write; first roll back the older transaction, if there is an open one.
    Write,
    /// The number belongs to an earlier write: answer its result, and do not repeat it.
    WriteAgain,
}

/// Outcome of a transaction, as far as its session knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The transaction is committed: its writes are there.
    Committed,
    /// The transaction is not committed, and never will be.
    Aborted,
    /// The outcome is not known yet.
    InDoubt,
}

/// One session's newest transaction number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    newest: i64,
    state: State,
}

impl Default for Machine {
    fn default() -> Self {
        Self { newest: -1, state: State::None }
    }
}

impl Machine {
    /// The newest number; -1 when there was none.
    pub(crate) fn newest(&self) -> i64 {
        self.newest
    }

    /// State of the newest number.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Handles a command. A refused command changes nothing.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) fn handle(&mut self, number: i64, event: Event) -> Result<Step, Refusal> {
        match number.cmp(&self.newest) {
            std::cmp::Ordering::Less => Err(Refusal::TooOld { number, newest: self.newest }),
            std::cmp::Ordering::Equal => self.on_newest(event),
            std::cmp::Ordering::Greater => self.on_newer(number, event),
        }
    }

    fn on_newer(&mut self, number: i64, event: Event) -> Result<Step, Refusal> {
        let (state, step) = match event {
            Event::Begin => (State::Open, Step::Open),
            Event::Write => (State::Written, Step::Write),
            Event::Continue | Event::Commit | Event::Abort => {
                return Err(Refusal::NotInProgress { number, newest: self.newest });
            }
        };
        (self.newest, self.state) = (number, state);
        Ok(step)
    }

    fn on_newest(&self, event: Event) -> Result<Step, Refusal> {
        let number = self.newest;
        match (self.state, event) {
            (_, Event::Begin) => Err(Refusal::AlreadyBegun),
            (State::Written, Event::Write) => Ok(Step::WriteAgain),
            (State::None | State::Written, _) => Err(Refusal::NotInProgress { number, newest: number }),
            (_, Event::Write) => Err(Refusal::IsTransaction),
            (State::Open, Event::Continue) => Ok(Step::Run),
            (State::Open, Event::Commit) => Ok(Step::Commit),
            (State::Open, Event::Abort) => Ok(Step::Abort),
            (State::InDoubt, Event::Commit) => Ok(Step::Learn),
            (State::InDoubt, Event::Abort) => Ok(Step::AbortInDoubt),
            (State::Committed, Event::Commit) => Ok(Step::AnswerCommitted),
            (State::Committed | State::InDoubt, _) => Err(Refusal::Committed { number }),
            (State::Aborted, _) => Err(Refusal::Aborted { number }),
        }
    }

    /// Notes the end of the newest transaction.
    pub(crate) fn ended(&mut self, end: End) {
        self.state = match end {
            End::Committed => State::Committed,
            End::Aborted => State::Aborted,
            End::InDoubt => State::InDoubt,
        };
    }

    /// Notes the outcome of a transaction that another gateway began under this number.
    pub(crate) fn learnt(&mut self, number: i64, end: End) {
        if number >= self.newest {
            self.newest = number;
            self.ended(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 5] = [Event::Begin, Event::Continue, Event::Commit, Event::Abort, Event::Write];

    fn in_state(state: State) -> Machine {
        Machine { newest: 3, state }
    }

    /// Answers of a replica set of mongod 6.0, in the order of `EVENTS`: a code, or the step.
    fn answers(state: State) -> [Result<Step, i32>; 5] {
        use Step::{Abort, AbortInDoubt, AnswerCommitted, Commit, Learn, Run, WriteAgain};
        match state {
            State::None => unreachable!("a number was used"),
            State::Written => [Err(117), Err(251), Err(251), Err(251), Ok(WriteAgain)],
            State::Open => [Err(117), Ok(Run), Ok(Commit), Ok(Abort), Err(217)],
            State::InDoubt => [Err(117), Err(256), Ok(Learn), Ok(AbortInDoubt), Err(217)],
            State::Committed => [Err(117), Err(256), Ok(AnswerCommitted), Err(256), Err(217)],
            State::Aborted => [Err(117), Err(251), Err(251), Err(251), Err(217)],
        }
    }

    fn coded(answer: Result<Step, Refusal>) -> Result<Step, i32> {
        answer.map_err(|refusal| crate::failure::Failure::from(refusal).code)
    }

    #[test]
    fn the_same_number_is_answered_as_the_server_does() {
        for state in [State::Written, State::Open, State::InDoubt, State::Committed, State::Aborted] {
            for (event, wanted) in EVENTS.into_iter().zip(answers(state)) {
                let mut machine = in_state(state);
                assert_eq!(coded(machine.handle(3, event)), wanted, "{state:?} {event:?}");
                assert_eq!(machine, in_state(state), "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn an_older_number_is_too_old_whatever_it_wants() {
        for event in EVENTS {
            let mut machine = in_state(State::Open);
            assert_eq!(coded(machine.handle(2, event)), Err(225), "{event:?}");
            assert_eq!(machine, in_state(State::Open));
        }
    }

    #[test]
    fn a_newer_number_begins_a_transaction_or_a_write_and_nothing_else() {
        for state in [State::Written, State::Open, State::InDoubt, State::Committed, State::Aborted] {
            for (event, wanted) in
                EVENTS.into_iter().zip([Ok(Step::Open), Err(251), Err(251), Err(251), Ok(Step::Write)])
            {
                let mut machine = in_state(state);
                assert_eq!(coded(machine.handle(4, event)), wanted, "{state:?} {event:?}");
                assert_eq!(machine.newest, if wanted.is_ok() { 4 } else { 3 }, "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn an_end_is_remembered() {
        for (end, state) in
            [(End::Committed, State::Committed), (End::Aborted, State::Aborted), (End::InDoubt, State::InDoubt)]
        {
            let mut machine = in_state(State::Open);
            machine.ended(end);
            assert_eq!(machine.state(), state);
        }
    }

    #[test]
    fn what_is_learnt_of_an_older_number_changes_nothing() {
        let mut machine = in_state(State::Open);
        machine.learnt(2, End::Committed);
        assert_eq!(machine, in_state(State::Open));
        machine.learnt(7, End::Committed);
        assert_eq!(machine.handle(7, Event::Commit), Ok(Step::AnswerCommitted));
    }
}
