//! Options of commands that have a say in what their filters and updates mean: collation,
//! variables, hint, and how old an answer may be.

use std::{borrow::Cow, time::Duration};

use bson::{Bson, Document};
use sd2v::{index::has_slot, names::SLOT};

use crate::{
    coordinator::Core,
    error::{Error, Result},
    options::Namespace,
};

/// Views that the server lets stand on each other.
const MAX_VIEWS: usize = 20;

/// Options of a command that have a say in what its filter and update mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueryOptions {
    pub(crate) collation: Option<Document>,
    pub(crate) variables: Option<Document>,
    pub(crate) hint: Option<Bson>,
    /// Highest age of a read's answer; `None`: the answer is the latest.
    pub(crate) staleness: Option<Duration>,
    /// Options that only the server's `find` has.
    pub(crate) find_only: Option<FindOnly>,
    /// The query looks for what is pending, whatever read lease its client holds: what rests on its
    /// answer is committed or written, and must not rest on a clock.
    pub(crate) is_always_probed: bool,
}

/// Options of a `find` that no pipeline has: they are about an index, or about how documents are
/// stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FindOnly {
    /// The first key of the index that is read.
    pub(crate) min: Option<Document>,
    /// The key of the index before which reading ends.
    pub(crate) max: Option<Document>,
    /// To answer the keys of the index in place of the documents.
    pub(crate) return_key: bool,
    /// True if the answer shows where the server stores each document.
    pub(crate) show_record_id: bool,
}

impl FindOnly {
    /// Name of the first option that is set.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self { min: Some(_), .. } => "min",
            Self { max: Some(_), .. } => "max",
            Self { return_key: true, .. } => "returnKey",
            _ => "showRecordId",
        }
    }

    /// With bounds for a stored unique index, which has one more field.
    fn slotted(mut self) -> Self {
        for bound in [&mut self.min, &mut self.max].into_iter().flatten() {
            bound.insert(SLOT, Bson::MinKey);
        }
        self
    }

    pub(super) fn add_to(&self, find: &mut Document) {
        let bounds = [("min", &self.min), ("max", &self.max)];
        find.extend(bounds.into_iter().filter_map(|(name, bound)| Some((name.to_owned(), bound.clone()?.into()))));
        let flags = [("returnKey", self.return_key), ("showRecordId", self.show_record_id)];
        find.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name.to_owned(), true.into())));
    }
}

impl QueryOptions {
    /// These options, with a hint that the server knows: a unique index is stored under another
    /// name and with one more field. A hint for a view is one for the collection below it.
    pub(crate) async fn resolved(&self, core: &Core, ns: &Namespace) -> Result<Cow<'_, Self>> {
        let Some(hint) = &self.hint else { return Ok(Cow::Borrowed(self)) };
        let mut hinted = core.catalog.look_up(ns).await?;
        for _ in 0..MAX_VIEWS {
            let Some(view) = &hinted.view else { break };
            hinted = core.catalog.look_up(&Namespace::new(&ns.db, &view.on)).await?;
        }
        Ok(match hinted.stored_hint(hint) {
            Some(stored) => {
                let is_slotted = stored.as_str().is_some_and(has_slot);
                let find_only = self.find_only.clone();
                let find_only = if is_slotted { find_only.map(FindOnly::slotted) } else { find_only };
                Cow::Owned(Self { hint: Some(stored), find_only, ..self.clone() })
            }
            None => Cow::Borrowed(self),
        })
    }

    /// No collation, no variables, nothing that only a `find` can do.
    pub(crate) fn is_plain(&self) -> bool {
        self.collation.is_none() && self.variables.is_none() && self.find_only.is_none()
    }

    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] for what only a `find` on stored documents can do, where
    /// versions are mapped first.
    pub(crate) fn check_mapped(&self) -> Result<()> {
        let Some(find_only) = &self.find_only else { return Ok(()) };
        Err(Error::unsupported(format!(
            "the option {:?} of find is not supported in a transaction that has written to the collection, nor beside documents that \
             cannot be finished, nor with conditions on whole documents: there each document is mapped to its visible version, \
             and no index has that",
            find_only.name()
        )))
    }

    /// Adds collation and variables to a command that has places for both. (Hints are for the
    /// user's own query only.)
    pub(crate) fn add_to(&self, command: &mut Document) {
        if let Some(collation) = &self.collation {
            command.insert("collation", collation.clone());
        }
        if let Some(variables) = &self.variables {
            command.insert("let", variables.clone());
        }
    }

    pub(crate) fn add_hint(&self, command: &mut Document) {
        if let Some(hint) = &self.hint {
            command.insert("hint", hint.clone());
        }
    }
}
