//! The shape of a command: its fields without the values, for logs and for `currentOp`. Pure.
//!
//! Names of fields and operators stay, and so does the collection. A value is replaced by its type,
//! as in `"?int"`; documents to be inserted, and all but the first of several statements or values,
//! are replaced by their number.

use bson::{Bson, Document, RawBsonRef, RawDocument, spec::ElementType};

use crate::request::Request;

/// Greatest depth to which a command is described.
const DEEPEST: usize = 8;
/// Greatest number of fields in a shape, of all depths together.
const MOST_FIELDS: usize = 60;
/// Longest name of a field that is shown whole, in characters.
const LONGEST_NAME: usize = 60;

/// Fields that every command may carry, which are left out of its shape.
const GENERIC: [&str; 14] = [
    "$db",
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "stmtId",
    "stmtIds",
    "$clusterTime",
    "$readPreference",
    "recoveryToken",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "comment",
];
/// Fields whose numbers say how it is done, not what is looked for.
const DIRECTIONS: [&str; 7] = ["sort", "projection", "fields", "hint", "key", "$sort", "$project"];
/// Fields that name a collection, or a field, if they stand at the top.
const NAMES: [&str; 2] = ["collection", "key"];

/// The fields that may still be added to the shape.
struct FieldsLeft {
    fields: usize,
}

/// The shape of a command.
pub(crate) fn shape_of(request: &Request) -> Document {
    let mut room = FieldsLeft { fields: MOST_FIELDS };
    let mut shape = Document::new();
    let mut fields = request.body().iter().map_while(Result::ok);
    if let Some((name, value)) = fields.next() {
        let value = match value {
            RawBsonRef::String(collection) => Bson::from(short(collection)),
            // Of a command that is about no collection it says nothing.
            RawBsonRef::Int32(1) | RawBsonRef::Int64(1) | RawBsonRef::Double(1.0) => Bson::from(1),
            other => value_shape(name.as_str(), other, 0, &mut room),
        };
        shape.insert(short(name.as_str()), value);
    }
    for (name, value) in fields.filter(|(name, _)| !GENERIC.contains(&name.as_str())) {
        if !room.take(&mut shape) {
            return shape;
        }
        let value = match value {
            RawBsonRef::String(text) if NAMES.contains(&name.as_str()) => Bson::from(short(text)),
            other => value_shape(name.as_str(), other, 0, &mut room),
        };
        shape.insert(short(name.as_str()), value);
    }
    for sequence in request.sequences() {
        if !room.take(&mut shape) {
            return shape;
        }
        let first = sequence.documents().next().and_then(Result::ok);
        let value = match first.filter(|_| !is_data(&sequence.name)) {
            Some(first) => Bson::Array(vec![document(first, false, 1, &mut room).into()]),
            None => format!("?array of {} bytes", sequence.bytes.len()).into(),
        };
        shape.insert(short(&sequence.name), value);
    }
    shape
}

/// Namespace of a command: its database and, if it names one, its collection.
pub(crate) fn namespace(request: &Request) -> String {
    let first = request.body().iter().next().and_then(Result::ok);
    let collection = match first {
        Some((name, RawBsonRef::String(collection))) if name != "renameCollection" => Some(collection),
        _ => request.body().get_str("collection").ok(),
    };
    match collection {
        Some(collection) => short(&format!("{}.{collection}", request.database())),
        None => format!("{}.$cmd", request.database()),
    }
}

impl FieldsLeft {
    /// Room for one more field. Without it, that is noted in the shape.
    fn take(&mut self, shape: &mut Document) -> bool {
        match self.fields.checked_sub(1) {
            Some(left) => {
                self.fields = left;
                true
            }
            None => {
                shape.insert("…", "more");
                false
            }
        }
    }
}

/// Returns true if the field holds whole documents of the application, which are not shown.
fn is_data(name: &str) -> bool {
    ["documents", "payload"].contains(&name)
}

fn value_shape(name: &str, value: RawBsonRef<'_>, depth: usize, room: &mut FieldsLeft) -> Bson {
    let directs = DIRECTIONS.contains(&name);
    match value {
        _ if is_data(name) => typed(value),
        RawBsonRef::Document(inner) if depth < DEEPEST => document(inner, directs, depth + 1, room).into(),
        RawBsonRef::Array(values) if depth < DEEPEST => {
            let is_pipeline = ["pipeline", "$and", "$or", "$nor"].contains(&name);
            let mut values = values.into_iter().map_while(Result::ok);
            let some = if is_pipeline { MOST_FIELDS } else { 1 };
            let mut shown: Vec<Bson> = Vec::new();
            for value in values.by_ref().take(some) {
                if room.fields == 0 {
                    break;
                }
                shown.push(value_shape("", value, depth + 1, room));
            }
            if values.next().is_some() {
                shown.push("…".into());
            }
            shown.into()
        }
        RawBsonRef::Int32(-1..=1) | RawBsonRef::Boolean(_) if directs => Bson::try_from(value).unwrap_or(Bson::Null),
        other => typed(other),
    }
}

