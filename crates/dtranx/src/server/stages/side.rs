//! A stage around a machine that speaks to other servers and to the transaction stage only.

use std::sync::Arc;

use super::{BATCH, unexpected};
use crate::core::machine::{Event, Outbox, TranxEvent, Turn};
use crate::core::{Command, NodeConfig};
use crate::server::event::ToServer;
use crate::stage::{Outlet, Source, Stage};

/// A machine beside the transaction service.
pub(in crate::server) trait SideMachine: Send {
    /// Name of the stage.
    const STAGE: &'static str;
    /// Event of the machine.
    type Event: Send;

    fn on(&mut self, turn: &mut Turn<'_>, event: Self::Event);
    /// Notes that time has passed.
    fn tick(&mut self, turn: &mut Turn<'_>);
    fn next_deadline_ms(&self) -> Option<u64>;
    /// After a batch of events.
    fn settle(&mut self, _: &mut Turn<'_>) {}
}

/// Stage of such a machine.
pub(in crate::server) struct SideStage<M: SideMachine> {
    pub(super) machine: M,
    config: Arc<NodeConfig>,
    /// Events from other servers.
    pub(super) entry: Source<M::Event>,
    /// Events from the transaction stage.
    pub(super) internal: Source<M::Event>,
    outlets: SideOutlets,
    batch: Vec<M::Event>,
    out: Outbox,
}

impl<M: SideMachine> SideStage<M> {
    /// `entry`: events from other servers; `internal`: those from the transaction stage.
    pub(in crate::server) fn new(
        machine: M,
        config: Arc<NodeConfig>,
        entry: Source<M::Event>,
        internal: Source<M::Event>,
        outlets: SideOutlets,
    ) -> Self {
        Self { machine, config, entry, internal, outlets, batch: Vec::new(), out: Outbox::default() }
    }
}

/// Queues to which the machine's results go.
pub(in crate::server) struct SideOutlets {
    pub(in crate::server) tranx: Outlet<TranxEvent>,
    pub(in crate::server) to_servers: Outlet<ToServer>,
}

impl SideOutlets {
    fn hand_on(&mut self, out: &mut Outbox) -> Result<(), String> {
        for command in out.commands.drain(..) {
            match command {
                Command::Send { to, message } => self.to_servers.send(ToServer { to, message }),
                command => return Err(format!("a command that it cannot carry out: {command:?}")),
            }
        }
        for event in out.events.drain(..) {
            match event {
                Event::Tranx(event) => self.tranx.send(event),
                event => return Err(unexpected(&event)),
            }
        }
        Ok(())
    }

    /// Hands on the events that are kept. True: nothing is left.
    fn flush(&mut self) -> bool {
        let tranx = self.tranx.flush();
        self.to_servers.flush() && tranx
    }

    fn are_clear(&self) -> bool {
        self.tranx.is_clear() && self.to_servers.is_clear()
    }
}

impl<M: SideMachine> Stage for SideStage<M> {
    fn name(&self) -> &'static str {
        M::STAGE
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        if self.is_idle(now_ms) {
            return Ok(0);
        }
        let is_clear = self.outlets.flush();
        self.internal.take(BATCH, &mut self.batch);
        if is_clear {
            self.entry.take(BATCH, &mut self.batch);
        }
        let handled = self.batch.len();
        let mut turn = Turn { now_ms, config: &self.config, out: &mut self.out };
        for event in self.batch.drain(..) {
            self.machine.on(&mut turn, event);
        }
        if is_clear && self.machine.next_deadline_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            self.machine.tick(&mut turn);
        }
        self.machine.settle(&mut turn);
        self.outlets.hand_on(&mut self.out)?;
        self.outlets.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.internal.is_empty() || !self.entry.is_empty() || !self.outlets.are_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.machine.next_deadline_ms()
    }
}
