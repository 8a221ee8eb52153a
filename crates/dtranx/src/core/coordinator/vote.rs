//! The first phase: admitting a transaction, asking for votes, and refusing it.

use super::{Coordinator, Kind, Phase, Running};
use crate::core::{
    clients::Admission,
    event::{Command, CommitAnswer},
    flaw::Flaw,
    id::{ClientId, Epoch, MessageId, ServerId, TranxId},
    journal::{Context, Local},
    message::{Message, Outcome, Vote},
    refusal::Refusal,
    transaction::Transaction,
};

impl Coordinator {
    /// Step 1.
    pub(crate) fn commit(
        &mut self,
        ctx: &mut Context<'_>,
        client: ClientId,
        message: MessageId,
        transaction: Transaction,
    ) {
        match self.clients.admit(ctx.config, client, message) {
            Admission::New => {}
            Admission::Answer(answer) => return ctx.out.commands.push(Command::Reply { client, message, answer }),
            Admission::Ignore => return,
        }
        if let Err(invalid) = transaction.validate() {
            return self.reply(ctx, (client, message), CommitAnswer::Refused(Refusal::Invalid(invalid)));
        }
        let (is_read_only, reads_absence) = (transaction.is_read_only(), transaction.reads_absence());
        let parts = ctx.config.partition.split(transaction);
        let participants: Vec<ServerId> = parts.keys().copied().collect();
        let needs_locks = reads_absence && !ctx.config.has(Flaw::AbsenceOnlyValidated);
        if is_read_only && (participants.len() <= 1 || !needs_locks) {
            return self.validate(ctx, (client, message), parts);
        }
        if let Err(refusal) = self.is_admitted(ctx) {
            return self.reply(ctx, (client, message), CommitAnswer::Refused(refusal));
        }
        let number = self.next;
        self.next += 1;
        self.reserve(ctx);
        let tranx = TranxId { server: ctx.config.me, number };
        let is_here = participants == [ctx.config.me] && !is_read_only;
        let kind = if is_here { Kind::OnePhase } else { Kind::Prepare };
        let ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
        for (server, part) in &parts {
            ask(ctx, tranx, kind, *server, &participants, part.clone());
        }
        if kind != Kind::OnePhase {
            self.vote_timers.insert((ask_at_ms, number));
        }
        let phase = Phase::Voting { kind, parts, epoch: Epoch(0), ask_at_ms, attempts: 1 };
        self.running.insert(number, Running { client: (client, message), participants, phase });
    }

    /// May one more transaction take a number? What others have to remember is bounded by how many are not complete, and not
    /// by how far apart their numbers are.
    pub(super) fn is_admitted(&self, ctx: &Context<'_>) -> Result<(), Refusal> {
        let overloaded = |limit: String| Err(Refusal::Overloaded { limit });
        if self.running.len() >= ctx.config.max_running {
            overloaded(format!("{} transactions under way", ctx.config.max_running))
        } else if self.incomplete.len() >= ctx.config.max_incomplete {
            overloaded(format!("{} commits that a server has not acknowledged", ctx.config.max_incomplete))
        } else if self.next > self.usable {
            overloaded("transaction numbers that are durably reserved".to_owned())
        } else {
            Ok(())
        }
    }

    pub(crate) fn voted(
        &mut self,
        ctx: &mut Context<'_>,
        from: ServerId,
        tranx: TranxId,
        (vote, accepted): (Vote, Epoch),
    ) {
        let Some(running) = self.running.get_mut(&tranx.number) else { return };
        let Phase::Voting { parts, epoch, .. } = &mut running.phase else { return };
        match vote {
            Vote::Yes => {
                *epoch = accepted.max(*epoch);
                parts.remove(&from);
                if parts.is_empty() {
                    self.decide_commit(ctx, tranx);
                }
            }
            Vote::No(refusal) => self.abort(ctx, tranx, Some(from), refusal),
        }
    }

    pub(super) fn ask_again(&mut self, ctx: &mut Context<'_>, number: u64) {
        let tranx = TranxId { server: ctx.config.me, number };
        let Some(running) = self.running.get_mut(&number) else { return };
        let Phase::Voting { kind, parts, ask_at_ms, attempts, .. } = &mut running.phase else { return };
        if *attempts >= ctx.config.vote_attempts {
            let server = parts.keys().next().copied().unwrap_or(ctx.config.me);
            return self.abort(ctx, tranx, None, Refusal::NoVote { server });
        }
        *attempts += 1;
        *ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
        self.vote_timers.insert((*ask_at_ms, number));
        for (server, part) in parts.iter() {
            ask(ctx, tranx, *kind, *server, &running.participants, part.clone());
        }
    }

    /// Step 2.
    pub(super) fn abort(&mut self, ctx: &mut Context<'_>, tranx: TranxId, voter: Option<ServerId>, refusal: Refusal) {
        let Some(running) = self.running.remove(&tranx.number) else { return };
        let Phase::Voting { kind, ask_at_ms, .. } = running.phase else { return };
        self.vote_timers.remove(&(ask_at_ms, tranx.number));
        if kind == Kind::Prepare {
            let mut others = running.participants;
            others.retain(|server| Some(*server) != voter);
            self.tell(ctx, tranx, Outcome::Abort, others);
        }
        self.reply(ctx, running.client, CommitAnswer::Refused(refusal));
    }
}

fn ask(
    ctx: &mut Context<'_>,
    tranx: TranxId,
    kind: Kind,
    server: ServerId,
    participants: &[ServerId],
    part: Transaction,
) {
    match kind {
        Kind::OnePhase => ctx.local.push_back(Local::OnePhase { tranx, part }),
        Kind::Prepare => ctx.tell(server, Message::Prepare { tranx, participants: participants.to_vec(), part }),
    }
}
