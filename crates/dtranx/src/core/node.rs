//! One server's machines together: events go in, commands come out. Events between machines wait in
//! queues, one for each pair of machines, and are delivered at once ([`Node::on`]) or one at a
//! time: then the machines are as far apart as they are on stages of their own.

use std::collections::{BTreeMap, VecDeque};

use super::{
    acknowledgement::AckService,
    config::NodeConfig,
    event::{Command, Input},
    gc::Gc,
    id::{Incarnation, RequestId},
    lock::LockService,
    machine::{Event, GcEvent, Outbox, TranxEvent, Turn},
    past_requests::RequestOutcome,
    recovery_service::RecoveryService,
    tranx_service::TranxService,
};

/// The node of one server, after its local recovery ([`super::Recovery`] makes it).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) tranx: TranxService,
    pub(crate) locks: LockService,
    pub(crate) acks: AckService,
    pub(crate) recovery: RecoveryService,
    pub(crate) gc: Gc,
    pub(crate) mail: BTreeMap<Link, VecDeque<Event>>,
}

/// One of a server's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Machine {
    Tranx,
    Lock,
    Ack,
    Recovery,
    Gc,
}

/// A queue from one machine to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Link {
    pub(crate) from: Machine,
    pub(crate) to: Machine,
}

/// Open work of a node, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Transactions that it coordinates and that are not complete.
    pub coordinating: usize,
    /// Parts of transactions that are not finished here.
    pub participating: usize,
    /// Number of parts that it remembers.
    pub remembered: usize,
    /// Transactions that hold or wait for locks.
    pub locking: usize,
    /// Transactions in doubt that it inquires about.
    pub asking: usize,
    /// Low-water mark of this server as a coordinator.
    pub low_water: u64,
    /// Sealed segments of the log.
    pub segments: usize,
    /// Number of events that the protocol excludes.
    pub anomalies: u64,
}

impl Node {
    /// Handles one event, and all events between machines that follow from it. `now_ms` never goes
    /// back within one incarnation. `commands` are to be carried out in order.
    pub fn on(&mut self, now_ms: u64, input: Input, commands: &mut Vec<Command>) {
        self.take(now_ms, input, commands);
        loop {
            let Some(link) = self.links().next() else { return };
            self.deliver(now_ms, link, commands);
        }
    }

    /// Handles one event; events between machines that follow from it wait.
    pub(crate) fn take(&mut self, now_ms: u64, input: Input, commands: &mut Vec<Command>) {
        match input {
            Input::Tick => self.tick(now_ms, commands),
            Input::ClientConnected { client } => self.tranx(now_ms, TranxEvent::ClientConnected { client }, commands),
            Input::ClientGone { client } => self.tranx(now_ms, TranxEvent::ClientGone { client }, commands),
            Input::Commit { client, message, transaction, again } => {
                self.tranx(
                    now_ms,
                    TranxEvent::Commit { client, message, is_repeated: false, transaction, again },
                    commands,
                );
            }
            Input::Snapshot { client, message } => {
                self.tranx(now_ms, TranxEvent::Snapshot { client, message }, commands);
            }
            Input::RequestOutcome { client, message, request, above } => {
                self.tranx(now_ms, TranxEvent::RequestOutcome { client, message, request, above }, commands);
            }
            Input::ServerGone { server } => self.tranx(now_ms, TranxEvent::ServerGone { server }, commands),
            Input::Met => self.tranx(now_ms, TranxEvent::Met, commands),
            Input::Receive { from, message } => {
                let event = Event::received(from, message);
                #[cfg(test)]
                let event = self.misled(event);
                self.handle(now_ms, event, commands);
            }
            Input::Logged { through } => self.tranx(now_ms, TranxEvent::Logged { through }, commands),
            Input::Checked { work, answer } => self.tranx(now_ms, TranxEvent::Checked { work, answer }, commands),
            Input::Applied { tranx } => self.tranx(now_ms, TranxEvent::Applied { tranx }, commands),
            Input::CollectGarbage => self.tranx(now_ms, TranxEvent::CollectGarbage, commands),
            Input::SegmentSealed { segment, summary } => {
                self.handle(now_ms, Event::Gc(GcEvent::Sealed { segment, summary }), commands);
            }
            Input::StoragePersisted => self.handle(now_ms, Event::Gc(GcEvent::Persisted), commands),
            Input::GcRecorded => self.handle(now_ms, Event::Gc(GcEvent::Recorded), commands),
        }
    }

    /// The queues between machines that are not empty.
    pub(crate) fn links(&self) -> impl Iterator<Item = Link> {
        self.mail.keys().copied()
    }

