//! `$where`: JavaScript on the document, as an expression that can be evaluated on both versions.
//!
//! The user's source stays as it is; around it stands a function that reads it as the server does
//! (a function, the body of one, or expressions of which the last is the value), hides the reserved
//! fields, and gives it `this` and `obj`.

use bson::{Bson, Document, doc};

use super::is_logical;
use crate::{error::Error, expression::path, names::RESERVED};

const AROUND: &str = include_str!("where.js");

/// The filter with each `$where` as an expression. What is not the source of a script stays, for
/// [`super::check_filter`] to refuse.
pub fn with_scripts_as_expressions(filter: Document) -> Document {
    if has_raw(&filter, 0) { convert(&filter, 0) } else { filter }
}

fn has_raw(filter: &Document, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    filter.iter().any(|(key, value)| key == "$where" || is_logical(key) && operands(value).any(|f| has_raw(f, depth)))
}

fn operands(value: &Bson) -> impl Iterator<Item = &Document> {
    value.as_array().into_iter().flatten().filter_map(Bson::as_document)
}

fn convert(filter: &Document, depth: usize) -> Document {
    let Ok(depth) = path::deeper(depth) else { return filter.clone() };
    let (mut rest, mut script) = (Document::new(), None);
    for (key, value) in filter {
        match (key.as_str(), value) {
            ("$where", value) if source(value).is_some() => script = source(value),
            (key, Bson::Array(operands)) if is_logical(key) => {
                let operands = operands.iter().map(|operand| match operand {
                    Bson::Document(filter) => convert(filter, depth).into(),
                    other => other.clone(),
                });
                rest.insert(key, operands.collect::<Vec<Bson>>());
            }
            (key, value) => drop(rest.insert(key, value.clone())),
        }
    }
    match script.map(|source| doc! { "$expr": expression(source) }) {
        Some(script) if rest.is_empty() => script,
        Some(script) => doc! { "$and": [rest, script] },
        None => rest,
    }
}

fn source(value: &Bson) -> Option<&str> {
    match value {
        Bson::String(source) | Bson::JavaScriptCode(source) => Some(source).filter(|source| !source.is_empty()),
        _ => None,
    }
    .map(String::as_str)
}

fn expression(source: &str) -> Document {
    let (head, tail) = around();
    let body = format!("{head}{}{tail}", quoted(source));
    doc! { "$function": { "body": body, "args": ["$$ROOT"], "lang": "js" } }
}

/// What stands before the user's source, and behind it.
fn around() -> (&'static str, String) {
    let names: Vec<String> = RESERVED.iter().map(|name| quoted(name)).collect();
    let (head, tail) = AROUND.split_once("SOURCE").unwrap_or((AROUND, ""));
    (head, tail.replace("RESERVED", &format!("[{}]", names.join(", "))))
}

/// A string literal of JavaScript.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// The text of a string literal of JavaScript as [`quoted`] writes it.
fn unquoted(literal: &str) -> Option<String> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let (mut text, mut letters) = (String::new(), inner.chars());
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => match letters.next()? {
                'u' => {
                    let digits: String = letters.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                escaped => escaped,
            },
            letter => letter,
        });
    }
    Some(text)
}

/// Returns true if the expression was made from a `$where`: if it is, to its last letter, what
/// [`expression`] makes of its source. A user's own script that begins like it would see the
/// reserved fields.
pub(crate) fn is_script(expression: &Bson) -> bool {
    let function = expression.as_document().and_then(|fields| fields.get_document("$function").ok());
    let source = function.and_then(|function| source_in(function.get_str("body").ok()?));
    source.is_some_and(|source| expression.as_document() == Some(&self::expression(&source)))
}

fn source_in(body: &str) -> Option<String> {
    let (head, tail) = around();
    unquoted(body.strip_prefix(head)?.strip_suffix(&tail)?)
}

/// Returns true if the filter contains a `$where`.
pub fn has_script(filter: &Document) -> bool {
    has(filter, 0)
}

fn has(filter: &Document, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    filter.iter().any(|(key, value)| {
        key == "$expr" && is_script(value) || is_logical(key) && operands(value).any(|operand| has(operand, depth))
    })
}

/// The server's error for a `$where` that could not become an expression.
pub(super) fn refuse(value: &Bson) -> Error {
    let (code, message) = match value {
        Bson::JavaScriptCodeWithScope(_) => (4_649_201, "$where no longer supports deprecated BSON type CodeWScope"),
        Bson::String(source) | Bson::JavaScriptCode(source) if source.is_empty() => {
            (2, "code for $where cannot be empty")
        }
        Bson::String(_) | Bson::JavaScriptCode(_) => (2, "$where is not allowed in this context"),
        _ => (2, "$where got bad type"),
    };
    Error::Invalid { code, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_become_expressions_beside_the_others() {
        let expr = doc! { "$eq": ["$a", 1] };
        let filter = with_scripts_as_expressions(doc! { "$expr": expr.clone(), "$where": "this.a", "b": 1 });
        let operands = filter.get_array("$and").unwrap();
        assert_eq!(operands[0], doc! { "$expr": expr, "b": 1 }.into());
        assert!(has_script(operands[1].as_document().unwrap()) && has_script(&filter));
        let nested = with_scripts_as_expressions(doc! { "$or": [{ "$where": "1" }, { "a": 1 }] });
        assert!(has_script(&nested) && nested.get_array("$or").unwrap()[1] == doc! { "a": 1 }.into());
        let plain = doc! { "a": { "$where": "1" }, "$expr": expr_of_the_user() };
        assert_eq!(with_scripts_as_expressions(plain.clone()), plain);
        assert!(!has_script(&plain));
    }

    fn expr_of_the_user() -> Document {
        doc! { "$function": { "body": "function() { return true }", "args": [], "lang": "js" } }
    }

    #[test]
    fn only_what_was_made_from_a_script_is_one() {
        for source in ["this.a", "'SOURCE' + \"RESERVED\"", "a\\b\n\u{2028}\0ä\\u0041", "\"; return true; \""] {
            assert!(is_script(&expression(source).into()), "{source}");
        }
        let with_body = |body: String| {
            let function = doc! { "body": body, "args": ["$$ROOT"], "lang": "js" };
            is_script(&doc! { "$function": function }.into())
        };
        let (head, tail) = around();
        assert!(with_body(format!("{head}\"1\"{tail}")));
        for forged in [
            format!("{head}0; }} return !!obj._unsafe }}"),
            format!("{head}\"\"; return obj._unsafe; \"\"{tail}"),
            format!("{head}\"\\x41\"{tail}"),
            format!("{head}\"1\"{tail} "),
            format!("{head}\"{tail}"),
        ] {
            assert!(!with_body(forged.clone()), "{forged}");
        }
        let mut other = expression("1");
        other.get_document_mut("$function").unwrap().insert("args", bson::bson!(["$$ROOT", "$_unsafe"]));
        assert!(!is_script(&other.into()));
    }

    #[test]
    fn sources_are_quoted() {
        assert_eq!(quoted("a\"b\\\n\u{2028}ä"), "\"a\\\"b\\\\\\u000a\\u2028ä\"");
        let body = expression("'SOURCE' + 'RESERVED'").to_string();
        assert!(body.contains("'SOURCE' + 'RESERVED'") && !body.contains("RESERVED.forEach"), "{body}");
    }
}
