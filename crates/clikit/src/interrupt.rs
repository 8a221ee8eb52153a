//! Signals that interrupt the program (Ctrl-C and others), as a future and as an exit status. What
//! is ended then is the program's matter.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that request a program to end.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: that means something else to the program.
    hang_up: Option<Signal>,
}

impl Interrupts {
    /// Catches these signals: from now on they do not end the process by themselves.
    pub fn catch() -> Result<Self, Failure> {
        let (interrupts, hang_up) = Self::catch_but_hang_up()?;
        Ok(Self { hang_up: Some(hang_up), ..interrupts })
    }

    /// Catches these signals except the one of a terminal that goes away, by which servers read
    /// their files again. Returns that one apart.
    pub fn catch_but_hang_up() -> Result<(Self, Signal), Failure> {
        let catch = |kind| signal(kind).map_err(|error| Failure::new(format!("cannot catch signals: {error}")));
        let (interrupt, terminate) = (catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?);
        Ok((Self { interrupt, terminate, hang_up: None }, catch(SignalKind::hangup())?))
    }

    /// Waits for one of these signals.
    pub async fn next(&mut self) -> Failure {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Failure::interrupted(2),
            _ = self.terminate.recv() => Failure::interrupted(15),
            _ = hang_up => Failure::interrupted(1),
        }
    }
}
