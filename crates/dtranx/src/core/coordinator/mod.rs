//! A coordinator: what the server that a client picked does about the client's transaction.
//!
//! 1. Split the transaction among the servers that hold its keys, give it a number, and request the
//!    vote of each: `OnePhase` if everything is here; `Validate` if it only reads, and either one
//!    server holds everything or every read saw a version; `Prepare` otherwise.
//! 2. The first no, or too long a silence: refuse it, tell the participants, forget it. Nothing is
//!    logged: what has no `Commit` record is aborted, and inquiries are answered so.
//! 3. All yes: it is committed at once if it was `OnePhase` or `Validate`; otherwise log `Commit`,
//!    and once that is durable, answer the client.
//! 4. Hand it to the acknowledgement service, which tells the participants until each has
//!    acknowledged, and says so.
//!
//! Until then the number is kept here, whatever the other machines are doing: an inquiry of a
//! participant in doubt is answered with the commit, and the low-water mark stays below it.
//!
//! A crash before the record of step 3 is durable: aborted. After it: step 4 is resumed.
//!
//! Numbers are reserved in blocks by a log record, so that none is used twice. After a restart
//! every reserved number without a `Commit` record is aborted: that fills the missing ids of
//! section 4.4.
//!
//! Steps 1 and 2 are in `vote`, steps 3 and 4 in `decision`.

mod decision;
mod validation;
mod vote;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    clients::Clients,
    complete::Complete,
    config::NodeConfig,
    event::{Command, CommitAnswer, SnapshotAnswer},
    id::{ClientId, Epoch, Incarnation, MessageId, RequestId, ServerId},
    item::Current,
    journal::{Context, Wait},
    message::SnapshotMessage,
    past_requests::{PastRequests, RequestOutcome},
    record::Record,
    refusal::Refusal,
    snapshot::{Snapshots, asked, reserve},
    standing::Standing,
    transaction::Transaction,
};
use validation::Validations;

/// The transactions that one server coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Coordinator {
    clients: Clients,
    /// The requests that earlier lives have committed.
    past: PastRequests,
    incarnation: Incarnation,
    /// The next number to give.
    next: u64,
    /// Numbers up to this one may be given.
    usable: u64,
    /// Numbers up to this one are in a `Reserve` record, durable or not.
    reserved: u64,
    /// The transactions that are not decided, by number.
    running: BTreeMap<u64, Running>,
    /// Commits that are not complete, with their epochs.
    incomplete: BTreeMap<u64, Epoch>,
    /// Times at which vote requests are repeated, each with its transaction.
    vote_timers: BTreeSet<(u64, u64)>,
    /// Transactions that only read, and have no number.
    validations: Validations,
    /// The snapshots that clients of this server want.
    snapshots: Snapshots,
    /// Answers that are held back, because not every server is known to be in their epoch.
    held: VecDeque<Held>,
}

/// An answer that is held back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    request: RequestId,
    answer: CommitAnswer,
    epoch: Epoch,
    /// Time at which the answer is sent at the latest, once the epoch is durably reserved.
    until_ms: u64,
    is_reserved: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    /// Request that waits for the answer.
    request: RequestId,
    participants: Vec<ServerId>,
    standing: Standing,
    /// Keys found stale so far, if the locks are kept for another attempt.
    stale: Option<Vec<Current>>,
    /// Time of the first vote: since then the transaction holds locks.
    holds_since_ms: Option<u64>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The parts that are not voted for, and the largest epoch of the others.
    Voting {
        kind: Kind,
        parts: BTreeMap<ServerId, Transaction>,
        epoch: Epoch,
        asking: Asking,
        ask_at_ms: u64,
        attempts: u32,
    },
    /// All participants have voted yes; `Commit` is not durable.
    Logging(Epoch),
}

/// The servers that a vote is requested from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asking {
    /// Only this one: no server that comes later in the order has locked anything.
    One(ServerId),
    /// All servers at once.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    OnePhase,
    Prepare,
}

impl Coordinator {
    /// A coordinator whose numbers up to `reserved` may have been used, with the requests that it
    /// has committed by these. It gives none before it has reserved others.
    pub(crate) fn new(reserved: u64, past: PastRequests) -> Self {
        Self {
            clients: Clients::default(),
            past,
            incarnation: Incarnation(reserved + 1),
            next: reserved + 1,
            usable: reserved,
            reserved,
            running: BTreeMap::new(),
            incomplete: BTreeMap::new(),
            vote_timers: BTreeSet::new(),
            validations: Validations::default(),
            snapshots: Snapshots::default(),
            held: VecDeque::new(),
        }
    }

    /// A committed transaction from the log that the participants may not have acknowledged.
    pub(crate) fn restore(&mut self, number: u64, epoch: Epoch) {
        self.incomplete.insert(number, epoch);
    }

