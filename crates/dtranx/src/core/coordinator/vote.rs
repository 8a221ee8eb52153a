//! The first phase: admitting a transaction, requesting votes, and refusing it.

use std::collections::BTreeMap;

use super::{Asking, Coordinator, Kind, Phase, Running};
use crate::core::{
    clients::Admission,
    event::{Command, CommitAnswer},
    flaw::Flaw,
    id::{Epoch, RequestId, ServerId, TranxId},
    item::{Current, LimitError},
    journal::{Context, Local},
    map::Map,
    message::{Message, Outcome, Vote},
    refusal::Refusal,
    standing::{Again, Standing},
    transaction::Transaction,
};

/// Greatest size of the values that go with a refusal, of all servers together, in bytes.
const MAX_STALE_BYTES: usize = 4 << 20;

/// Time for which the retry of a transaction that only reads is validated like a first attempt, in
/// milliseconds. Locks and a place in the log cost more than to read again what was stale, unless
/// that happens again and again.
const READER_LIGHT_MS: u32 = 20;

impl Coordinator {
    /// Step 1: requests the votes of the participants.
    pub(crate) fn commit(
        &mut self,
        ctx: &mut Context<'_>,
        request: RequestId,
        is_repeated: bool,
        transaction: Transaction,
        again: Again,
    ) {
        let RequestId { client, message } = request;
        match self.clients.admit(ctx.config, client, message, is_repeated) {
            Admission::New => {}
            Admission::Answer(answer) => return ctx.out.commands.push(Command::Reply { client, message, answer }),
            Admission::Ignore => return,
        }
        if let Err(invalid) = transaction.validate() {
            return self.reply(ctx, request, CommitAnswer::Refused(Refusal::Invalid(invalid)));
        }
        let (is_read_only, reads_absence) = (transaction.is_read_only(), transaction.reads_absence());
        if let Err(invalid) = ctx.maps.known.validate(&transaction).and_then(|()| can_move(ctx, &transaction)) {
            return self.reply(ctx, request, CommitAnswer::Refused(Refusal::Invalid(invalid)));
        }
        let parts = ctx.maps.known.split(transaction);
        let participants: Vec<ServerId> = parts.keys().copied().collect();
        let needs_locks = reads_absence && !ctx.config.has(Flaw::AbsenceOnlyValidated);
        let is_light = is_read_only && again.kept.is_none() && again.waited_ms < READER_LIGHT_MS;
        let keeps = again.keeps && !participants.is_empty() && !is_light;
        if is_read_only && !keeps && (participants.len() <= 1 || !needs_locks) {
            return self.validate(ctx, request, parts);
        }
        if let Err(refusal) = self.is_admitted(ctx) {
            return self.reply(ctx, request, CommitAnswer::Refused(refusal));
        }
        let number = self.next;
        self.next += 1;
        self.reserve(ctx);
        let tranx = TranxId { server: ctx.config.me, number };
        let is_here = participants == [ctx.config.me] && !is_read_only;
        let kind = if is_here { Kind::OnePhase } else { Kind::Prepare };
        let ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
        let standing = Standing::of(again, ctx.time_ms());
        if kind != Kind::OnePhase {
            self.vote_timers.insert((ask_at_ms, number));
        }
        let asking = first_asked(ctx, &parts, standing);
        let phase = Phase::Voting { kind, parts, epoch: Epoch(0), asking, ask_at_ms, attempts: 1 };
        let running = Running { request, participants, standing, stale: None, holds_since_ms: None, phase };
        running.ask(ctx, tranx);
        self.running.insert(number, running);
    }

    /// Checks whether one more transaction may take a number. The number of transactions that are
    /// not complete bounds what others have to remember; the distance of their numbers does not
    /// matter.
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

    pub(crate) fn voted(&mut self, ctx: &mut Context<'_>, from: ServerId, tranx: TranxId, vote: Vote, accepted: Epoch) {
        learn(ctx, &vote);
        let Some(running) = self.running.get_mut(&tranx.number) else { return };
        let Phase::Voting { parts, epoch, asking, attempts, .. } = &mut running.phase else { return };
        match vote {
            Vote::Yes => {
                *epoch = accepted.max(*epoch);
                parts.remove(&from);
            }
            Vote::No(Refusal::Stale { current, kept: Some(_) }) => {
                parts.remove(&from);
                add_stale(running.stale.get_or_insert_default(), current);
            }
            Vote::No(refusal) => return self.abort(ctx, tranx, Some(from), refusal),
        }
        running.holds_since_ms.get_or_insert(ctx.now_ms);
        if let Some(next) = parts.keys().next()
            && *asking == Asking::One(from)
        {
            let in_order = goes_in_order(running.standing);
            *asking = if in_order { Asking::One(*next) } else { Asking::All };
            *attempts = 1;
            running.ask(ctx, tranx);
        } else if parts.is_empty() {
            match running.stale.take() {
                None => self.decide_commit(ctx, tranx),
                Some(current) => self.abort_and_keep(ctx, tranx, current),
            }
        }
    }

    /// Aborts a transaction on which all have voted, at least one that a read is stale: all keep
    /// the locks for another attempt.
    fn abort_and_keep(&mut self, ctx: &mut Context<'_>, tranx: TranxId, current: Vec<Current>) {
        let Some(running) = self.running.remove(&tranx.number) else { return };
        let Phase::Voting { kind, ask_at_ms, .. } = running.phase else { return };
        self.vote_timers.remove(&(ask_at_ms, tranx.number));
        if kind == Kind::Prepare {
            for server in running.participants {
                ctx.tell(server, Message::Keep { tranx });
            }
        }
        let refusal = Refusal::Stale { current, kept: Some(tranx) };
        self.reply(ctx, running.request, CommitAnswer::Refused(refusal));
    }

