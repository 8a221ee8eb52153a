//! For programs that send an application's write to the server as it came: in collections in which
//! nothing is ever locked MongoTx has nothing to add, except that no write may store a field that
//! MongoTx keeps its own data under.

use bson::{Bson, Document};
use sd2v::guard;

use crate::error::{Error, Result};

/// Makes an `insert`, `update` or `findAndModify` store no reserved field, whatever the server
/// computes.
///
/// ```
/// # use bson::doc;
/// let mut command = doc! {"insert": "logs", "documents": [{"_unsafe": 1}]};
/// let refused = mongotx::guard::guard_command("insert", &mut command).unwrap_err();
/// assert_eq!(refused.code(), Some(2));
/// ```
///
/// # Errors
/// [`crate::ErrorKind::Invalid`] (2), naming the field, when the command has it in its words.
pub fn guard_command(name: &str, command: &mut Document) -> Result<()> {
    Ok(guard::guard_command(name, command)?)
}

/// Puts MongoTx's message and code into a server's answer to such a command, where the server
/// refused a reserved field.
///
/// ```
/// # use bson::doc;
/// let mut answer = doc! {"n": 1, "ok": 1};
/// mongotx::guard::explain_answer(&mut answer);
/// assert_eq!(answer, doc! {"n": 1, "ok": 1});
/// ```
pub fn explain_answer(answer: &mut Document) {
    explain(answer);
    if let Ok(errors) = answer.get_array_mut("writeErrors") {
        errors.iter_mut().filter_map(Bson::as_document_mut).for_each(explain);
    }
}

fn explain(error: &mut Document) {
    let Some(refused) = error.get_str("errmsg").ok().and_then(guard::refused_field) else { return };
    let refused = Error::from(refused);
    error.insert("errmsg", refused.message());
    error.insert("code", refused.code().unwrap_or_default());
    if error.contains_key("codeName") {
        error.insert("codeName", "BadValue");
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn answers_name_the_field_and_all_else_stays() {
        let words = "Failed to parse number 'MongoTx stores nothing with the reserved field _slot' in $convert";
        let mut answer = doc! {
            "n": 0, "ok": 1, "writeErrors": [{"index": 0, "code": 241, "errmsg": words}, {"index": 1, "code": 1, "errmsg": "x"}],
        };
        explain_answer(&mut answer);
        let errors = answer.get_array("writeErrors").unwrap();
        let first = errors[0].as_document().unwrap();
        assert_eq!(first.get_i32("code").unwrap(), 2);
        assert!(first.get_str("errmsg").unwrap().contains("\"_slot\" is reserved"), "{first}");
        assert_eq!(errors[1], Bson::from(doc! {"index": 1, "code": 1, "errmsg": "x"}));
    }
}
