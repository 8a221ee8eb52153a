//! A call of several documents outside a transaction is a transaction of its own.
//!
//! It waits for rivals up to the client's limit, and is run again as a whole after a conflict. What
//! the server refuses on the way (a duplicate key, say) leaves what was done before as it is,
//! exactly as without MongoTx: that much is committed, and then the error is returned. After any
//! other error of a statement that is half done, all of the call is rolled back
//! ([`Transaction::end_write`]).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    coordinator::{
        Core, finishing::lock_wait::LockWait, lifecycle::abandon, stamps::retry_history::RetryHistory,
        transaction::Transaction,
    },
    error::{ErrorKind, Result},
    options::{Isolation, TransactionOptions},
};

/// Runs a command as a transaction of its own, again and again as long as that makes sense. (A
/// macro, because a closure that borrows cannot be proven to give a future that may be sent to
/// another thread.)
macro_rules! in_transaction {
    ($core:expr, |$tx:ident| $command:expr) => {{
        let mut call = $crate::command::writes::implicit::Call::new($core);
        loop {
            let $tx = call.begin();
            let result = Box::pin($command).await;
            match Box::pin(call.end(result)).await {
                Ok(None) => {}
                Ok(Some(done)) => break Ok(done),
                Err(error) => break Err($crate::error::Error::of_call(error)),
            }
        }
    }};
}
pub(crate) use in_transaction;

/// One call; dropped before its end, its transaction is rolled back.
pub(crate) struct Call<'a> {
    core: &'a Arc<Core>,
    open: Option<Transaction>,
    wait: Duration,
    until: Instant,
    lock_wait: LockWait,
    /// Longest wait for a rival while the attempt holds documents.
    patience: Duration,
}

/// Longest wait for a rival while an attempt holds documents: of the first attempt, and of later
/// ones, for which it is doubled. A rival that waits for no one goes on for as long as it likes.
const PATIENCE: Duration = Duration::from_millis(100);
const MOST_PATIENCE: Duration = Duration::from_secs(1);

impl<'a> Call<'a> {
    pub(crate) fn new(core: &'a Arc<Core>) -> Self {
        Self::within(core, core.options.write_wait)
    }

    /// A call of one attempt, which waits for no rival.
    pub(crate) fn at_once(core: &'a Arc<Core>) -> Self {
        Self::within(core, Duration::ZERO)
    }

    fn within(core: &'a Arc<Core>, wait: Duration) -> Self {
        Self {
            core,
            open: None,
            wait,
            until: Instant::now() + wait,
            lock_wait: LockWait::new(wait),
            patience: PATIENCE,
        }
    }

    /// A transaction for the next attempt. It waits for a rival for a part of the time only, and
    /// for less while it holds documents itself, because two such calls may wait for each other:
    /// of different length, so that one of them gives way.
    pub(crate) fn begin(&mut self) -> &mut Transaction {
        // As outside transactions: each document by itself.
        let isolation = Isolation::ReadCommitted;
        let options = TransactionOptions {
            isolation: Some(isolation),
            lock_wait: self.wait / 4,
            ..TransactionOptions::default()
        };
        let mut tx = self.core.lifecycle.begin(options, RetryHistory::default());
        tx.patience = Some(self.patience.mul_f64(rand::random_range(0.5..1.5)));
        tx.goes_in_order = self.patience > PATIENCE;
        self.patience = (self.patience * 2).min(MOST_PATIENCE);
        self.open.insert(tx)
    }

    /// The attempt's result: what to answer, or `None` to try again.
    pub(crate) async fn end<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        let Some(mut tx) = self.open.take() else { return result.map(Some) };
        let result = tx.end_write(result);
        tx.end_statement();
        let error = match result {
            Ok(done) => match self.core.commit(tx).await {
                Ok(()) => return Ok(Some(done)),
                Err(error) => error,
            },
            Err(refused) if !refused.ends_transaction() => {
                self.core.commit(tx).await?;
                return Err(refused);
            }
            Err(error) => {
                self.core.lifecycle.count_abort(&error);
                self.core.lifecycle.roll_back(tx).await;
                error.undone()
            }
        };
        if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Expired) || Instant::now() >= self.until {
            return Err(error);
        }
        self.core.server.counters.add(&self.core.server.counters.retries, 1);
        self.lock_wait.pause().await;
        Ok(None)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(tx) = self.open.take() {
            abandon(self.core, tx);
        }
    }
}
