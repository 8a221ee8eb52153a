//! Prepared writes of several documents whose statements differ in nothing but constants: locked
//! and changed by one statement (decision 0079).
//!
//! Which of the documents it has locked is found out as for a statement each
//! ([`super::batch_answer`]), because its answer has the same totals; unless it has failed, which
//! leaves them out: then everything is given back.

use bson::{Bson, RawDocumentBuf, doc};
use protocol::TxId;
use sd2v::{
    filter::{Exact, plain_demands},
    statement::lock_change_each,
    update::{Fusing, Update, fuse_together},
};

use super::target::Target;

/// The least number of documents for which one statement costs the server less than one for each.
const FEWEST: usize = 3;
/// Limit of the constants of all documents, in bytes. The rest of the statement is short, but for
/// the names of its fields.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// An update of one of the documents.
pub(super) struct MergedUpdate<'a> {
    pub(super) target: &'a Target<'a>,
    pub(super) update: &'a Update,
    /// Conditions under which the document is as it was read.
    pub(super) as_read: &'a [Exact],
}

/// The statement that locks and changes all of these documents for `me`, or takes over those that
/// one of `left` has left. `None`: there are too few, they differ in more than constants, or one of
/// them needs another form.
///
/// All of `left` are transactions of this client that are committed durably, so that it makes no
/// difference which of them holds a document.
pub(super) fn one_statement(all: &[MergedUpdate<'_>], me: TxId, left: &[TxId]) -> Option<RawDocumentBuf> {
    if all.len() < FEWEST {
        return None;
    }
    let demands: Vec<_> = all.iter().map(|one| plain_demands(one.target.filter)).collect::<Option<_>>()?;
    let mut fusing = Vec::with_capacity(all.len());
    for (MergedUpdate { target, update, as_read }, demands) in all.iter().zip(&demands) {
        let id = id_of(target).filter(|_| target.options.is_plain())?;
        fusing.push(Fusing { id, update, demands, as_read });
    }
    let fused = fuse_together(&fusing, me, left, MAX_BYTES)?;
    Some(lock_change_each(fused.ids, fused.pipeline))
}

/// The `_id`, if it is of a type that expressions and indexes find by the same rules, and if
/// nothing else says where the document is.
fn id_of<'a>(target: &Target<'a>) -> Option<&'a Bson> {
    let id = &target.at.id;
    let is_found =
        matches!(id, Bson::ObjectId(_) | Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Binary(_));
    (is_found && target.at.filter() == doc! {"_id": id.clone()}).then_some(id)
}
