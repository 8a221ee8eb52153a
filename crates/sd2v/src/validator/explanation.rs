//! Translates why a wrapped validator refused a document into the terms of the application's own
//! validator.
//!
//! The server explains every branch of the `$or` that [`super::wrap`] stores. The application needs
//! the first one only; for a locked document it is the second one, about its unsafe version.

use bson::{Bson, Document, doc};

use crate::names::{RESERVED, UNSAFE};

/// The server's `errInfo`, as a collection without MongoTx would have it. Details that cannot be
/// described without reserved names are left out; an `errInfo` that is not about a wrapped
/// validator stays as it is.
pub fn explain(info: &Document) -> Document {
    let Some(details) = info.get_document("details").ok().filter(|details| is_wrapped(details)) else {
        return info.clone();
    };
    let safe = failed(details, 0);
    let has_writer = safe.is_some_and(|safe| failed(safe, 1).is_some());
    let own = if has_writer {
        let locked = failed(details, 1).and_then(|locked| failed(locked, 0)).map(of_unsafe);
        locked.filter(|own| !mentions_reserved(&Bson::Document(own.clone())))
    } else {
        safe.and_then(|safe| failed(safe, 0)).cloned()
    };
    let mut explained = info.clone();
    match own {
        Some(own) => explained.insert("details", own),
        None => explained.remove("details"),
    };
    explained
}

/// Returns true if three branches failed, the last of which tests whether the document waits to be
/// removed.
fn is_wrapped(details: &Document) -> bool {
    let asked = failed(details, 2).and_then(|last| last.get_document("specifiedAs").ok());
    details.get_str("operatorName").is_ok_and(|name| name == "$or")
        && asked.is_some_and(|asked| asked.contains_key(crate::names::REMOVE))
}

fn clauses(details: &Document) -> Option<&Vec<Bson>> {
    details.get_array("clausesNotSatisfied").ok()
}

/// Why the clause with this number failed, if it did.
fn failed(details: &Document, index: i32) -> Option<&Document> {
    let mut clauses = clauses(details)?.iter().filter_map(Bson::as_document);
    clauses.find(|clause| clause.get_i32("index").is_ok_and(|found| found == index))?.get_document("details").ok()
}

/// Details about the unsafe version, rewritten as details about a document.
fn of_unsafe(details: &Document) -> Document {
    if let Some(inner) = schema_of_unsafe(details) {
        return inner;
    }
    let name =
        |name: &String| name.strip_prefix(UNSAFE).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name).to_owned();
    details.iter().map(|(field, value)| (name(field), value_of_unsafe(value))).collect()
}

