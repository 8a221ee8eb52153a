//! Access paths: the ways in which a query, or a pipeline, is sent so that it reads the versions
//! that its reader may see. Which way a query takes is decided in [`super::isolation::committed`],
//! whose header has the table of them; how a pipeline is sent, in [`plan`].
//!
//! | file | way |
//! | --- | --- |
//! | [`fetch`], [`fetch_key`] | documents by their `_id`s, or by a key of a unique index, fetched as they are stored |
//! | [`unprobed`] | the user's query alone: the client holds the read lease, and has left nothing there |
//! | [`beside_own_changes`] | the same, beside what its transactions have left |
//! | [`probed`], [`wide_probe`] | an answer behind its probes |
//! | [`one_command`] | probe and answer in one way to the server and back |
//! | [`repair_first`] | everything decided is repaired, then the user's query |
//! | [`own_view`], [`text`] | the view of a transaction with writes of its own; the same for words |
//! | [`plan`] | a pipeline, with every collection that it reads |

pub(super) mod beside_own_changes;
pub(super) mod fetch;
pub(super) mod fetch_key;
pub(super) mod one_command;
pub(super) mod own_view;
pub(super) mod plan;
mod probed;
pub(super) mod repair_first;
mod text;
pub(super) mod unprobed;
mod wide_probe;
