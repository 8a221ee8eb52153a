//! The change that a prepared write makes to a document: an update or the removal, the fields that
//! it touches, and whether one statement can lock and change. The document is in `target`.

use bson::{Document, doc};
use sd2v::update::{Update, can_fuse};

use crate::coordinator::request::fields::Fields;

/// The change that a prepared write makes to a document.
pub(crate) enum Change<'a> {
    Update { update: &'a Update, array_filters: Option<&'a [Document]> },
    Remove,
}

/// The stage that changes nothing.
pub(super) fn nothing() -> Document {
    doc! {"$replaceWith": "$$ROOT"}
}

impl Change<'_> {
    /// Returns true if it only locks the document.
    pub(crate) fn is_lock(&self) -> bool {
        matches!(self, Self::Update { update: Update::Pipeline(stages), .. } if *stages == [nothing()])
    }

    /// Returns true if one statement can lock a document and make the change.
    pub(super) fn is_one_statement(&self) -> bool {
        match self {
            Self::Remove => true,
            Self::Update { array_filters: Some(_), .. } => false,
            Self::Update { update, .. } => self.is_lock() || can_fuse(update),
        }
    }

    /// The fields that it changes.
    pub(crate) fn touches(&self) -> Fields {
        match self {
            _ if self.is_lock() => Fields::none(),
            Self::Update { update, .. } => Fields::of_update(update),
            Self::Remove => Fields::All,
        }
    }
}
