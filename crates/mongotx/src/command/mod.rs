//! One file per MongoDB command: the one place where each gets its transactional meaning.
//!
//! Every command takes the transaction it runs in, or none. Outside a transaction, a plain read is answered by what is
//! committed, a write of one document is one conditional command on a clean document, and a write of several is a
//! transaction of its own ([`implicit`]). Several writes of one document each may share a command ([`each`]).

pub(crate) mod aggregate;
pub(crate) mod bulk;
pub(crate) mod chance;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod direct;
pub(crate) mod distinct;
pub(crate) mod each;
pub(crate) mod explain;
pub(crate) mod fetch;
mod fetch_key;
pub(crate) mod find;
pub(crate) mod find_and_modify;
pub(crate) mod implicit;
pub(crate) mod insert;
pub(crate) mod one_command;
pub(crate) mod output;
pub(crate) mod own_view;
mod picked;
pub(crate) mod point_write;
pub(crate) mod probe;
pub(crate) mod query;
pub(crate) mod rematch;
pub(crate) mod repeatable;
pub(crate) mod text;
pub(crate) mod united;
pub(crate) mod update;
pub(crate) mod upsert;
pub(crate) mod validated;
pub(crate) mod validation;
pub(crate) mod views;

use std::{borrow::Cow, time::Duration};

use bson::{Bson, Document};

use crate::{coordinator::Core, error::Result, options::Namespace};

/// What a command's filter and update mean besides their own words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Terms {
    pub(crate) collation: Option<Document>,
    pub(crate) variables: Option<Document>,
    pub(crate) hint: Option<Bson>,
    /// How old the answer of a read may be; none: it is the latest.
    pub(crate) staleness: Option<Duration>,
}

impl Terms {
    /// With a hint that the server knows: a unique index is stored under another name and with one more field.
    pub(crate) async fn resolved(&self, core: &Core, ns: &Namespace) -> Result<Cow<'_, Self>> {
        let Some(hint) = &self.hint else { return Ok(Cow::Borrowed(self)) };
        Ok(match core.catalog.look_up(&core.server, ns).await?.stored_hint(hint) {
            Some(stored) => Cow::Owned(Self { hint: Some(stored), ..self.clone() }),
            None => Cow::Borrowed(self),
        })
    }

    /// No collation, no variables.
    pub(crate) fn is_plain(&self) -> bool {
        self.collation.is_none() && self.variables.is_none()
    }

    /// Adds collation and variables to a command that has places for both. (Hints are for the user's own query only.)
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
