//! The builders behind a collection's methods, one file per MongoDB command.

use bson::{Bson, Document};
use sd2v::update::Update;

use crate::error::Result;

/// Runs a command in the session's transaction, or outside one.
macro_rules! in_session {
    ($session:expr, |$tx:ident| $run:expr) => {
        match $session {
            None => {
                let $tx = None;
                $run.await
            }
            Some(session) => {
                let session: &mut Session = session;
                let done = match session.statement() {
                    Ok(mut statement) => {
                        let $tx = statement.as_mut().and_then(|statement| statement.transaction());
                        let done = $run.await;
                        session.end_statement(&mut statement, done).await
                    }
                    Err(error) => Err(error),
                };
                match done {
                    Ok(done) => Ok(done),
                    Err(error) => Err(session.note_error(error).await),
                }
            }
        }
    };
}

/// Setters of a builder, each named as the option is in MongoDB.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident ( $argument:ident : $type:ty ) => $($field:ident).+ = $value:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $argument: $type) -> Self {
            self.$($field).+ = $value;
            self
        })*

        /// Runs the action in this session's open transaction. If none is open, the action is a
        /// transaction of its own.
        pub fn session(mut self, session: &'a mut Session) -> Self {
            self.session = Some(session);
            self
        }
    };
}

mod aggregate;
mod bulk;
mod count;
mod delete;
mod distinct;
mod find;
mod find_and_modify;
mod insert;
mod update;

pub use self::{
    aggregate::Aggregate,
    bulk::{BulkWrite, WriteModel},
    count::{Count, EstimatedCount},
    delete::Delete,
    distinct::Distinct,
    find::{Find, FindOne},
    find_and_modify::{FindOneAndDelete, FindOneAndUpdate},
    insert::{InsertMany, InsertOne},
    update::UpdateAction,
};

/// An update, made from a `Document` of operators or a `Vec` of pipeline stages.
///
/// ```
/// use bson::doc;
/// use mongotx::Modification;
///
/// let by_operators: Modification = doc! {"$inc": {"n": 1}}.into();
/// let by_pipeline: Modification = vec![doc! {"$set": {"n": {"$add": ["$n", 1]}}}].into();
/// assert!(matches!(by_operators, Modification::Operators(_)));
/// assert!(matches!(by_pipeline, Modification::Pipeline(stages) if stages.len() == 1));
/// ```
#[derive(Clone, Debug)]
pub enum Modification {
    /// Update operators: `{$set: …, $inc: …}`.
    Operators(Document),
    /// Stages of an aggregation pipeline: `[{$set: …}, …]`.
    Pipeline(Vec<Document>),
}

impl From<Document> for Modification {
    fn from(operators: Document) -> Self {
        Self::Operators(operators)
    }
}

impl From<Vec<Document>> for Modification {
    fn from(pipeline: Vec<Document>) -> Self {
        Self::Pipeline(pipeline)
    }
}

impl Modification {
    pub(in crate::collection) fn parse(self) -> Result<Update> {
        let update = match self {
            Self::Operators(operators) => Bson::Document(operators),
            Self::Pipeline(stages) => Bson::Array(stages.into_iter().map(Bson::Document).collect()),
        };
        Ok(Update::parse_update(update)?)
    }
}

/// State of the document that a `findAndModify` answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnDocument {
    /// The document as it was before the change.
    #[default]
    Before,
    /// The document as it is after the change.
    After,
}