fn document(raw: &RawDocument, directs: bool, depth: usize, room: &mut FieldsLeft) -> Document {
    let mut shape = Document::new();
    for (name, value) in raw.iter().map_while(Result::ok) {
        if !room.take(&mut shape) {
            return shape;
        }
        let value = match value {
            RawBsonRef::Int32(-1..=1) | RawBsonRef::Boolean(_) if directs => {
                Bson::try_from(value).unwrap_or(Bson::Null)
            }
            other => value_shape(name.as_str(), other, depth, room),
        };
        shape.insert(short(name.as_str()), value);
    }
    shape
}

/// A value by its type, in MongoDB's words.
fn typed(value: RawBsonRef<'_>) -> Bson {
    let name = match value.element_type() {
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => "?number",
        ElementType::String => "?string",
        ElementType::EmbeddedDocument => "?object",
        ElementType::Array => "?array",
        ElementType::Binary => "?binData",
        ElementType::ObjectId => "?objectId",
        ElementType::Boolean => "?bool",
        ElementType::DateTime => "?date",
        ElementType::Null => "?null",
        ElementType::RegularExpression => "?regex",
        ElementType::Timestamp => "?timestamp",
        ElementType::JavaScriptCode | ElementType::JavaScriptCodeWithScope => "?javascript",
        _ => "?value",
    };
    name.into()
}

fn short(name: &str) -> String {
    let mut characters = name.chars();
    let mut short: String = characters.by_ref().take(LONGEST_NAME).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{doc, oid::ObjectId, rawdoc};
    use mongowire::Sequence;

    use super::*;

    fn shape(command: Document) -> Document {
        shape_of(&Request::of(&command).unwrap())
    }

    #[test]
    fn values_are_taken_out_and_names_stay() {
        let secret = "the customer's secret";
        let find = doc! {
            "find": "orders", "filter": {"owner": secret, "total": {"$gt": 17}, "_id": {"$in": [ObjectId::new(), 5]}, "$or": [{"a": 1}, {"b": secret}]},
            "sort": {"at": -1}, "limit": 5, "lsid": {"id": 1}, "$db": "shop", "comment": secret,
        };
        let wanted = doc! {
            "find": "orders",
            "filter": {
                "owner": "?string", "total": {"$gt": "?number"}, "_id": {"$in": ["?objectId", "…"]},
                "$or": [{"a": "?number"}, {"b": "?string"}],
            },
            "sort": {"at": -1}, "limit": "?number",
        };
        assert_eq!(shape(find), wanted);
        let aggregate = doc! {
            "aggregate": "orders", "pipeline": [{"$match": {"a": secret}}, {"$group": {"_id": "$secret", "n": {"$sum": 1}}}], "$db": "shop",
        };
        let wanted = doc! {
            "aggregate": "orders",
            "pipeline": [{"$match": {"a": "?string"}}, {"$group": {"_id": "?string", "n": {"$sum": "?number"}}}],
        };
        assert_eq!(shape(aggregate), wanted);
        let insert = doc! {"insert": "orders", "documents": [{"secret": secret}], "ordered": true, "$db": "shop"};
        assert_eq!(shape(insert), doc! {"insert": "orders", "documents": "?array", "ordered": "?bool"});
        let login = doc! {"saslStart": 1, "payload": secret, "$db": "admin"};
        assert_eq!(shape(login), doc! {"saslStart": 1, "payload": "?string"});
    }

    #[test]
    fn of_statements_beside_the_body_the_first_is_shown() {
        let body = rawdoc! {"update": "c", "$db": "d"};
        let update = |n: i32| doc! {"q": {"_id": n}, "u": {"$set": {"a": n}}};
        let updates = Sequence::new("updates", &[update(1), update(2)]).unwrap();
        let request = Request::of_parts(body, vec![updates], None).unwrap();
        let wanted = doc! {"update": "c", "updates": [{"q": {"_id": "?number"}, "u": {"$set": {"a": "?number"}}}]};
        assert_eq!((shape_of(&request), namespace(&request)), (wanted, "d.c".to_owned()));
    }

    #[test]
    fn a_shape_is_bounded_however_large_the_command_is() {
        let wide: Document = (0..10_000).map(|n| (format!("field{n}"), Bson::from(n))).collect();
        let deep = (0..100).fold(doc! {"a": 1}, |inner, _| doc! {"a": inner});
        let clauses: Vec<Bson> = (0..10_000).map(|n| doc! {"a": n}.into()).collect();
        for filter in [wide, deep, doc! {"$or": clauses}, doc! {"x".repeat(100_000): 1}] {
            let shape = shape(doc! {"find": "c", "filter": filter, "$db": "d"});
            assert!(shape.to_string().len() < 8 * 1024, "{}", shape.to_string().len());
        }
    }

    #[test]
    fn a_namespace_is_that_of_the_collection_or_of_the_database() {
        let of = |command: Document| namespace(&Request::of(&command).unwrap());
        assert_eq!(of(doc! {"find": "c", "$db": "d"}), "d.c");
        assert_eq!(of(doc! {"getMore": 5_i64, "collection": "c", "$db": "d"}), "d.c");
        assert_eq!(of(doc! {"ping": 1, "$db": "admin"}), "admin.$cmd");
    }
}
