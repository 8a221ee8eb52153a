//! The server's words in the application's terms. It shows documents as they are stored, and
//! queries as they were rewritten: the application has neither.
//!
//! Words are for people. What is done here is to read them as far as their form is clear, and to
//! leave them alone otherwise; but what has a reserved name in it is never shown as it is.

use bson::{Bson, Document};

use crate::{
    index,
    names::{RESERVED, UNSAFE},
};

/// The deepest that documents in the server's words are looked into: deeper than it stores any.
const DEEPEST: usize = 220;
/// Beginning of the server's words about a query that it cannot plan, and of the reason in them.
const QUERY: (&str, &str) = ("error processing query: ", "planner returned error");

/// A message of the server without stored documents, rewritten queries, and the names of stored
/// indexes and fields.
pub fn shown(message: &str) -> String {
    if !names_reserved(message) {
        return index::shown(message);
    }
    index::shown(&in_words(&without_query(message), 0))
}

/// A document as the server shows it in its words: `{ a: 1, b: "x" }`.
pub fn document_in_words(document: &Document) -> String {
    let fields: Vec<String> =
        document.iter().map(|(name, value)| format!("{name}: {}", value_in_words(value))).collect();
    if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
}

fn value_in_words(value: &Bson) -> String {
    match value {
        Bson::Document(document) => document_in_words(document),
        Bson::Array(array) if array.is_empty() => "[]".to_owned(),
        Bson::Array(array) => format!("[ {} ]", array.iter().map(value_in_words).collect::<Vec<_>>().join(", ")),
        Bson::String(text) => format!("\"{text}\""),
        Bson::ObjectId(id) => format!("ObjectId('{id}')"),
        Bson::DateTime(time) => format!("new Date({})", time.timestamp_millis()),
        Bson::Timestamp(stamp) => format!("Timestamp({}, {})", stamp.time, stamp.increment),
        Bson::Double(number) if number.is_finite() => format!("{number:?}"),
        Bson::Undefined => "undefined".to_owned(),
        Bson::MinKey => "MinKey".to_owned(),
        Bson::MaxKey => "MaxKey".to_owned(),
        Bson::JavaScriptCode(code) => code.clone(),
        Bson::Binary(binary) => match binary.to_uuid() {
            Ok(uuid) => format!("UUID(\"{uuid}\")"),
            Err(_) => {
                let hex: String = binary.bytes.iter().map(|byte| format!("{byte:02X}")).collect();
                format!("BinData({}, {hex})", u8::from(binary.subtype))
            }
        },
        other => other.to_string(),
    }
}

fn names_reserved(text: &str) -> bool {
    RESERVED.iter().any(|name| text.contains(name))
}

/// The message without the tree of a query that was rewritten.
fn without_query(message: &str) -> String {
    let (begins, goes_on) = QUERY;
    match message.split_once(begins).map(|(before, tree)| (before, tree.split_once(goes_on))) {
        Some((before, Some((tree, reason)))) if names_reserved(tree) => format!("{before}{begins}{goes_on}{reason}"),
        _ => message.to_owned(),
    }
}

/// The text with all documents in it as the application knows them.
fn in_words(text: &str, depth: usize) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('{').filter(|_| depth < DEEPEST) {
        shown.push_str(&rest[..start]);
        rest = &rest[start..];
        match end_of_document(rest) {
            Some(end) => {
                shown.push_str(&document(&rest[..end], depth));
                rest = &rest[end..];
            }
            // The server shortens what is long.
            None if names_reserved(rest) => return shown + "{ ... }",
            None => break,
        }
    }
    shown + rest
}

/// A document: the unsafe version, if it has one, and else what is not MongoTx's.
fn document(text: &str, depth: usize) -> String {
    if !names_reserved(text) {
        return text.to_owned();
    }
    let inner = &text[1..text.len() - 1];
    let mut kept = Vec::new();
    for field in fields(inner) {
        let (name, value) = field.split_once(':').unwrap_or((field, ""));
        let (name, value) = (name.trim().trim_matches('"'), value.trim());
        if name == UNSAFE && value.starts_with('{') {
            return in_words(value, depth + 1);
        }
        let shown = in_words(field.trim(), depth + 1);
        // A document that had nothing but reserved names in it was MongoTx's own, too.
        let is_emptied = shown.len() < field.trim().len() && shown.ends_with("{}");
        if !RESERVED.contains(&name) && !is_emptied {
            kept.push(shown);
        }
    }
    let kept = kept.join(", ");
    match inner.starts_with(' ') {
        _ if kept.is_empty() => "{}".to_owned(),
        true => format!("{{ {kept} }}"),
        false => format!("{{{kept}}}"),
    }
}

