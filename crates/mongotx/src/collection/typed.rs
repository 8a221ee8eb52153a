//! Reads and writes with documents of the application's type, which go through serde.

use bson::Document;
use sd2v::update::Update;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Collection,
    actions::{Find, FindOne, FindOneAndDelete, FindOneAndUpdate, InsertMany, InsertOne, Modification, UpdateAction},
};
use crate::{document::encode, error::Result};

impl<T: Serialize> Collection<T> {
    /// Inserts a document. Returns its `_id`; if the document has none, the library makes an
    /// `ObjectId`.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let id = accounts.insert_one(&doc! {"balance": 100}).await?;
    /// assert!(id.as_object_id().is_some());
    /// # Ok(()) }
    /// ```
    pub fn insert_one(&self, document: &T) -> InsertOne<'_> {
        InsertOne::new(&self.core, &self.namespace, encode(document))
    }

    /// Inserts documents. Returns their `_id`s. Outside a transaction they are a transaction of
    /// their own.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let ids = accounts.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).await?;
    /// assert_eq!(ids, [1.into(), 2.into()]);
    /// # Ok(()) }
    /// ```
    pub fn insert_many<'d>(&self, documents: impl IntoIterator<Item = &'d T>) -> InsertMany<'_>
    where
        T: 'd,
    {
        InsertMany::new(&self.core, &self.namespace, documents.into_iter().map(encode).collect())
    }

    /// Replaces the first document that matches; the `_id` stays.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_one(&doc! {"_id": 1, "balance": 0}).await?;
    /// accounts.replace_one(doc! {"_id": 1}, &doc! {"closed": true}).await?;
    /// assert_eq!(accounts.find_one(doc! {}).await?, Some(doc! {"_id": 1, "closed": true}));
    /// # Ok(()) }
    /// ```
    pub fn replace_one(&self, filter: Document, replacement: &T) -> UpdateAction<'_> {
        UpdateAction::new(&self.core, &self.namespace, filter, replacement_of(replacement), false)
    }
}

impl<T: DeserializeOwned + 'static> Collection<T> {
    /// Finds the documents that match.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # let savings = |id: i32, balance: i32| doc! {"_id": id, "kind": "savings", "balance": balance};
    /// # accounts.insert_many(&[savings(1, 5), savings(2, 7)]).await?;
    /// let mut richest = accounts.find(doc! {"kind": "savings"}).sort(doc! {"balance": -1}).limit(10).await?;
    /// let mut ids = Vec::new();
    /// while let Some(account) = richest.next().await? {
    ///     ids.push(account.get_i32("_id").unwrap());
    /// }
    /// assert_eq!(ids, [2, 1]);
    /// # Ok(()) }
    /// ```
    pub fn find(&self, filter: Document) -> Find<'_, T> {
        Find::new(&self.core, &self.namespace, filter)
    }

    /// Finds the first document that matches.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// let account = accounts.find_one(doc! {"_id": 1}).await?.expect("it was inserted");
    /// assert_eq!(account.get_i32("balance").unwrap(), 100);
    /// assert!(accounts.find_one(doc! {"_id": 2}).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn find_one(&self, filter: Document) -> FindOne<'_, T> {
        FindOne::new(&self.core, &self.namespace, filter)
    }

    /// Updates the first document that matches, in the order of `sort`, and answers the document as
    /// it was before or is afterwards.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, tickets);
    /// # let ticket = |id: i32| doc! {"_id": id, "opened": id, "state": "open"};
    /// # tickets.insert_many(&[ticket(2), ticket(1)]).await?;
    /// use mongotx::ReturnDocument;
    ///
    /// let next = tickets
    ///     .find_one_and_update(doc! {"state": "open"}, doc! {"$set": {"state": "taken"}})
    ///     .sort(doc! {"opened": 1})
    ///     .return_document(ReturnDocument::After)
    ///     .await?;
    /// assert_eq!(next, Some(doc! {"_id": 1, "opened": 1, "state": "taken"}));
    /// # Ok(()) }
    /// ```
    pub fn find_one_and_update(&self, filter: Document, update: impl Into<Modification>) -> FindOneAndUpdate<'_, T> {
        FindOneAndUpdate::new(&self.core, &self.namespace, filter, update.into().parse())
    }

    /// Deletes the first document that matches, in the order of `sort`, and answers the document.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, tickets);
    /// # let ticket = |id: i32| doc! {"_id": id, "opened": id, "state": "done"};
    /// # tickets.insert_many(&[ticket(2), ticket(1)]).await?;
    /// let oldest = tickets.find_one_and_delete(doc! {"state": "done"}).sort(doc! {"opened": 1}).await?;
    /// assert_eq!(oldest, Some(doc! {"_id": 1, "opened": 1, "state": "done"}));
    /// # Ok(()) }
    /// ```
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<'_, T> {
        FindOneAndDelete::new(&self.core, &self.namespace, filter)
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Collection<T> {
    /// Replaces the first document that matches, in the order of `sort`, and answers the document
    /// as it was before or is afterwards.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, tickets);
    /// let before = tickets.find_one_and_replace(doc! {"_id": 7}, &doc! {"state": "open"}).upsert(true).await?;
    /// assert_eq!(before, None); // there was none
    /// assert_eq!(tickets.find_one(doc! {}).await?, Some(doc! {"_id": 7, "state": "open"}));
    /// # Ok(()) }
    /// ```
    pub fn find_one_and_replace(&self, filter: Document, replacement: &T) -> FindOneAndUpdate<'_, T> {
        FindOneAndUpdate::new(&self.core, &self.namespace, filter, replacement_of(replacement))
    }
}

fn replacement_of<T: Serialize>(replacement: &T) -> Result<Update> {
    Ok(Update::replacement(encode(replacement)?)?)
}
