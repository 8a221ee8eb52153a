//! Commands that read, a file for each. What they read at which isolation level is decided in
//! [`super::isolation`].
//!
//! | file | content |
//! | --- | --- |
//! | [`find`], [`count`], [`distinct`] | queries of one collection |
//! | [`aggregate`], [`output`] | pipelines; those that end in `$out` or `$merge` write |
//! | [`explain`] | the server's plan for any of them |
//! | [`point_read`] | the committed document of one `_id`, as bytes |

pub(crate) mod aggregate;
pub(crate) mod count;
pub(crate) mod distinct;
pub(crate) mod explain;
pub(crate) mod find;
mod output;
pub(crate) mod point_read;
