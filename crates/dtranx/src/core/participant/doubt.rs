//! Participants in doubt: answers the inquiries of others, and hands this server's own transactions
//! in doubt over to the recovery service.

use std::collections::BTreeSet;

use super::{
    Participant,
    state::{Goal, InquiryPlan, State},
};
use crate::core::{
    flaw::Flaw,
    id::{ServerId, TranxId},
    journal::{Context, Wait},
    machine::{Event, RecoveryEvent},
    message::{Message, Outcome},
    record::Record,
};

impl Participant {
    /// A peer inquires about another coordinator's transaction. A server that has not voted yes may
    /// promise never to, so that the peer need not wait for the coordinator; but a promise must
    /// outlive a crash.
    pub(crate) fn inquired(&mut self, ctx: &mut Context<'_>, peer: ServerId, tranx: TranxId) {
        let is_complete = self.is_complete(tranx);
        let outcome = match self.tranxs.get_mut(&tranx) {
            Some(State::Committed(epoch) | State::Committing { epoch, .. }) => Some(Outcome::Commit(*epoch)),
            Some(State::Aborted { is_final: true }) => Some(Outcome::Abort),
            // A participant that is still in doubt has acknowledged nothing.
            None if is_complete => Some(Outcome::Abort),
            None | Some(State::Aborted { is_final: false }) if ctx.config.has(Flaw::PromiseNotLogged) => {
                self.tranxs.insert(tranx, State::Aborted { is_final: true });
                Some(Outcome::Abort)
            }
            None | Some(State::Aborted { is_final: false }) => {
                let record = Record::Outcome { tranx, outcome: Outcome::Abort };
                ctx.log(record, true, Some(Wait::Promise(tranx)));
                self.tranxs.insert(tranx, State::Promising(BTreeSet::from([peer])));
                return;
            }
            Some(State::Promising(peers)) => {
                peers.insert(peer);
                return;
            }
            Some(_) => None,
        };
        answer_inquiry(ctx, peer, tranx, outcome);
    }

    /// `Outcome` is durable: the peers in doubt may rely on it.
    pub(crate) fn promise_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Promising(peers)) = self.tranxs.get(&tranx) {
            for peer in peers {
                answer_inquiry(ctx, *peer, tranx, Some(Outcome::Abort));
            }
            if self.is_complete(tranx) {
                self.tranxs.remove(&tranx);
            } else {
                self.tranxs.insert(tranx, State::Aborted { is_final: true });
            }
        }
    }

    /// Step 3: from now on the recovery service inquires.
    pub(super) fn hand_over(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(State::Ready { held, doubt }) = self.tranxs.get_mut(&tranx) else { return };
        let Goal::Prepare { participants } = &held.goal else { return };
        let participants = participants.clone();
        *doubt = InquiryPlan::HandedOver;
        ctx.event(Event::Recovery(RecoveryEvent::InDoubt { tranx, participants }));
    }

    /// A transaction is no longer in doubt: inquiries about it end.
    pub(super) fn leave_doubt(&mut self, ctx: &mut Context<'_>, tranx: TranxId, doubt: InquiryPlan) {
        match doubt {
            InquiryPlan::Never => {}
            InquiryPlan::From(at_ms) => drop(self.doubts.remove(&(at_ms, tranx))),
            InquiryPlan::HandedOver => ctx.event(Event::Recovery(RecoveryEvent::Settled { tranx })),
        }
    }
}

fn answer_inquiry(ctx: &mut Context<'_>, peer: ServerId, tranx: TranxId, outcome: Option<Outcome>) {
    ctx.tell(peer, Message::InquiryAnswer { tranx, outcome });
}
