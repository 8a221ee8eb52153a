//! Pipelines that begin with a stage that has to come first.

use bson::{Bson, Document};

use super::unsupported;
use crate::{error::Error, visible::Visible};

/// The documents that a pipeline begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The stages begin with all documents of the collection.
    Documents,
    /// The documents near a point: `$geoNear`.
    Near,
    /// The documents that a text search finds: `$match` with `$text`.
    Text,
    /// Something else than documents of the collection.
    NoDocuments,
}

impl Opening {
    pub(super) fn of(first: Option<&Document>) -> Self {
        let Some((name, spec)) = first.and_then(|stage| stage.iter().next()) else { return Self::Documents };
        match name.as_str() {
            "$geoNear" => Self::Near,
            "$match" if spec.as_document().is_some_and(has_text) => Self::Text,
            "$collStats" | "$indexStats" | "$planCacheStats" | "$currentOp" | "$listSessions"
            | "$listLocalSessions" | "$listCatalog" | "$documents" | "$changeStream" => Self::NoDocuments,
            _ => Self::Documents,
        }
    }

    /// Refuses a transaction's own view: the index has committed versions only.
    pub(super) fn refuse_own(self, own: Option<&Visible>) -> Result<(), Error> {
        match self {
            Self::Text if own.is_some() => {
                Err(unsupported("$text", "the index has none of the documents that this transaction has written"))
            }
            _ => Ok(()),
        }
    }
}

/// `$text` at the top level, or within a top-level `$and`.
pub(super) fn has_text(filter: &Document) -> bool {
    filter.iter().any(|(key, value)| match (key.as_str(), value) {
        ("$text", _) => true,
        ("$and", Bson::Array(operands)) => operands.iter().filter_map(Bson::as_document).any(has_text),
        _ => false,
    })
}

/// The filter without its `$text` conditions.
pub(super) fn without_text(filter: &Document) -> Document {
    let kept = filter.iter().filter(|(key, _)| *key != "$text").map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("$and", Bson::Array(operands)) => Bson::Array(
                operands
                    .iter()
                    .map(|operand| operand.as_document().map_or_else(|| operand.clone(), |f| without_text(f).into()))
                    .collect(),
            ),
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    kept.collect()
}
