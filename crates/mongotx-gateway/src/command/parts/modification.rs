//! The modification of an update: operators, a pipeline, or a document that replaces the old one.

use bson::{Bson, Document};
use mongotx::Modification;

use crate::{
    failure::{Answer, Failure, codes},
    fields::type_name,
};

/// The modification that an update makes.
pub(crate) enum Update {
    /// Update operators or a pipeline.
    Change(Modification),
    /// A document that replaces the old one.
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

    /// Returns true if the modification is an update by a pipeline.
    pub(crate) fn is_pipeline(&self) -> bool {
        matches!(self, Self::Change(Modification::Pipeline(_)))
    }
}
