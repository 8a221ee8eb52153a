//! The stage `$listLocalSessions`: the sessions that clients have at this gateway. (Sessions of the
//! server itself belong to the gateway.)

use std::time::Instant;

use bson::{Bson, DateTime, Document, doc};

use super::{current_op::name, parts::call::Call};
use crate::{
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
    session::entry::SessionEntry,
};

const STAGE: &str = "$listLocalSessions";

/// If the pipeline begins with the stage, replaces it by the sessions, for the server to go on
/// with.
///
/// # Errors
/// The server's errors for unknown options, for a collection (73), and in a transaction (263).
pub(super) fn replace_stage(call: &Call<'_>, of_database: bool, stages: &mut [Document]) -> Answer<()> {
    let Some(first) = stages.first_mut() else { return Ok(()) };
    let Some(options) = first.get(STAGE) else { return Ok(()) };
    let sees_all = sees_all(options)?;
    if call.is_in_transaction() {
        let message = format!(
            "Operation not permitted in transaction :: caused by :: Aggregation stage {STAGE} cannot run within a multi-document \
             transaction."
        );
        return Err(Failure::new(codes::NOT_IN_TRANSACTION, message));
    }
    if !of_database {
        let message = format!("{STAGE} must be run against the database with {{aggregate: 1}}, not a collection");
        return Err(Failure::new(codes::INVALID_NAMESPACE, message));
    }
    let sessions = &call.context.tx.sessions;
    let shown = sessions.names(|entry| sees_all || entry.lsid.user == call.user_digest());
    let shown: Vec<Bson> = shown.iter().filter_map(|lsid| Some(describe(&*sessions.find(lsid)?).into())).collect();
    *first = doc! {"$documents": shown};
    Ok(())
}

fn sees_all(options: &Bson) -> Answer<bool> {
    let Bson::Document(options) = options else {
        let found = type_name(options);
        let message = format!("{STAGE} options must be specified in an object, but found: {found}");
        return Err(Failure::new(codes::TYPE_MISMATCH, message));
    };
    let mut fields = Fields::new(STAGE, options.clone());
    let sees_all = fields.flag("allUsers")?.unwrap_or(false);
    fields.refuse(&["users"], "the gateway lists those of all users, or of the one who asks")?;
    fields.finish()?;
    Ok(sees_all)
}

fn describe(entry: &SessionEntry) -> Document {
    let age = Instant::now().saturating_duration_since(entry.used());
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let last_use = DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(age_ms));
    doc! {"_id": name(&entry.lsid), "lastUse": last_use}
}
