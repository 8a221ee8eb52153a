//! Snapshots: the servers end an epoch together. Every server can then be read as of its end.
//!
//! The server that gets a client's request does this, for all clients that were waiting when it
//! began:
//! 1. *Ask* every server for its epoch. The snapshot is the end of the largest of these: so it has
//!    everything that was committed before.
//! 2. *Raise*: every server enters the next epoch, once that is durable there. What is accepted
//!    from now on is not in the snapshot.
//! 3. *Settle*: every server answers when what it accepted before is applied or aborted: then the
//!    snapshot can be read there and will not change.
//!
//! A commit of the new epoch may have been answered while another server was still in the old one;
//! what begins after that answer, and takes place there, would be in the snapshot without it. So
//! answers of an epoch that is new are held back until the server knows that all have entered it
//! (step 3 says so), for a limited time; and if that time was not enough for all, a server says in
//! step 3 that the snapshot is disturbed, and it is begun again, with another epoch.
//!
//! Nothing is remembered of a snapshot, but for what the servers keep to be read. A server that was
//! restarted keeps nothing of before, and does not know any more what it has answered. But it has
//! applied and answered nothing in an epoch that its log did not reserve before; so it cannot be
//! read as of an earlier one, and says of all these that they are disturbed.

use std::collections::{BTreeMap, BTreeSet};

pub use super::message::{Settlement, SnapshotMessage};
use super::{
    event::{Command, SnapshotAnswer},
    flaw::Flaw,
    id::{ClientId, Epoch, Incarnation, MessageId, ServerId, TranxId},
    journal::{Context, Wait},
    message::Message,
    record::Record,
    refusal::Refusal,
};

/// The snapshots that this server makes, one at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Snapshots {
    /// Number of the last request.
    last: u64,
    making: Option<Making>,
    /// Clients and requests that wait for the next snapshot.
    waiting: Vec<(ClientId, MessageId)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Making {
    clients: Vec<(ClientId, MessageId)>,
    step: Step,
    /// The first epoch that is not in the snapshot; at first, the largest that was heard of.
    epoch: Epoch,
    /// Servers that have not answered this step.
    missing: BTreeSet<ServerId>,
    /// Transactions that servers wait for, as they have said.
    waits: BTreeMap<ServerId, TranxId>,
    ask_at_ms: u64,
    asked: u32,
    begun: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Asking { number: u64 },
    Raising,
    Settling,
}

impl Snapshots {
    /// Takes a client's request for a snapshot.
    pub(crate) fn want(&mut self, ctx: &mut Context<'_>, life: Incarnation, client: ClientId, message: MessageId) {
        let clients = self.making.iter().flat_map(|making| &making.clients);
        if clients.chain(&self.waiting).any(|known| *known == (client, message)) {
            return;
        }
        if self.waiting.len() >= ctx.config.max_snapshots {
            let limit = format!("{} snapshots that clients wait for", ctx.config.max_snapshots);
            return reply(ctx, client, message, &SnapshotAnswer::Refused(Refusal::Overloaded { limit }));
        }
        self.waiting.push((client, message));
        self.go_on(ctx, life);
    }

