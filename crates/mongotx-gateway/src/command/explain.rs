//! `explain`: the server's plan for what the application wrote, in the server's own shape, and in the field `mongotx` the one for
//! what the gateway would send.

use bson::{Bson, Document};
use mongotx::Verbosity;

use super::parts::{
    body::Body,
    call::Call,
    generic::Generic,
    plan::{Explain, answer, check_level},
};
use crate::{
    failure::{Answer, Failure, codes},
    fields::Fields,
};

/// `explained`: how the command of a name is; `None`: there is no such command.
pub(super) async fn run(call: &mut Call<'_>, explained: fn(&str) -> Option<Explain>) -> Answer<Body> {
    check_level(call.name, call.generic.read.level)?;
    let (name, inner, verbosity) = parse(std::mem::take(&mut call.body))?;
    let plan = match explained(&name) {
        Some(Explain::AsSent(plan)) => Some(plan),
        Some(Explain::AsWritten) => None,
        Some(Explain::No) => return Err(refused(call.name, &name)),
        None => {
            let message = format!("Explain failed due to unknown command: {name}");
            return Err(Failure::new(codes::COMMAND_NOT_FOUND, message));
        }
    };
    if let Some(collection @ Bson::String(_)) = inner.get(&name) {
        call.namespace_of(collection)?;
    }
    let written = call.context.client.database(call.db).explain(inner.clone(), Some(verbosity)).await?;
    let sent = match plan {
        Some(plan) => Some(plan(&mut nested(call, &name, inner)?, verbosity).await?),
        None => None,
    };
    answer(written, sent)
}

/// The explained command, as if it was to be carried out.
fn nested<'a>(call: &'a Call<'_>, name: &'a str, mut inner: Document) -> Answer<Call<'a>> {
    Generic::take(&mut inner)?;
    Ok(Call {
        context: call.context,
        db: call.db,
        name,
        body: inner,
        generic: call.generic,
        mode: call.mode,
        user: call.user,
        session: None,
        made: None,
        retry: None,
        validated: None,
        is_refused: false,
    })
}

fn refused(own: &str, name: &str) -> Failure {
    let message =
        if name == own { "Explain cannot explain itself.".to_owned() } else { format!("Cannot explain cmd: {name}") };
    Failure::new(codes::ILLEGAL_OPERATION, message)
}

/// The command that is to be explained, its name, and how much is to be told.
pub(super) fn parse(mut body: Document) -> Answer<(String, Document, Verbosity)> {
    let Some(Bson::Document(inner)) = body.remove("explain") else {
        return Err(Failure::new(codes::TYPE_MISMATCH, "explain command requires a nested object"));
    };
    let mut fields = Fields::new("explain", body);
    let verbosity = parse_verbosity(fields.text("verbosity")?.as_deref())?;
    fields.finish()?;
    let name = inner.keys().next().cloned().unwrap_or_default();
    Ok((name, inner, verbosity))
}

fn parse_verbosity(name: Option<&str>) -> Answer<Verbosity> {
    match name {
        Some("queryPlanner") => Ok(Verbosity::QueryPlanner),
        Some("executionStats") => Ok(Verbosity::ExecutionStats),
        Some("allPlansExecution") | None => Ok(Verbosity::AllPlansExecution),
        Some(other) => {
            let message = format!("Enumeration value '{other}' for field 'explain.verbosity' is not a valid value.");
            Err(Failure::new(codes::BAD_VALUE, message))
        }
    }
}
