//! `delete`.

use bson::{Bson, Document};
use mongotx::Namespace;

use super::{
    body::Body,
    call::{Call, within},
    fields::Fields,
    writes::{Tally, check_count},
};
use crate::{
    failure::{Answer, Failure, codes},
    reply::Reply,
    session::retry::Done,
};

/// One statement.
struct Statement {
    filter: Document,
    multi: bool,
    collation: Option<Document>,
    hint: Option<Bson>,
}

impl Statement {
    fn parse(fields: Document) -> Answer<Self> {
        let mut fields = Fields::new("delete.deletes", fields);
        let filter = fields.document("q")?;
        let limit = fields.number("limit")?;
        let multi = match fields.required("limit", limit)? {
            0 => true,
            1 => false,
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
        };
        fields.ignore(&["sampleId"]);
        fields.finish()?;
        Ok(statement)
    }

    async fn run(&self, call: &mut Call<'_>, namespace: &Namespace, variables: &Document) -> mongotx::Result<u64> {
        let collection = call.collection::<Document>(namespace);
        let filter = self.filter.clone();
        let mut action = if self.multi { collection.delete_many(filter) } else { collection.delete_one(filter) };
        if let Some(collation) = &self.collation {
            action = action.collation(collation.clone());
        }
        if let Some(hint) = &self.hint {
            action = action.hint(hint.clone());
        }
        if !variables.is_empty() {
            action = action.let_vars(variables.clone());
        }
        within!(call, action).await
    }
}

/// What it asks, but for the collection.
pub(super) struct Deletes {
    statements: Vec<Statement>,
    is_ordered: bool,
    variables: Document,
}

impl Deletes {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let statements = fields.documents("deletes")?;
        let statements = fields.required("deletes", statements)?;
        let is_ordered = fields.flag("ordered")?.unwrap_or(true);
        let variables = fields.document("let")?.unwrap_or_default();
        fields.ignore(&["stmtId", "stmtIds"]);
        fields.finish()?;
        check_count(statements.len())?;
        let statements = statements.into_iter().map(Statement::parse).collect::<Answer<_>>()?;
        Ok(Self { statements, is_ordered, variables })
    }
}

pub(super) async fn run(call: &mut Call<'_>) -> Answer<Result<Body, Reply>> {
    let namespace = call.namespace()?;
    if let Some(reply) = call.write_plainly(&namespace).await? {
        return Ok(Err(reply));
    }
    let Deletes { statements, is_ordered, variables } = Deletes::parse(call.fields("delete"))?;
    let mut tally = Tally::new(is_ordered);
    for (n, statement) in statements.iter().enumerate() {
        if !one(call, &namespace, n, statement, &variables, &mut tally).await? {
            break;
        }
    }
    tally.finish(call).await.map(Ok)
}

/// False: stop here.
async fn one(
    call: &mut Call<'_>,
    namespace: &Namespace,
    n: usize,
    statement: &Statement,
    variables: &Document,
    tally: &mut Tally,
) -> Answer<bool> {
    if tally.retried(call, n)? {
        return Ok(true);
    }
    if call.retry.is_some() && statement.multi {
        let message = "Cannot use (or request) retryable writes with limit=0";
        return Ok(tally.failed(call, n, &Failure::new(codes::INVALID_OPTIONS, message)));
    }
    match statement.run(call, namespace, variables).await {
        Err(error) => tally.refused(call, n, &error),
        Ok(count) => {
            tally.done(call, n, Done::Count(count));
            Ok(true)
        }
    }
}
