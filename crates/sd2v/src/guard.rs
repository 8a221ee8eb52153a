//! The guard of all statements that write: no field with a reserved name may get to the top level
//! of a stored document.
//!
//! Names that stand in a statement are refused before it is sent ([`crate::update::Update::check`],
//! [`crate::stored::check_document`]). What only the server knows (`$replaceWith` of a field,
//! `$arrayToObject`, variables) is looked at by the server, in the statement itself: [`stage`] is
//! the last stage of every pipeline that writes, and fails with words that [`refused_field`] knows.
//! A statement that fails stores nothing.
//!
//! | statement | guarded by |
//! | --- | --- |
//! | an update pipeline outside transactions | [`guarded`]: its last stage |
//! | one in a transaction, on the unsafe version | [`crate::update::rewrite_update`]: every new root |
//! | `$out` | [`stage`] before it |
//! | `$merge` | each result is an update or an insert of its own |
//! | a command that goes to the server as it came | [`guard_command`] |

use bson::{Bson, Document, doc};

pub use crate::reserved::refused_field;
use crate::{error::Error, filter::check_filter, reserved::unless_reserved, stored::check_document, update::Update};

/// The stage that lets a document through as it is, and fails at one with a reserved field.
pub fn stage() -> Document {
    doc! {"$replaceWith": unless_reserved("$$ROOT", "$$ROOT".into())}
}

/// The `u` of an update as the user wrote it, guarded. Operators and replacements have their names
/// in them, which are checked before they are sent.
pub fn guarded(update: &Bson) -> Bson {
    match update {
        Bson::Array(stages) => Bson::Array(stages.iter().cloned().chain([stage().into()]).collect()),
        other => other.clone(),
    }
}

/// Guards an `insert`, `update` or `findAndModify` that goes to the server as it came. What is
/// malformed stays so, for the server to refuse.
///
/// ```
/// use bson::doc;
/// use sd2v::{Error, guard::guard_command};
///
/// let mut command = doc! {"insert": "logs", "documents": [{"line": 1}]};
/// guard_command("insert", &mut command)?;
///
/// let mut reserved = doc! {"insert": "logs", "documents": [{"_xTxId": 1}]};
/// assert!(matches!(guard_command("insert", &mut reserved), Err(Error::Reserved { .. })));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// [`Error::Reserved`], naming the field.
pub fn guard_command(name: &str, command: &mut Document) -> Result<(), Error> {
    match name {
        "insert" => {
            let documents = command.get_array("documents").into_iter().flatten();
            documents.filter_map(Bson::as_document).try_for_each(check_document)
        }
        "update" => {
            let Ok(statements) = command.get_array_mut("updates") else { return Ok(()) };
            let mut statements = statements.iter_mut().filter_map(Bson::as_document_mut);
            statements.try_for_each(|statement| guard_update(statement, "q", "u"))
        }
        "findAndModify" | "findandmodify" => guard_update(command, "query", "update"),
        _ => Ok(()),
    }
}

fn guard_update(statement: &mut Document, query: &str, update: &str) -> Result<(), Error> {
    // An upsert takes fields from it.
    if let Ok(filter) = statement.get_document(query) {
        only_reserved(check_filter(filter))?;
    }
    let Some(change) = statement.get_mut(update) else { return Ok(()) };
    let parsed = match &change {
        Bson::Document(fields) if !fields.keys().next().is_some_and(|first| first.starts_with('$')) => {
            Ok(Update::Replacement(fields.clone()))
        }
        other => Update::parse_update((*other).clone()),
    };
    if let Ok(parsed) = parsed {
        only_reserved(parsed.check())?;
    }
    *change = guarded(change);
    Ok(())
}

/// Keeps errors about reserved fields; all others are left to the server.
fn only_reserved(checked: Result<(), Error>) -> Result<(), Error> {
    match checked {
        Err(refused @ Error::Reserved { .. }) => Err(refused),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_refused_where_the_name_stands_in_them() {
        for (name, mut command) in [
            ("insert", doc! {"documents": [{"_id": 1}, {"_remove": true}]}),
            ("update", doc! {"updates": [{"q": {}, "u": {"$set": {"_slot": 1}}}]}),
            ("update", doc! {"updates": [{"q": {"_unsafe.a": 1}, "u": {"$set": {"a": 1}}, "upsert": true}]}),
            ("update", doc! {"updates": [{"q": {}, "u": {"a": 1, "_insert": true}}]}),
            ("findAndModify", doc! {"query": {}, "update": [{"$replaceWith": {"_xTxId": 1}}]}),
        ] {
            assert!(matches!(guard_command(name, &mut command), Err(Error::Reserved { .. })), "{command}");
        }
    }

    #[test]
    fn pipelines_get_the_guard_and_the_rest_stays() {
        let mut command =
            doc! {"updates": [{"q": {}, "u": [{"$set": {"a": 1}}]}, {"q": {}, "u": {"$inc": {"a": 1}}}, 5]};
        guard_command("update", &mut command).unwrap();
        let expected =
            doc! {"updates": [{"q": {}, "u": [{"$set": {"a": 1}}, stage()]}, {"q": {}, "u": {"$inc": {"a": 1}}}, 5]};
        assert_eq!(command, expected);
        let mut odd = doc! {"updates": 5, "documents": [1]};
        guard_command("update", &mut odd).unwrap();
        guard_command("insert", &mut odd).unwrap();
        assert_eq!(odd, doc! {"updates": 5, "documents": [1]});
    }
}
