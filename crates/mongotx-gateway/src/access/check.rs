//! Checks whether a user may run a command. The check runs before anything else is done with the
//! command.

use std::collections::HashSet;

use bson::Document;

use super::{
    needs::{Access, BYPASS_VALIDATION, CommandToCheck},
    user::User,
};
use crate::{
    error::{CommandError, code},
    request::{Request, WholeCommand},
};

/// Checks that a user has the privileges for a request. `access` is the table's entry for the
/// request's command, `access_of` gives those of others. `own`: the database in which MongoTx keeps
/// its records.
///
/// # Errors
/// 13, as MongoDB: without a login, and without the privilege. The message does not quote the
/// command, which may hold documents.
pub(crate) fn check(
    user: Option<&User>,
    request: &Request,
    access: Access,
    access_of: fn(&str) -> Access,
    own: &str,
) -> Result<(), CommandError> {
    let (name, database) = (request.name(), request.database());
    if access == Access::Open {
        return Ok(());
    }
    let unauthorized = |text: String| Err(CommandError::new(code::UNAUTHORIZED, text));
    let Some(user) = user else {
        return unauthorized(format!("command {name} requires authentication"));
    };
    if user.is_root() {
        return Ok(());
    }
    refuse_twice(request)?;
    // A privilege that depends on what is inside of a command needs all of it, others only the
    // fields that `named` takes from its body.
    let command = if access.is_inside() { request.to_document()? } else { named(request) };
    let demands = CommandToCheck { access, name, database, own, access_of }.demands(&command);
    match demands.iter().find(|demand| !user.may(demand.need, &demand.database)) {
        None => Ok(()),
        Some(demand) => unauthorized(format!("not authorized on {} to execute command {name}", demand.database)),
    }
}

/// Refuses a field that is there twice: the check could read the one, and the gateway or the server
/// carry out the other.
fn refuse_twice(request: &Request) -> Result<(), CommandError> {
    let mut seen = HashSet::new();
    let names = request.body().iter_elements().flatten().map(|field| field.key().as_str());
    for name in names {
        if !seen.insert(name) {
            let text = format!("BSON field '{}.{name}' is a duplicate field", request.name());
            return Err(CommandError::new(code::DUPLICATE_FIELD, text));
        }
    }
    Ok(())
}

/// The fields of a request that decide its privileges: the first one, the one that names the
/// collection of a cursor, and those that need more privileges than usual. The other fields, such
/// as the documents of a large insert, need not be read.
fn named(request: &Request) -> Document {
    let mut named = Document::new();
    for field in [request.name(), "collection", BYPASS_VALIDATION] {
        if let Ok(Some(value)) = request.body().get(field)
            && let Ok(value) = bson::Bson::try_from(value)
        {
            named.insert(field, value);
        }
    }
    named
}
