//! The session, in which transactions begin and end, one at a time. `retry` runs a transaction
//! again as a whole and finds out lost outcomes; the commit itself is in `crate::command::commit`,
//! locks and undoing in `crate::coordinator`.

mod retry;

use std::sync::Arc;

use protocol::TxId;

use crate::{
    command::isolation::validation::Validation,
    coordinator::{
        Core,
        lifecycle::{
            abandon,
            idle_limit::{SessionTransaction, Statement},
        },
        stamps::retry_history::RetryHistory,
    },
    error::{Error, ErrorKind, Result},
    options::TransactionOptions,
};

/// A sequence of transactions, one at a time. Made by [`crate::Client::session`].
///
/// [`Session::with_transaction`] begins, commits and retries; [`Session::begin`],
/// [`Session::commit`] and [`Session::rollback`] leave that to the caller. An action is in the
/// transaction when it is given the session by `.session(&mut session)`.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": 0}]).await?;
/// let mut session = client.session();
/// session.begin()?;
/// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": -10}}).session(&mut session).await?;
/// accounts.update_one(doc! {"_id": 2}, doc! {"$inc": {"balance": 10}}).session(&mut session).await?;
/// session.commit().await?;
/// assert_eq!(accounts.find_one(doc! {"_id": 2}).await?, Some(doc! {"_id": 2, "balance": 10}));
/// # Ok(()) }
/// ```
///
/// Dropping a session rolls back what it has not committed, in the background, on the runtime that
/// its client was made on. If that has ended, the client's signs of life have ended with it, and
/// the locks go with the lease.
///
/// A conflict, an expired lease, a lost connection end the transaction: it is rolled back at once,
/// and until [`Session::begin`] everything answers [`ErrorKind::Closed`]. A statement that the
/// server refuses (a duplicate key, an operator on the wrong type) ends it, too, at the levels that
/// validate what was read, as with MongoDB's own transactions. At the weaker ones it does *not*:
/// what earlier statements wrote is still there. (Any other error of a statement that is half done
/// ends it at every level: [`Session::is_open`] shows it.)
pub struct Session {
    core: Arc<Core>,
    defaults: TransactionOptions,
    state: State,
    retry_history: RetryHistory,
}

/// State of a session: whether a transaction is open in it.
enum State {
    Idle,
    Open(Arc<SessionTransaction>),
    /// Rolled back by an error; the caller has not noticed yet.
    Broken(Error),
}

impl Session {
    pub(crate) fn new(core: Arc<Core>, defaults: TransactionOptions) -> Self {
        Self { core, defaults, state: State::Idle, retry_history: RetryHistory::default() }
    }

    /// Record of how the last transactions of this session have ended, to be handed to another
    /// session with [`Session::with_retry_history`]: one that has lost its validation twice in a
    /// row requests quiet of its rivals.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// use mongotx::Backoff;
    /// use std::time::Duration;
    ///
    /// // A loop of one's own that makes a new session for each attempt.
    /// let mut session = client.session();
    /// let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(500));
    /// loop {
    ///     session.begin()?;
    ///     accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    ///     match session.commit().await {
    ///         Err(error) if error.contains_label(mongotx::error::TRANSIENT_TRANSACTION_ERROR) => {
    ///             session = client.session().with_retry_history(session.retry_history());
    ///             backoff.wait().await;
    ///         }
    ///         other => break other?,
    ///     }
    /// }
    /// assert_eq!(accounts.find_one(doc! {"_id": 1}).await?, Some(doc! {"_id": 1, "balance": 105}));
    /// # Ok(()) }
    /// ```
    pub fn retry_history(&self) -> RetryHistory {
        self.retry_history.clone()
    }

    /// This session, which goes on with the work of another one: see [`Session::retry_history`].
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let session = client.session();
    /// let next = client.session().with_retry_history(session.retry_history());
    /// assert!(!next.is_open()); // only the attempts are handed on, no transaction
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_retry_history(mut self, history: RetryHistory) -> Self {
        self.retry_history = history;
        self
    }