/// Places of the characters that make the form of a document: those outside of strings.
fn form(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut in_string = false;
    text.char_indices().filter(move |(_, one)| {
        in_string ^= *one == '"';
        !in_string
    })
}

/// Byte offset at which the document at the beginning of the text ends.
fn end_of_document(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, one) in form(text) {
        match one {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some(place + 1);
        }
    }
    None
}

/// The fields of a document, without its braces.
fn fields(inner: &str) -> Vec<&str> {
    let (mut fields, mut begins, mut depth) = (Vec::new(), 0, 0_usize);
    for (place, one) in form(inner) {
        match one {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                fields.push(&inner[begins..place]);
                begins = place + 1;
            }
            _ => {}
        }
    }
    fields.push(&inner[begins..]);
    fields.retain(|field| !field.trim().is_empty());
    fields
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn stored_documents_are_shown_as_the_application_knows_them() {
        for (stored, expected) in [
            (
                r#"Can't extract geo keys: { _id: 5, _unsafe: { _id: 5, g: "x, }" }, _xTxId: { c: ObjectId('6b'), n: 3 }, _insert: true, _slot: 5 }  geo element must be an array"#,
                r#"Can't extract geo keys: { _id: 5, g: "x, }" }  geo element must be an array"#,
            ),
            (
                r#"must be an object. Input document: {_id: 1, a: "x", arr: [1, {b: 2}], _remove: {_id: 1, _unsafe: {_id: 1}, _xTxId: {c: 6b, n: 1}}}"#,
                r#"must be an object. Input document: {_id: 1, a: "x", arr: [1, {b: 2}]}"#,
            ),
            (
                r#"Index spec: { key: { t: 1 }, name: "t", partialFilterExpression: { _xTxId: null, _sTxIds: null } }"#,
                r#"Index spec: { key: { t: 1 }, name: "t" }"#,
            ),
            (
                "error processing query: ns=d.cTree: $not\n    _insert exists\nSort: {}\nProj: {}\n planner returned error :: caused by :: no index",
                "error processing query: planner returned error :: caused by :: no index",
            ),
            ("dup key: { u: 1, _slot: null }", "dup key: { u: 1 }"),
            // Shortened by the server.
            (r#"too large: { _id: 5, _unsafe: { a: "xx..."#, "too large: { ... }"),
        ] {
            assert_eq!(shown(stored), expected);
        }
    }

    #[test]
    fn documents_are_written_as_the_server_writes_them() {
        let id = bson::oid::ObjectId::parse_str("6b04f578bbf6fed4037adb33").unwrap();
        let document = doc! {
            "a.b": 1, "c": 2.5, "d": 1.0, "e": "x", "f": null, "g": true, "h": id, "i": bson::DateTime::from_millis(1_577_836_800_000),
            "j": {"a": 1, "b": [1, "x"]}, "k": {}, "l": [], "m": Bson::MinKey, "n": bson::Timestamp { time: 1, increment: 2 },
            "o": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: b"ab".to_vec() }, "p": 5_i64,
        };
        let expected = "{ a.b: 1, c: 2.5, d: 1.0, e: \"x\", f: null, g: true, h: ObjectId('6b04f578bbf6fed4037adb33'), \
                        i: new Date(1577836800000), j: { a: 1, b: [ 1, \"x\" ] }, k: {}, l: [], m: MinKey, n: Timestamp(1, 2), \
                        o: BinData(0, 6162), p: 5 }";
        assert_eq!(document_in_words(&document), expected);
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for words in [
            "",
            "{",
            "}{",
            r#"the field "{ }" of { a: 1, b: { c: "_id: {" } } and more"#,
            "error processing query: ns=d.cTree: a $eq 1\n planner returned error :: caused by :: no index",
        ] {
            assert_eq!(shown(words), words);
        }
    }

    #[test]
    fn whatever_is_nested_how_deep_ends() {
        for deep in ["{".repeat(100_000), "{".repeat(50_000) + &"}".repeat(50_000), "{a:[".repeat(9_000)] {
            shown(&format!("_unsafe {deep} _unsafe"));
        }
        let nested = "{ a: ".repeat(2_000) + "{ _unsafe: 1 }" + &" }".repeat(2_000);
        shown(&nested);
    }
}