    /// Number of clients that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.making.as_ref().map_or(0, |making| making.clients.len())
    }

    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.making.as_ref().map(|making| making.ask_at_ms)
    }

    /// Takes a server's answer.
    pub(crate) fn answered(
        &mut self,
        ctx: &mut Context<'_>,
        life: Incarnation,
        from: ServerId,
        message: &SnapshotMessage,
    ) {
        let Some(making) = &mut self.making else { return };
        match (*message, making.step) {
            (SnapshotMessage::Asked { by, number, epoch }, Step::Asking { number: asked })
                if (by, number) == (life, asked) =>
            {
                if from == ctx.config.me || !ctx.config.has(Flaw::EpochNotAsked) {
                    making.epoch = making.epoch.max(epoch);
                }
                if making.is_last(from) {
                    making.epoch = making.epoch.next();
                    making.begin_step(ctx, Step::Raising, life);
                }
            }
            (SnapshotMessage::Raised { epoch }, Step::Raising) if epoch == making.epoch && making.is_last(from) => {
                making.begin_step(ctx, Step::Settling, life);
            }
            (SnapshotMessage::Settled { epoch, settlement }, Step::Settling) if epoch == making.epoch => {
                match settlement {
                    Settlement::Disturbed => self.begin_again(ctx, life),
                    Settlement::Waits(tranx) => drop(making.waits.insert(from, tranx)),
                    Settlement::Settled if making.is_last(from) => self.made(ctx, life),
                    Settlement::Settled => {}
                }
            }
            _ => {}
        }
    }

    /// Repeats the requests that were not answered, or gives up.
    pub(crate) fn tick(&mut self, ctx: &mut Context<'_>, life: Incarnation) {
        let Some(making) = self.making.as_mut().filter(|making| making.ask_at_ms <= ctx.now_ms) else { return };
        if making.asked < ctx.config.vote_attempts {
            making.ask(ctx, life);
            return;
        }
        let server = making.missing.first().copied().unwrap_or(ctx.config.me);
        let refusal = match making.waits.get(&server).filter(|_| making.step == Step::Settling) {
            Some(tranx) => Refusal::SnapshotInDoubt { server, tranx: *tranx },
            None => Refusal::NoVote { server },
        };
        self.end(ctx, life, &SnapshotAnswer::Refused(refusal));
    }

    /// Begins the next snapshot, if a client waits for one and none is being made.
    fn go_on(&mut self, ctx: &mut Context<'_>, life: Incarnation) {
        if self.making.is_none() && !self.waiting.is_empty() {
            let clients = std::mem::take(&mut self.waiting);
            self.begin(ctx, life, clients, 1);
        }
    }

    fn begin(&mut self, ctx: &mut Context<'_>, life: Incarnation, clients: Vec<(ClientId, MessageId)>, begun: u32) {
        self.last += 1;
        let step = Step::Asking { number: self.last };
        let making = self.making.insert(Making {
            clients,
            step,
            epoch: Epoch(0),
            missing: BTreeSet::new(),
            waits: BTreeMap::new(),
            ask_at_ms: 0,
            asked: 0,
            begun,
        });
        making.begin_step(ctx, step, life);
    }

    /// The snapshot is disturbed, and cannot be read: ends another epoch.
    fn begin_again(&mut self, ctx: &mut Context<'_>, life: Incarnation) {
        let Some(Making { begun, .. }) = self.making else { return };
        if begun >= ctx.config.snapshot_attempts {
            let refusal = Refusal::SnapshotDisturbed { attempts: begun };
            return self.end(ctx, life, &SnapshotAnswer::Refused(refusal));
        }
        let clients = self.making.take().map(|making| making.clients).unwrap_or_default();
        self.begin(ctx, life, clients, begun + 1);
    }

    fn made(&mut self, ctx: &mut Context<'_>, life: Incarnation) {
        let Some(making) = &self.making else { return };
        let last = Epoch(making.epoch.0 - 1);
        self.end(ctx, life, &SnapshotAnswer::Made(last));
    }

    fn end(&mut self, ctx: &mut Context<'_>, life: Incarnation, answer: &SnapshotAnswer) {
        for (client, message) in self.making.take().map(|making| making.clients).unwrap_or_default() {
            reply(ctx, client, message, answer);
        }
        self.go_on(ctx, life);
    }
}

impl Making {
    fn begin_step(&mut self, ctx: &mut Context<'_>, step: Step, life: Incarnation) {
        self.step = step;
        self.asked = 0;
        self.missing = ctx.config.servers.iter().copied().collect();
        self.ask(ctx, life);
    }

