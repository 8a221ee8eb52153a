//! Reads and writes of one document by its `_id`, bytes in and bytes out; outside transactions.

use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Collection;
use crate::{
    command::{
        reads::point_read,
        writes::{point_write, update::UpdateResult},
    },
    error::Result,
};

impl<T> Collection<T> {
    /// The committed document with this `_id`, as bytes; outside transactions. It answers what
    /// [`Collection::find_one`] answers to the filter `{_id: {$eq: id}}` without a session, and
    /// takes less of the processor: a proxy passes many documents on.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use bson::RawBsonRef;
    ///
    /// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// let account = accounts.find_by_id_raw(RawBsonRef::Int32(1)).await?.expect("it was inserted");
    /// assert_eq!(account.get_i32("balance").unwrap(), 100);
    /// assert!(accounts.find_by_id_raw(RawBsonRef::Int32(2)).await?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Collection::find_one`] without a session.
    pub async fn find_by_id_raw(&self, id: RawBsonRef<'_>) -> Result<Option<RawDocumentBuf>> {
        point_read::fetch(&self.core, &self.namespace, id).await
    }

    /// Inserts a document that is bytes; outside transactions. It does what
    /// [`Collection::insert_one`] does without a session, and takes less of the processor: a proxy
    /// passes many documents on. Returns the `_id`, made here if the document has none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let id = accounts.insert_one_raw(&bson::rawdoc! {"_id": 1, "balance": 100}).await?;
    /// assert_eq!(id, 1.into());
    /// assert_eq!(accounts.find_one(doc! {}).await?, Some(doc! {"_id": 1, "balance": 100}));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Collection::insert_one`] without a session.
    pub async fn insert_one_raw(&self, document: &RawDocument) -> Result<Bson> {
        point_write::insert(&self.core, &self.namespace, document).await
    }

    /// Changes the document with this `_id` by operators, or replaces it, with the update as bytes;
    /// outside transactions. It does what [`Collection::update_one`] and
    /// [`Collection::replace_one`] do for the filter `{_id: {$eq: id}}` without a session.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use bson::{RawBsonRef, rawdoc};
    ///
    /// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// let done = accounts.update_by_id_raw(RawBsonRef::Int32(1), &rawdoc! {"$inc": {"balance": 5}}).await?;
    /// assert_eq!((done.matched_count, done.modified_count), (1, 1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Collection::update_one`] without a session.
    pub async fn update_by_id_raw(&self, id: RawBsonRef<'_>, update: &RawDocument) -> Result<UpdateResult> {
        point_write::update(&self.core, &self.namespace, id, update).await
    }

    /// Deletes the document with this `_id`; outside transactions. It does what
    /// [`Collection::delete_one`] does for the filter `{_id: {$eq: id}}` without a session, and
    /// answers how many documents were deleted: one, or none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// assert_eq!(accounts.delete_by_id_raw(bson::RawBsonRef::Int32(1)).await?, 1);
    /// assert_eq!(accounts.delete_by_id_raw(bson::RawBsonRef::Int32(1)).await?, 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Collection::delete_one`] without a session.
    pub async fn delete_by_id_raw(&self, id: RawBsonRef<'_>) -> Result<u64> {
        point_write::delete(&self.core, &self.namespace, id).await
    }
}
