//! `$text` in the view of a transaction with writes of its own.
//!
//! The text index covers safe versions only, and a collection has but one. So:
//!
//! 1. A scratch collection `_mongotx_text.<client>.<n>` in the same database gets the same index.
//! 2. The unsafe versions of this transaction that could match are copied to it.
//! 3. One pipeline searches the safe versions of what is not its own, and the scratch collection,
//!    and unites the answers.
//! 4. The scratch collection is dropped, whatever has happened. What a dead client leaves goes with
//!    the next sweep.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bson::{Document, doc};
use sd2v::{
    Visible,
    filter::Parts,
    text::{SCRATCH, copy_own, hide_score, own_view, project_score, scratch_index, sort_by_score},
};
use tokio::runtime::Handle;

use crate::{
    command::query::{
        documents::Documents,
        query_stages::{aggregation, skip_and_limit},
    },
    coordinator::{Core, cleaning::scratch::drop_collection, request::query::Query, server::Server},
    error::{Error, Result},
    options::Namespace,
};

/// Scratch collections that this process has made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The documents of the query. (`own`: `None` when there is nothing that only its writer sees, but
/// the query reads whole documents.)
pub(crate) async fn find(
    core: &Core,
    own: Option<&Visible>,
    ns: &Namespace,
    query: &Query,
    parts: &Parts,
) -> Result<Documents> {
    let mut tail = Vec::new();
    if let Some(sort) = query.sort.as_ref().filter(|sort| !sort.is_empty()) {
        tail.push(sort_by_score(sort));
    }
    tail.extend(skip_and_limit(query));
    if let Some(projection) = &query.projection {
        tail.extend(project_score(projection)?);
    }
    tail.push(hide_score());
    search_text(core, own, ns, query, parts, tail).await
}

/// Runs these stages on the documents that match, each with its score in a reserved field.
pub(crate) async fn search_text(
    core: &Core,
    own: Option<&Visible>,
    ns: &Namespace,
    query: &Query,
    parts: &Parts,
    tail: Vec<Document>,
) -> Result<Documents> {
    let Some(own) = own else {
        let mut pipeline = own_view(parts, None)?;
        pipeline.extend(tail);
        return Ok(Documents::streaming(core.server.cursor(&ns.db, aggregation(ns, pipeline, query)).await?));
    };
    let scratch = Scratch::new(core, ns, own);
    let answer = search(core, own, ns, query, parts, &scratch, tail).await;
    scratch.drop_now().await;
    answer
}

async fn search(
    core: &Core,
    own: &Visible,
    ns: &Namespace,
    query: &Query,
    parts: &Parts,
    scratch: &Scratch,
    tail: Vec<Document>,
) -> Result<Documents> {
    let mut pipeline = own_view(parts, Some((own, &scratch.ns.coll)))?;
    pipeline.extend(tail);
    let known = core.catalog.look_up(ns).await?;
    let Some(index) = known.indexes.iter().find(|index| index.spec.contains_key("textIndexVersion")) else {
        return Err(Error::invalid(27, "text index required for $text query"));
    };
    scratch.make(&index.spec).await?;
    let mut copy = doc! {"aggregate": &ns.coll, "pipeline": copy_own(parts, own, &scratch.ns.coll)?, "cursor": {}};
    query.options.add_to(&mut copy);
    if let Err(refused) = core.server.run_command(&ns.db, copy).await {
        // The index that cannot hold a document of the collection cannot hold it here.
        core.repairs.refuse_unfinished(ns, &Document::new(), own.writers()).await?;
        return Err(refused);
    }
    let limit = core.options.max_documents;
    let cursor = core.server.cursor(&ns.db, aggregation(ns, pipeline, query)).await?;
    let found = Documents::streaming(cursor).all_raw(limit.saturating_add(1)).await?;
    if found.len() > limit {
        let message =
            format!("the text search in a transaction that has written to {ns} finds more than {limit} documents");
        return Err(Error::too_large(message));
    }
    Ok(Documents::at_hand(found))
}

/// A collection for the time of one search.
struct Scratch {
    server: Arc<Server>,
    runtime: Handle,
    ns: Namespace,
    gone: bool,
}

impl Scratch {
    fn new(core: &Core, ns: &Namespace, own: &Visible) -> Self {
        let client = own.writers().first().map_or_else(String::new, |writer| writer.client.to_string());
        let name = format!("{SCRATCH}{client}.{}", MADE.fetch_add(1, Ordering::Relaxed));
        let (server, runtime) = (Arc::clone(&core.server), core.runtime.clone());
        Self { server, runtime, ns: Namespace::new(&ns.db, &name), gone: false }
    }

    async fn make(&self, index: &Document) -> Result<()> {
        let indexes = vec![scratch_index(index)];
        let mut create = doc! {"createIndexes": &self.ns.coll, "indexes": indexes};
        self.server.nodes.with_quorum(&mut create);
        self.server.run_command(&self.ns.db, create).await.map(drop)
    }

    async fn drop_now(mut self) {
        drop_collection(&self.server, &self.ns).await;
        self.gone = true;
    }
}

/// The search was given up: its future was dropped.
impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.gone {
            let (server, ns) = (Arc::clone(&self.server), self.ns.clone());
            self.runtime.spawn(async move { drop_collection(&server, &ns).await });
        }
    }
}