    /// Begins a transaction with the session's options. Sends nothing.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let mut session = client.session();
    /// session.begin()?;
    /// let refused = session.begin().expect_err("one session has one open transaction");
    /// assert_eq!(refused.kind(), mongotx::ErrorKind::Invalid);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when one is open, or when the options ask for what this deployment
    /// cannot do.
    pub fn begin(&mut self) -> Result<()> {
        self.begin_with(self.defaults.clone())
    }

    /// Begins a transaction with these options. Sends nothing.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// use mongotx::TransactionOptions;
    /// use std::time::Duration;
    ///
    /// let (mut first, mut second) = (client.session(), client.session());
    /// first.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut first).await?;
    ///
    /// let patient = TransactionOptions { lock_wait: Duration::from_secs(60), ..TransactionOptions::default() };
    /// second.begin_with(patient)?;
    /// let write = accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 1}}).session(&mut second);
    /// let (committed, written) = tokio::join!(first.commit(), write);
    /// committed?;
    /// assert_eq!(written?.modified_count, 1); // it has waited for the first transaction
    /// second.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Session::begin`].
    pub fn begin_with(&mut self, options: TransactionOptions) -> Result<()> {
        if self.is_open() {
            return Err(Error::invalid(117, "a transaction is open in this session already"));
        }
        self.core.lifecycle.check_options(&options)?;
        self.state = State::Open(SessionTransaction::new(
            &self.core,
            self.core.lifecycle.begin(options, self.retry_history.clone()),
        ));
        Ok(())
    }

