//! Participants in doubt: asking, and answering those who ask.

use std::collections::BTreeSet;

use super::{
    Participant,
    state::{Goal, Inquiry, State},
};
use crate::core::{
    config::MAX_INQUIRY_FACTOR,
    flaw::Flaw,
    id::{ServerId, TranxId},
    journal::{Context, Wait},
    message::{Message, Outcome},
    record::Record,
};

impl Participant {
    /// A peer asks about another coordinator's transaction. Whoever has not voted yes may promise never to, so that the
    /// peer need not wait for the coordinator; but a promise must outlive a crash.
    pub(crate) fn inquired(&mut self, ctx: &mut Context<'_>, peer: ServerId, tranx: TranxId) {
        let is_complete = tranx.number <= self.low_water(tranx.server);
        let outcome = match self.tranxs.get_mut(&tranx) {
            Some(State::Committed | State::Committing { .. }) => Some(Outcome::Commit),
            Some(State::Aborted { is_final: true }) => Some(Outcome::Abort),
            // Who is still in doubt has acknowledged nothing.
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
        told(ctx, peer, tranx, outcome);
    }

    /// `Outcome` is durable: the peers in doubt may rely on it.
    pub(crate) fn promise_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Promising(peers)) = self.tranxs.get(&tranx) {
            for peer in peers {
                told(ctx, *peer, tranx, Some(Outcome::Abort));
            }
            self.tranxs.insert(tranx, State::Aborted { is_final: true });
        }
    }

    /// Step 3.
    pub(super) fn inquire(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(State::Ready { held, inquiry }) = self.tranxs.get_mut(&tranx) else { return };
        ctx.tell(tranx.server, Message::Inquire { tranx });
        if let (Goal::Prepare { participants }, true) = (&held.goal, inquiry.is_repeated) {
            for peer in participants.iter().filter(|peer| **peer != ctx.config.me && **peer != tranx.server) {
                ctx.tell(*peer, Message::Inquire { tranx });
            }
        }
        let longest_ms = ctx.config.inquiry_ms.saturating_mul(MAX_INQUIRY_FACTOR);
        let wait_ms = inquiry.wait_ms.saturating_mul(2).clamp(ctx.config.inquiry_ms, longest_ms);
        *inquiry = Inquiry { at_ms: ctx.now_ms.saturating_add(wait_ms), wait_ms, is_repeated: true };
        self.inquiries.insert((inquiry.at_ms, tranx));
    }
}

fn told(ctx: &mut Context<'_>, peer: ServerId, tranx: TranxId, outcome: Option<Outcome>) {
    ctx.tell(peer, Message::Told { tranx, outcome });
}
