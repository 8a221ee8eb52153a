//! What a transaction may hold, as the server has it: decided by a command's name and fields, before anything is looked at.

use super::generic::Generic;
use crate::failure::{Answer, Failure, codes};

const IN_TRANSACTIONS: [&str; 14] = [
    "insert",
    "update",
    "delete",
    "findAndModify",
    "findandmodify",
    "find",
    "getMore",
    "killCursors",
    "aggregate",
    "distinct",
    "create",
    "createIndexes",
    "commitTransaction",
    "abortTransaction",
];

/// Whether it kills sessions, its own perhaps among them.
pub(super) fn kills_sessions(name: &str) -> bool {
    ["killSessions", "killAllSessions", "killAllSessionsByPattern", "endSessions"].contains(&name)
}

/// Whether it commits or rolls back.
pub(crate) fn ends_transaction(name: &str) -> bool {
    ["commitTransaction", "abortTransaction"].contains(&name)
}

/// What the server refuses in a transaction before it looks at its state.
///
/// # Errors
/// 263 for what no transaction may hold, 13 for an end that is not asked of `admin`, 72 for concerns that stand elsewhere.
pub(super) fn check_statement(name: &str, db: &str, generic: &Generic, begins: bool) -> Answer<()> {
    let refused = |message: String| Err(Failure::new(codes::NOT_IN_TRANSACTION, message));
    check_name(name)?;
    if ends_transaction(name) {
        if db != "admin" {
            let message = format!("{name} may only be run against the admin database.");
            return Err(Failure::new(codes::UNAUTHORIZED, message));
        }
        return if begins { refused(format!("Cannot start a transaction with {name}")) } else { Ok(()) };
    }
    if begins && name == "killCursors" {
        return refused("Cannot run killCursors as the first operation in a multi-document transaction.".to_owned());
    }
    generic.check_statement(begins)
}

/// # Errors
/// 263 for a command that no transaction may hold.
pub(super) fn check_name(name: &str) -> Answer<()> {
    if IN_TRANSACTIONS.contains(&name) {
        return Ok(());
    }
    let message = match name {
        "count" => {
            "Cannot run 'count' in a multi-document transaction. Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative.".to_owned()
        }
        "ping" | "hello" | "isMaster" | "ismaster" => "This command is not supported in transactions".to_owned(),
        _ => format!("Cannot run '{name}' in a multi-document transaction."),
    };
    Err(Failure::new(codes::NOT_IN_TRANSACTION, message))
}