    /// Delivers the first event of a queue.
    pub(crate) fn deliver(&mut self, now_ms: u64, link: Link, commands: &mut Vec<Command>) {
        let Some(waiting) = self.mail.get_mut(&link) else { return };
        let event = waiting.pop_front();
        if waiting.is_empty() {
            self.mail.remove(&link);
        }
        if let Some(event) = event {
            self.handle(now_ms, event, commands);
        }
    }

    /// Time at which [`Input::Tick`] is due, if nothing else happens.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let deadlines = [
            self.tranx.next_deadline_ms(),
            self.locks.next_deadline_ms(),
            self.acks.next_deadline_ms(),
            self.recovery.next_deadline_ms(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The server's life; `None` until that is durable. Clients may be accepted from then on, under
    /// names with this incarnation.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.tranx.coordinator.incarnation()
    }

    /// Outcome of a request that was made to an earlier life. `above`: a number of this server's
    /// transactions that the client had heard of before it sent the request for the first time, in
    /// an answer or as a version; 0 if it had heard of none. The later that is, the less has to be
    /// known to deny the request.
    pub fn request_outcome(&self, request: RequestId, above: u64) -> RequestOutcome {
        self.tranx.coordinator.request_outcome(&self.config, request, above)
    }

    /// Returns true if the node takes part in transactions: it does, unless it is new.
    pub fn has_joined(&self) -> bool {
        self.tranx.joining.is_over()
    }

    /// The configuration that the node was made with.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// Open work of the node.
    pub fn status(&self) -> NodeStatus {
        let (coordinator, participant) = (&self.tranx.coordinator, &self.tranx.participant);
        NodeStatus {
            coordinating: coordinator.unfinished(),
            participating: participant.tally().unfinished,
            remembered: participant.remembered(),
            locking: self.locks.len(),
            asking: self.recovery.len(),
            low_water: coordinator.low_water(),
            segments: self.gc.len(),
            anomalies: participant.anomalies(),
        }
    }

    fn tranx(&mut self, now_ms: u64, event: TranxEvent, commands: &mut Vec<Command>) {
        self.handle(now_ms, Event::Tranx(event), commands);
    }

    fn handle(&mut self, now_ms: u64, event: Event, commands: &mut Vec<Command>) {
        let from = Machine::of(&event);
        let mut out = Outbox::default();
        let mut turn = Turn { now_ms, config: &self.config, out: &mut out };
        match event {
            Event::Tranx(event) => self.tranx.on(&mut turn, event),
            Event::Lock(event) => self.locks.on(&mut turn, event),
            Event::Recovery(event) => self.recovery.on(&mut turn, event),
            Event::Gc(event) => self.gc.on(&mut turn, event),
            Event::Ack(event) => {
                self.acks.on(&mut turn, event);
                self.acks.settle(&mut turn);
            }
        }
        self.post(from, out, commands);
    }

    fn tick(&mut self, now_ms: u64, commands: &mut Vec<Command>) {
        for machine in [Machine::Tranx, Machine::Lock, Machine::Ack, Machine::Recovery] {
            let mut out = Outbox::default();
            let mut turn = Turn { now_ms, config: &self.config, out: &mut out };
            match machine {
                Machine::Tranx => self.tranx.tick(&mut turn),
                Machine::Lock => self.locks.tick(&mut turn),
                Machine::Ack => self.acks.tick(&mut turn),
                Machine::Recovery => self.recovery.tick(&mut turn),
                Machine::Gc => {}
            }
            self.post(machine, out, commands);
        }
    }

    fn post(&mut self, from: Machine, out: Outbox, commands: &mut Vec<Command>) {
        commands.extend(out.commands);
        for event in out.events {
            self.mail.entry(Link { from, to: Machine::of(&event) }).or_default().push_back(event);
        }
    }

    /// A flaw: inquiries about decided transactions are answered by a machine that may not have
    /// heard of the decision.
    #[cfg(test)]
    fn misled(&self, event: Event) -> Event {
        use super::{flaw::Flaw, machine::AckEvent, message::Message};
        match event {
            Event::Tranx(TranxEvent::Receive { from, message: Message::Inquire { tranx } })
                if self.config.has(Flaw::InquiryDuringHandover)
                    && tranx.server == self.config.me
                    && !self.tranx.coordinator.is_undecided(tranx.number) =>
            {
                Event::Ack(AckEvent::Inquired { from, tranx })
            }
            event => event,
        }
    }
}

impl Machine {
    fn of(event: &Event) -> Self {
        match event {
            Event::Tranx(_) => Self::Tranx,
            Event::Lock(_) => Self::Lock,
            Event::Ack(_) => Self::Ack,
            Event::Recovery(_) => Self::Recovery,
            Event::Gc(_) => Self::Gc,
        }
    }
}
