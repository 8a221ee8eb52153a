//! The acknowledgement service (section 4.5: Batch Ack Phase): the second phase as a whole, many
//! transactions at once.
//!
//! 1. Decisions that come together are sent together, and at once: participants hold locks until
//!    they know. The acknowledgements of what was decided elsewhere are gathered for a moment, or
//!    until there is a decision for the same server: no transaction waits for them.
//! 2. Commits are sent again until each participant has acknowledged them: so many at once, and the
//!    next ones when these are acknowledged. Aborts are sent once: a participant that misses one
//!    inquires.
//! 3. Once all participants of a commit have acknowledged it, this server's own among them, it is
//!    complete: the transaction service gets an event, and the low-water mark may pass it.
//!
//! An acknowledgement may overtake the decision, because a participant that has inquired has its
//! answer from the transaction service. It is dropped then, and comes again, because the decision
//! is sent all the same.
//!
//! A crash forgets all of this: what is committed and perhaps not acknowledged is in the log (see
//! `restore`).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    flaw::Flaw,
    id::{Epoch, ServerId, TranxId},
    machine::{AckEvent, Event, TranxEvent, Turn},
    message::{MAX_BATCH, Message, Outcome},
};

/// The acknowledgement service of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AckService {
    /// Decisions to be sent to each server, and when.
    parcels: BTreeMap<ServerId, Parcel>,
    send_at_ms: Option<u64>,
    /// This server's commits, each with the participants that have not acknowledged it.
    waiting: BTreeMap<u64, Waiting>,
    /// The same by participant, with the time of the next repetition.
    unacknowledged: BTreeMap<ServerId, Unacknowledged>,
    /// Commits that became complete since the last event to the transaction service.
    complete: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    epoch: Epoch,
    servers: Vec<ServerId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Parcel {
    decisions: Vec<(TranxId, Outcome)>,
    acknowledgements: Vec<TranxId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unacknowledged {
    numbers: BTreeSet<u64>,
    send_at_ms: u64,
    /// The last number that was sent again, and the last one that is to be without a pause.
    again: Option<(u64, u64)>,
}

impl Unacknowledged {
    /// The last number that is to be sent again if all that was is acknowledged, and more was late.
    fn goes_on(&self) -> Option<u64> {
        let (sent, until) = self.again?;
        self.numbers.first().filter(|first| (sent + 1..=until).contains(first)).map(|_| until)
    }

    /// Takes the first numbers up to this one, which are sent again now.
    fn take(&mut self, until: u64, next_ms: u64) -> Vec<u64> {
        let due: Vec<u64> = self.numbers.range(..=until).take(MAX_BATCH).copied().collect();
        self.again = due.last().map(|sent| (*sent, until));
        self.send_at_ms = next_ms;
        due
    }
}

impl AckService {
    pub(crate) fn on(&mut self, turn: &mut Turn<'_>, event: AckEvent) {
        let me = turn.config.me;
        match event {
            AckEvent::Decided { tranx, outcome, participants } => self.decided(turn, tranx, outcome, participants),
            AckEvent::Done { tranx } if tranx.server == me => self.acknowledged(turn, me, tranx.number),
            AckEvent::Done { tranx } => {
                let parcel = self.parcels.entry(tranx.server).or_default();
                parcel.acknowledgements.push(tranx);
                let is_full = parcel.acknowledgements.len() >= MAX_BATCH;
                self.send_within(turn, turn.config.acknowledgement_delay_ms, is_full);
            }
            AckEvent::Acknowledged { from, tranxs } => {
                for tranx in tranxs.iter().filter(|tranx| tranx.server == me) {
                    self.acknowledged(turn, from, tranx.number);
                }
            }
            #[cfg(test)]
            AckEvent::Inquired { from, tranx } => {
                let waiting = self.waiting.get(&tranx.number);
                let outcome = waiting.map_or(Outcome::Abort, |waiting| Outcome::Commit(waiting.epoch));
                turn.send(from, Message::InquiryAnswer { tranx, outcome: Some(outcome) });
            }
        }
    }

    /// After some events: sends what is due, and reports complete commits to the transaction
    /// service.
    pub(crate) fn settle(&mut self, turn: &mut Turn<'_>) {
        self.send_again(turn, Unacknowledged::goes_on);
        if self.send_at_ms.is_some_and(|at_ms| at_ms <= turn.now_ms) {
            self.send(turn);
        }
        if !self.complete.is_empty() {
            turn.tell(Event::Tranx(TranxEvent::Complete { numbers: std::mem::take(&mut self.complete) }));
        }
    }

    /// Repeats the decisions that were not acknowledged in time.
    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        let now_ms = turn.now_ms;
        self.send_again(turn, |server| server.numbers.last().copied().filter(|_| server.send_at_ms <= now_ms));
        self.settle(turn);
    }

    /// Sends decisions again to the servers for which there is a last one to be sent.
    fn send_again(&mut self, turn: &mut Turn<'_>, until: impl Fn(&Unacknowledged) -> Option<u64>) {
        let (me, next_ms) = (turn.config.me, turn.now_ms.saturating_add(turn.config.decision_resend_ms));
        for (to, server) in &mut self.unacknowledged {
            let commit = |number: u64| {
                let epoch = self.waiting.get(&number)?.epoch;
                Some((TranxId { server: me, number }, Outcome::Commit(epoch)))
            };
            if let Some(until) = until(server) {
                let due = server.take(until, next_ms);
                turn.send(*to, Message::Decisions(due.into_iter().filter_map(commit).collect()));
            }
        }
    }

    /// Time at which the next message is due.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let again = self.unacknowledged.values().map(|server| server.send_at_ms).min();
        [again, self.send_at_ms].into_iter().flatten().min()
    }

    /// Takes over a commit from the log that these have not acknowledged, as far as is known. The
    /// decision is sent to them at once.
    pub(crate) fn restore(&mut self, number: u64, participants: Vec<ServerId>, epoch: Epoch) {
        for server in &participants {
            self.wait_for(*server, number, 0);
        }
        self.waiting.insert(number, Waiting { epoch, servers: participants });
    }

    fn decided(&mut self, turn: &mut Turn<'_>, tranx: TranxId, outcome: Outcome, participants: Vec<ServerId>) {
        let again_at_ms = turn.now_ms.saturating_add(turn.config.decision_resend_ms);
        for server in participants.iter().filter(|server| **server != turn.config.me) {
            if outcome.is_commit() && !turn.config.has(Flaw::DecisionsSentOnce) {
                self.wait_for(*server, tranx.number, again_at_ms);
            }
            let parcel = self.parcels.entry(*server).or_default();
            parcel.decisions.push((tranx, outcome));
            let is_full = parcel.decisions.len() >= MAX_BATCH;
            self.send_within(turn, 0, is_full);
        }
        if let Outcome::Commit(epoch) = outcome {
            if turn.config.has(Flaw::CompleteBeforeAcknowledged) {
                self.complete.push(tranx.number);
            }
            self.waiting.insert(tranx.number, Waiting { epoch, servers: participants });
        }
    }

    fn wait_for(&mut self, server: ServerId, number: u64, send_at_ms: u64) {
        let none = || Unacknowledged { numbers: BTreeSet::new(), send_at_ms, again: None };
        self.unacknowledged.entry(server).or_insert_with(none).numbers.insert(number);
    }

    fn acknowledged(&mut self, turn: &Turn<'_>, from: ServerId, number: u64) {
        if let Some(server) = self.unacknowledged.get_mut(&from) {
            server.numbers.remove(&number);
            if server.numbers.is_empty() {
                self.unacknowledged.remove(&from);
            }
        }
        let Some(waiting) = self.waiting.get_mut(&number) else { return };
        waiting.servers.retain(|server| *server != from);
        if waiting.servers.is_empty() || turn.config.has(Flaw::CompleteAtFirstAcknowledgement) {
            self.waiting.remove(&number);
            self.complete.push(number);
        }
    }

    fn send_within(&mut self, turn: &mut Turn<'_>, delay_ms: u64, is_full: bool) {
        let at_ms = turn.now_ms.saturating_add(delay_ms);
        self.send_at_ms = Some(self.send_at_ms.map_or(at_ms, |earlier| earlier.min(at_ms)));
        if is_full {
            self.send(turn);
        }
    }

    fn send(&mut self, turn: &mut Turn<'_>) {
        self.send_at_ms = None;
        for (to, parcel) in std::mem::take(&mut self.parcels) {
            if !parcel.decisions.is_empty() {
                turn.send(to, Message::Decisions(parcel.decisions));
            }
            if !parcel.acknowledgements.is_empty() {
                turn.send(to, Message::Acknowledge(parcel.acknowledgements));
            }
        }
    }
}
