//! Actors, which run the transactions of a test, and the ways in which one of them meets another.

use std::{pin::pin, time::Duration};

use tokio::sync::Notify;

use crate::{
    error::{BenchError, OpError, OpResult},
    targets::{Session, TxOptions},
    workload::tpcc::{how::How, tx::work::Work},
};

/// Time that a transaction may wait for another before that one goes on.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that it may take once the other has ended.
const LIMIT: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// One of the two users of a test.
pub(super) struct Actor {
    session: Box<dyn Session>,
    how: How,
}

impl Actor {
    pub(super) fn new(session: Box<dyn Session>, how: How) -> Self {
        Self { session, how }
    }

    pub(super) async fn begin(&mut self) -> OpResult<()> {
        self.session.begin(&TxOptions::default()).await
    }

    /// The actor's transaction, or its session where no transaction is open.
    pub(super) fn work(&mut self) -> Work<'_> {
        Work { session: &mut *self.session, how: self.how }
    }

    pub(super) async fn end(&mut self, how: End) -> OpResult<()> {
        match how {
            End::Commit => self.session.commit().await,
            End::Rollback => self.session.rollback().await,
        }
    }

    /// Runs a whole transaction, again and again until it has committed. Notifies `rolled_back`
    /// after each rollback.
    async fn persist<T>(
        &mut self,
        rolled_back: &Notify,
        mut run: impl AsyncFnMut(&mut Work<'_>) -> OpResult<T>,
    ) -> OpResult<T> {
        loop {
            match self.once(&mut run).await {
                Err(OpError::Conflict(_)) => {
                    let _ = self.session.rollback().await;
                    rolled_back.notify_one();
                    tokio::time::sleep(PAUSE).await;
                }
                ended => return ended,
            }
        }
    }

    /// Runs a whole transaction once.
    async fn once<T>(&mut self, run: &mut impl AsyncFnMut(&mut Work<'_>) -> OpResult<T>) -> OpResult<T> {
        self.begin().await?;
        let answer = run(&mut self.work()).await?;
        self.end(End::Commit).await?;
        Ok(answer)
    }
}

/// End of the first transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Rollback,
}

/// Time at which the second transaction was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before the first had ended: it did not wait.
    Before,
    /// After the first had ended: it waited, or was rolled back and tried again.
    After,
}

/// While a first transaction is open, a second one runs; `meanwhile` goes on with the first and
/// ends it. The second has until then to be done by itself, unless it waits or is rolled back.
pub(super) async fn meet<T, M>(
    second: &mut Actor,
    run: impl AsyncFnMut(&mut Work<'_>) -> OpResult<T>,
    meanwhile: impl AsyncFnOnce() -> OpResult<M>,
) -> OpResult<(When, T, M)> {
    let rolled_back = Notify::new();
    let mut running = pin!(second.persist(&rolled_back, run));
    let early = tokio::select! {
        biased;
        done = &mut running => Some(done?),
        () = rolled_back.notified() => None,
        () = tokio::time::sleep(PATIENCE) => None,
    };
    let seen = meanwhile().await?;
    if let Some(answer) = early {
        return Ok((When::Before, answer, seen));
    }
    match tokio::time::timeout(LIMIT, running).await {
        Ok(answer) => Ok((When::After, answer?, seen)),
        Err(_) => {
            let reason = format!("the second transaction was not done {LIMIT:?} after the first had ended");
            Err(BenchError::Failed(reason).into())
        }
    }
}
