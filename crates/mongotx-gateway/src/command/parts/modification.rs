//! What an update does: operators, a pipeline, or a new document in place of the old.

use bson::{Bson, Document};
use mongotx::Modification;

use crate::{
    failure::{Answer, Failure, codes},
    fields::type_name,
};

/// An update.
pub(crate) enum Update {
    /// Operators or a pipeline.
    Change(Modification),
    /// A new document.
    Replacement(Document),
}

impl Update {
    /// # Errors
    /// 9 for what is neither.
    pub(crate) fn parse(value: Bson) -> Answer<Self> {
        match value {
            Bson::Document(update) if update.keys().next().is_some_and(|first| first.starts_with('$')) => {
                Ok(Self::Change(Modification::Operators(update)))
            }
            Bson::Document(replacement) => Ok(Self::Replacement(replacement)),
            Bson::Array(stages) => {
                let stages = stages.into_iter().map(|stage| match stage {
                    Bson::Document(stage) => Ok(stage),
                    other => {
                        let message = format!(
                            "Each element of the 'pipeline' array must be an object, but found: {}",
                            type_name(&other)
                        );
                        Err(Failure::new(codes::TYPE_MISMATCH, message))
                    }
                });
                Ok(Self::Change(Modification::Pipeline(stages.collect::<Answer<_>>()?)))
            }
            _ => Err(Failure::new(codes::FAILED_TO_PARSE, "Update argument must be either an object or an array")),
        }
    }

    /// Is it a pipeline?
    pub(crate) fn is_pipeline(&self) -> bool {
        matches!(self, Self::Change(Modification::Pipeline(_)))
    }
}