    /// The server's life; `None` until it has durably reserved numbers, which name it.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        (self.usable >= self.incarnation.0).then_some(self.incarnation)
    }

    /// Outcome of a request of an earlier life: see [`super::Node::request_outcome`].
    pub(crate) fn request_outcome(&self, config: &NodeConfig, request: RequestId, above: u64) -> RequestOutcome {
        let Some(life) = self.incarnation() else { return RequestOutcome::Indeterminate };
        self.past.request_outcome(config, life, request, above)
    }

    /// Tells a client what became of a request that it, or another one, made to an earlier life.
    pub(crate) fn tell_fate(&self, ctx: &mut Context<'_>, asking: RequestId, request: RequestId, above: u64) {
        let answer = self.request_outcome(ctx.config, request, above).answer(ctx.config.me);
        let RequestId { client, message } = asking;
        ctx.out.commands.push(Command::Reply { client, message, answer });
    }

    /// The largest number such that all transactions up to it are complete.
    pub(crate) fn low_water(&self) -> u64 {
        let undecided = self.running.first_key_value().map(|(number, _)| *number);
        let first = [undecided, self.incomplete.keys().next().copied()].into_iter().flatten().min();
        first.unwrap_or(self.next) - 1
    }

    /// The coordinator's complete transactions: all whose number was given, except those under way
    /// and those that are not acknowledged. Numbers below the first of this life belong to earlier
    /// lives; of these, only the restored are not complete.
    pub(crate) fn complete(&self) -> Complete {
        let except = self.running.keys().chain(self.incomplete.keys()).copied();
        Complete::but_for(self.next - 1, except)
    }

    /// Numbers up to this one may have been used.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns true if the transaction of this number is voted on, or its decision is not durable.
    #[cfg(test)]
    pub(crate) fn is_undecided(&self, number: u64) -> bool {
        self.running.contains_key(&number)
    }

    /// Number of transactions that are not complete, and of validations and snapshots without an
    /// answer.
    pub(crate) fn unfinished(&self) -> usize {
        let reading = self.validations.len() + self.snapshots.len();
        self.running.len() + self.incomplete.len() + reading + self.held.len()
    }

    /// Time at which [`Coordinator::tick`] is due.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let votes = self.vote_timers.first().map(|(at_ms, _)| *at_ms);
        let held = self.held.iter().filter(|held| held.is_reserved).map(|held| held.until_ms).min();
        let reads = [self.validations.next_deadline_ms(), self.snapshots.next_deadline_ms()];
        reads.into_iter().chain([votes, held]).flatten().min()
    }

    pub(crate) fn connect(&mut self, ctx: &Context<'_>, client: ClientId) {
        self.clients.connect(ctx.config, self.incarnation(), client);
    }

    pub(crate) fn leave(&mut self, client: ClientId) {
        self.clients.leave(client);
    }

    /// Keeps at least half a block of numbers in reserve.
    pub(crate) fn reserve(&mut self, ctx: &mut Context<'_>) {
        let block = ctx.config.number_block.max(1);
        if self.reserved + 1 - self.next <= block / 2 {
            self.reserved = self.next + block - 1 + block / 2;
            ctx.log(Record::Reserve { through: self.reserved }, true, Some(Wait::Reserve(self.reserved)));
        }
    }

    pub(crate) fn reserve_logged(&mut self, through: u64) {
        self.usable = self.usable.max(through);
    }

    /// Repeats vote requests that were not answered in time.
    pub(crate) fn tick(&mut self, ctx: &mut Context<'_>) {
        let due: Vec<_> = self.vote_timers.iter().take_while(|(at_ms, _)| *at_ms <= ctx.now_ms).copied().collect();
        for timer in due {
            self.vote_timers.remove(&timer);
            self.ask_again(ctx, timer.1);
        }
        self.validate_again(ctx);
        if let Some(life) = self.incarnation() {
            self.snapshots.tick(ctx, life);
        }
        self.answer_held(ctx);
    }

    /// Handles a client's request for a snapshot.
    pub(crate) fn snapshot(&mut self, ctx: &mut Context<'_>, client: ClientId, message: MessageId) {
        if let Some(life) = self.incarnation() {
            return self.snapshots.want(ctx, life, client, message);
        }
        let limit = "transaction numbers that are durably reserved".to_owned();
        let answer = SnapshotAnswer::Refused(Refusal::Overloaded { limit });
        ctx.out.commands.push(Command::ReplySnapshot { client, message, answer });
    }

    /// Handles a server's message about snapshots.
    pub(crate) fn receive_snapshot_message(
        &mut self,
        ctx: &mut Context<'_>,
        from: ServerId,
        message: &SnapshotMessage,
    ) {
        let Some(life) = self.incarnation() else { return };
        asked(ctx, from, message);
        self.snapshots.answered(ctx, life, from, message);
        self.answer_held(ctx);
    }

    /// Sends the answers that need not be held back any more.
    pub(crate) fn answer_held(&mut self, ctx: &mut Context<'_>) {
        for held in std::mem::take(&mut self.held) {
            let is_reserved = ctx.epochs.is_reserved(held.epoch);
            let is_early = ctx.now_ms < held.until_ms && ctx.epochs.holds(ctx.config, held.epoch, ctx.now_ms).is_some();
            if is_early || !is_reserved {
                self.held.push_back(Held { is_reserved, ..held });
                continue;
            }
            ctx.epochs.tell(held.epoch);
            self.reply(ctx, held.request, held.answer);
        }
    }

    /// Answers a client about a commit in this epoch, once it is durably reserved here, and every
    /// server is in it or that has taken too long.
    fn reply_in(&mut self, ctx: &mut Context<'_>, request: RequestId, answer: CommitAnswer, epoch: Epoch) {
        let is_reserved = ctx.epochs.is_reserved(epoch);
        if !is_reserved {
            reserve(ctx, epoch);
        }
        let until_ms = ctx.epochs.holds(ctx.config, epoch, ctx.now_ms);
        if until_ms.is_some() || !is_reserved {
            let until_ms = until_ms.unwrap_or(ctx.now_ms);
            self.held.push_back(Held { request, answer, epoch, until_ms, is_reserved });
            return;
        }
        ctx.epochs.tell(epoch);
        self.reply(ctx, request, answer);
    }

    pub(super) fn reply(&mut self, ctx: &mut Context<'_>, request: RequestId, answer: CommitAnswer) {
        let RequestId { client, message } = request;
        self.clients.answered(client, message, &answer);
        ctx.out.commands.push(Command::Reply { client, message, answer });
    }
}
