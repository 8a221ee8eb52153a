//! The second phase: the decision, and telling the participants until they have acknowledged it.

use std::collections::BTreeSet;

use super::{Coordinator, Kind, Phase, Unacknowledged};
use crate::core::{
    event::{Command, CommitAnswer},
    flaw::Flaw,
    id::{ServerId, TranxId},
    journal::{Context, Wait},
    message::{MAX_BATCH, Message, Outcome},
    record::Record,
};

impl Coordinator {
    /// Step 3.
    pub(super) fn decide_commit(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(running) = self.running.get_mut(&tranx.number) else { return };
        let Phase::Voting { kind, ask_at_ms, .. } = running.phase else { return };
        self.vote_timers.remove(&(ask_at_ms, tranx.number));
        if kind == Kind::Prepare {
            running.phase = Phase::Logging;
            let participants = running.participants.clone();
            ctx.log(Record::Commit { tranx, participants }, true, Some(Wait::Commit(tranx)));
            if ctx.config.has(Flaw::AnswerBeforeDurable) {
                self.commit_logged(ctx, tranx);
            }
        } else if let Some(client) = self.running.remove(&tranx.number).and_then(|running| running.client) {
            self.reply(ctx, client, CommitAnswer::Committed(tranx));
        }
    }

    /// `Commit` is durable: the transaction is committed.
    pub(crate) fn commit_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(running) = self.running.get_mut(&tranx.number) else { return };
        if running.phase != Phase::Logging {
            return;
        }
        let participants = running.participants.clone();
        running.phase = Phase::Committed { waiting: participants.iter().copied().collect() };
        let client = running.client.take();
        let again_at_ms = ctx.now_ms.saturating_add(ctx.config.decision_resend_ms);
        for server in participants {
            if server != ctx.config.me && !ctx.config.has(Flaw::DecisionsSentOnce) {
                let none = Unacknowledged { numbers: BTreeSet::new(), send_at_ms: again_at_ms };
                self.unacknowledged.entry(server).or_insert(none).numbers.insert(tranx.number);
            }
            self.tell(ctx, server, tranx, Outcome::Commit);
        }
        if let Some(client) = client {
            self.reply(ctx, client, CommitAnswer::Committed(tranx));
        }
        if ctx.config.has(Flaw::CompleteBeforeAcknowledged) {
            self.running.remove(&tranx.number);
        }
    }

    /// Step 4: `from` has acknowledged these commits.
    pub(crate) fn acknowledged(&mut self, from: ServerId, tranxs: &[TranxId]) {
        for tranx in tranxs {
            let Some(running) = self.running.get_mut(&tranx.number) else { continue };
            let Phase::Committed { waiting } = &mut running.phase else { continue };
            waiting.remove(&from);
            if waiting.is_empty() {
                self.running.remove(&tranx.number);
            }
            if let Some(server) = self.unacknowledged.get_mut(&from) {
                server.numbers.remove(&tranx.number);
            }
        }
        if self.unacknowledged.get(&from).is_some_and(|server| server.numbers.is_empty()) {
            self.unacknowledged.remove(&from);
        }
    }

    /// A participant in doubt asks. What is not known here has no `Commit` record, or has been acknowledged by all its
    /// participants, of which none can be in doubt then.
    pub(crate) fn inquired(&self, ctx: &mut Context<'_>, from: ServerId, tranx: TranxId) {
        let outcome = match self.running.get(&tranx.number).map(|running| &running.phase) {
            Some(Phase::Voting { .. } | Phase::Logging) => None,
            Some(Phase::Committed { .. }) => Some(Outcome::Commit),
            None => Some(Outcome::Abort),
        };
        ctx.tell(from, Message::Told { tranx, outcome });
    }

    /// Tells a participant, or puts it into the next message to it.
    pub(super) fn tell(&mut self, ctx: &mut Context<'_>, server: ServerId, tranx: TranxId, outcome: Outcome) {
        if server == ctx.config.me {
            return ctx.tell(server, Message::Decisions(vec![(tranx, outcome)]));
        }
        let decisions = self.outbox.entry(server).or_default();
        decisions.push((tranx, outcome));
        let is_full = decisions.len() >= MAX_BATCH;
        self.flush_at_ms.get_or_insert(ctx.now_ms.saturating_add(ctx.config.decision_delay_ms));
        if is_full || ctx.config.decision_delay_ms == 0 {
            self.flush(ctx);
        }
    }

    pub(super) fn flush(&mut self, ctx: &mut Context<'_>) {
        self.flush_at_ms = None;
        for (to, decisions) in std::mem::take(&mut self.outbox) {
            ctx.commands.push(Command::Send { to, message: Message::Decisions(decisions) });
        }
    }
}
