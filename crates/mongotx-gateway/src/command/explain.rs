//! `explain`: the server's plan for what the gateway would send.
//!
//! Queries and pipelines are explained as they would be sent now; other commands as the application wrote them.

use bson::{Bson, Document};
use mongotx::Verbosity;

use super::parts::{
    body::{Body, Made},
    call::Call,
    generic::Generic,
    plan::{Explain, without_status},
};
use crate::{
    failure::{Answer, Failure, codes},
    fields::Fields,
};

/// `explained`: how the command of a name is.
pub(super) async fn run(call: &mut Call<'_>, explained: fn(&str) -> Explain) -> Answer<Made> {
    let (name, inner, verbosity) = parse(std::mem::take(&mut call.body))?;
    match explained(&name) {
        Explain::AsSent(plan) => {
            let mut nested = Call {
                name: &name,
                body: inner,
                session: None,
                made: None,
                retry: None,
                validated: None,
                is_refused: false,
                ..*call
            };
            let plan = plan(&mut nested, verbosity).await?;
            Body::of(&without_status(plan)).map(Made::Body)
        }
        Explain::AsWritten => {
            let command = bson::doc! {"explain": inner, "verbosity": spelled(verbosity)};
            Ok(call.context.upstream.run_document(call.db, &command).await?.into())
        }
        Explain::No => {
            let message = format!("Explain failed due to unknown command: {name}");
            Err(Failure::new(codes::COMMAND_NOT_FOUND, message))
        }
    }
}

/// The command that is to be explained, its name, and how much is to be told.
pub(super) fn parse(mut body: Document) -> Answer<(String, Document, Verbosity)> {
    let Some(Bson::Document(mut inner)) = body.remove("explain") else {
        return Err(Failure::new(codes::TYPE_MISMATCH, "explain command requires a nested object"));
    };
    let mut fields = Fields::new("explain", body);
    let verbosity = parse_verbosity(fields.text("verbosity")?.as_deref())?;
    fields.finish()?;
    let name = inner.keys().next().cloned().unwrap_or_default();
    Generic::take(&mut inner)?;
    Ok((name, inner, verbosity))
}

fn parse_verbosity(name: Option<&str>) -> Answer<Verbosity> {
    match name {
        Some("queryPlanner") => Ok(Verbosity::QueryPlanner),
        Some("executionStats") => Ok(Verbosity::ExecutionStats),
        Some("allPlansExecution") | None => Ok(Verbosity::AllPlansExecution),
        Some(_) => Err(Failure::new(
            codes::FAILED_TO_PARSE,
            "verbosity string must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}",
        )),
    }
}

fn spelled(verbosity: Verbosity) -> &'static str {
    match verbosity {
        Verbosity::ExecutionStats => "executionStats",
        Verbosity::AllPlansExecution => "allPlansExecution",
        _ => "queryPlanner",
    }
}
