//! Whether somebody still waits for the end of work that goes on without its caller.

use tokio::sync::watch;

use crate::error::{Error, ErrorKind, Result};

/// The caller, as the work that goes on without it sees it.
pub(crate) struct Caller(Option<watch::Receiver<()>>);

impl Caller {
    /// A caller that has gone once the other part is dropped, which its future holds.
    pub(crate) fn present() -> (impl Send, Self) {
        let (presence, gone) = watch::channel(());
        (presence, Self(Some(gone)))
    }

    /// A caller that never goes.
    pub(crate) fn staying() -> Self {
        Self(None)
    }

    /// Awaits `wait`, and gives it up when the caller has gone.
    pub(crate) async fn while_there<T>(&self, wait: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.gone() => Err(Error::new(ErrorKind::Conflict, "it was given up while it waited for others")),
            done = wait => done,
        }
    }

    async fn gone(&self) {
        match self.0.clone() {
            // Nothing is ever sent: it ends with the caller.
            Some(mut gone) => while gone.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_with_their_caller_and_nothing_else_does() {
        let (presence, caller) = Caller::present();
        assert_eq!(caller.while_there(async { Ok(1) }).await.unwrap(), 1);
        let waiting = caller.while_there(std::future::pending::<Result<()>>());
        let going = async { drop(presence) };
        let (given_up, ()) = tokio::join!(waiting, going);
        assert!(given_up.is_err());
        assert!(caller.while_there(async { Ok(1) }).await.is_err(), "the next wait does not begin");
        assert_eq!(Caller::staying().while_there(async { Ok(1) }).await.unwrap(), 1);
    }
}
