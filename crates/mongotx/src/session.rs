//! A session: where transactions begin and end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use protocol::TxId;

use crate::{
    coordinator::{
        Core,
        parked::{Parking, Statement},
        quiet::Attempts,
        transaction::{Transaction, abandon},
    },
    error::{Error, ErrorKind, Result},
    options::TransactionOptions,
};

/// One transaction at a time. Dropping a session rolls back what it has not committed, in the background, on the runtime
/// that its client was made on. If that has ended, the client's signs of life have ended with it, and the locks go with the
/// lease.
///
/// A conflict, an expired lease, a lost connection end the transaction: it is rolled back at once, and until
/// [`Session::begin`] everything answers [`ErrorKind::Closed`]. A statement that the server refuses (a duplicate key,
/// an operator on the wrong type) ends it, too, at the levels that validate what was read, as with MongoDB's own
/// transactions. At the weaker ones it does *not*: what earlier statements wrote is still there.
pub struct Session {
    core: Arc<Core>,
    defaults: TransactionOptions,
    state: State,
    attempts: Attempts,
}

enum State {
    Idle,
    Open(Arc<Parking>),
    /// Rolled back by an error; the caller has not noticed yet.
    Broken(Error),
}

impl Session {
    pub(crate) fn new(core: Arc<Core>, defaults: TransactionOptions) -> Self {
        Self { core, defaults, state: State::Idle, attempts: Attempts::default() }
    }

    /// How the last transactions have ended, for a session that goes on with the same work.
    pub fn attempts(&self) -> Attempts {
        self.attempts.clone()
    }

    /// This session, as the one that goes on after those attempts of another.
    #[must_use]
    pub fn after(mut self, attempts: Attempts) -> Self {
        self.attempts = attempts;
        self
    }

    /// Begins a transaction with the session's options. Sends nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when one is open, or when the options ask for what this deployment cannot do.
    pub fn begin(&mut self) -> Result<()> {
        self.begin_with(self.defaults.clone())
    }

    /// Begins a transaction with these options.
    ///
    /// # Errors
    /// As [`Session::begin`].
    pub fn begin_with(&mut self, options: TransactionOptions) -> Result<()> {
        if self.is_open() {
            return Err(Error::invalid(117, "a transaction is open in this session already"));
        }
        self.core.check_options(&options)?;
        self.state =
            State::Open(Parking::new(&self.core, Transaction::begin(&self.core, options, self.attempts.clone())));
        Ok(())
    }

