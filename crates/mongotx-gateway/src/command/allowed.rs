//! Refusals that depend only on the command and its fields, in the server's order: commands that no
//! transaction may run, and wrong concerns and API versions.

use bson::{Bson, Document};

use super::{
    parts::generic::Generic,
    registry::{Command, InTransactions},
};
use crate::{
    api::{API_FIELDS, ApiParameters},
    failure::{Answer, Failure, codes},
    request::Request,
};

/// Refuses a command in a transaction as the server does, before the transaction's state is read.
/// `name`: the command's name as it was sent.
///
/// # Errors
/// 263 for a command that cannot run in a transaction, 13 for an end that is not sent to `admin`,
/// 72 for concerns in the wrong place.
pub(super) fn check_statement(command: &Command, name: &str, db: &str, generic: &Generic, begins: bool) -> Answer<()> {
    let refused = |message: String| Err(Failure::new(codes::NOT_IN_TRANSACTION, message));
    match command.in_transactions {
        InTransactions::Never | InTransactions::NeverBecause(_) => return Err(refusal(command, name)),
        InTransactions::Ends if db != "admin" => {
            let message = format!("{name} may only be run against the admin database.");
            return Err(Failure::new(codes::UNAUTHORIZED, message));
        }
        InTransactions::Ends if begins => return refused(format!("Cannot start a transaction with {name}")),
        InTransactions::Ends => return Ok(()),
        InTransactions::HeldLater if begins => {
            return refused(format!("Cannot run {name} as the first operation in a multi-document transaction."));
        }
        InTransactions::Held | InTransactions::HeldLater => {}
    }
    generic.check_statement(begins)
}

/// The error of a command that cannot run in a transaction.
pub(super) fn refusal(command: &Command, name: &str) -> Failure {
    let message = match command.in_transactions {
        InTransactions::NeverBecause(words) => words.to_owned(),
        _ => format!("Cannot run '{name}' in a multi-document transaction."),
    };
    Failure::new(codes::NOT_IN_TRANSACTION, message)
}

/// Refuses wrong values of the fields that every command may carry.
///
/// # Errors
/// 14, 322, 323 and 4886600 for the API version that it names, 72 for a write concern of a command
/// that does not write.
pub(crate) fn check_said(command: &Command, request: &Request) -> Answer<()> {
    let (mut said, mut has_write_concern) = (Document::new(), false);
    // Fields that cannot be read are refused when the command is parsed.
    for (name, value) in request.body().iter().map_while(Result::ok) {
        has_write_concern |= name == "writeConcern";
        if let Some(value) = API_FIELDS.contains(&name.as_str()).then(|| Bson::try_from(value).ok()).flatten() {
            said.insert(name.as_str(), value);
        }
    }
    command.check(ApiParameters::take(&mut said)?, has_write_concern)
}

/// Checks a command that the gateway passes on or answers by itself.
///
/// # Errors
/// 263 where it says that it is part of a transaction.
pub(crate) fn check_outside(command: &Command, request: &Request) -> Answer<()> {
    let body = request.body();
    if matches!(body.get("autocommit"), Ok(Some(_))) && matches!(body.get("txnNumber"), Ok(Some(_))) {
        return Err(refusal(command, request.name()));
    }
    Ok(())
}
