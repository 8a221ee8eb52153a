//! One server's node: coordinator, participant, journal and garbage collection, called one event at a time.

use std::collections::VecDeque;

use super::{
    config::NodeConfig,
    coordinator::Coordinator,
    event::{Command, Input},
    gc::Gc,
    id::{Incarnation, ServerId},
    journal::{Context, Journal, Local, Wait},
    message::Message,
    participant::Participant,
    record::GcRecord,
};

/// The node of one server, after its local recovery ([`super::Recovery`] makes it).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) coordinator: Coordinator,
    pub(crate) participant: Participant,
    pub(crate) gc: Gc,
    pub(crate) journal: Journal,
}

/// What a node has to do, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Transactions that it coordinates and that are not complete.
    pub coordinating: usize,
    /// Parts of transactions that it is not done with.
    pub participating: usize,
    /// Parts that it remembers.
    pub remembered: usize,
    /// Transactions that hold or wait for locks.
    pub locking: usize,
    /// Its own low-water mark.
    pub low_water: u64,
    /// Sealed segments of the log.
    pub segments: usize,
    /// How often something happened that must not.
    pub anomalies: u64,
}

impl Node {
    /// Handles one event. `now_ms` never goes back within one incarnation. `commands` are to be carried out in order.
    pub fn on(&mut self, now_ms: u64, input: Input, commands: &mut Vec<Command>) {
        let Self { config, coordinator, participant, gc, journal } = self;
        let mut local = VecDeque::new();
        let mut ctx = Context { now_ms, config, journal, local: &mut local, commands };
        match input {
            Input::ClientConnected { client } => coordinator.connect(&ctx, client),
            Input::ClientGone { client } => coordinator.leave(client),
            Input::Commit { client, message, transaction } => {
                coordinator.commit(&mut ctx, client, message, transaction);
            }
            Input::Receive { from, message } => receive(coordinator, participant, &mut ctx, from, message),
            Input::Logged { through } => {
                for wait in ctx.journal.logged(through) {
                    logged(coordinator, participant, &mut ctx, wait);
                }
            }
            Input::Checked { tranx, answer } => participant.checked(&mut ctx, tranx, answer),
            Input::Applied { tranx } => participant.applied(&mut ctx, tranx),
            Input::SegmentSealed { segment, summary } => gc.sealed(segment, summary),
            Input::CollectGarbage => collect_garbage(coordinator, participant, gc, &mut ctx),
            Input::StoragePersisted => gc.persisted(ctx.config, ctx.commands),
            Input::GcRecorded => gc.recorded(ctx.commands),
            Input::Tick => {
                coordinator.tick(&mut ctx);
                participant.tick(&mut ctx);
            }
        }
        while let Some(message) = ctx.local.pop_front() {
            match message {
                Local::Message(message) => receive(coordinator, participant, &mut ctx, config.me, message),
                Local::OnePhase { tranx, part } => participant.one_phase(&mut ctx, tranx, part),
            }
        }
    }

    /// When [`Input::Tick`] is due, if nothing else happens.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let deadlines = [self.coordinator.next_deadline_ms(), self.participant.next_deadline_ms()];
        deadlines.into_iter().flatten().min()
    }

    /// Which life of the server this is; `None` until that is durable. Clients may be accepted from then on, under names
    /// with this incarnation.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.coordinator.incarnation()
    }

    /// The settings.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// The server's locks, and what it remembers of others' transactions.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }

    /// What there is to do.
    pub fn status(&self) -> NodeStatus {
        NodeStatus {
            coordinating: self.coordinator.running(),
            participating: self.participant.unfinished(),
            remembered: self.participant.remembered(),
            locking: self.participant.locks().len(),
            low_water: self.coordinator.low_water(),
            segments: self.gc.len(),
            anomalies: self.participant.anomalies(),
        }
    }
}

fn receive(
    coordinator: &mut Coordinator,
    participant: &mut Participant,
    ctx: &mut Context<'_>,
    from: ServerId,
    message: Message,
) {
    let me = ctx.config.me;
    match message {
        // A server speaks about its own transactions only; what does not fit is from no server of this cluster.
        Message::Prepare { tranx, .. } | Message::Validate { tranx, .. } if tranx.server != from => {}
        Message::Vote { tranx, .. } if tranx.server != me => {}
        Message::Prepare { tranx, participants, part } => participant.prepare(ctx, tranx, participants, part),
        Message::Validate { tranx, part } => participant.validate(ctx, tranx, part),
        Message::Vote { tranx, vote } => coordinator.voted(ctx, from, tranx, vote),
        Message::Decisions(decisions) => {
            for (tranx, outcome) in decisions.into_iter().filter(|(tranx, _)| tranx.server == from) {
                participant.decide(ctx, tranx, outcome, false);
            }
        }
        Message::Acknowledge(tranxs) => {
            let own: Vec<_> = tranxs.into_iter().filter(|tranx| tranx.server == me).collect();
            coordinator.acknowledged(from, &own);
        }
        Message::Inquire { tranx } if tranx.server == me => coordinator.inquired(ctx, from, tranx),
        Message::Inquire { tranx } => participant.inquired(ctx, from, tranx),
        Message::Told { tranx, outcome: Some(outcome) } if tranx.server != me => {
            participant.decide(ctx, tranx, outcome, true);
        }
        Message::Told { .. } => {}
        Message::LowWater { number } => participant.raise_low_water(ctx, from, number),
    }
}

fn logged(coordinator: &mut Coordinator, participant: &mut Participant, ctx: &mut Context<'_>, wait: Wait) {
    match wait {
        Wait::Reserve(through) => coordinator.reserve_logged(through),
        Wait::OnePhase(tranx) => participant.one_phase_logged(ctx, tranx),
        Wait::Ready(tranx) => participant.ready_logged(ctx, tranx),
        Wait::Commit(tranx) => coordinator.commit_logged(ctx, tranx),
        Wait::Outcome(tranx) => participant.outcome_logged(ctx, tranx),
        Wait::Promise(tranx) => participant.promise_logged(ctx, tranx),
    }
}

/// Tells everybody the low-water mark, and looks for segments that are not needed.
fn collect_garbage(coordinator: &mut Coordinator, participant: &mut Participant, gc: &mut Gc, ctx: &mut Context<'_>) {
    let (me, number) = (ctx.config.me, coordinator.low_water());
    participant.raise_low_water(ctx, me, number);
    for to in ctx.config.servers.iter().filter(|server| **server != me) {
        ctx.commands.push(Command::Send { to: *to, message: Message::LowWater { number } });
    }
    let low_water = ctx.config.servers.iter().map(|server| (*server, participant.low_water(*server))).collect();
    let record = GcRecord { reserved_through: coordinator.reserved(), low_water };
    gc.collect(ctx.config, record, ctx.commands);
}