fn value_of_unsafe(value: &Bson) -> Bson {
    match value {
        Bson::Document(inner) => match let_of_unsafe(inner) {
            Some(expression) => expression.clone(),
            None => of_unsafe(inner).into(),
        },
        Bson::Array(values) => values.iter().map(value_of_unsafe).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// `e` in `{$let: {vars: {CURRENT: "$_unsafe"}, in: e}}`.
fn let_of_unsafe(document: &Document) -> Option<&Bson> {
    let inner = document.get_document("$let").ok()?;
    let vars = inner.get_document("vars").ok()?;
    (vars.get_str("CURRENT").ok()?.strip_prefix('$') == Some(UNSAFE)).then(|| inner.get("in")).flatten()
}

/// A schema of the unsafe version is stored as that of a field.
fn schema_of_unsafe(details: &Document) -> Option<Document> {
    let rules = details.get_array("schemaRulesNotSatisfied").ok()?;
    let properties = rules.first()?.as_document()?.get_array("propertiesNotSatisfied").ok()?;
    let property = properties.first()?.as_document()?;
    let is_unsafe = property.get_str("propertyName").is_ok_and(|name| name == UNSAFE);
    let operator = details.get_str("operatorName").ok().filter(|_| is_unsafe && rules.len() == 1)?;
    Some(doc! {"operatorName": operator, "schemaRulesNotSatisfied": property.get_array("details").ok()?.clone()})
}

fn mentions_reserved(value: &Bson) -> bool {
    let is_reserved = |text: &str| text.split(['.', '$']).any(|part| RESERVED.contains(&part));
    match value {
        Bson::Document(inner) => inner.iter().any(|(field, value)| is_reserved(field) || mentions_reserved(value)),
        Bson::Array(values) => values.iter().any(mentions_reserved),
        Bson::String(text) => is_reserved(text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{REMOVE, WRITER};

    fn clause(index: i32, details: Document) -> Document {
        doc! {"index": index, "details": details}
    }

    fn info(safe: Vec<Document>, locked: Vec<Document>) -> Document {
        let branches = doc! {"operatorName": "$or", "clausesNotSatisfied": [
            clause(0, doc! {"operatorName": "$and", "clausesNotSatisfied": safe}),
            clause(1, doc! {"operatorName": "$and", "clausesNotSatisfied": locked}),
            clause(2, doc! {"operatorName": "$eq", "reason": "field was missing", "specifiedAs": {REMOVE: true}}),
        ]};
        doc! {"failingDocumentId": 1, "details": branches}
    }

    fn has_writer(is_there: bool) -> Document {
        clause(1, doc! {"operatorName": "$exists", "specifiedAs": {WRITER: {"$exists": is_there}}})
    }

    fn wrong(specified: Document) -> Document {
        doc! {"operatorName": "$type", "specifiedAs": specified, "consideredValue": 1}
    }

    fn failing_with(details: Document) -> Document {
        doc! {"failingDocumentId": 1, "details": details}
    }

    #[test]
    fn of_a_document_without_a_writer_the_condition_itself_is_explained() {
        let (own, unsafe_one) = (wrong(doc! {"x": 2}), wrong(doc! {"_unsafe.x": 2}));
        let info = info(vec![clause(0, own.clone())], vec![clause(0, unsafe_one), has_writer(true)]);
        assert_eq!(explain(&info), failing_with(own));
    }

    #[test]
    fn of_a_locked_document_the_unsafe_version_is_explained_under_the_names_of_fields() {
        let of = |details| info(vec![has_writer(false)], vec![clause(0, details)]);
        assert_eq!(explain(&of(wrong(doc! {"_unsafe.x": 2}))), failing_with(wrong(doc! {"x": 2})));
        let expression = wrong(doc! {"$expr": {"$let": {"vars": {"CURRENT": "$_unsafe"}, "in": {"$gt": ["$x", 3]}}}});
        assert_eq!(explain(&of(expression)), failing_with(wrong(doc! {"$expr": {"$gt": ["$x", 3]}})));
        let rules = doc! {"operatorName": "properties", "propertiesNotSatisfied": []};
        let schema = |rules: Document| doc! {"operatorName": "$jsonSchema", "schemaRulesNotSatisfied": [rules]};
        let property = doc! {"propertyName": "_unsafe", "details": [rules.clone()]};
        let stored = schema(doc! {"operatorName": "properties", "propertiesNotSatisfied": [property]});
        assert_eq!(explain(&of(stored)), failing_with(schema(rules)));
    }

    #[test]
    fn what_needs_reserved_names_is_left_out() {
        let locked = wrong(doc! {"$expr": {"$gt": ["$_unsafe.x", 3]}});
        let info = info(vec![has_writer(false)], vec![clause(0, locked)]);
        assert_eq!(explain(&info), doc! {"failingDocumentId": 1});
    }

    #[test]
    fn what_is_not_about_a_wrapped_validator_stays() {
        for info in [
            doc! {"writeConcern": {"w": 2}},
            failing_with(wrong(doc! {"x": 2})),
            failing_with(doc! {"operatorName": "$or"}),
        ] {
            assert_eq!(explain(&info), info);
        }
    }
}
