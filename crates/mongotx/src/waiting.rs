//! Shows for which transaction an action waits, to other tasks.
//!
//! An action waits for transactions that hold what it needs. The caller that awaits it may give it
//! a [`Watch`], bound to the task like a comment (`scoped`); another task reads there for which
//! transaction it waits now. No decision depends on it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use protocol::TxId;

use crate::namespace::Namespace;

tokio::task_local! {
    static WATCH: Watch;
}

/// Shows for which transaction the work waits that is awaited under it. Cheap to clone; all clones
/// show the same.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// use bson::doc;
/// use mongotx::Watch;
///
/// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
/// let mut holder = client.session();
/// holder.begin()?;
/// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut holder).await?;
///
/// // A write outside a transaction waits for the one that holds its document.
/// let watch = Watch::default();
/// let watching = async {
///     let wait = loop {
///         match watch.wait() {
///             Some(wait) => break wait,
///             None => tokio::task::yield_now().await,
///         }
///     };
///     assert_eq!((Some(wait.rival), &wait.namespace), (holder.id(), accounts.namespace()));
///     println!("waits for {} since {:?}", wait.rival, wait.since.elapsed());
///     holder.commit().await
/// };
/// let write = accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 1}});
/// let (written, committed) = tokio::join!(watch.over(write), watching);
/// assert_eq!(written?.modified_count, 1);
/// committed?;
/// assert_eq!(watch.wait(), None);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Option<Wait>>>);

/// The transaction that an action waits for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Wait {
    /// Transaction that holds what is needed.
    pub rival: TxId,
    /// Collection of the document that both want.
    pub namespace: Namespace,
    /// Beginning of the wait for this transaction.
    pub since: Instant,
}

impl Watch {
    /// Awaits `work`, and shows meanwhile for which transaction it waits. One watch shows one piece
    /// of work at a time.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use mongotx::Watch;
    ///
    /// let watch = Watch::default();
    /// watch.over(accounts.insert_one(&doc! {"_id": 1})).await?;
    /// assert_eq!(watch.wait(), None); // it waits for nothing any more
    /// # Ok(()) }
    /// ```
    pub async fn over<F: IntoFuture>(&self, work: F) -> F::Output {
        WATCH.scope(self.clone(), work.into_future()).await
    }

    /// The transaction that is waited for now.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1}).await?;
    /// use mongotx::Watch;
    ///
    /// let mut holder = client.session();
    /// holder.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1}}).session(&mut holder).await?;
    ///
    /// let watch = Watch::default();
    /// let write = watch.over(accounts.delete_one(doc! {"_id": 1}));
    /// let wait = async {
    ///     while watch.wait().is_none() {
    ///         tokio::task::yield_now().await;
    ///     }
    ///     watch.wait()
    /// };
    /// tokio::select! {
    ///     deleted = write => panic!("the document is locked: {deleted:?}"),
    ///     wait = wait => assert_eq!(wait.map(|wait| wait.rival), holder.id()),
    /// }
    /// holder.rollback().await?;
    /// # Ok(()) }
    /// ```
    pub fn wait(&self) -> Option<Wait> {
        self.shown().clone()
    }

    /// No code panics while it holds this lock.
    fn shown(&self) -> MutexGuard<'_, Option<Wait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work for another task, which shows what it waits for where this task does.
pub(crate) fn shown_as_here<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let watch = WATCH.try_with(Clone::clone).ok();
    async move {
        match watch {
            Some(watch) => watch.over(work).await,
            None => work.await,
        }
    }
}

/// A wait that a [`Watch`] shows as long as this value lives.
#[must_use]
pub(crate) struct ShownWait(Option<Watch>);

impl Drop for ShownWait {
    fn drop(&mut self) {
        if let Some(watch) = &self.0 {
            *watch.shown() = None;
        }
    }
}

/// Shows that the task waits for `rival`.
pub(crate) fn show(namespace: &Namespace, rival: TxId) -> ShownWait {
    let Ok(watch) = WATCH.try_with(Clone::clone) else { return ShownWait(None) };
    *watch.shown() = Some(Wait { rival, namespace: namespace.clone(), since: Instant::now() });
    ShownWait(Some(watch))
}

#[cfg(test)]
mod tests {
    use protocol::ClientId;

    use super::*;

    #[tokio::test]
    async fn a_wait_is_shown_while_it_lasts_and_to_who_looks_on_only() {
        let (watch, other) = (Watch::default(), Watch::default());
        let rival = TxId { client: ClientId([1; 12]), seq: 7 };
        let namespace = Namespace::new("d", "c");
        watch
            .over(async {
                let shown = show(&namespace, rival);
                assert_eq!(watch.wait().map(|wait| (wait.rival, wait.namespace)), Some((rival, namespace.clone())));
                assert_eq!(other.wait(), None);
                drop(shown);
                assert_eq!(watch.wait(), None);
            })
            .await;
        drop(show(&namespace, rival));
        assert_eq!(watch.wait(), None);
    }

    #[tokio::test]
    async fn a_wait_of_work_that_another_task_does_is_shown_where_it_was_begun() {
        let (watch, rival) = (Watch::default(), TxId { client: ClientId([1; 12]), seq: 7 });
        let shown = async move { show(&Namespace::new("d", "c"), rival) };
        let shown = watch.over(async { tokio::spawn(shown_as_here(shown)).await.unwrap() }).await;
        assert_eq!(watch.wait().map(|wait| wait.rival), Some(rival));
        drop(shown);
        assert_eq!(watch.wait(), None);
    }
}
