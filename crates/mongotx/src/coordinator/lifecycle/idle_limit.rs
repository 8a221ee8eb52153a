//! The idle limit: transactions of sessions between two statements, and the task that rolls back
//! those that were idle for too long.
//!
//! 1. A transaction is idle in its [`SessionTransaction`]. A statement takes it out and, when the
//!    statement ends or its future is dropped, puts it back with the time ([`Statement`]).
//! 2. One that has a number, and so may hold locks, is listed with the client's [`Reaper`] when it
//!    is put back.
//! 3. The reaper's task sleeps until the first of those could have been idle for its limit. It
//!    takes out those that have been, leaves word for their sessions, and rolls them back.
//!
//! A caller that takes the transaction out has it alone: the reaper never meets a statement that is
//! under way. The heartbeats of a client keep all of its transactions alive; without this task one
//! forgotten session would stop others for as long as its client lives.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use protocol::TxId;
use tokio::sync::Notify;

use super::abandon;
use crate::{
    coordinator::{Core, transaction::Transaction},
    error::{Error, ErrorKind, Result},
};

/// Time that the reaper sleeps when nothing is listed: the first transaction that is listed wakes
/// it.
const NOTHING_LISTED: Duration = Duration::from_secs(3_600);
/// Shortest sleep between two looks at all that are listed.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);

/// State of a session's transaction between its beginning and its end.
enum TransactionState {
    /// The transaction is idle in the session, since this time.
    Idle(Box<Transaction>, Instant),
    /// Taken out by a statement, or to be ended.
    InUse,
    /// The reaper has rolled it back, for this reason.
    Reaped(Error),
}

/// The transaction of one session, between two statements.
pub(crate) struct SessionTransaction {
    state: Mutex<TransactionState>,
    idle_limit: Duration,
    validates: bool,
    /// Under which the reaper knows it, once it is listed.
    key: u64,
    listed: AtomicBool,
    reaper: Arc<Reaper>,
}

impl SessionTransaction {
    pub(crate) fn new(core: &Core, tx: Transaction) -> Arc<Self> {
        let reaper = Arc::clone(&core.reaper);
        Arc::new(Self {
            idle_limit: tx.options.idle_limit.unwrap_or(core.options.idle_limit),
            validates: tx.validates(),
            state: Mutex::new(TransactionState::Idle(Box::new(tx), Instant::now())),
            key: reaper.keys.fetch_add(1, Relaxed),
            listed: AtomicBool::new(false),
            reaper,
        })
    }

    fn state(&self) -> MutexGuard<'_, TransactionState> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transaction, to be ended.
    ///
    /// # Errors
    /// [`ErrorKind::Expired`]: the reaper was first.
    pub(crate) fn take(&self) -> Result<Box<Transaction>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, TransactionState::InUse) {
            TransactionState::Idle(tx, _) => Ok(tx),
            TransactionState::InUse => {
                Err(Error::new(ErrorKind::Expired, "an earlier statement of the transaction never ended"))
            }
            TransactionState::Reaped(error) => {
                *state = TransactionState::Reaped(error.clone());
                Err(error)
            }
        }
    }

    /// The transaction, for the time of a statement.
    ///
    /// # Errors
    /// As [`SessionTransaction::take`].
    pub(crate) fn statement(self: &Arc<Self>) -> Result<Statement> {
        Ok(Statement { tx: Some(self.take()?), transaction: Arc::clone(self) })
    }

    /// The id of the transaction, while it is idle.
    pub(crate) fn id(&self) -> Option<TxId> {
        match &*self.state() {
            TransactionState::Idle(tx, _) => tx.id(),
            TransactionState::InUse | TransactionState::Reaped(_) => None,
        }
    }

    /// Returns true if what the transaction reads is validated at its commit.
    pub(crate) fn validates(&self) -> bool {
        self.validates
    }

    /// Returns true if it was left idle for too long.
    pub(crate) fn is_reaped(&self) -> bool {
        matches!(&*self.state(), TransactionState::Reaped(_))
    }

    fn put_back(self: &Arc<Self>, tx: Box<Transaction>) {
        let (now, has_number) = (Instant::now(), tx.id().is_some());
        *self.state() = TransactionState::Idle(tx, now);
        if has_number && !self.listed.swap(true, Relaxed) {
            self.reaper.list(self, now.checked_add(self.idle_limit));
        }
    }

    /// Takes the transaction out if it has been here for too long. Otherwise answers until when it
    /// need not be looked at; `None` is for ever.
    fn reap(&self, now: Instant) -> IdleCheck {
        let mut state = self.state();
        let due = match &*state {
            TransactionState::Idle(_, since) => since.checked_add(self.idle_limit),
            TransactionState::InUse => now.checked_add(self.idle_limit),
            TransactionState::Reaped(_) => None,
        };
        if due.is_none_or(|due| now < due) {
            return IdleCheck::Later(due);
        }
        match std::mem::replace(&mut *state, TransactionState::InUse) {
            TransactionState::Idle(tx, _) => {
                let error = idle_for_too_long(tx.id(), self.idle_limit);
                *state = TransactionState::Reaped(error.clone());
                IdleCheck::Due(tx, error)
            }
            other => {
                *state = other;
                IdleCheck::Later(None)
            }
        }
    }
}

