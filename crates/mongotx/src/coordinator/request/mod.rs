//! The application's requests as values: which documents, in which words, and what is to change.
//! Nothing here sends a command.
//!
//! | file | content |
//! | --- | --- |
//! | [`query_options`] | options of a command that have a say in what it means |
//! | [`query`], [`pipeline`] | a query, an aggregation pipeline, with their options |
//! | [`address`] | which document a command is about: `_id` and shard key |
//! | [`own_key`] | whether two `_id`s name the same document |
//! | [`id_span`] | in which part of all `_id`s a query by `_id` has looked |
//! | [`fields`] | top-level fields that a change touches, or that an answer rests on |

pub(crate) mod address;
pub(crate) mod fields;
pub(crate) mod id_span;
pub(crate) mod own_key;
pub(crate) mod pipeline;
pub(crate) mod query;
pub(crate) mod query_options;
