//! Indexes of a collection: making, dropping and listing them, and [`IndexModel`], the description
//! of one. What MongoTx adds to an index (mirrors, the slot) is neither given nor listed: it is
//! made and read by `coordinator/schema`, in the forms of `sd2v::index`.

use std::time::Duration;

use bson::{Bson, Document, doc};

use super::Collection;
use crate::{
    command::collections::indexes::{create_indexes, drop_indexes, drop_indexes_named},
    error::{Error, Result},
};

/// An index: a key pattern and options, as in MongoDB's `createIndexes`.
///
/// ```
/// use bson::doc;
/// use mongotx::IndexModel;
///
/// let by_email = IndexModel::new(doc! {"email": 1}).name("by_email").unique(true).sparse(true);
/// assert_eq!(by_email.keys(), doc! {"email": 1});
/// assert_eq!(by_email.spec(), &doc! {"key": {"email": 1}, "name": "by_email", "unique": true, "sparse": true});
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IndexModel {
    spec: Document,
    mirrored: bool,
}

impl From<Document> for IndexModel {
    fn from(keys: Document) -> Self {
        Self::new(keys)
    }
}

impl IndexModel {
    /// An index with this key pattern: `{field: 1}`, `{field: "2dsphere"}`, …
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"place": "2dsphere"});
    /// assert_eq!(index.keys(), doc! {"place": "2dsphere"});
    /// ```
    pub fn new(keys: Document) -> Self {
        Self { spec: doc! {"key": keys}, mirrored: false }
    }

    /// Sets the name of the index. Default: the server's, `field_1` for `{field: 1}`.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"email": 1}).name("by_email");
    /// assert_eq!(index.spec().get_str("name").unwrap(), "by_email");
    /// ```
    pub fn name(self, name: &str) -> Self {
        self.option("name", name)
    }

    /// Makes the index unique: no two documents may have the same key.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"email": 1}).unique(true);
    /// assert!(index.spec().get_bool("unique").unwrap());
    /// ```
    pub fn unique(self, unique: bool) -> Self {
        self.option("unique", unique)
    }

    /// Makes the index sparse: documents that have none of its fields are not in it.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"nickname": 1}).sparse(true);
    /// assert!(index.spec().get_bool("sparse").unwrap());
    /// ```
    pub fn sparse(self, sparse: bool) -> Self {
        self.option("sparse", sparse)
    }

    /// Makes it a TTL index: the server removes a document when this time has passed since the date
    /// in the indexed field.
    ///
    /// ```
    /// # use bson::doc;
    /// use std::time::Duration;
    ///
    /// let index = mongotx::IndexModel::new(doc! {"last_seen": 1}).expire_after(Duration::from_secs(3600));
    /// assert_eq!(index.spec().get_i64("expireAfterSeconds").unwrap(), 3600);
    /// ```
    pub fn expire_after(self, time: Duration) -> Self {
        self.option("expireAfterSeconds", i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
    }

    /// Makes the index partial: only documents that match this filter are in it.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"email": 1}).unique(true).partial_filter(doc! {"active": true});
    /// assert_eq!(index.spec().get_document("partialFilterExpression").unwrap(), &doc! {"active": true});
    /// ```
    pub fn partial_filter(self, filter: Document) -> Self {
        self.option("partialFilterExpression", filter)
    }

    /// Sets the collation by which the index compares strings.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"name": 1}).collation(doc! {"locale": "en", "strength": 2});
    /// assert!(index.spec().contains_key("collation"));
    /// ```
    pub fn collation(self, collation: Document) -> Self {
        self.option("collation", collation)
    }

    /// Sets any other option of `createIndexes`, by MongoDB's name.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"name": 1}).option("hidden", true);
    /// assert!(index.spec().get_bool("hidden").unwrap());
    /// ```
    pub fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.spec.insert(name, value.into());
        self
    }

    /// Indexes unsafe versions, too, so that queries find pending documents through it: pays where
    /// many documents are pending at a time. Unique, geospatial and hashed indexes, and those of
    /// several fields, always do.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"state": 1}).mirrored(true);
    /// assert_eq!(index.spec(), &doc! {"key": {"state": 1}}); // it is no option of the server
    /// ```
    pub fn mirrored(mut self, mirrored: bool) -> Self {
        self.mirrored = mirrored;
        self
    }

    /// Key pattern of the index.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"a": 1, "b": -1});
    /// assert_eq!(index.keys(), doc! {"a": 1, "b": -1});
    /// ```
    pub fn keys(&self) -> Document {
        self.spec.get_document("key").cloned().unwrap_or_default()
    }

    /// Description of the index as the server has it: `{v, key, name, …}`.
    ///
    /// ```
    /// # use bson::doc;
    /// let index = mongotx::IndexModel::new(doc! {"a": 1}).name("a");
    /// assert_eq!(index.spec(), &doc! {"key": {"a": 1}, "name": "a"});
    /// ```
    pub fn spec(&self) -> &Document {
        &self.spec
    }
}

