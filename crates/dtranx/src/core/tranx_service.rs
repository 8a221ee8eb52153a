//! The transaction service: coordinator, participant and the end of the log. They belong together:
//! messages between a server's own coordinator and participant are handled within one event.

use std::collections::VecDeque;

use super::{
    complete::Complete,
    coordinator::Coordinator,
    epochs::Epochs,
    event::{Command, CommitAnswer},
    id::{RequestId, ServerId, WorkId},
    joining::{Joining, refuse},
    joining_steps::go_on,
    journal::{Context, Journal, Local, Wait},
    machine::{Event, GcEvent, LockEvent, TranxEvent, Turn},
    map::Maps,
    marks::Look,
    message::Message,
    participant::Participant,
    record::GcRecord,
    refusal::Refusal,
    snapshot,
};

/// The transaction service of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TranxService {
    pub(crate) coordinator: Coordinator,
    pub(crate) participant: Participant,
    pub(crate) journal: Journal,
    pub(crate) epochs: Epochs,
    pub(crate) maps: Maps,
    pub(crate) joining: Joining,
}

impl TranxService {
    pub(crate) fn on(&mut self, turn: &mut Turn<'_>, event: TranxEvent) {
        self.within(turn, |coordinator, participant, ctx| match event {
            TranxEvent::ClientConnected { client } => coordinator.connect(ctx, client),
            TranxEvent::ClientGone { client } => coordinator.leave(client),
            TranxEvent::Commit { client, message, .. } if ctx.joining.refuses_clients(ctx.config) => {
                let answer = CommitAnswer::Refused(Refusal::Joining { server: ctx.config.me });
                ctx.out.commands.push(Command::Reply { client, message, answer });
            }
            TranxEvent::Commit { client, message, is_repeated, transaction, again } => {
                coordinator.commit(ctx, RequestId { client, message }, is_repeated, transaction, again);
            }
            TranxEvent::Snapshot { client, message } => coordinator.snapshot(ctx, client, message),
            TranxEvent::RequestOutcome { client, message, request, above } => {
                coordinator.tell_fate(ctx, RequestId { client, message }, request, above);
            }
            TranxEvent::Met => ctx.joining.meet(ctx.config),
            TranxEvent::ServerGone { server } => ctx.event(Event::Lock(LockEvent::Gone { server })),
            TranxEvent::Receive { from, message } => receive(coordinator, participant, ctx, from, message),
            TranxEvent::Logged { through } => {
                for wait in ctx.journal.logged(through) {
                    logged(coordinator, participant, ctx, wait);
                }
            }
            TranxEvent::Checked { work: WorkId::Tranx(tranx), answer } => participant.checked(ctx, tranx, answer),
            TranxEvent::Checked { work: WorkId::Validation(validation), answer } => {
                participant.validation_checked(ctx, validation, answer);
            }
            TranxEvent::Applied { tranx } => participant.applied(ctx, tranx),
            TranxEvent::Granted { work: WorkId::Tranx(tranx) } => participant.granted(ctx, tranx),
            TranxEvent::Granted { work: WorkId::Validation(validation) } => {
                participant.validation_granted(ctx, validation);
            }
            TranxEvent::Refused { work: WorkId::Tranx(tranx), refusal } => {
                participant.locks_refused(ctx, tranx, refusal);
            }
            TranxEvent::Refused { work: WorkId::Validation(validation), refusal } => {
                participant.validation_refused(ctx, validation, refusal);
            }
            TranxEvent::Complete { numbers } => coordinator.completed(&numbers),
            TranxEvent::Resolved { tranx, outcome } => participant.decide(ctx, tranx, outcome, true),
            TranxEvent::CollectGarbage => collect_garbage(coordinator, participant, ctx),
        });
    }