    /// Commits. When this answers `Ok`, everybody sees all of the transaction, for ever.
    ///
    /// If the future is dropped after the commit was sent, the transaction may or may not be committed; its id tells.
    ///
    /// # Errors
    /// [`ErrorKind::Expired`], [`ErrorKind::Unavailable`]: not committed. [`ErrorKind::Indeterminate`]: ask
    /// [`crate::Client::outcome`] with [`Error::transaction`]. [`ErrorKind::Closed`]: nothing is open.
    pub async fn commit(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Open(parking) => self.core.commit(*parking.take()?).await,
            State::Broken(error) => Err(closed(Some(&error))),
            State::Idle => Err(closed(None)),
        }
    }

    /// Makes sure now that what the transaction has read is so at one moment, as its commit will: before something is done outside
    /// the database because of it. At read committed and repeatable read it asks nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: something has changed since it was read, and the transaction is rolled back.
    /// [`ErrorKind::Closed`]: nothing is open.
    pub async fn validate(&mut self) -> Result<()> {
        let checked = match self.statement() {
            Ok(None) => return Err(closed(None)),
            Ok(mut statement) => {
                let checked = match statement.as_mut().and_then(Statement::transaction) {
                    Some(tx) => {
                        let checked = self.core.validate(tx).await;
                        self.core.end_quiet(tx).await;
                        checked
                    }
                    None => Ok(()),
                };
                self.end_statement(&mut statement, checked).await
            }
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(error) => Err(self.note_error(error).await),
        }
    }

    /// Rolls back. Harmless when the transaction has ended with an error before.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] when nothing was begun.
    pub async fn rollback(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Open(parking) => {
                // One that was left idle for too long is rolled back already.
                if let Ok(tx) = parking.take() {
                    self.core.server.counters.add(&self.core.server.counters.rollbacks, 1);
                    self.core.roll_back(*tx).await;
                }
                Ok(())
            }
            State::Broken(_) => Ok(()),
            State::Idle => Err(closed(None)),
        }
    }

    /// Is a transaction open?
    pub fn is_open(&self) -> bool {
        matches!(&self.state, State::Open(parking) if !parking.is_reaped())
    }

    /// The id of the open transaction, once it has written (or read-locked) something.
    pub fn id(&self) -> Option<TxId> {
        match &self.state {
            State::Open(parking) => parking.id(),
            State::Idle | State::Broken(_) => None,
        }
    }

    /// The transaction for a command, as long as that runs, if what came before it is known.
    pub(crate) fn statement(&mut self) -> Result<Option<Statement>> {
        match &self.state {
            State::Open(parking) => {
                let mut statement = parking.statement()?;
                if let Some(tx) = statement.transaction() {
                    tx.check_undoubted()?;
                    self.core.check_standing(tx)?;
                }
                Ok(Some(statement))
            }
            State::Idle => Ok(None),
            State::Broken(error) => Err(closed(Some(error))),
        }
    }

    /// A command has its answer: that counts if the transaction still stands.
    pub(crate) async fn end_statement<T>(&self, statement: &mut Option<Statement>, done: Result<T>) -> Result<T> {
        let Some(tx) = statement.as_mut().and_then(Statement::transaction) else { return done };
        if done.as_ref().is_err_and(Error::ends_transaction) {
            return done;
        }
        self.core.vouch(tx).await?;
        tx.end_statement();
        done
    }

    /// A command has failed: does that end the transaction?
    pub(crate) async fn note_error(&mut self, error: Error) -> Error {
        let State::Open(parking) = &self.state else { return error };
        let error = error.for_transaction(parking.id());
        // What a refused statement has told of the documents is not validated.
        if !error.ends_transaction() && !parking.validates() {
            return error;
        }
        let State::Open(parking) = std::mem::replace(&mut self.state, State::Broken(error.clone())) else {
            return error;
        };
        if let Ok(tx) = parking.take() {
            self.core.count_abort(&error);
            self.core.roll_back(*tx).await;
        }
        error
    }

    /// Runs `body` in a transaction and commits it; runs it again as long as that makes sense: after errors labelled
    /// `TransientTransactionError`, with a growing pause, up to the client's retry limit. A commit whose outcome is
    /// unknown is asked about; it is never run again before that is known.
    ///
    /// The future of an async closure that borrows cannot be proven `Send` by today's compilers: where that is needed
    /// (`tokio::spawn`), use [`Session::run_transaction`].
    ///
    /// # Errors
    /// What `body` returns, unless it is transient; the last transient error when the limit is reached;
    /// [`ErrorKind::Indeterminate`] when the outcome could not be learned in time.
    pub async fn with_transaction<T>(&mut self, mut body: impl AsyncFnMut(&mut Self) -> Result<T>) -> Result<T> {
        let mut retry = Retry::new(self);
        loop {
            self.begin()?;
            let result = body(self).await;
            if let Some(result) = retry.after(self, result).await {
                return result;
            }
        }
    }

    /// [`Session::with_transaction`] with a boxed future and a context that is handed to every attempt.
    ///
    /// # Errors
    /// As [`Session::with_transaction`].
    pub async fn run_transaction<C, T, F>(&mut self, mut context: C, mut body: F) -> Result<T>
    where
        F: for<'b> FnMut(&'b mut Self, &'b mut C) -> BoxFuture<'b, Result<T>>,
    {
        let mut retry = Retry::new(self);
        loop {
            self.begin()?;
            let result = body(self, &mut context).await;
            if let Some(result) = retry.after(self, result).await {
                return result;
            }
        }
    }

    /// What became of a commit whose answer was lost: `Ok` is committed.
    async fn learn(&self, error: Error, until: Instant) -> Result<()> {
        use crate::coordinator::txlog::Fate;
        let Some(id) = error.transaction() else { return Err(error) };
        let mut pause = Duration::from_millis(50);
        while Instant::now() < until {
            match self.core.log.fate(id).await {
                Ok(Fate::Committed) => return Ok(()),
                Ok(Fate::RolledBack) => {
                    return Err(Error::new(ErrorKind::Expired, "the commit did not arrive before the lease ended")
                        .for_transaction(Some(id)));
                }
                Ok(Fate::Unknown) => return Err(error),
                Ok(Fate::Active) | Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        Err(error)
    }
}

/// Between two attempts of a transaction.
struct Retry {
    until: Instant,
    pause: Duration,
}

impl Retry {
    fn new(session: &Session) -> Self {
        Self { until: Instant::now() + session.core.options.retry_limit, pause: Duration::from_millis(1) }
    }

    /// Ends an attempt: the result to answer, or `None` to run the transaction again.
    async fn after<T>(&mut self, session: &mut Session, result: Result<T>) -> Option<Result<T>> {
        let error = match result {
            Ok(value) => match session.commit().await {
                Ok(()) => return Some(Ok(value)),
                Err(error) if error.kind() == ErrorKind::Indeterminate => {
                    match session.learn(error, self.until).await {
                        Ok(()) => return Some(Ok(value)),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            },
            Err(error) => {
                // The body may have ended the transaction itself.
                let _ = session.rollback().await;
                error
            }
        };
        let again = error.contains_label(crate::error::TRANSIENT_TRANSACTION_ERROR);
        if !again || Instant::now() + self.pause >= self.until {
            return Some(Err(error));
        }
        session.core.server.counters.add(&session.core.server.counters.retries, 1);
        tokio::time::sleep(self.pause.mul_f64(rand::random_range(0.5..1.5))).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(500));
        None
    }
}

fn closed(because: Option<&Error>) -> Error {
    match because {
        Some(error) => Error::new(ErrorKind::Closed, format!("the transaction was rolled back before: {error}"))
            .for_transaction(error.transaction()),
        None => Error::new(ErrorKind::Closed, "no transaction is open in this session"),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let State::Open(parking) = std::mem::replace(&mut self.state, State::Idle)
            && let Ok(tx) = parking.take()
        {
            abandon(&self.core, *tx);
        }
    }
}
