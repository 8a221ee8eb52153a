//! Random documents, filters, updates and operations, so small a world that they meet each other
//! often.
//!
//! No operation depends on what the server does not promise: which document a write of one picks
//! among several (such filters name an `_id`, or come with a sort that ends in `_id`), and skip and
//! limit without an order.

pub(crate) mod expressions;
pub(crate) mod filters;
pub(crate) mod indexes;
pub(crate) mod operations;
pub(crate) mod pipelines;
pub(crate) mod updates;
pub(crate) mod values;
