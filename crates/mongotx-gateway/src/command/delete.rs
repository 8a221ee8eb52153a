//! The command `delete`: parses its statements and runs them by the library. How several go
//! together is in `parts::statements`, what `update` has in common in `parts::write_command`.

use std::mem::take;

use bson::{Bson, Document};
use mongotx::{Namespace, WriteModel};

use super::parts::{
    body::HandlerReply,
    call::{Call, with_options, within},
    statements::Statement,
    write_command::{ListedStatement, answer_statements},
    writes::Tally,
};
use crate::{
    failure::{Answer, Failure, codes},
    fields::Fields,
    session::retry::StatementResult,
};

/// One statement of a `delete`: what to remove, and how.
pub(super) struct DeleteStatement {
    filter: Document,
    multi: bool,
    collation: Option<Document>,
    hint: Option<Bson>,
    variables: Document,
}

impl DeleteStatement {
    async fn send(&mut self, call: &mut Call<'_>, namespace: &Namespace) -> mongotx::Result<u64> {
        let collection = call.collection::<Document>(namespace);
        let filter = take(&mut self.filter);
        let action = if self.multi { collection.delete_many(filter) } else { collection.delete_one(filter) };
        let action = with_options!(
            action,
            collation: self.collation.take(),
            hint: self.hint.take(),
            let_vars: Some(take(&mut self.variables)).filter(|variables| !variables.is_empty()),
        );
        within!(call, action).await
    }
}

impl ListedStatement for DeleteStatement {
    const COMMAND: &'static str = "delete";
    const LIST: &'static str = "deletes";

    fn parse(mut fields: Fields, variables: &Document) -> Answer<Self> {
        let filter = fields.document("q")?;
        let limit = fields.exact_number("limit")?;
        // A fraction that was cut off would remove all documents where one, or none, is meant.
        let multi = match fields.required("limit", limit)? {
            0.0 => true,
            1.0 => false,
            other => {
                let message = format!("The limit field in delete objects must be 0 or 1. Got {other}");
                return Err(Failure::new(codes::FAILED_TO_PARSE, message));
            }
        };
        let statement = Self {
            filter: fields.required("q", filter)?,
            multi,
            collation: fields.filled("collation")?,
            hint: fields.hint()?,
            variables: variables.clone(),
        };
        fields.ignore(&["sampleId"]);
        fields.finish()?;
        Ok(statement)
    }

    fn no_results(is_ordered: bool) -> Tally {
        Tally::new(is_ordered)
    }
}

impl Statement for DeleteStatement {
    fn to_model(&self) -> Option<WriteModel> {
        if self.collation.is_some() || self.hint.is_some() || !self.variables.is_empty() {
            return None;
        }
        let filter = self.filter.clone();
        Some(if self.multi { WriteModel::DeleteMany { filter } } else { WriteModel::DeleteOne { filter } })
    }

    async fn run(&mut self, call: &mut Call<'_>, namespace: &Namespace, n: usize, tally: &mut Tally) -> Answer<bool> {
        if tally.retried(call, n)? {
            return Ok(true);
        }
        if call.retry.is_some() && self.multi {
            let message = "Cannot use (or request) retryable writes with limit=0";
            return Ok(tally.failed(call, n, &Failure::new(codes::INVALID_OPTIONS, message)));
        }
        match self.send(call, namespace).await {
            Err(error) => tally.refused(call, n, &error),
            Ok(count) => {
                tally.done(call, n, StatementResult::Count(count));
                Ok(true)
            }
        }
    }
}

pub(super) async fn answer_delete(call: &mut Call<'_>) -> Answer<HandlerReply> {
    answer_statements::<DeleteStatement>(call).await
}
