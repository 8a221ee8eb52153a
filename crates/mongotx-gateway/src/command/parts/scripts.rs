//! JavaScript functions of commands, and the values that they are given by name (`scope`), as
//! source.

use bson::{Bson, Document};

use crate::failure::{Answer, Failure, codes};

/// Greatest depth of values within values.
const MAX_DEPTH: usize = 100;

/// A function as source: a text or code, as the server takes it.
///
/// # Errors
/// 2 for anything else.
pub(crate) fn source(field: &str, value: Bson) -> Answer<String> {
    match value {
        Bson::String(source) | Bson::JavaScriptCode(source) => Ok(source),
        _ => Err(Failure::new(codes::BAD_VALUE, format!("'{field}' must be of string or code type"))),
    }
}

/// Values that functions find by their names, as the declarations of variables; the server sets no
/// variables for stages of pipelines.
pub(crate) struct Scope(String);

impl Scope {
    /// # Errors
    /// 115 for a name that is no identifier, and for a value that has no literal.
    pub(crate) fn parse(scope: &Document) -> Answer<Self> {
        let mut declared = String::new();
        for (name, value) in scope {
            if !is_identifier(name) {
                return Err(unsupported(name, "its name is no identifier of JavaScript"));
            }
            let value = literal(value, MAX_DEPTH).ok_or_else(|| {
                unsupported(
                    name,
                    "it is, or holds, a value that cannot be written in JavaScript, or is nested too deeply",
                )
            })?;
            declared.push_str(&format!("var {name} = {value}; "));
        }
        Ok(Self(declared))
    }

    /// The function as one that finds the values. Without values it stays as it is.
    pub(crate) fn around(&self, function: &str) -> String {
        if self.0.is_empty() {
            return function.to_owned();
        }
        let function = function.trim().trim_end_matches(';');
        format!("function() {{ {}return ({function}\n).apply(this, arguments); }}", self.0)
    }
}

fn unsupported(name: &str, why: &str) -> Failure {
    Failure::new(codes::COMMAND_NOT_SUPPORTED, format!("the value {name:?} of 'scope' is not supported: {why}"))
}

fn is_identifier(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// A value as JavaScript has it, numbers as in the server's own scopes: every one but a long and a
/// decimal is a double.
fn literal(value: &Bson, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    Some(match value {
        Bson::Null => "null".to_owned(),
        Bson::Undefined => "undefined".to_owned(),
        Bson::MinKey => "MinKey".to_owned(),
        Bson::MaxKey => "MaxKey".to_owned(),
        Bson::Boolean(flag) => flag.to_string(),
        Bson::Int32(n) => format!("({n})"),
        Bson::Double(n) if n.is_nan() => "NaN".to_owned(),
        Bson::Double(n) if n.is_infinite() => if *n > 0.0 { "Infinity" } else { "(-Infinity)" }.to_owned(),
        Bson::Double(n) => format!("({n:?})"),
        Bson::Int64(n) => format!("NumberLong(\"{n}\")"),
        Bson::Decimal128(n) => format!("NumberDecimal(\"{n}\")"),
        Bson::String(text) | Bson::Symbol(text) => quoted(text),
        Bson::ObjectId(id) => format!("ObjectId(\"{id}\")"),
        Bson::DateTime(time) => format!("new Date({})", time.timestamp_millis()),
        Bson::Timestamp(time) => format!("Timestamp({}, {})", time.time, time.increment),
        Bson::RegularExpression(regex) => {
            format!("new RegExp({}, {})", quoted(regex.pattern.as_str()), quoted(regex.options.as_str()))
        }
        Bson::Binary(binary) => format!("BinData({}, \"{}\")", u8::from(binary.subtype), encoded(&binary.bytes)),
        Bson::JavaScriptCode(function) => format!("({}\n)", function.trim().trim_end_matches(';')),
        Bson::Array(values) => {
            let values = values.iter().map(|value| literal(value, depth)).collect::<Option<Vec<_>>>()?;
            format!("[{}]", values.join(", "))
        }
        Bson::Document(document) => {
            let field =
                |(name, value): (&String, &Bson)| Some(format!("[{}]: {}", quoted(name), literal(value, depth)?));
            format!("({{{}}})", document.iter().map(field).collect::<Option<Vec<_>>>()?.join(", "))
        }
        Bson::JavaScriptCodeWithScope(_) | Bson::DbPointer(_) => return None,
    })
}

fn quoted(text: &str) -> String {
    // Two characters end a line in older versions of JavaScript, and not in JSON.
    serde_json::Value::from(text).to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn encoded(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn values_are_declared_before_the_function() {
        let scope = Scope::parse(&doc! {"a": 1, "b": {"c": ["x\"\n\u{2028}", 5_i64, null]}}).unwrap();
        let declared = r#"var a = (1); var b = ({["c"]: ["x\"\n\u2028", NumberLong("5"), null]}); "#;
        let whole =
            format!("function() {{ {declared}return (function(k) {{ return k; }}\n).apply(this, arguments); }}");
        assert_eq!(scope.around(" function(k) { return k; };"), whole);
    }

    #[test]
    fn without_values_a_function_stays_as_it_is() {
        assert_eq!(Scope::parse(&doc! {}).unwrap().around("emit(1, 1);"), "emit(1, 1);");
    }

    #[test]
    fn what_cannot_be_declared_is_refused_by_its_name() {
        let deep = (0..MAX_DEPTH).fold(Bson::Null, |inner, _| Bson::Array(vec![inner]));
        let with_scope = bson::JavaScriptCodeWithScope { code: "x".to_owned(), scope: doc! {} };
        for scope in
            [doc! {"a.b": 1}, doc! {"1": 1}, doc! {"": 1}, doc! {"x;y": 1}, doc! {"d": deep}, doc! {"w": with_scope}]
        {
            let Err(refused) = Scope::parse(&scope) else { panic!("{scope}") };
            assert_eq!(refused.code, 115);
            assert!(refused.message.contains(&format!("{:?}", scope.keys().next().unwrap())), "{}", refused.message);
        }
    }
}
