//! The writes as the application gives them: `update`, `delete`, `findAndModify`, and those of a
//! bulk. They are carried out in [`super::update`], [`super::delete`], [`super::find_and_modify`]
//! and [`crate::command::bulk::bulk_write`].

use std::borrow::Cow;

use bson::{Bson, Document, doc};
use sd2v::{
    filter::{check_filter, has_expression, has_script, has_special},
    guard::guarded,
    update::Update,
};

use crate::{
    coordinator::{
        Core,
        locking::change::Change,
        queries::nondeterminism,
        request::{query::Query, query_options::QueryOptions},
    },
    error::{Error, Result},
    options::Namespace,
};

/// One statement of an `update` command.
#[derive(Clone, Debug)]
pub(crate) struct UpdateCommand {
    pub(crate) filter: Document,
    pub(crate) update: Update,
    pub(crate) multi: bool,
    pub(crate) upsert: bool,
    pub(crate) array_filters: Option<Vec<Document>>,
    pub(crate) options: QueryOptions,
}

impl UpdateCommand {
    /// Refuses names that no update may have, inside transactions and outside.
    pub(crate) fn check_names(&self) -> Result<()> {
        check_filter(&self.filter)?;
        Ok(self.update.check_reserved()?)
    }

    /// The same, and what none may name that is made in a transaction.
    pub(crate) fn check(&self) -> Result<()> {
        check_filter(&self.filter)?;
        if self.upsert && nondeterminism::is_by_chance(&self.filter) {
            let message = "an upsert in a transaction cannot have $rand or $sampleRate in its filter: whether a \
                           document matches is asked several times";
            return Err(Error::unsupported(message));
        }
        Ok(self.update.check()?)
    }

    /// The command with a hint that the server knows.
    pub(crate) async fn resolved(&self, core: &Core, ns: &Namespace) -> Result<Cow<'_, Self>> {
        Ok(match self.options.resolved(core, ns).await? {
            Cow::Borrowed(_) => Cow::Borrowed(self),
            Cow::Owned(options) => Cow::Owned(Self { options, ..self.clone() }),
        })
    }

    /// Refuses what the server refuses whether or not a document matches, and MongoTx would only
    /// notice when none does.
    pub(crate) fn check_upsert(&self) -> Result<()> {
        if self.upsert && has_expression(&self.filter) {
            return Err(Error::invalid(224, "$expr is not allowed in the query predicate for an upsert"));
        }
        Ok(())
    }

    /// Returns true if it is a transaction of its own outside one. The server knows no order beside
    /// a condition on locks, and takes no expression in an upsert.
    pub(crate) fn needs_selection(&self) -> bool {
        has_special(&self.filter) || self.upsert && has_script(&self.filter)
    }

    /// Returns true if it may be sent together with others, provided that it names the one document
    /// that it can match.
    pub(crate) fn may_go_together(&self) -> bool {
        !self.upsert && self.options.hint.is_none() && self.options.is_plain()
    }

    /// Returns true if it puts a whole document in the place of another.
    pub(crate) fn replaces(&self) -> bool {
        matches!(self.update, Update::Replacement(_))
    }

    /// The change of a document that matches.
    pub(crate) fn change(&self) -> Change<'_> {
        Change::Update { update: &self.update, array_filters: self.array_filters.as_deref() }
    }

    /// Update of the application, with the guard of a pipeline.
    pub(crate) fn guarded_update(&self) -> Bson {
        match &self.update {
            Update::Operators(fields) | Update::Replacement(fields) => Bson::Document(fields.clone()),
            Update::Pipeline(stages) => guarded(&Bson::Array(stages.iter().cloned().map(Bson::Document).collect())),
        }
    }

    /// The statement of an `update` of one document.
    pub(crate) fn statement(&self, filter: Document, upsert: bool) -> Document {
        let mut statement = doc! {"q": filter, "u": self.guarded_update(), "multi": false, "upsert": upsert};
        if let Some(filters) = &self.array_filters {
            statement.insert("arrayFilters", filters.clone());
        }
        if let Some(collation) = &self.options.collation {
            statement.insert("collation", collation.clone());
        }
        if let Some(hint) = &self.options.hint {
            statement.insert("hint", hint.clone());
        }
        statement
    }
}