impl<T> Collection<T> {
    /// Creates an index, and the collection if there is none; an equal index is no error. Returns
    /// its name. Takes effect at once, also while the caller has a transaction open.
    ///
    /// A unique index waits for transactions under way in the collection, up to the client's
    /// `write_wait`, and about ten seconds if other clients work on it. If the future is dropped
    /// while it waits, no index is made; later, it is.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use mongotx::IndexModel;
    ///
    /// accounts.create_index(doc! {"branch": 1}).await?;
    /// let name = accounts.create_index(IndexModel::new(doc! {"email": 1}).unique(true)).await?;
    /// assert_eq!(name, "email_1");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The server's; 85 for an index that is there under another name or with other options, and 86
    /// for another one of its name; 67 for a name that is MongoTx's own;
    /// [`crate::ErrorKind::Conflict`] when transactions under way do not end.
    pub async fn create_index(&self, index: impl Into<IndexModel>) -> Result<String> {
        let mut names = self.create_indexes([index.into()]).await?;
        names.pop().ok_or_else(|| Error::invalid(67, "no index was created"))
    }

    /// Creates indexes, all of them or none. Returns their names.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use mongotx::IndexModel;
    ///
    /// let names = accounts.create_indexes([IndexModel::new(doc! {"branch": 1}), IndexModel::new(doc! {"email": 1})]).await?;
    /// assert_eq!(names, ["branch_1", "email_1"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Collection::create_index`]; 96 for one that is given twice.
    pub async fn create_indexes(&self, indexes: impl IntoIterator<Item = IndexModel>) -> Result<Vec<String>> {
        let specs: Vec<(Document, bool)> = indexes.into_iter().map(|index| (index.spec, index.mirrored)).collect();
        create_indexes(&self.core, &self.namespace, specs).await
    }

    /// Drops an index by its name or its key pattern. Once begun, it goes on when the future is
    /// dropped; of an index whose drop has failed half way, the next call drops the rest.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.create_index(doc! {"branch": 1}).await?;
    /// accounts.drop_index("branch_1").await?;
    /// let again = accounts.drop_index("branch_1").await.expect_err("it is gone");
    /// assert_eq!(again.code(), Some(27));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// 27 (IndexNotFound); 72 for the index on `_id`; 181 for the key pattern of several indexes.
    pub async fn drop_index(&self, index: impl Into<Bson>) -> Result<()> {
        drop_indexes_named(&self.core, &self.namespace, vec![index.into()]).await
    }

    /// Drops several indexes by their names or their key patterns, all of them or none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use mongotx::IndexModel;
    ///
    /// accounts.create_indexes([IndexModel::new(doc! {"branch": 1}), IndexModel::new(doc! {"email": 1})]).await?;
    /// let refused = accounts.drop_indexes_named(["branch_1", "owner_1"]).await.expect_err("one is not there");
    /// assert_eq!(refused.code(), Some(27));
    /// assert_eq!(accounts.list_index_names().await?, ["_id_", "branch_1", "email_1"]);
    /// accounts.drop_indexes_named(["branch_1", "email_1"]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Collection::drop_index`].
    pub async fn drop_indexes_named(&self, indexes: impl IntoIterator<Item = impl Into<Bson>>) -> Result<()> {
        let asked = indexes.into_iter().map(Into::into).collect();
        drop_indexes_named(&self.core, &self.namespace, asked).await
    }

    /// Drops all indexes except that on `_id`.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.create_index(doc! {"branch": 1}).await?;
    /// accounts.drop_indexes().await?;
    /// assert_eq!(accounts.list_index_names().await?, ["_id_"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`].
    pub async fn drop_indexes(&self) -> Result<()> {
        drop_indexes(&self.core, &self.namespace).await
    }

    /// Lists the indexes, as they were created. Where there is no collection the list is empty.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.create_index(doc! {"branch": 1}).await?;
    /// let keys: Vec<_> = accounts.list_indexes().await?.iter().map(|index| index.keys()).collect();
    /// assert_eq!(keys, [doc! {"_id": 1}, doc! {"branch": 1}]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`].
    pub async fn list_indexes(&self) -> Result<Vec<IndexModel>> {
        let listed = self.core.catalog.list_indexes(&self.namespace).await?;
        Ok(listed.into_iter().map(|(spec, mirrored)| IndexModel { spec, mirrored }).collect())
    }

    /// Lists the names of the indexes.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.create_index(doc! {"branch": 1}).await?;
    /// assert!(accounts.list_index_names().await?.contains(&"branch_1".to_owned()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Collection::list_indexes`].
    pub async fn list_index_names(&self) -> Result<Vec<String>> {
        let listed = self.core.catalog.list_indexes(&self.namespace).await?;
        Ok(listed.into_iter().filter_map(|(spec, _)| spec.get_str("name").ok().map(str::to_owned)).collect())
    }
}
