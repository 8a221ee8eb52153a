//! Projections of `find`: what they may name, what is added to them to judge a document's lock, and
//! the same meaning as aggregation stages.
//!
//! Where a projection's expressions read `$$ROOT` or `$$CURRENT` whole, a `find` on a locked
//! document shows them the reserved fields; the stages of [`as_stages`] run behind a stage that has
//! taken those away.

use bson::{Bson, Document};

use crate::{
    error::Error,
    expression::{check_expression, path, sees_whole_document},
    names::{INSERT, REMOVE, UNSAFE, WRITER},
};

mod shape;
mod slice;
mod stages;

pub(crate) use shape::stage_shape;
pub use shape::{Shape, shape};
pub use stages::{as_stages, is_find_only};

/// Refuses a projection that names a reserved field of the document, as a key or within an
/// expression.
///
/// # Errors
/// [`Error::Reserved`]; [`Error::Invalid`] (15) when it nests deeper than 200 levels.
pub fn check_projection(projection: &Document) -> Result<(), Error> {
    for (key, value) in projection {
        path::refuse_reserved(key, " in a projection")?;
        check_expression(value)?;
    }
    Ok(())
}

/// Returns true if the projection reads the document as a whole: of a stored document it would show
/// the reserved fields.
pub fn shows_lock_fields(projection: &Document) -> bool {
    projection.values().any(sees_whole_document)
}

/// The projection for a `find` on stored documents: what the user's returns, and `_xTxId`,
/// `_insert` and `_remove` where the document has them. An excluding one returns every reserved
/// field already.
pub fn with_lock_fields(projection: &Document) -> Document {
    let mut with = projection.clone();
    if shape(projection) == Shape::Inclusive {
        with.extend([WRITER, INSERT, REMOVE].map(|name| (name.to_owned(), Bson::Int32(1))));
    }
    with
}

/// Like [`with_lock_fields`], with the whole unsafe version besides, if the document has one: the
/// caller can then answer with either version. The server's simple projections stay simple, which
/// would not be so with fields within the unsafe version.
pub fn with_both_versions(projection: &Document) -> Document {
    let mut with = with_lock_fields(projection);
    if shape(projection) == Shape::Inclusive {
        with.insert(UNSAFE, 1);
    }
    with
}
