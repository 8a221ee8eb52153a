//! Transactions that are run again as a whole, after errors that another attempt can be without,
//! and the outcome of a commit whose answer was lost.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::Session;
use crate::{
    backoff::Backoff,
    coordinator::log::txlog::Outcome,
    error::{Error, ErrorKind, Result},
};

impl Session {
    /// Runs `body` in a transaction and commits it; runs it again as long as that makes sense:
    /// after errors labelled `TransientTransactionError`, with a growing pause, up to the client's
    /// retry limit. The outcome of a commit that was not answered is looked up; the body is never
    /// run again before that is known.
    ///
    /// The future of an async closure that borrows cannot be proven `Send` by today's compilers:
    /// where that is needed (`tokio::spawn`), use [`Session::run_transaction`].
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": 0}]).await?;
    /// # let mut session = client.session();
    /// let (from, to, amount) = (1, 2, 10);
    /// session
    ///     .with_transaction(async |session| {
    ///         accounts.update_one(doc! {"_id": from}, doc! {"$inc": {"balance": -amount}}).session(session).await?;
    ///         accounts.update_one(doc! {"_id": to}, doc! {"$inc": {"balance": amount}}).session(session).await?;
    ///         Ok(())
    ///     })
    ///     .await?;
    /// assert_eq!(accounts.find_one(doc! {"_id": to}).await?, Some(doc! {"_id": 2, "balance": 10}));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What `body` returns, unless it is transient; the last transient error when the limit is
    /// reached;
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

    /// [`Session::with_transaction`] with a boxed future and a context that is handed to every
    /// attempt.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let (of_task, context) = (client.clone(), accounts.clone());
    /// let task = tokio::spawn(async move {
    ///     let mut session = of_task.session();
    ///     session
    ///         .run_transaction(context, |session, accounts| {
    ///             Box::pin(async move {
    ///                 accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(session).await?;
    ///                 Ok(())
    ///             })
    ///         })
    ///         .await
    /// });
    /// task.await.expect("the task has not panicked")?;
    /// assert_eq!(accounts.find_one(doc! {"_id": 1}).await?, Some(doc! {"_id": 1, "balance": 105}));
    /// # Ok(()) }
    /// ```
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

    /// Outcome of a commit whose answer was lost: `Ok` is committed.
    async fn learn_outcome(&self, error: Error, until: Instant) -> Result<()> {
        let Some(id) = error.transaction() else { return Err(error) };
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        while Instant::now() < until {
            match self.core.log.outcome(id).await {
                Ok(Outcome::Committed) => return Ok(()),
                Ok(Outcome::RolledBack) => {
                    return Err(Error::new(ErrorKind::Expired, "the commit did not arrive before the lease ended")
                        .for_transaction(Some(id)));
                }
                Ok(Outcome::Unknown) => return Err(error),
                Ok(Outcome::Active) | Err(_) => tokio::time::sleep(backoff.next_pause()).await,
            }
        }
        Err(error)
    }
}

/// The time until which a transaction is run again, and the pauses between its attempts.
struct Retry {
    until: Instant,
    backoff: Backoff,
}

impl Retry {
    fn new(session: &Session) -> Self {
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(500));
        Self { until: Instant::now() + session.core.options.retry_limit, backoff }
    }

    /// Ends an attempt: the result to answer, or `None` to run the transaction again.
    async fn after<T>(&mut self, session: &mut Session, result: Result<T>) -> Option<Result<T>> {
        let error = match result {
            Ok(value) => match session.commit().await {
                Ok(()) => return Some(Ok(value)),
                Err(error) if error.kind() == ErrorKind::Indeterminate && !error.is_of_committed() => {
                    match session.learn_outcome(error, self.until).await {
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
        if !again || Instant::now() + self.backoff.coming() >= self.until {
            return Some(Err(error));
        }
        session.core.server.counters.add(&session.core.server.counters.retries, 1);
        self.backoff.wait().await;
        None
    }
}
