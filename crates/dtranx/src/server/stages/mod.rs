//! The stages of a server, one file each, but for those with connections (see `network` and `embedded`).

pub(super) mod ack;
pub(super) mod gc;
pub(super) mod lock;
pub(super) mod read;
pub(super) mod recovery;
pub(super) mod storage;
pub(super) mod transaction;
pub(super) mod wal;

use super::event::Outgoing;
use crate::core::Command;
use crate::core::machine::{Event, Outbox};
use crate::core::tranx_service::TranxEvent;
use crate::stage::Outlet;

/// The most events that are taken from a queue at once.
pub(super) const BATCH: usize = 512;

/// Where a stage hands on what it wants that speaks to other servers and to the transaction stage only.
pub(super) struct SideHands {
    pub(super) tranx: Outlet<TranxEvent>,
    pub(super) outgoing: Outlet<Outgoing>,
}

impl SideHands {
    fn hand_on(&mut self, out: &mut Outbox) -> Result<(), String> {
        for command in out.commands.drain(..) {
            match command {
                Command::Send { to, message } => self.outgoing.send(Outgoing::Server(to, message)),
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

    /// Is everything handed on?
    fn flush(&mut self) -> bool {
        let tranx = self.tranx.flush();
        self.outgoing.flush() && tranx
    }

    fn are_clear(&self) -> bool {
        self.tranx.is_clear() && self.outgoing.is_clear()
    }
}

/// A machine tells another that its stage has no queue to.
fn unexpected(event: &Event) -> String {
    format!("an event that it cannot hand on: {event:?}")
}
