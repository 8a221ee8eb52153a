//! `$text` in a transaction with writes of its own, and what a text index demands of documents.
//!
//! A collection has one text index, and it covers safe versions. The unsafe versions of a
//! transaction are copied to a scratch collection with the same index; a score depends on the
//! document, the weights and the search only, so that the two answers can be united.
//!
//! - `own`: the stages that copy, search and unite. `score`: `{$meta: "textScore"}` where the score
//!   is a field.
//! - `demands`: documents that the index refuses.

mod demands;
mod own;
mod score;

pub use demands::check_text_document;
pub use own::{SCRATCH, copy_own, find_text_index, is_on_every_field, own_view, scratch_index};
pub use score::{hide_score, project_score, sort_by_score};
