//! A coordinator: what the server that a client picked does about the client's transaction.
//!
//! 1. Split the transaction among the servers that hold its keys, give it a number, and ask each for its vote:
//!    `OnePhase` if everything is here; `Validate` if it only reads, and either one server holds everything or every read
//!    saw a version; `Prepare` otherwise.
//! 2. The first no, or too long a silence: refuse it, tell the participants, be done with it. Nothing is logged: what has
//!    no `Commit` record is aborted, for whoever asks.
//! 3. All yes: it is committed at once if it was `OnePhase` or `Validate`; otherwise log `Commit`, and once that is
//!    durable, answer the client.
//! 4. Tell the participants, many decisions in one message, again and again until each has acknowledged.
//!
//! A crash before the record of step 3 is durable: aborted. After it: step 4 is resumed.
//!
//! Numbers are reserved in blocks by a log record, so that none is used twice. After a restart every reserved number
//! without a `Commit` record is aborted: that fills the missing ids of section 4.4.
//!
//! Steps 1 and 2 are in `vote`, steps 3 and 4 in `decision`.

mod decision;
mod vote;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    clients::Clients,
    event::{Command, CommitAnswer},
    id::{ClientId, Incarnation, MessageId, ServerId, TranxId},
    journal::{Context, Wait},
    message::{MAX_BATCH, Message, Outcome},
    record::Record,
    transaction::Transaction,
};

/// The transactions that one server coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    clients: Clients,
    incarnation: Incarnation,
    /// The next number to give.
    next: u64,
    /// Numbers up to this one may be given.
    usable: u64,
    /// Numbers up to this one are in a `Reserve` record, durable or not.
    reserved: u64,
    /// The transactions that are not complete, by number.
    running: BTreeMap<u64, Running>,
    /// When to ask for the votes of which transaction again.
    vote_timers: BTreeSet<(u64, u64)>,
    /// Decisions to be sent, and when.
    outbox: BTreeMap<ServerId, Vec<(TranxId, Outcome)>>,
    flush_at_ms: Option<u64>,
    /// Commits that a server has not acknowledged.
    unacknowledged: BTreeMap<ServerId, Unacknowledged>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    /// Who waits for the answer; nobody after a restart.
    client: Option<(ClientId, MessageId)>,
    participants: Vec<ServerId>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The parts that are not voted for.
    Voting { kind: Kind, parts: BTreeMap<ServerId, Transaction>, ask_at_ms: u64, attempts: u32 },
    /// All voted yes; `Commit` is not durable.
    Logging,
    /// Committed; these have not acknowledged.
    Committed { waiting: BTreeSet<ServerId> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    OnePhase,
    Validate,
    Prepare,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unacknowledged {
    numbers: BTreeSet<u64>,
    send_at_ms: u64,
}

impl Coordinator {
    /// A coordinator whose numbers up to `reserved` may have been used. It gives none before it has reserved others.
    pub(crate) fn new(reserved: u64) -> Self {
        Self {
            clients: Clients::default(),
            incarnation: Incarnation(reserved + 1),
            next: reserved + 1,
            usable: reserved,
            reserved,
            running: BTreeMap::new(),
            vote_timers: BTreeSet::new(),
            outbox: BTreeMap::new(),
            flush_at_ms: None,
            unacknowledged: BTreeMap::new(),
        }
    }

    /// A committed transaction from the log that the participants may not have acknowledged.
    pub(crate) fn restore(&mut self, me: ServerId, number: u64, participants: Vec<ServerId>) {
        let waiting: BTreeSet<ServerId> = participants.iter().copied().filter(|server| *server != me).collect();
        if waiting.is_empty() {
            return;
        }
        for server in &waiting {
            self.unacknowledged.entry(*server).or_default().numbers.insert(number);
        }
        self.running.insert(number, Running { client: None, participants, phase: Phase::Committed { waiting } });
    }

    /// Which life of the server this is; `None` until it has durably reserved numbers, and with them the name.
    pub fn incarnation(&self) -> Option<Incarnation> {
        (self.usable >= self.incarnation.0).then_some(self.incarnation)
    }

    /// The largest number such that all transactions up to it are complete.
    pub fn low_water(&self) -> u64 {
        self.running.first_key_value().map_or(self.next, |(number, _)| *number) - 1
    }

    /// Numbers up to this one may have been used.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// How many transactions are not complete.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// When something has to be done about time.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let vote = self.vote_timers.first().map(|(at_ms, _)| *at_ms);
        let again = self.unacknowledged.values().map(|server| server.send_at_ms).min();
        [vote, again, self.flush_at_ms].into_iter().flatten().min()
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

    /// Asks for votes again, sends decisions that are due, and those that were not acknowledged.
    pub(crate) fn tick(&mut self, ctx: &mut Context<'_>) {
        let due: Vec<_> = self.vote_timers.iter().take_while(|(at_ms, _)| *at_ms <= ctx.now_ms).copied().collect();
        for timer in due {
            self.vote_timers.remove(&timer);
            self.ask_again(ctx, timer.1);
        }
        let me = ctx.config.me;
        for (to, server) in &mut self.unacknowledged {
            if server.send_at_ms <= ctx.now_ms {
                let commit = |number: &u64| (TranxId { server: me, number: *number }, Outcome::Commit);
                let decisions = server.numbers.iter().take(MAX_BATCH).map(commit).collect();
                server.send_at_ms = ctx.now_ms.saturating_add(ctx.config.decision_resend_ms);
                ctx.commands.push(Command::Send { to: *to, message: Message::Decisions(decisions) });
            }
        }
        if self.flush_at_ms.is_some_and(|at_ms| at_ms <= ctx.now_ms) {
            self.flush(ctx);
        }
    }

    pub(super) fn reply(
        &mut self,
        ctx: &mut Context<'_>,
        (client, message): (ClientId, MessageId),
        answer: CommitAnswer,
    ) {
        self.clients.answered(client, message, &answer);
        ctx.commands.push(Command::Reply { client, message, answer });
    }
}