    pub(super) fn ask_again(&mut self, ctx: &mut Context<'_>, number: u64) {
        let tranx = TranxId { server: ctx.config.me, number };
        let Some(running) = self.running.get_mut(&number) else { return };
        let Phase::Voting { parts, asking, ask_at_ms, attempts, .. } = &mut running.phase else { return };
        let limit_ms = ctx.config.in_order_ms();
        let holds_for_ms = running.holds_since_ms.map_or(0, |since_ms| ctx.now_ms.saturating_sub(since_ms));
        let is_held_too_long = matches!(asking, Asking::One(_)) && holds_for_ms > limit_ms;
        if *attempts >= ctx.config.vote_attempts || is_held_too_long {
            let server = parts.keys().next().copied().unwrap_or(ctx.config.me);
            return self.abort(ctx, tranx, None, Refusal::NoVote { server });
        }
        *attempts += 1;
        *ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
        self.vote_timers.insert((*ask_at_ms, number));
        running.ask(ctx, tranx);
    }

    /// Step 2 where a part is refused: decides to abort.
    pub(super) fn abort(&mut self, ctx: &mut Context<'_>, tranx: TranxId, voter: Option<ServerId>, refusal: Refusal) {
        let Some(running) = self.running.remove(&tranx.number) else { return };
        let Phase::Voting { kind, ask_at_ms, .. } = running.phase else { return };
        self.vote_timers.remove(&(ask_at_ms, tranx.number));
        if kind == Kind::Prepare {
            let mut others = running.participants;
            others.retain(|server| Some(*server) != voter);
            self.tell(ctx, tranx, Outcome::Abort, others);
        }
        self.reply(ctx, running.request, CommitAnswer::Refused(refusal));
    }
}

/// Returns true if the transaction locks its parts one after the other, in the order of the
/// servers. Transactions that do never wait for each other in a circle. With locks kept for it on
/// all servers, there is nothing to wait for.
fn goes_in_order(standing: Standing) -> bool {
    standing.keeps && standing.kept.is_none()
}

/// Servers whose votes are requested first. Keys that are written on this server are locked first:
/// while the transaction waits for them, it holds no lock that others would wait for.
fn first_asked(ctx: &Context<'_>, parts: &BTreeMap<ServerId, Transaction>, standing: Standing) -> Asking {
    let writes_here = parts.get(&ctx.config.me).is_some_and(|part| !part.is_read_only());
    // Who gives a range is asked first: it may wait for its fence, and holds nothing meanwhile.
    let giver = parts.values().find_map(|part| part.moving.as_ref()).map(|moving| moving.from);
    match parts.keys().next() {
        _ if let Some(giver) = giver => Asking::One(giver),
        Some(first) if goes_in_order(standing) => Asking::One(*first),
        _ if writes_here => Asking::One(ctx.config.me),
        _ => Asking::All,
    }
}

impl Running {
    /// Requests votes from the servers whose turn it is.
    fn ask(&self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Phase::Voting { kind, parts, asking, .. } = &self.phase else { return };
        let is_first = matches!(asking, Asking::One(_)) && parts.len() == self.participants.len();
        let is_alone = is_first || self.participants.len() == 1;
        let standing = Standing { is_alone, ..self.standing };
        for (server, part) in
            parts.iter().filter(|(server, _)| matches!(asking, Asking::All) || *asking == Asking::One(**server))
        {
            let part = part.clone();
            match kind {
                Kind::OnePhase => {
                    let request = self.request;
                    ctx.local.push_back(Local::OnePhase { tranx, request, part, standing });
                }
                Kind::Prepare => {
                    let participants = self.participants.clone();
                    ctx.tell(*server, Message::Prepare { tranx, participants, part, standing });
                }
            }
        }
    }
}

/// Each server keeps its answer small; together they may not be.
fn add_stale(stale: &mut Vec<Current>, current: Vec<Current>) {
    let value_bytes = |now: &Current| now.item.as_ref().map_or(0, |item| item.value.as_bytes().len());
    let mut bytes: usize = stale.iter().map(value_bytes).sum();
    stale.extend(current.into_iter().take_while(|now| {
        bytes += value_bytes(now);
        bytes <= MAX_STALE_BYTES
    }));
}

/// Learns from a refusal which server holds what, whatever has become of the transaction.
pub(super) fn learn(ctx: &mut Context<'_>, vote: &Vote) {
    if let Vote::No(Refusal::NotHere { moved, .. }) = vote {
        ctx.maps.learn_hints(moved);
    }
}

/// Checks that a move is between two servers of a cluster whose ranges can move.
fn can_move(ctx: &Context<'_>, transaction: &Transaction) -> Result<(), LimitError> {
    let Some(moving) = &transaction.moving else { return Ok(()) };
    let no_move = |why: String| Err(LimitError::Move { why });
    let is_here = |server: &ServerId| ctx.config.servers.contains(server);
    match [moving.from, moving.to].into_iter().find(|server| !is_here(server)) {
        _ if matches!(ctx.maps.held, Map::Hash(_)) => {
            no_move("the cluster's keys are spread by their hashes".to_owned())
        }
        Some(server) => no_move(format!("server {server} is not of the cluster")),
        None => Ok(()),
    }
}
