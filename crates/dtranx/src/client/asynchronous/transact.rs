//! Transactions that are tried again ([`Retry`] says whether and when), and single operations,
//! which are transactions too.

use bytes::Bytes;

use super::pause::pause;
use super::{AsyncClient, AsyncTransaction};
use crate::client::retry::{Next, Retry};
use crate::client::state::{CurrentItems, TransactionState};
use crate::client::{Error, Result, Scanned};
use crate::core::KeyRange;

impl AsyncClient {
    /// Runs a transaction, again and again as far as the options allow, until it is committed.
    /// `body` may be called several times and must do nothing else that cannot be repeated.
    ///
    /// ```no_run
    /// # use dtranx::client::{AsyncClient, Result};
    /// # async fn transfer(client: &AsyncClient) -> Result<()> {
    /// client
    ///     .transact(async |tranx| {
    ///         let balance = tranx.get("alice").await?.unwrap_or_default();
    ///         tranx.put("bob", balance)
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// The future is `Send` if `body` owns what it uses (`async move`, clones); with borrowed
    /// values the compiler cannot show that so far.
    ///
    /// If `body` returns an error, nothing is written; but what it has read is validated before the
    /// error is returned, as if it were committed: a reason to give up counts only if it was so at
    /// one instant. If it was not, `body` is called again. Errors of servers that do not answer are
    /// returned at once.
    ///
    /// If the future is dropped while it commits, the commit goes on without it: see
    /// [`AsyncTransaction::commit`].
    ///
    /// # Errors
    /// What `body` returns, or [`Error::GivenUp`], or [`Error::Unknown`] if the answer to a commit
    /// stays out.
    pub async fn transact<T>(&self, mut body: impl AsyncFnMut(&mut AsyncTransaction) -> Result<T>) -> Result<T> {
        let mut retry = Retry::new(&self.inner.options);
        let mut begun = (CurrentItems::new(), None);
        let mut read_in = self.inner.generation();
        loop {
            let (mut current, earlier) = begun;
            let generation = self.inner.generation();
            if generation != read_in {
                current.clear();
            }
            read_in = generation;
            let state = TransactionState::with(generation, current, earlier);
            let mut tranx = AsyncTransaction { client: self.clone(), state };
            let value = body(&mut tranx).await;
            if let Err(error) = &value {
                if error.is_of_a_server() || tranx.state.has_read_nothing() {
                    return value;
                }
                tranx.state.discard_writes();
            }
            begun = loop {
                let refusal = match tranx.commit_surely().await {
                    Ok(_) => return value,
                    Err(Error::Refused(refusal)) => refusal,
                    // Nothing was to be written: the outcome of the commit does not matter.
                    Err(Error::Unknown(unknown)) if value.is_err() => return Err(unknown.of_reads()),
                    Err(error) => return Err(error),
                };
                match retry.refused(refusal) {
                    Next::CommitAgain(wait, earlier) => {
                        tranx.state.earlier = Some(earlier);
                        pause(wait).await;
                    }
                    Next::BeginAgain(wait, current, earlier) => {
                        pause(wait).await;
                        break (current, Some(earlier));
                    }
                    Next::GiveUp(error) => return Err(error),
                }
            };
        }
    }

    /// Reads the value of a key: a transaction of one read.
    ///
    /// # Errors
    /// As for [`AsyncClient::transact`].
    pub async fn get(&self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        let key = key.into();
        self.transact(async move |tranx| tranx.get(key.clone()).await).await
    }

    /// Lets a key hold a value: a transaction of one write.
    ///
    /// # Errors
    /// As for [`AsyncClient::transact`].
    pub async fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        self.transact(async move |tranx| tranx.put(key.clone(), value.clone())).await
    }

    /// Deletes a key: a transaction of one write.
    ///
    /// # Errors
    /// As for [`AsyncClient::transact`].
    pub async fn delete(&self, key: impl Into<Bytes>) -> Result<()> {
        let key = key.into();
        self.transact(async move |tranx| tranx.delete(key.clone())).await
    }

    /// The keys of a range, in order, at most `limit`, of a snapshot: [`AsyncClient::read`].
    ///
    /// # Errors
    /// As for [`AsyncClient::read`] and [`crate::client::AsyncSnapshot::scan`].
    pub async fn scan(&self, range: &KeyRange, limit: usize) -> Result<Scanned> {
        let range = range.clone();
        self.read(async move |snapshot| snapshot.scan(&range, limit).await).await
    }
}
