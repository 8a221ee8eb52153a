//! The cursor: the documents of an answer, one after the other.

use std::marker::PhantomData;

use bson::{Document, RawArrayBuf};
use serde::de::DeserializeOwned;

use crate::{command::query::documents::Documents, error::Result};

/// The documents of a query, fetched from the server in batches. Dropping it ends the query on the
/// server.
///
/// A cursor opened in a transaction shows the transaction's view at the moment when each batch is
/// fetched; writes that the transaction makes while it is open may or may not show, as in MongoDB.
pub struct Cursor<T = Document> {
    documents: Documents,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static> Cursor<T> {
    pub(crate) fn new(documents: Documents) -> Self {
        Self { documents, of: PhantomData }
    }

    /// The next document, or `None` at the end.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_many(&[doc! {"_id": 1, "balance": -5}, doc! {"_id": 2, "balance": 3}]).await?;
    /// let mut found = accounts.find(doc! {"balance": {"$lt": 0}}).await?;
    /// while let Some(account) = found.next().await? {
    ///     assert_eq!(account, doc! {"_id": 1, "balance": -5});
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`] when the server cannot be reached for more documents: run
    /// the query again. [`crate::ErrorKind::Invalid`] when a document is not a `T`.
    pub async fn next(&mut self) -> Result<Option<T>> {
        self.documents.next_as().await.transpose()
    }

    /// The documents that the server sends together next, as bytes and as the array that it has
    /// sent, where they are no more than `most` and the array is no longer than `most_bytes`. It
    /// answers what [`Cursor::next`] would answer one after the other, and takes less of the
    /// processor: a proxy passes many documents on. `None`: nothing is left, or the next documents
    /// can only be had one by one.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": -5}, doc! {"_id": 2, "balance": -3}]).await?;
    /// let mut found = accounts.find(doc! {"balance": {"$lt": 0}}).await?;
    /// let mut number = 0;
    /// while let Some(batch) = found.next_batch_raw(usize::MAX, usize::MAX).await? {
    ///     number += batch.into_iter().count();
    /// }
    /// while found.next().await?.is_some() {
    ///     number += 1;
    /// }
    /// assert_eq!(number, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub async fn next_batch_raw(&mut self, most: usize, most_bytes: usize) -> Result<Option<RawArrayBuf>> {
        self.documents.next_batch(most, most_bytes).await
    }

    /// Sets the number of documents that the server sends together from now on; 0, as at the
    /// beginning: as many as fit into one answer of 16 MiB. Documents that have come already are
    /// answered first.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&(0..6).map(|id| doc! {"_id": id}).collect::<Vec<_>>()).await?;
    /// let mut found = accounts.find(doc! {}).batch_size(2).await?;
    /// found.set_batch_size(3);
    /// while found.next().await?.is_some() {}
    /// # Ok(()) }
    /// ```
    pub fn set_batch_size(&mut self, size: u32) {
        self.documents.set_batch_size(size);
    }

    /// Bytes of the documents that have come and wait to be asked for. A program that keeps many
    /// cursors counts them with this. Zero where the official driver reads the cursor: it does not
    /// say.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).await?;
    /// let mut found = accounts.find(doc! {}).await?;
    /// while found.next().await?.is_some() {}
    /// assert_eq!(found.buffered_bytes(), 0);
    /// # Ok(()) }
    /// ```
    pub fn buffered_bytes(&self) -> usize {
        self.documents.buffered_bytes()
    }

    /// Collects all documents that are left. For answers that fit into memory.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_many(&[doc! {"_id": 2}, doc! {"_id": 1}]).await?;
    /// let all = accounts.find(doc! {}).sort(doc! {"_id": 1}).await?.try_collect().await?;
    /// assert_eq!(all, [doc! {"_id": 1}, doc! {"_id": 2}]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub async fn try_collect(mut self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(next) = self.next().await? {
            all.push(next);
        }
        Ok(all)
    }
}
