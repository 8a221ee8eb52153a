//! What a transaction may hold, as the server has it: decided by a command and its fields, before anything is looked at.

use super::{
    parts::generic::Generic,
    registry::{Command, InTransactions},
};
use crate::{
    failure::{Answer, Failure, codes},
    request::Request,
};

/// What the server refuses in a transaction before it looks at its state. `name`: the command's, as it was sent.
///
/// # Errors
/// 263 for what no transaction may hold, 13 for an end that is not asked of `admin`, 72 for concerns that stand elsewhere.
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

/// What is told of a command that no transaction may hold.
pub(super) fn refusal(command: &Command, name: &str) -> Failure {
    let message = match command.in_transactions {
        InTransactions::NeverBecause(words) => words.to_owned(),
        _ => format!("Cannot run '{name}' in a multi-document transaction."),
    };
    Failure::new(codes::NOT_IN_TRANSACTION, message)
}

/// Of a command that is not carried out here.
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
