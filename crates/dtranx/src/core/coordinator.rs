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

use std::collections::{BTreeMap, BTreeSet};

use super::{
    clients::{Admission, Clients},
    event::{Command, CommitAnswer},
    flaw::Flaw,
    id::{ClientId, Incarnation, MessageId, ServerId, TranxId},
    journal::{Context, Local, Wait},
    message::{MAX_BATCH, Message, Outcome, Vote},
    record::Record,
    refusal::Refusal,
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
            Admission::Answer(answer) => return ctx.commands.push(Command::Reply { client, message, answer }),
            Admission::Ignore => return,
        }
        if let Err(refusal) = self.is_admitted(ctx, &transaction) {
            return self.reply(ctx, (client, message), CommitAnswer::Refused(refusal));
        }
        let number = self.next;
        self.next += 1;
        self.reserve(ctx);
        let tranx = TranxId { server: ctx.config.me, number };
        if transaction.is_empty() {
            return self.reply(ctx, (client, message), CommitAnswer::Committed(tranx));
        }
        let (is_read_only, reads_absence) = (transaction.is_read_only(), transaction.reads_absence());
        let parts = ctx.config.partition.split(transaction);
        let participants: Vec<ServerId> = parts.keys().copied().collect();
        let is_validated = reads_absence && !ctx.config.has(Flaw::AbsenceOnlyValidated);
        let kind = match participants.as_slice() {
            [only] if *only == ctx.config.me && !is_read_only => Kind::OnePhase,
            servers if is_read_only && (servers.len() == 1 || !is_validated) => Kind::Validate,
            _ => Kind::Prepare,
        };
        let ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
        for (server, part) in &parts {
            ask(ctx, tranx, kind, *server, &participants, part.clone());
        }
        if kind != Kind::OnePhase {
            self.vote_timers.insert((ask_at_ms, number));
        }
        let phase = Phase::Voting { kind, parts, ask_at_ms, attempts: 1 };
        self.running.insert(number, Running { client: Some((client, message)), participants, phase });
    }

    fn is_admitted(&self, ctx: &Context<'_>, transaction: &Transaction) -> Result<(), Refusal> {
        transaction.validate().map_err(Refusal::Invalid)?;
        let overloaded = |limit: String| Err(Refusal::Overloaded { limit });
        if self.running.len() >= ctx.config.max_running {
            overloaded(format!("{} transactions under way", ctx.config.max_running))
        } else if self.next - self.low_water() > ctx.config.max_incomplete {
            overloaded(format!("{} transactions since one that is not complete", ctx.config.max_incomplete))
        } else if self.next > self.usable {
            overloaded("transaction numbers that are durably reserved".to_owned())
        } else {
            Ok(())
        }
    }

    pub(crate) fn voted(&mut self, ctx: &mut Context<'_>, from: ServerId, tranx: TranxId, vote: Vote) {
        let Some(running) = self.running.get_mut(&tranx.number) else { return };
        let Phase::Voting { parts, .. } = &mut running.phase else { return };
        match vote {
            Vote::Yes => {
                parts.remove(&from);
                if parts.is_empty() {
                    self.decide_commit(ctx, tranx);
                }
            }
            Vote::No(refusal) => self.abort(ctx, tranx, Some(from), refusal),
        }
    }

    /// Step 2.
    fn abort(&mut self, ctx: &mut Context<'_>, tranx: TranxId, voter: Option<ServerId>, refusal: Refusal) {
        let Some(running) = self.running.remove(&tranx.number) else { return };
        let Phase::Voting { kind, ask_at_ms, .. } = running.phase else { return };
        self.vote_timers.remove(&(ask_at_ms, tranx.number));
        if kind == Kind::Prepare {
            for server in running.participants.into_iter().filter(|server| Some(*server) != voter) {
                self.tell(ctx, server, tranx, Outcome::Abort);
            }
        }
        if let Some(client) = running.client {
            self.reply(ctx, client, CommitAnswer::Refused(refusal));
        }
    }

    /// Step 3.
    fn decide_commit(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
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

    fn ask_again(&mut self, ctx: &mut Context<'_>, number: u64) {
        let tranx = TranxId { server: ctx.config.me, number };
        let Some(running) = self.running.get_mut(&number) else { return };
        let Phase::Voting { kind, parts, ask_at_ms, attempts } = &mut running.phase else { return };
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

    /// Tells a participant, or puts it into the next message to it.
    fn tell(&mut self, ctx: &mut Context<'_>, server: ServerId, tranx: TranxId, outcome: Outcome) {
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

    fn flush(&mut self, ctx: &mut Context<'_>) {
        self.flush_at_ms = None;
        for (to, decisions) in std::mem::take(&mut self.outbox) {
            ctx.commands.push(Command::Send { to, message: Message::Decisions(decisions) });
        }
    }

    fn reply(&mut self, ctx: &mut Context<'_>, (client, message): (ClientId, MessageId), answer: CommitAnswer) {
        self.clients.answered(client, message, &answer);
        ctx.commands.push(Command::Reply { client, message, answer });
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
        Kind::Validate => ctx.tell(server, Message::Validate { tranx, part }),
        Kind::Prepare => ctx.tell(server, Message::Prepare { tranx, participants: participants.to_vec(), part }),
    }
}
