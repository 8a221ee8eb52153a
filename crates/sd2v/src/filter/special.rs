//! Conditions that only an index answers, and only in one place of a filter: an order by distance
//! (`$near` and its kin), and `$text`. Also here: the filter without them, and conditions on one
//! document in their place.

use bson::{Bson, Document, doc};

use super::{has_script, ids::is_conjunction, is_logical, sees_lock_fields};
use crate::{
    error::Error,
    expression::path,
    near::{Near, near_condition},
};

/// A filter, with the conditions that need an index of their own taken out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// The order by distance (`$near`, `$nearSphere`), if there is one.
    pub near: Option<Near>,
    /// Argument of `$text`, if there is one.
    pub text: Option<Bson>,
    /// `$text` also stands within an `$or` or a `$nor`, which `rest` is without.
    pub buried_text: bool,
    /// The other conditions. Whatever matches the filter matches them.
    pub rest: Document,
}

/// Divides a filter into its order by distance, its text search and all other conditions.
///
/// # Errors
/// [`Error::Invalid`] (2) for two orders by distance, two `$text`, or one of each, and as
/// [`Near::parse_near`].
pub fn parts(filter: &Document) -> Result<Parts, Error> {
    let mut parts = Parts::default();
    parts.rest = take_apart(filter, &mut parts, 0)?;
    if parts.near.is_some() && parts.text.is_some() {
        return Err(invalid("text and geoNear not allowed in same query"));
    }
    Ok(parts)
}

fn take_apart(filter: &Document, parts: &mut Parts, depth: usize) -> Result<Document, Error> {
    let depth = path::deeper(depth)?;
    let mut rest = Document::new();
    for (key, value) in filter {
        match value {
            Bson::Array(operands) if is_conjunction(key, operands) && is_special(value, depth) => {
                let mut kept = Vec::new();
                for operand in operands {
                    match operand {
                        Bson::Document(filter) => kept.push(take_apart(filter, parts, depth)?),
                        other => return Err(invalid(&format!("{key} entries need to be full objects, not {other}"))),
                    }
                }
                kept.retain(|filter| !filter.is_empty());
                if !kept.is_empty() {
                    rest.insert(key, kept);
                }
            }
            _ if is_logical(key) && is_special(value, depth) => parts.buried_text = true,
            _ if key == "$text" => match parts.text.replace(value.clone()) {
                None => {}
                Some(_) => return Err(invalid("Too many text expressions")),
            },
            _ if !key.starts_with('$')
                && let Some(operators) = near_condition(value) =>
            {
                match parts.near.replace(Near::parse_near(key, operators)?) {
                    None => {}
                    Some(_) => return Err(invalid("Too many geoNear expressions")),
                }
            }
            _ => {
                rest.insert(key, value.clone());
            }
        }
    }
    Ok(rest)
}

/// Returns true if the filter has an order by distance or `$text`.
pub fn has_special(filter: &Document) -> bool {
    filter.iter().any(|(key, value)| is_special_entry(key, value, 0))
}

fn is_special_entry(key: &str, value: &Bson, depth: usize) -> bool {
    key == "$text" || is_logical(key) && is_special(value, depth) || near_condition(value).is_some()
}

/// Returns true if one of the operands contains an order by distance or `$text`.
fn is_special(operands: &Bson, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    let operands = operands.as_array().into_iter().flatten().filter_map(Bson::as_document);
    operands.flatten().any(|(key, value)| is_special_entry(key, value, depth))
}

/// A filter that is allowed in every place: without the special conditions and scripts. It matches
/// every document that the given filter matches, and perhaps more.
pub fn weakened(filter: &Document) -> Document {
    let rest = match has_special(filter) {
        true => parts(filter).map(|parts| parts.rest).unwrap_or_default(),
        false => filter.clone(),
    };
    if has_script(&rest) { conjuncts(&rest, &|condition| !has_script(condition), 0) } else { rest }
}

/// The conditions under which a document that was selected by a filter still matches it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockCondition {
    /// The other conditions, for either version.
    pub rest: Document,
    /// `$text` and its argument, for the safe version only. `None`: the filter has no `$text`.
    pub text: Option<Document>,
}

/// The filter as a condition on one document: an order by distance becomes its bounds.
///
/// # Errors
/// As [`parts`]; [`Error::Unsupported`] for `$text` within `$or` or `$nor`.
pub fn lock_condition(filter: &Document) -> Result<LockCondition, Error> {
    if !has_special(filter) {
        return Ok(LockCondition { rest: filter.clone(), text: None });
    }
    let parts = parts(filter)?;
    if parts.buried_text {
        return Err(path::unsupported("$text", "within $or or $nor in a write", "one document cannot be asked for it"));
    }
    let rest = match parts.near.map(|near| near.to_condition()) {
        Some(near) if parts.rest.is_empty() => near,
        Some(near) => doc! { "$and": [parts.rest, near] },
        None => parts.rest,
    };
    Ok(LockCondition { rest, text: parts.text.map(|text| doc! { "$text": text }) })
}

/// The conditions that read only the fields they name and run no script. They match every document
/// that the filter matches, and may be evaluated on versions that are not committed.
pub(crate) fn easily_asked(filter: &Document) -> Document {
    let is_easy = |condition: &Document| !sees_lock_fields(condition) && !has_script(condition) && !draws(condition);
    conjuncts(filter, &is_easy, 0)
}

/// The entries, within conjunctions too, that are to be kept.
/// Returns true if the condition takes some of the documents by chance: each time it is asked,
/// others.
fn draws(condition: &Document) -> bool {
    let within = |value: &Bson| match value {
        Bson::Document(inner) => draws(inner),
        Bson::Array(items) => items.iter().filter_map(Bson::as_document).any(draws),
        _ => false,
    };
    condition.iter().any(|(key, value)| key == "$sampleRate" || within(value))
}

fn conjuncts(filter: &Document, keep: &dyn Fn(&Document) -> bool, depth: usize) -> Document {
    let Ok(depth) = path::deeper(depth) else { return Document::new() };
    let mut kept = Document::new();
    for (key, value) in filter {
        let entry = doc! { key.as_str(): value.clone() };
        match value {
            _ if keep(&entry) => kept.extend(entry),
            Bson::Array(operands) if is_conjunction(key, operands) => {
                let operands = operands.iter().filter_map(Bson::as_document).map(|f| conjuncts(f, keep, depth));
                let operands: Vec<Document> = operands.filter(|operand| !operand.is_empty()).collect();
                if !operands.is_empty() {
                    kept.insert(key, operands);
                }
            }
            _ => {}
        }
    }
    kept
}

fn invalid(message: &str) -> Error {
    Error::Invalid { code: 2, message: message.to_owned() }
}
