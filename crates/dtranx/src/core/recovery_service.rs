//! The recovery service: finds out the outcomes of transactions that this server has voted yes on
//! and has received no decision for.
//!
//! It inquires of the coordinator, and from the second time on of the other participants too, with
//! waits that double, until an answer settles the matter. After a restart it begins with everything
//! that is in doubt by the log (global recovery); later it takes over transactions that have been
//! in doubt for too long. A transaction that takes its course never comes here.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::{
    config::MAX_INQUIRY_FACTOR,
    id::{ServerId, TranxId},
    machine::{Event, RecoveryEvent, TranxEvent, Turn},
    message::Message,
};

/// The recovery service of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RecoveryService {
    inquiries: BTreeMap<TranxId, Inquiry>,
    /// Times at which inquiries are due, each with its transaction.
    timers: BTreeSet<(u64, TranxId)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inquiry {
    participants: Vec<ServerId>,
    ask_at_ms: u64,
    /// Time between the last inquiry and the next.
    wait_ms: u64,
    /// True if an inquiry has gone to the coordinator.
    is_repeated: bool,
}

impl RecoveryService {
    pub(crate) fn on(&mut self, turn: &mut Turn<'_>, event: RecoveryEvent) {
        match event {
            RecoveryEvent::InDoubt { tranx, participants } => {
                self.inquiries.insert(tranx, Inquiry::new(participants));
                self.ask(turn, tranx);
            }
            RecoveryEvent::Settled { tranx } => {
                if let Some(inquiry) = self.inquiries.remove(&tranx) {
                    self.timers.remove(&(inquiry.ask_at_ms, tranx));
                }
            }
            RecoveryEvent::InquiryAnswer { tranx, outcome: Some(outcome) } if self.inquiries.contains_key(&tranx) => {
                turn.tell(Event::Tranx(TranxEvent::Resolved { tranx, outcome }));
            }
            RecoveryEvent::InquiryAnswer { .. } => {}
        }
    }

    /// Sends the inquiries that are due.
    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        let due: Vec<_> = self.timers.iter().take_while(|(at_ms, _)| *at_ms <= turn.now_ms).copied().collect();
        for timer in due {
            self.timers.remove(&timer);
            self.ask(turn, timer.1);
        }
    }

    /// Time of the next inquiry, in milliseconds.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    /// Number of transactions that it inquires about.
    pub(crate) fn len(&self) -> usize {
        self.inquiries.len()
    }

    /// Takes over a transaction that is in doubt by the log; the first inquiry goes out at once.
    pub(crate) fn restore(&mut self, tranx: TranxId, participants: Vec<ServerId>) {
        self.inquiries.insert(tranx, Inquiry::new(participants));
        self.timers.insert((0, tranx));
    }

    fn ask(&mut self, turn: &mut Turn<'_>, tranx: TranxId) {
        let Some(inquiry) = self.inquiries.get_mut(&tranx) else { return };
        turn.send(tranx.server, Message::Inquire { tranx });
        if inquiry.is_repeated {
            let me = turn.config.me;
            for peer in inquiry.participants.iter().filter(|peer| **peer != me && **peer != tranx.server) {
                turn.send(*peer, Message::Inquire { tranx });
            }
        }
        let longest_ms = turn.config.inquiry_ms.saturating_mul(MAX_INQUIRY_FACTOR);
        inquiry.wait_ms = inquiry.wait_ms.saturating_mul(2).clamp(turn.config.inquiry_ms, longest_ms);
        inquiry.ask_at_ms = turn.now_ms.saturating_add(inquiry.wait_ms);
        inquiry.is_repeated = true;
        self.timers.insert((inquiry.ask_at_ms, tranx));
    }
}

impl Inquiry {
    fn new(participants: Vec<ServerId>) -> Self {
        Self { participants, ask_at_ms: 0, wait_ms: 0, is_repeated: false }
    }
}
