//! The actions `insert_one` and `insert_many`. Documents come here as bytes
//! (`crate::document::encode`), and are inserted by `crate::command::writes::insert`.

use std::{future::IntoFuture, sync::Arc};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use crate::{
    collection::EncodedDocument,
    command::writes::{implicit, insert, insert_many},
    coordinator::{Core, transaction::Transaction},
    error::{Error, Result},
    options::Namespace,
    session::Session,
};

/// The insertion of one document, made by [`crate::Collection::insert_one`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # let mut session = client.session();
/// session.begin()?;
/// accounts.insert_one(&doc! {"_id": 3, "balance": 0}).session(&mut session).await?;
/// session.commit().await?;
/// assert_eq!(accounts.count_documents(doc! {"_id": 3}).await?, 1);
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct InsertOne<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    document: EncodedDocument,
    session: Option<&'a mut Session>,
}

impl<'a> InsertOne<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, document: EncodedDocument) -> Self {
        Self { core, ns, document, session: None }
    }

    setters! {}
}

async fn insert_one(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    document: Document,
) -> Result<Bson> {
    match tx {
        Some(tx) => insert::one(core, tx, ns, document).await,
        None => insert::one_directly(core, ns, document).await,
    }
}

impl<'a> IntoFuture for InsertOne<'a> {
    type Output = Result<Bson>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, document, session } = self;
        Box::pin(async move {
            let document = document?;
            in_session!(session, |tx| insert_one(core, tx, ns, document))
        })
    }
}

/// The insertion of several documents, made by [`crate::Collection::insert_many`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// let done = accounts.insert_many(&[doc! {"_id": 1}, doc! {"_id": 1}, doc! {"_id": 2}]).ordered(false).await;
/// let error = done.expect_err("two documents have the same `_id`");
/// assert_eq!(error.write_errors()[0].index, 1); // the second document
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct InsertMany<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    documents: Vec<EncodedDocument>,
    ordered: bool,
    session: Option<&'a mut Session>,
}

impl<'a> InsertMany<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, documents: Vec<EncodedDocument>) -> Self {
        Self { core, ns, documents, ordered: true, session: None }
    }

    setters! {
        /// Sets whether to stop at the first document that is refused. Default: yes.
        ordered(ordered: bool) => ordered = ordered;
    }
}

impl<'a> IntoFuture for InsertMany<'a> {
    type Output = Result<Vec<Bson>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, documents, ordered, session } = self;
        Box::pin(async move {
            let documents = documents.into_iter().collect::<Result<Vec<Document>>>()?;
            if documents.is_empty() {
                return Err(Error::invalid(9, "insert_many needs at least one document"));
            }
            in_session!(session, |tx| insert_many(core, tx, ns, documents, ordered))
        })
    }
}

async fn insert_many(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    documents: Vec<Document>,
    ordered: bool,
) -> Result<Vec<Bson>> {
    match tx {
        Some(tx) => insert_many::insert_many(core, tx, ns, documents, ordered).await,
        None => {
            implicit::in_transaction!(core, |tx| insert_many::insert_many(core, tx, ns, documents.clone(), ordered))
        }
    }
}
