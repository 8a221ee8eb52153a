//! Parts of which queries and their answers consist, whichever way a query takes. Next to nothing
//! is sent here; [`super::access_paths`] sends queries.
//!
//! | file | content |
//! | --- | --- |
//! | [`views`] | the server's views, replaced by what they are on |
//! | [`query_stages`], [`groups`] | a query as a pipeline; pipelines that count, or gather values |
//! | [`plain_projection`], [`either_version`] | projections that this library applies by itself; queries that fetch both versions of a document |
//! | [`order`] | condition of the documents that can come before one in an order |
//! | [`drawn`] | filters that rest on chance |
//! | [`nowhere`] | filters that match nothing |
//! | [`reads_in_order`] | several reads that the server carries out in order |
//! | [`documents`] | the documents of an answer |

pub(crate) mod documents;
pub(super) mod drawn;
pub(super) mod either_version;
pub(super) mod groups;
pub(super) mod nowhere;
pub(super) mod order;
pub(super) mod plain_projection;
pub(super) mod query_stages;
pub(super) mod reads_in_order;
pub(super) mod views;
