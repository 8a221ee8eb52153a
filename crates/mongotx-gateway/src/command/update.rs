//! The command `update`: parses its statements and runs them by the library. How several go
//! together is in `parts::statements`, what `delete` has in common in `parts::write_command`, the
//! form of an update in `parts::modification`.

use std::mem::{replace, take};

use bson::{Bson, Document};
use mongotx::{Namespace, UpdateResult, WriteModel};

use super::parts::{
    body::HandlerReply,
    call::{Call, with_options, within},
    modification::Update,
    statements::Statement,
    write_command::{ListedStatement, answer_statements},
    writes::Tally,
};
use crate::{
    failure::{Answer, Failure, codes},
    fields::Fields,
    session::retry::StatementResult,
};

/// One statement of an `update`: what to change, and how.
pub(super) struct UpdateStatement {
    filter: Document,
    update: Update,
    multi: bool,
    upsert: bool,
    array_filters: Option<Vec<Document>>,
    collation: Option<Document>,
    hint: Option<Bson>,
    variables: Document,
}

impl UpdateStatement {
    /// Refuses a statement as the server does whatever the documents are.
    fn check(&self, is_retryable: bool) -> Answer<()> {
        let refused = |code, message: &str| Err(Failure::new(code, message));
        if is_retryable && self.multi {
            return refused(codes::INVALID_OPTIONS, "Cannot use (or request) retryable writes with multi=true");
        }
        if self.multi && matches!(self.update, Update::Replacement(_)) {
            return refused(codes::FAILED_TO_PARSE, "multi update is not supported for replacement-style update");
        }
        if self.array_filters.is_some() && self.update.is_pipeline() {
            return refused(codes::FAILED_TO_PARSE, "arrayFilters may not be specified for pipeline-syle updates");
        }
        Ok(())
    }

    async fn send(&mut self, call: &mut Call<'_>, namespace: &Namespace) -> mongotx::Result<UpdateResult> {
        let collection = call.collection::<Document>(namespace);
        let filter = take(&mut self.filter);
        let action = match replace(&mut self.update, Update::Replacement(Document::new())) {
            Update::Change(change) if self.multi => collection.update_many(filter, change),
            Update::Change(change) => collection.update_one(filter, change),
            Update::Replacement(document) => collection.replace_one(filter, &document),
        }
        .upsert(self.upsert);
        let action = with_options!(
            action,
            array_filters: self.array_filters.take(),
            collation: self.collation.take(),
            hint: self.hint.take(),
            let_vars: Some(take(&mut self.variables)).filter(|variables| !variables.is_empty()),
        );
        within!(call, action).await
    }
}

impl ListedStatement for UpdateStatement {
    const COMMAND: &'static str = "update";
    const LIST: &'static str = "updates";

    fn parse(mut fields: Fields, variables: &Document) -> Answer<Self> {
        let filter = fields.document("q")?;
        let update = fields.any("u");
        let mut variables = variables.clone();
        variables.extend(fields.document("c")?.unwrap_or_default());
        let statement = Self {
            filter: fields.required("q", filter)?,
            update: Update::parse(fields.required("u", update)?)?,
            multi: fields.flag("multi")?.unwrap_or(false),
            upsert: fields.flag("upsert")?.unwrap_or(false),
            array_filters: fields.documents("arrayFilters")?,
            collation: fields.filled("collation")?,
            hint: fields.hint()?,
            variables,
        };
        fields.ignore(&["upsertSupplied", "sampleId"]);
        fields.finish()?;
        Ok(statement)
    }

    fn no_results(is_ordered: bool) -> Tally {
        Tally::of_updates(is_ordered)
    }
}

impl Statement for UpdateStatement {
    fn to_model(&self) -> Option<WriteModel> {
        let is_plain = self.array_filters.is_none() && self.collation.is_none() && self.hint.is_none();
        if !is_plain || !self.variables.is_empty() || self.check(false).is_err() {
            return None;
        }
        let (filter, upsert) = (self.filter.clone(), self.upsert);
        Some(match &self.update {
            Update::Change(update) if self.multi => WriteModel::UpdateMany { filter, update: update.clone(), upsert },
            Update::Change(update) => WriteModel::UpdateOne { filter, update: update.clone(), upsert },
            Update::Replacement(document) => WriteModel::ReplaceOne { filter, replacement: document.clone(), upsert },
        })
    }

    async fn run(&mut self, call: &mut Call<'_>, namespace: &Namespace, n: usize, tally: &mut Tally) -> Answer<bool> {
        if tally.retried(call, n)? {
            return Ok(true);
        }
        if let Err(failure) = self.check(call.retry.is_some()) {
            return Ok(tally.failed(call, n, &failure));
        }
        match self.send(call, namespace).await {
            Err(error) => tally.refused(call, n, &error),
            Ok(UpdateResult { matched_count: matched, modified_count: modified, upserted_id: upserted, .. }) => {
                tally.done(call, n, StatementResult::Update { matched, modified, upserted });
                Ok(true)
            }
        }
    }
}

pub(super) async fn answer_update(call: &mut Call<'_>) -> Answer<HandlerReply> {
    answer_statements::<UpdateStatement>(call).await
}
