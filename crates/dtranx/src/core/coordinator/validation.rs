//! Transactions that only read: which servers check that all of it still holds, and when the client
//! is answered.
//!
//! They take no number, are in no log, and leave nothing behind: one that a server does not answer
//! in time is refused. However many there are, they move no low-water mark and wait for none.

use std::collections::{BTreeMap, BTreeSet};

use super::{Coordinator, vote::learn};
use crate::core::{
    event::CommitAnswer,
    flaw::Flaw,
    id::{Epoch, Incarnation, RequestId, ServerId, ValidationId},
    journal::Context,
    message::{Message, Vote},
    refusal::Refusal,
    transaction::Transaction,
};

/// The validations that are under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Validations {
    /// Number of validations so far.
    last: u64,
    running: BTreeMap<u64, Running>,
    /// Times at which requests are repeated, each with its validation.
    timers: BTreeSet<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    id: ValidationId,
    /// Request that waits for the answer.
    request: RequestId,
    /// Parts that are not answered.
    parts: BTreeMap<ServerId, Transaction>,
    /// Parts that were found valid, all of them in this epoch: otherwise a transaction could come
    /// after this one at a server that is in an epoch before.
    found: BTreeMap<ServerId, Transaction>,
    epoch: Epoch,
    ask_at_ms: u64,
    attempts: u32,
}

impl Validations {
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }
}

impl Coordinator {
    /// Sends the request to all participants. Without any, the answer is yes at once.
    pub(super) fn validate(
        &mut self,
        ctx: &mut Context<'_>,
        request: RequestId,
        parts: BTreeMap<ServerId, Transaction>,
    ) {
        if self.validations.len() >= ctx.config.max_validating {
            let limit = format!("{} reads under way", ctx.config.max_validating);
            return self.reply(ctx, request, CommitAnswer::Refused(Refusal::Overloaded { limit }));
        }
        self.validations.last += 1;
        let number = self.validations.last;
        let is_renamed = ctx.config.has(Flaw::ValidationsRenamed);
        let incarnation = if is_renamed { Incarnation(0) } else { self.incarnation };
        let id = ValidationId { server: ctx.config.me, incarnation, number };
        if parts.is_empty() {
            return self.reply(ctx, request, CommitAnswer::Validated(id));
        }
        let ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
        let (found, epoch) = (BTreeMap::new(), Epoch(0));
        let running = Running { id, request, parts, found, epoch, ask_at_ms, attempts: 1 };
        running.ask(ctx);
        self.validations.timers.insert((ask_at_ms, number));
        self.validations.running.insert(number, running);
    }

    /// Takes the answer of a participant.
    pub(crate) fn validated(
        &mut self,
        ctx: &mut Context<'_>,
        from: ServerId,
        id: ValidationId,
        vote: Vote,
        epoch: Epoch,
    ) {
        learn(ctx, &vote);
        let Some(running) = self.validations.running.get_mut(&id.number).filter(|running| running.id == id) else {
            return;
        };
        match vote {
            Vote::Yes => {
                running.found(ctx, from, epoch);
                if running.parts.is_empty() {
                    self.end_validation(ctx, id.number, CommitAnswer::Validated(id));
                }
            }
            Vote::No(refusal) => self.end_validation(ctx, id.number, CommitAnswer::Refused(refusal)),
        }
    }

    /// Repeats the requests that were not answered, or gives up.
    pub(super) fn validate_again(&mut self, ctx: &mut Context<'_>) {
        let is_due = |(at_ms, _): &&(u64, u64)| *at_ms <= ctx.now_ms;
        let due: Vec<_> = self.validations.timers.iter().take_while(is_due).copied().collect();
        for (at_ms, number) in due {
            self.validations.timers.remove(&(at_ms, number));
            let Some(running) = self.validations.running.get_mut(&number) else { continue };
            if running.attempts >= ctx.config.vote_attempts {
                let server = running.parts.keys().next().copied().unwrap_or(ctx.config.me);
                self.end_validation(ctx, number, CommitAnswer::Refused(Refusal::NoVote { server }));
                continue;
            }
            running.attempts += 1;
            running.ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
            running.ask(ctx);
            self.validations.timers.insert((running.ask_at_ms, number));
        }
    }

    fn end_validation(&mut self, ctx: &mut Context<'_>, number: u64, answer: CommitAnswer) {
        let Some(running) = self.validations.running.remove(&number) else { return };
        self.validations.timers.remove(&(running.ask_at_ms, number));
        match answer {
            CommitAnswer::Validated(_) => self.reply_in(ctx, running.request, answer, running.epoch),
            answer => self.reply(ctx, running.request, answer),
        }
    }
}

impl Running {
    fn ask(&self, ctx: &mut Context<'_>) {
        for (server, part) in &self.parts {
            self.ask_one(ctx, *server, part);
        }
    }

    fn ask_one(&self, ctx: &mut Context<'_>, server: ServerId, part: &Transaction) {
        ctx.tell(server, Message::Validate { validation: self.id, part: part.clone(), epoch: self.epoch });
    }

    /// Notes that a server has found its part valid, in an epoch. Servers that looked in an earlier
    /// one look again.
    fn found(&mut self, ctx: &mut Context<'_>, from: ServerId, epoch: Epoch) {
        let is_ignored = ctx.config.has(Flaw::ValidationInTwoEpochs);
        if epoch > self.epoch {
            self.epoch = epoch;
            if !is_ignored {
                for (server, part) in std::mem::take(&mut self.found) {
                    self.ask_one(ctx, server, &part);
                    self.parts.insert(server, part);
                }
            }
        }
        if epoch < self.epoch && !is_ignored {
            if let Some(part) = self.parts.get(&from) {
                self.ask_one(ctx, from, part);
            }
        } else if let Some(part) = self.parts.remove(&from) {
            self.found.insert(from, part);
        }
    }
}
