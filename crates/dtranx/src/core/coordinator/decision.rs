//! The decision, and the number of a commit until all participants have acknowledged it.

use super::{Coordinator, Kind, Phase};
use crate::core::{
    event::CommitAnswer,
    flaw::Flaw,
    id::{ServerId, TranxId},
    journal::{Context, Wait},
    machine::{AckEvent, Event},
    message::{Message, Outcome},
    record::Record,
    snapshot::reserve,
};

impl Coordinator {
    /// Step 3: decides to commit, once every part has voted yes.
    pub(super) fn decide_commit(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(running) = self.running.get_mut(&tranx.number) else { return };
        let Phase::Voting { kind, ask_at_ms, epoch, .. } = running.phase else { return };
        self.vote_timers.remove(&(ask_at_ms, tranx.number));
        if kind == Kind::Prepare {
            running.phase = Phase::Logging(epoch);
            let (participants, request) = (running.participants.clone(), running.request);
            reserve(ctx, epoch);
            ctx.log(Record::Commit { tranx, participants, epoch, request }, true, Some(Wait::Commit(tranx)));
            if ctx.config.has(Flaw::AnswerBeforeDurable) {
                self.commit_logged(ctx, tranx);
            }
        } else if let Some(running) = self.running.remove(&tranx.number) {
            self.reply_in(ctx, running.request, CommitAnswer::Committed(tranx), epoch);
        }
    }

    /// `Commit` is durable: the transaction is committed.
    pub(crate) fn commit_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let logging = self.running.get(&tranx.number).and_then(|running| match running.phase {
            Phase::Logging(epoch) => Some(epoch),
            Phase::Voting { .. } => None,
        });
        let Some(epoch) = logging else { return };
        let Some(running) = self.running.remove(&tranx.number) else { return };
        self.incomplete.insert(tranx.number, epoch);
        self.tell(ctx, tranx, Outcome::Commit(epoch), running.participants);
        self.reply_in(ctx, running.request, CommitAnswer::Committed(tranx), epoch);
    }

    /// Step 4: all participants have acknowledged these.
    pub(crate) fn completed(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.incomplete.remove(number);
        }
    }

    /// Answers a participant in doubt. A transaction that is not known here has no `Commit` record,
    /// or has been acknowledged by all its participants, of which none can be in doubt then. A
    /// number that neither this life nor an earlier one has given is another one's: of that,
    /// nothing is known here, and nothing is said.
    pub(crate) fn inquired(&self, ctx: &mut Context<'_>, from: ServerId, tranx: TranxId) {
        if tranx.number >= self.next && !ctx.config.has(Flaw::AnswersForLaterLives) {
            return;
        }
        let outcome = if self.running.contains_key(&tranx.number) {
            None
        } else {
            Some(self.incomplete.get(&tranx.number).map_or(Outcome::Abort, |epoch| Outcome::Commit(*epoch)))
        };
        ctx.tell(from, Message::InquiryAnswer { tranx, outcome });
    }

    /// Sends the outcome to the participant on this server at once, and has the acknowledgement
    /// service send it to the others.
    pub(super) fn tell(&self, ctx: &mut Context<'_>, tranx: TranxId, outcome: Outcome, participants: Vec<ServerId>) {
        let me = ctx.config.me;
        if participants.contains(&me) {
            ctx.tell(me, Message::Decisions(vec![(tranx, outcome)]));
        }
        if outcome.is_commit() || participants.iter().any(|server| *server != me) {
            ctx.event(Event::Ack(AckEvent::Decided { tranx, outcome, participants }));
        }
    }
}