    fn ask(&mut self, ctx: &mut Context<'_>, life: Incarnation) {
        self.asked += 1;
        self.ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
        let message = match self.step {
            Step::Asking { number } => SnapshotMessage::Ask { by: life, number },
            Step::Raising => SnapshotMessage::Raise { epoch: self.epoch },
            Step::Settling => SnapshotMessage::Settle { epoch: self.epoch },
        };
        for server in &self.missing {
            ctx.tell(*server, Message::Snapshot(message));
        }
    }

    /// Notes a server's answer to this step. Returns whether it was the last.
    fn is_last(&mut self, from: ServerId) -> bool {
        self.missing.remove(&from) && self.missing.is_empty()
    }
}

/// Every server's part in snapshots, whichever server makes them. Before its numbers are reserved,
/// a server has no name for its life and serves no client.
pub(super) fn asked(ctx: &mut Context<'_>, from: ServerId, message: &SnapshotMessage) {
    match *message {
        SnapshotMessage::Ask { by, number } => {
            let answer = SnapshotMessage::Asked { by, number, epoch: ctx.epochs.now() };
            ctx.tell(from, Message::Snapshot(answer));
        }
        SnapshotMessage::Raise { epoch } => {
            let wanted = ctx.epochs.raising.entry(from).or_insert(epoch);
            *wanted = epoch.max(*wanted);
            reserve_surely(ctx, epoch);
            raised(ctx);
        }
        SnapshotMessage::Settle { epoch } => {
            if ctx.epochs.confirm(ctx.config, epoch) {
                ctx.epochs.settling.insert(from, epoch);
                if let Some(tranx) = ctx.epochs.unsettled(ctx.config, epoch) {
                    settled(ctx, from, epoch, Settlement::Waits(tranx));
                }
            } else {
                settled(ctx, from, epoch, Settlement::Disturbed);
            }
        }
        SnapshotMessage::Asked { .. } | SnapshotMessage::Raised { .. } | SnapshotMessage::Settled { .. } => {}
    }
}

/// Reserves epochs up to this one, and some more, in the log, if they are not: before the record of
/// anything that takes place in this epoch. So a server that finds that record after a restart is
/// in this epoch, or a later one.
pub(super) fn reserve(ctx: &mut Context<'_>, epoch: Epoch) {
    if ctx.config.has(Flaw::EpochsNotReserved) {
        return;
    }
    reserve_surely(ctx, epoch);
}

/// [`reserve`] whatever is broken on purpose: something waits for the record.
pub(super) fn reserve_surely(ctx: &mut Context<'_>, epoch: Epoch) {
    if let Some(through) = ctx.epochs.reserve(ctx.config, epoch) {
        ctx.log(Record::Epochs { through }, true, Some(Wait::Epochs(through)));
    }
}

/// Answers the servers that wait for an epoch that is entered now.
pub(super) fn raised(ctx: &mut Context<'_>) {
    for (server, epoch) in ctx.epochs.raised(ctx.config, ctx.now_ms) {
        ctx.tell(server, Message::Snapshot(SnapshotMessage::Raised { epoch }));
    }
}

/// Answers the servers that wait until everything accepted before an epoch is decided.
pub(super) fn settle(ctx: &mut Context<'_>) {
    if ctx.epochs.settling.is_empty() {
        return;
    }
    for (server, epoch) in std::mem::take(&mut ctx.epochs.settling) {
        if ctx.epochs.unsettled(ctx.config, epoch).is_some() {
            ctx.epochs.settling.insert(server, epoch);
        } else {
            settled(ctx, server, epoch, Settlement::Settled);
        }
    }
}

fn settled(ctx: &mut Context<'_>, to: ServerId, epoch: Epoch, settlement: Settlement) {
    ctx.tell(to, Message::Snapshot(SnapshotMessage::Settled { epoch, settlement }));
}

fn reply(ctx: &mut Context<'_>, client: ClientId, message: MessageId, answer: &SnapshotAnswer) {
    ctx.out.commands.push(Command::ReplySnapshot { client, message, answer: answer.clone() });
}
