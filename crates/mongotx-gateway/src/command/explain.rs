//! `explain`: the server's plan for what the application wrote, in the server's own shape, and in
//! the field `mongotx` the one for what the gateway would send.

use bson::{Bson, Document};
use mongotx::Verbosity;

use super::{
    parts::{
        body::Body,
        call::Call,
        generic::Generic,
        plan::{Explain, answer, check_level},
    },
    registry::NamedCommand,
};
use crate::{
    api::API_FIELDS,
    failure::{Answer, Failure, codes},
    fields::Fields,
};

/// `look_up`: the command of a name.
pub(super) async fn answer_explain(call: &mut Call<'_>, look_up: fn(&str) -> Option<NamedCommand>) -> Answer<Body> {
    check_level(call.name, call.generic.read.level)?;
    let (name, inner, verbosity) = parse(std::mem::take(&mut call.body))?;
    let Some(NamedCommand { command, .. }) = look_up(&name) else { return Err(unknown(&name)) };
    call.generic.api.check_fields(command.api, &name, &inner)?;
    call.generic.api.check_pipeline(inner.get("pipeline"))?;
    let plan = match command.explain {
        Explain::AsSent(plan) => Some(plan),
        Explain::AsWritten => None,
        Explain::No => return Err(refused(call.name, &name)),
    };
    if let Some(collection @ Bson::String(_)) = inner.get(&name) {
        call.namespace_of(collection)?;
    }
    call.check_named_collections(inner.get("pipeline"))?;
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
        connection: call.connection,
        db: call.db,
        name,
        body: inner,
        api: call.api,
        generic: call.generic,
        mode: call.mode,
        user: call.user,
        session: None,
        made: None,
        retry: None,
        validated: None,
        has_concern: false,
        is_refused: false,
    })
}

fn refused(own: &str, name: &str) -> Failure {
    let message =
        if name == own { "Explain cannot explain itself.".to_owned() } else { format!("Cannot explain cmd: {name}") };
    Failure::new(codes::ILLEGAL_OPERATION, message)
}

fn unknown(name: &str) -> Failure {
    Failure::new(codes::COMMAND_NOT_FOUND, format!("Explain failed due to unknown command: {name}"))
}

/// The command that is to be explained, its name, and the verbosity.
pub(super) fn parse(mut body: Document) -> Answer<(String, Document, Verbosity)> {
    let Some(Bson::Document(mut inner)) = body.remove("explain") else {
        return Err(Failure::new(codes::TYPE_MISMATCH, "explain command requires a nested object"));
    };
    let mut fields = Fields::new("explain", body);
    let verbosity = parse_verbosity(fields.text("verbosity")?.as_deref())?;
    fields.finish()?;
    let name = inner.keys().next().cloned().unwrap_or_default();
    // The API parameters of `explain` itself count.
    for field in API_FIELDS {
        inner.remove(field);
    }
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
