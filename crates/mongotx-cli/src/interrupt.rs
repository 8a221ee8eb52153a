//! Ctrl-C and its relatives.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that ask a program to end.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    /// From now on these signals do not end the process by themselves.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(|error| Failure::new(format!("cannot catch signals: {error}")));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) -> Failure {
        tokio::select! {
            _ = self.interrupt.recv() => Failure::interrupted(2),
            _ = self.terminate.recv() => Failure::interrupted(15),
            _ = self.hang_up.recv() => Failure::interrupted(1),
        }
    }
}
