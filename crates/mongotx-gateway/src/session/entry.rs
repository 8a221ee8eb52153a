//! One session: its state machine, its open transaction, and the means to interrupt its command.
//!
//! Commands with a transaction number have the session to themselves, one after the other, as in
//! the server.

use std::{
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use mongotx::{Namespace, RetryHistory, TxId};
use tokio::sync::{Mutex, watch};

use super::{
    Lsid,
    machine::{End, Machine, State},
    retry::Retry,
};
use crate::{
    activity::transactions::{OpenTransaction, Snapshot},
    api::ApiParameters,
    failure::{Failure, codes},
    metrics::Counted,
};

/// One session of the table.
pub(crate) struct SessionEntry {
    pub(crate) lsid: Lsid,
    work: Mutex<SessionWork>,
    used: StdMutex<Instant>,
    interrupts: watch::Sender<u64>,
    /// The open transaction, as others see it while a command has the session.
    shown: StdMutex<Weak<OpenTransaction>>,
}

/// The part of a session that one command at a time may use.
#[derive(Default)]
pub(crate) struct SessionWork {
    pub(crate) machine: Machine,
    /// The newest number's transaction, while it is open.
    pub(crate) open: Option<SessionTransaction>,
    /// The newest number's transaction. Its outcome is read from the store when a commit was not
    /// answered or is sent again.
    pub(crate) id: Option<TxId>,
    /// API parameters of the newest transaction's first statement.
    pub(crate) api: ApiParameters,
    /// Results of the session's last transactions.
    pub(crate) attempts: RetryHistory,
    pub(crate) retry: Retry,
    /// The session's record as this gateway has written it, where retryable writes are durable.
    pub(crate) known: Option<RecordVersion>,
    /// The number of a transaction that was rolled back because it was open for too long.
    pub(crate) overdue: Option<i64>,
}

/// A record of retryable writes, by what changes whenever it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordVersion {
    pub(crate) number: i64,
    pub(crate) version: i64,
}

/// An open transaction of a session.
pub(crate) struct SessionTransaction {
    pub(crate) session: mongotx::Session,
    pub(crate) since: Instant,
    /// Collections that it has made.
    pub(crate) made: Vec<Namespace>,
    /// The transaction as others see it.
    pub(crate) shown: Arc<OpenTransaction>,
    /// Share of this transaction in the gauge of open transactions.
    pub(crate) _counted: Counted,
}

impl SessionWork {
    /// Returns true if the client may still need something that only this session knows.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.open.is_some() || !matches!(self.machine.state(), State::None | State::Aborted)
    }

    /// Rolls back the transaction under an older number, if one is open. Returns what others saw of
    /// it.
    pub(crate) async fn roll_back_older(&mut self) -> Option<Snapshot> {
        let mut open = self.open.take()?;
        // The rollback can only fail because there is nothing to roll back.
        let _ = open.session.rollback().await;
        Some(open.shown.now())
    }

    /// Rolls back the open transaction, if there is one. Returns what others saw of it.
    pub(crate) async fn roll_back(&mut self) -> Option<Snapshot> {
        let was_open = self.roll_back_older().await;
        if self.machine.state() == State::Open {
            self.machine.ended(End::Aborted);
        }
        was_open
    }

    /// The error for a command of a transaction of this number; it gives the reason if that was
    /// open for too long.
    pub(crate) fn explain_overdue(&self, number: i64, mut failure: Failure) -> Failure {
        if self.overdue == Some(number) && failure.code == codes::NO_SUCH_TRANSACTION {
            failure.message.push_str(" It was open for longer than it may be (--transaction-lifetime).");
        }
        failure
    }

    /// Returns true if a transaction has been open for longer than `limit`.
    pub(crate) fn is_open_for_longer(&self, now: Instant, limit: Duration) -> bool {
        self.open.as_ref().is_some_and(|open| now.saturating_duration_since(open.since) > limit)
    }
}

impl SessionEntry {
    pub(crate) fn new(lsid: Lsid, now: Instant) -> Self {
        let (work, shown) = (Mutex::default(), StdMutex::default());
        Self { lsid, work, used: StdMutex::new(now), interrupts: watch::Sender::new(0), shown }
    }

    /// Takes the session for one command. Waits for the command that runs in it.
    pub(crate) async fn check_out(&self) -> tokio::sync::MutexGuard<'_, SessionWork> {
        self.work.lock().await
    }

    /// The session's work, unless a command runs in it.
    pub(crate) fn try_check_out(&self) -> Option<tokio::sync::MutexGuard<'_, SessionWork>> {
        self.work.try_lock().ok()
    }

    /// Notes that the session was used.
    pub(crate) fn touch(&self, now: Instant) {
        *self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = now;
    }

    /// Time at which the session was used last.
    pub(crate) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A future that waits until the session is interrupted, from now on.
    pub(crate) fn interruption(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut interrupts = self.interrupts.subscribe();
        async move {
            if interrupts.changed().await.is_err() {
                // The session is gone with everything that could interrupt it.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Shows its open transaction to others.
    pub(crate) fn show(&self, open: &Arc<OpenTransaction>) {
        *self.shown_now() = Arc::downgrade(open);
    }

    /// The open transaction of the session, as others see it.
    pub(crate) fn shown(&self) -> Option<Arc<OpenTransaction>> {
        self.shown_now().upgrade()
    }

    fn shown_now(&self) -> MutexGuard<'_, Weak<OpenTransaction>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the command that runs in it.
    pub(crate) fn interrupt(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    /// Stops the command that runs in the session, and rolls back its open transaction. Returns the
    /// number of that, and what others saw of it.
    pub(crate) async fn stop(&self) -> Option<(i64, Snapshot)> {
        self.interrupt();
        let mut work = self.check_out().await;
        let shown = work.roll_back().await?;
        Some((work.machine.newest(), shown))
    }
}