impl Drop for SessionTransaction {
    fn drop(&mut self) {
        if *self.listed.get_mut() {
            self.reaper.state().open.remove(&self.key);
        }
    }
}

/// Result of a check of one transaction against its idle limit.
enum IdleCheck {
    /// Not before this time; `None`: never again.
    Later(Option<Instant>),
    /// Idle for too long: the transaction, to be rolled back, and the error for its session.
    Due(Box<Transaction>, Error),
}

fn idle_for_too_long(id: Option<TxId>, limit: Duration) -> Error {
    let message = format!("the transaction sent no statement for longer than its idle limit of {limit:?}");
    Error::new(ErrorKind::Expired, message).for_transaction(id)
}

/// A transaction that has been taken out for a statement. Dropped, it is put back.
pub(crate) struct Statement {
    tx: Option<Box<Transaction>>,
    transaction: Arc<SessionTransaction>,
}

impl Statement {
    pub(crate) fn transaction(&mut self) -> Option<&mut Transaction> {
        self.tx.as_deref_mut()
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        if let Some(tx) = self.tx.take() {
            self.transaction.put_back(tx);
        }
    }
}

/// The transactions of one client that have a number, while their sessions have them.
#[derive(Default)]
pub(crate) struct Reaper {
    state: Mutex<ListedTransactions>,
    keys: AtomicU64,
    wake: Notify,
}

/// The transactions that the task looks at, and when it does next.
#[derive(Default)]
struct ListedTransactions {
    open: HashMap<u64, Weak<SessionTransaction>>,
    /// Time at which the task looks again by itself.
    sleeps_until: Option<Instant>,
}

impl Reaper {
    fn state(&self) -> MutexGuard<'_, ListedTransactions> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, transaction: &Arc<SessionTransaction>, due: Option<Instant>) {
        let mut state = self.state();
        state.open.insert(transaction.key, Arc::downgrade(transaction));
        let too_late = state.sleeps_until.is_none_or(|until| due.is_some_and(|due| due < until));
        drop(state);
        if too_late {
            self.wake.notify_one();
        }
    }

    /// Ends the task, once its client is gone.
    pub(in crate::coordinator) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The transactions that are due now, and the time until the next one can be.
    fn due(&self) -> (Vec<(Box<Transaction>, Error)>, Duration) {
        let now = Instant::now();
        // The last handle of a session may be dropped here, which takes it from the list: that must
        // not be locked then.
        let open: Vec<Arc<SessionTransaction>> = {
            let mut state = self.state();
            state.sleeps_until = None;
            state.open.values().filter_map(Weak::upgrade).collect()
        };
        let (mut due, mut pause) = (Vec::new(), NOTHING_LISTED);
        for transaction in &open {
            match transaction.reap(now) {
                IdleCheck::Later(Some(at)) => pause = pause.min(at.saturating_duration_since(now)),
                IdleCheck::Later(None) => {}
                IdleCheck::Due(tx, error) => due.push((tx, error)),
            }
        }
        (due, pause.max(SHORTEST_SLEEP))
    }

    async fn sleep(&self, pause: Duration) {
        self.state().sleeps_until = Instant::now().checked_add(pause);
        let _ = tokio::time::timeout(pause, self.wake.notified()).await;
    }
}

/// Rolls back what is left lying, as long as the client lives.
pub(crate) fn reap_in_background(core: &Arc<Core>) {
    let (weak, reaper) = (Arc::downgrade(core), Arc::clone(&core.reaper));
    tokio::spawn(async move {
        while let Some(core) = weak.upgrade() {
            let (due, pause) = reaper.due();
            for (tx, error) in due {
                tracing::warn!(%error, "an idle transaction is rolled back");
                core.lifecycle.count_abort(&error);
                abandon(&core, *tx);
            }
            drop(core);
            reaper.sleep(pause).await;
        }
    });
}
