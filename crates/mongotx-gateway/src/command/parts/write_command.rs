//! The commands `update` and `delete`, which differ in nothing but the statements that they list.

use bson::Document;

use super::{
    body::HandlerReply,
    call::Call,
    statements::{Statement, run_all},
    writes::{Tally, check_count},
};
use crate::{failure::Answer, fields::Fields};

/// A statement of a command that lists statements.
pub(crate) trait ListedStatement: Statement + Sized {
    /// Name of the command that lists such statements.
    const COMMAND: &'static str;
    /// Field of the command with the statements.
    const LIST: &'static str;

    /// Parses one statement. `variables` are those of the whole command, from its field `let`.
    fn parse(fields: Fields, variables: &Document) -> Answer<Self>;

    /// The results of a command that has done nothing yet.
    fn no_results(is_ordered: bool) -> Tally;
}

/// Arguments of such a command, without the collection.
pub(crate) struct StatementList<S> {
    statements: Vec<S>,
    is_ordered: bool,
}

impl<S: ListedStatement> StatementList<S> {
    pub(crate) fn parse(mut fields: Fields) -> Answer<Self> {
        let statements = fields.documents(S::LIST)?;
        let statements = fields.required(S::LIST, statements)?;
        let is_ordered = fields.flag("ordered")?.unwrap_or(true);
        let variables = fields.document("let")?.unwrap_or_default();
        // Of an update it is heeded before the handler runs; a deletion has nothing to judge.
        fields.safe_flag("bypassDocumentValidation")?;
        fields.ignore(&["stmtId", "stmtIds"]);
        fields.finish()?;
        check_count(statements.len())?;
        let name = format!("{}.{}", S::COMMAND, S::LIST);
        let statements = statements.into_iter().map(|fields| S::parse(Fields::new(&name, fields), &variables));
        Ok(Self { statements: statements.collect::<Answer<_>>()?, is_ordered })
    }
}

/// Answers the command: carries out its statements, and reports the results of all.
pub(crate) async fn answer_statements<S: ListedStatement>(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let namespace = call.namespace()?;
    if let Some(reply) = call.write_plainly(&namespace).await? {
        return Ok(reply.into());
    }
    let StatementList { mut statements, is_ordered } = StatementList::<S>::parse(call.fields(S::COMMAND))?;
    let mut tally = S::no_results(is_ordered);
    run_all(call, &namespace, &mut statements, &mut tally).await?;
    tally.finish(call).map(HandlerReply::Body)
}
