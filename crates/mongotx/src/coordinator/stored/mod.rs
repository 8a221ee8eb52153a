//! Form of stored documents: names of collections and fields, the version of the format, and the
//! number of servers that keep them.
//!
//! | file | content |
//! | --- | --- |
//! | [`own_collections`] | names of MongoTx's own collections |
//! | [`lock_fields`] | which fields of a document show its locks |
//! | [`format`](mod@format) | version of the stored format |
//! | [`nodes`] | what writes wait for where several servers keep the data |

pub(crate) mod format;
pub(crate) mod lock_fields;
pub(crate) mod nodes;
pub(crate) mod own_collections;