/// One statement of a `delete` command.
#[derive(Clone, Debug)]
pub(crate) struct DeleteCommand {
    pub(crate) filter: Document,
    pub(crate) multi: bool,
    pub(crate) options: QueryOptions,
}

/// A write of a bulk.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Insert(Document),
    Update(Box<UpdateCommand>),
    Delete(Box<DeleteCommand>),
    /// A write that could not be read. It is refused when its turn comes.
    Refused(Error),
}

impl Operation {
    /// Returns true if chance decides which documents it writes.
    pub(crate) fn is_by_chance(&self) -> bool {
        match self {
            Self::Update(update) => nondeterminism::is_by_chance(&update.filter),
            Self::Delete(delete) => nondeterminism::is_by_chance(&delete.filter),
            Self::Insert(_) | Self::Refused(_) => false,
        }
    }

    /// Errors of the write that do not depend on any document.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Insert(document) => Ok(sd2v::stored::check_document(document)?),
            Self::Update(update) => update.check(),
            Self::Delete(delete) => Ok(sd2v::filter::check_filter(&delete.filter)?),
            Self::Refused(error) => Err(error.clone()),
        }
    }
}

/// The change that a `findAndModify` makes.
#[derive(Clone, Debug)]
pub(crate) enum Modify {
    Update(Box<UpdateCommand>),
    Delete(Box<DeleteCommand>),
}

/// A `findAndModify` command, as the application gives it.
#[derive(Clone, Debug)]
pub(crate) struct FindAndModify {
    pub(crate) modify: Modify,
    pub(crate) sort: Option<Document>,
    pub(crate) projection: Option<Document>,
    /// Show it as it is afterwards.
    pub(crate) after: bool,
}

impl FindAndModify {
    /// The condition on the document.
    pub(crate) fn filter(&self) -> &Document {
        match &self.modify {
            Modify::Update(update) => &update.filter,
            Modify::Delete(delete) => &delete.filter,
        }
    }

    /// The command with a hint that the server knows.
    pub(crate) async fn resolved(&self, core: &Core, ns: &Namespace) -> Result<Self> {
        let mut resolved = self.clone();
        let options = match &mut resolved.modify {
            Modify::Update(update) => &mut update.options,
            Modify::Delete(delete) => &mut delete.options,
        };
        *options = options.resolved(core, ns).await?.into_owned();
        Ok(resolved)
    }

    /// Returns true if a document is to be inserted if none matches.
    pub(crate) fn upserts(&self) -> bool {
        matches!(&self.modify, Modify::Update(update) if update.upsert)
    }

    /// The command as the user wrote it, but for the filter and the guard of a pipeline.
    pub(crate) fn to_command(&self, ns: &Namespace, filter: Document, upsert: bool) -> Document {
        let mut ask = doc! {"findAndModify": &ns.coll, "query": filter};
        let options = match &self.modify {
            Modify::Update(update) => {
                ask.insert("update", update.guarded_update());
                ask.insert("upsert", upsert);
                ask.insert("new", self.after);
                if let Some(filters) = &update.array_filters {
                    ask.insert("arrayFilters", filters.clone());
                }
                &update.options
            }
            Modify::Delete(delete) => {
                ask.insert("remove", true);
                &delete.options
            }
        };
        if let Some(sort) = &self.sort {
            ask.insert("sort", sort.clone());
        }
        if let Some(projection) = &self.projection {
            ask.insert("fields", projection.clone());
        }
        options.add_to(&mut ask);
        options.add_hint(&mut ask);
        ask
    }

    /// The query for the document that is to be changed.
    pub(crate) fn query(&self) -> Query {
        let (filter, options) = match &self.modify {
            Modify::Update(update) => (&update.filter, &update.options),
            Modify::Delete(delete) => (&delete.filter, &delete.options),
        };
        Query { sort: self.sort.clone().filter(|sort| !sort.is_empty()), ..Query::of(filter.clone(), options.clone()) }
    }
}