    /// Commits the open transaction. When this answers `Ok`, the transaction is durable and every
    /// client sees all of it.
    ///
    /// If the future is dropped after the commit was sent, the transaction may or may not be
    /// committed; [`crate::Client::outcome`] finds out by its id.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// accounts.delete_one(doc! {"_id": 1}).session(&mut session).await?;
    /// assert_eq!(accounts.count_documents(doc! {}).await?, 1); // no other client sees it yet
    /// session.commit().await?;
    /// assert_eq!(accounts.count_documents(doc! {}).await?, 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`], [`ErrorKind::Expired`], [`ErrorKind::Unavailable`]: not committed;
    /// run the transaction again. [`ErrorKind::Indeterminate`]: call [`crate::Client::outcome`]
    /// with [`Error::transaction`] before anything is run again. [`ErrorKind::Closed`]: no
    /// transaction is open.
    pub async fn commit(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Open(transaction) => self.core.commit(*transaction.take()?).await,
            State::Broken(error) => Err(closed(Some(&error))),
            State::Idle => Err(closed(None)),
        }
    }

    /// Checks now, as the commit will, that all that the transaction has read was so at one moment.
    /// Call it before something is done outside the database because of what was read. At read
    /// committed and repeatable read it checks nothing.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": -5}]).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// let owed = accounts.count_documents(doc! {"balance": {"$lt": 0}}).session(&mut session).await?;
    /// session.validate().await?;
    /// println!("{owed} reminders are printed now, and belong to one moment");
    ///
    /// accounts.update_many(doc! {}, doc! {"$inc": {"balance": 5}}).await?; // another program
    /// let changed = session.validate().await.expect_err("what was read has changed");
    /// assert_eq!(changed.kind(), mongotx::ErrorKind::Conflict);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: something has changed since it was read, and the transaction is
    /// rolled back; run it again. [`ErrorKind::Closed`]: no transaction is open.
    pub async fn validate(&mut self) -> Result<()> {
        let checked = match self.statement() {
            Ok(None) => return Err(closed(None)),
            Ok(mut statement) => {
                let checked = match statement.as_mut().and_then(Statement::transaction) {
                    Some(tx) => {
                        tx.forget_ahead();
                        let checked = Validation::of(&self.core).validate(tx).await;
                        self.core.quiet.end_quiet(tx).await;
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

    /// Rolls the open transaction back. Does nothing when the transaction has ended with an error
    /// before.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// accounts.delete_many(doc! {}).session(&mut session).await?;
    /// session.rollback().await?;
    /// assert_eq!(accounts.count_documents(doc! {}).await?, 1); // all accounts are still there
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] when no transaction was begun.
    pub async fn rollback(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Open(transaction) => {
                // One that was left idle for too long is rolled back already.
                if let Ok(tx) = transaction.take() {
                    self.core.server.counters.add(&self.core.server.counters.rollbacks, 1);
                    self.core.lifecycle.roll_back(*tx).await;
                }
                Ok(())
            }
            State::Broken(_) => Ok(()),
            State::Idle => Err(closed(None)),
        }
    }

    /// True while a transaction is open.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let mut session = client.session();
    /// session.begin()?;
    /// assert!(session.is_open());
    /// session.rollback().await?;
    /// assert!(!session.is_open());
    /// # Ok(()) }
    /// ```
    pub fn is_open(&self) -> bool {
        matches!(&self.state, State::Open(transaction) if !transaction.is_reaped())
    }

    /// The id of the open transaction, once it has written (or read-locked) something.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// assert!(session.id().is_none());
    /// accounts.delete_one(doc! {"_id": 1}).session(&mut session).await?;
    /// let id = session.id().expect("it has written");
    /// println!("transaction {id} of client {}", id.client);
    /// # Ok(()) }
    /// ```
    pub fn id(&self) -> Option<TxId> {
        match &self.state {
            State::Open(transaction) => transaction.id(),
            State::Idle | State::Broken(_) => None,
        }
    }

    /// The transaction for a command, as long as that runs, if what came before it is known.
    pub(crate) fn statement(&mut self) -> Result<Option<Statement>> {
        match &self.state {
            State::Open(transaction) => {
                let mut statement = transaction.statement()?;
                if let Some(tx) = statement.transaction() {
                    tx.check_undoubted()?;
                    self.core.standings.check_standing(tx)?;
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
        let done = tx.end_write(done);
        if done.as_ref().is_err_and(Error::ends_transaction) {
            return done;
        }
        self.core.standings.vouch(tx).await?;
        tx.end_statement();
        done
    }

    /// Notes that a command has failed, which may end the transaction.
    pub(crate) async fn note_error(&mut self, error: Error) -> Error {
        let error = self.or_stale(error).await;
        let State::Open(transaction) = &self.state else { return error };
        let error = error.for_transaction(transaction.id());
        // A refusal reveals something about documents. A transaction that validates its reads
        // cannot validate that, so it ends.
        if !error.ends_transaction() && !transaction.validates() {
            return error;
        }
        let State::Open(transaction) = std::mem::replace(&mut self.state, State::Broken(error.clone())) else {
            return error;
        };
        if let Ok(tx) = transaction.take() {
            self.core.lifecycle.count_abort(&error);
            self.core.lifecycle.roll_back(*tx).await;
        }
        error.undone()
    }

    /// The error of a duplicate key, unless what the transaction has read is not so any more: then
    /// it could not commit either without that statement, and run again it will find the document
    /// that has the key.
    async fn or_stale(&self, error: Error) -> Error {
        let State::Open(transaction) = &self.state else { return error };
        if !error.is_duplicate_key() || error.ends_transaction() || !transaction.validates() {
            return error;
        }
        let Ok(mut statement) = transaction.statement() else { return error };
        let Some(tx) = statement.transaction() else { return error };
        Validation::of(&self.core).stale(tx).await.unwrap_or(error)
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
        if let State::Open(transaction) = std::mem::replace(&mut self.state, State::Idle)
            && let Ok(tx) = transaction.take()
        {
            abandon(&self.core, *tx);
        }
    }
}
