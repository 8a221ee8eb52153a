//! Queries that first repair every decided document that they might have to show, unless the client
//! is alone, and knows that nothing is ([`super::unprobed`]), or that it makes no difference to
//! which documents are found ([`super::beside_own_changes`]).

use protocol::TxId;
use sd2v::view;

use super::{beside_own_changes, own_view, unprobed};
use crate::{
    command::query::documents::Documents,
    coordinator::{Core, queries::one_process::OneProcessAttempts, request::query::Query},
    error::Result,
    options::Namespace,
    steps::Step,
};

/// The safe versions, once those are the latest; and the unsafe ones that cannot be finished.
pub(crate) async fn find(core: &Core, ns: &Namespace, query: &Query, me: Option<TxId>) -> Result<Documents> {
    let may_be_unprobed = unprobed::may(core, ns, query);
    if may_be_unprobed && let Some(answer) = beside_own_changes::find(core, ns, query).await? {
        return Ok(answer);
    }
    if may_be_unprobed
        && core.catalog.ensure_pending_index(ns).await?
        && let Some(answer) = unprobed::find(core, ns, query).await?
    {
        return Ok(answer);
    }
    let mut attempts = OneProcessAttempts::begin(&core.server);
    loop {
        let settled = core.pending.settle_pending(ns, &query.filter, &query.options, me).await?;
        core.server.at(Step::BeforeSettledQuery).await;
        let found = match settled.visible(None) {
            Some(unfinished) => own_view::find(core, Some(&unfinished), ns, query).await?,
            None => {
                let find = query.to_find(ns, view::safe_filter(&query.filter, core.catalog.shards.none()));
                Documents::streaming(core.server.cursor(&ns.db, find).await?)
            }
        };
        if attempts.is_answered_by_one(ns)? {
            return Ok(found);
        }
    }
}