    /// Repeats vote requests; hands over what has been in doubt for too long.
    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        self.within(turn, |coordinator, participant, ctx| {
            coordinator.tick(ctx);
            participant.tick(ctx);
            ctx.joining.tick(ctx.now_ms);
        });
    }

    /// Time at which [`TranxService::tick`] is due.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let deadlines =
            [self.coordinator.next_deadline_ms(), self.participant.next_deadline_ms(), self.joining.next_deadline_ms()];
        deadlines.into_iter().flatten().min()
    }

    /// Handles an event, and then the messages between coordinator and participant.
    fn within(
        &mut self,
        turn: &mut Turn<'_>,
        handle: impl FnOnce(&mut Coordinator, &mut Participant, &mut Context<'_>),
    ) {
        let Self { coordinator, participant, journal, epochs, maps, joining } = self;
        let (now_ms, config) = (turn.now_ms, turn.config);
        let mut local = VecDeque::new();
        let mut ctx = Context { now_ms, config, journal, epochs, maps, joining, local: &mut local, out: turn.out };
        handle(coordinator, participant, &mut ctx);
        loop {
            snapshot::settle(&mut ctx);
            go_on(&mut ctx, coordinator.incarnation());
            let Some(message) = ctx.local.pop_front() else { break };
            match message {
                Local::Message(message) => receive(coordinator, participant, &mut ctx, config.me, message),
                Local::OnePhase { tranx, request, part, standing } => {
                    participant.one_phase(&mut ctx, tranx, request, part, standing);
                }
            }
        }
        participant.reclaim(&mut ctx);
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
    if ctx.joining.refuses_parts(ctx.config)
        && let Some(answer) = refuse(me, &message)
    {
        return ctx.tell(from, answer);
    }
    match message {
        // A server sends messages about its own transactions only; others are from no server of
        // this cluster.
        Message::Prepare { tranx, .. } if tranx.server != from => {}
        Message::Validate { validation, .. } if validation.server != from => {}
        Message::Vote { tranx, .. } if tranx.server != me => {}
        Message::Validated { validation, .. } if validation.server != me => {}
        Message::Keep { tranx } if tranx.server != from => {}
        Message::Prepare { tranx, participants, part, standing } => {
            participant.prepare(ctx, tranx, participants, part, standing);
        }
        Message::Keep { tranx } => participant.keep(ctx, tranx),
        Message::Validate { validation, part, epoch } => participant.validate(ctx, validation, part, epoch),
        Message::Validated { validation, vote, epoch } => coordinator.validated(ctx, from, validation, vote, epoch),
        Message::Vote { tranx, vote, epoch } => coordinator.voted(ctx, from, tranx, vote, epoch),
        Message::Decisions(decisions) => {
            for (tranx, outcome) in decisions.into_iter().filter(|(tranx, _)| tranx.server == from) {
                participant.decide(ctx, tranx, outcome, false);
            }
        }
        Message::Inquire { tranx } if tranx.server == me => coordinator.inquired(ctx, from, tranx),
        Message::Inquire { tranx } => participant.inquired(ctx, from, tranx),
        Message::LowWater { through, incomplete } => {
            participant.completed(ctx, from, &Complete::but_for(through, incomplete));
        }
        Message::Snapshot(message) => {
            ctx.joining.answered(coordinator.incarnation(), from, &message);
            coordinator.receive_snapshot_message(ctx, from, &message);
        }
        // These messages are for other machines.
        Message::Acknowledge(_) | Message::InquiryAnswer { .. } => {}
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
        Wait::Marks => {
            let marks = ctx.journal.marks.logged();
            marks.into_iter().for_each(|marks| ctx.event(Event::Gc(GcEvent::Collect(marks))));
        }
        Wait::Epochs(through) => {
            ctx.epochs.reserve_logged(through);
            snapshot::raised(ctx);
            participant.epochs_reserved(ctx);
            coordinator.answer_held(ctx);
        }
    }
}

/// Announces what is complete to all servers, and has it logged: all low-water marks for the
/// garbage collection, and what is above them for the next life.
fn collect_garbage(coordinator: &Coordinator, participant: &mut Participant, ctx: &mut Context<'_>) {
    let (me, complete) = (ctx.config.me, coordinator.complete());
    participant.completed(ctx, me, &complete);
    for to in ctx.config.servers.iter().filter(|server| **server != me) {
        ctx.out.commands.push(Command::Send { to: *to, message: complete.announcement() });
    }
    let low_water = ctx.config.servers.iter().map(|server| (*server, participant.low_water(*server))).collect();
    let epochs_through = ctx.epochs.reserved();
    let record = GcRecord { reserved_through: coordinator.reserved(), low_water, epochs_through };
    match ctx.journal.marks.look(record) {
        Look::Log(record) => ctx.log(record, false, Some(Wait::Marks)),
        Look::Collect(marks) => ctx.event(Event::Gc(GcEvent::Collect(marks))),
        Look::Wait => {}
    }
    for server in &ctx.config.servers {
        let complete = participant.complete(*server);
        if let Some(record) = complete.and_then(|complete| ctx.journal.marks.note(ctx.config, *server, complete)) {
            ctx.log(record, false, None);
        }
    }
}
