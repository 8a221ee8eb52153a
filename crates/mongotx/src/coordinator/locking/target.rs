//! One document that is to be locked, with its conditions, and the statements that say so.

use bson::{Document, RawArrayBuf, RawDocumentBuf, doc, rawdoc};
use protocol::TxId;
use sd2v::{
    filter::{
        Exact, LockCondition, guard_filter, has_special, is_only_id, lock_condition, plain_demands, rewrite_filter,
        sees_lock_fields,
    },
    statement::{self, OwnReadLock},
    update::{Update, fuse, rewrite_update},
};

use crate::{
    coordinator::{
        request::{address::Address, query::exactly, query_options::QueryOptions},
        transaction::Transaction,
    },
    error::Result,
    options::Namespace,
};

/// The command of these statements, which are carried out in their order as far as none fails.
pub(super) fn update_of(ns: &Namespace, statements: impl IntoIterator<Item = RawDocumentBuf>) -> RawDocumentBuf {
    let statements: RawArrayBuf = statements.into_iter().collect();
    rawdoc! {"update": &*ns.coll, "updates": statements, "ordered": true}
}

/// One document, and the conditions under which it is to be changed.
pub(crate) struct Target<'a> {
    pub(crate) ns: &'a Namespace,
    pub(crate) at: &'a Address,
    pub(crate) filter: &'a Document,
    pub(crate) options: &'a QueryOptions,
    /// True if it was selected just now because it matches.
    pub(crate) chosen: bool,
}

impl Target<'_> {
    /// The demands of the filter on the document, besides the `_id`.
    pub(crate) fn condition(&self) -> Result<LockCondition> {
        if is_only_id(self.filter) { Ok(LockCondition::default()) } else { Ok(lock_condition(self.filter)?) }
    }

    /// The condition on a clean document.
    pub(crate) fn safe(&self, condition: &LockCondition) -> Document {
        let rest = self.narrowed(guard_filter(&condition.rest));
        match &condition.text {
            Some(text) => doc! {"$and": [rest, text.clone()]},
            None => rest,
        }
    }

    /// Returns true if the transaction has to wait for a holder of the document: it needs the
    /// document whatever that contains, or has selected it by the version that all see, and has
    /// done nothing to it yet.
    pub(crate) fn is_the_document(&self, tx: &Transaction) -> bool {
        let wanted = match self.chosen {
            true => !has_special(self.filter) && !sees_lock_fields(self.filter),
            false => is_only_id(self.filter),
        };
        wanted && self.options.is_plain() && !tx.may_hold(self.ns, &self.at.id)
    }

    /// The condition on a clean document, or on one that `left` has left, which is taken over:
    /// there it is a condition on the unsafe version.
    pub(crate) fn safe_or_left(&self, condition: &LockCondition, left: Option<TxId>) -> Result<Document> {
        let Some(left) = left.filter(|_| !is_only_id(self.filter)) else { return Ok(self.safe(condition)) };
        let (safe, taken) = (guard_filter(&condition.rest), rewrite_filter(&condition.rest)?);
        Ok(self.narrowed(statement::free_or_left(safe, taken, &[left])))
    }

    /// Lock, copy and change in one statement, where that is provably the same. Where the filter is
    /// no more than values of fields, they are demanded in the pipeline: a query that says nothing
    /// but the `_id` takes the server's shortest way. So are the conditions `as_read`.
    pub(crate) fn fused(
        &self,
        update: &Update,
        me: TxId,
        left: Option<TxId>,
        as_read: &[Exact],
    ) -> Result<Option<RawDocumentBuf>> {
        let demands = plain_demands(self.filter).filter(|_| self.options.collation.is_none());
        let plain = demands.as_deref().unwrap_or_default();
        let Some(pipeline) = fuse(update, me, left.as_slice(), plain, as_read) else {
            return Ok(None);
        };
        let query = match demands {
            Some(_) => self.at.filter(),
            None => self.safe_or_left(&self.condition()?, left)?,
        };
        Ok(Some(statement::lock_change(RawDocumentBuf::try_from(&query)?, pipeline)))
    }

    /// Lock and copy, then change the copy: the statements for a document that this transaction has
    /// not locked.
    pub(crate) fn locked_and_changed(
        &self,
        update: &Update,
        array_filters: Option<&[Document]>,
        me: TxId,
    ) -> Result<[Document; 2]> {
        let condition = self.condition()?;
        let (safe, mine) = (self.safe(&condition), self.narrowed(rewrite_filter(&condition.rest)?));
        let mut changed = statement::change_unsafe(mine, me, rewrite_update(update)?, false);
        changed.extend(array_filters.map(|filters| ("arrayFilters".to_owned(), filters.to_vec().into())));
        Ok([statement::lock_copy(safe, me, OwnReadLock::None, false), changed])
    }

    pub(super) fn narrowed(&self, rest: Document) -> Document {
        let only = match &self.options.collation {
            None => self.at.filter(),
            Some(_) => exactly(std::slice::from_ref(self.at), self.options),
        };
        if rest.is_empty() {
            only
        } else {
            doc! {"$and": [only, rest]}
        }
    }

    pub(super) fn command(&self, statements: Vec<Document>, array_filters: Option<&[Document]>) -> Document {
        let last = statements.len().saturating_sub(1);
        let decorated: Vec<Document> = statements
            .into_iter()
            .enumerate()
            .map(|(at, mut statement)| {
                if let Some(collation) = &self.options.collation {
                    statement.insert("collation", collation.clone());
                }
                if let (true, Some(filters)) = (at == last, array_filters) {
                    statement.insert("arrayFilters", filters.to_vec());
                }
                statement
            })
            .collect();
        let mut command = doc! {"update": &self.ns.coll, "updates": decorated, "ordered": true};
        if let Some(variables) = &self.options.variables {
            command.insert("let", variables.clone());
        }
        command
    }
}
