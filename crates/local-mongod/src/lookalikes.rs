//! Objects that look like Extended JSON (how BSON is written in JSON: `{$numberLong: "5"}`) and are
//! none: in BSON they are objects with fields, which a server stores as they are. Commands that
//! write and read them, for tests that compare answers and stored bytes with the server's own.

use mongodb::bson::{Bson, Document, doc, oid::ObjectId};

/// One of each kind, with values that would be right, with others, and with fields beside.
pub fn values() -> Vec<Document> {
    vec![
        doc! {"$numberLong": "5"},
        doc! {"$numberLong": "five"},
        doc! {"$numberLong": 5},
        doc! {"$numberInt": "5"},
        doc! {"$numberInt": "99999999999"},
        doc! {"$numberDouble": "1.5"},
        doc! {"$numberDouble": "NaN"},
        doc! {"$numberDecimal": "2.50"},
        doc! {"$numberDecimal": "garbage"},
        doc! {"$oid": "0123456789abcdef01234567"},
        doc! {"$oid": "garbage"},
        doc! {"$oid": ObjectId::from_bytes([1; 12])},
        doc! {"$date": "2020-01-01T00:00:00Z"},
        doc! {"$date": "garbage"},
        doc! {"$date": {"$numberLong": "5"}},
        doc! {"$date": 5_i64},
        doc! {"$code": "1"},
        doc! {"$code": "1", "$scope": {"x": 1}},
        doc! {"$scope": {"x": 1}, "$code": "1"},
        doc! {"$undefined": true},
        doc! {"$undefined": 1},
        doc! {"$timestamp": {"t": 1, "i": 2}},
        doc! {"$timestamp": {"t": "1", "i": -2}},
        doc! {"$symbol": "s"},
        doc! {"$minKey": 1},
        doc! {"$maxKey": 1},
        doc! {"$maxKey": "x"},
        doc! {"$binary": {"base64": "AAEC", "subType": "00"}},
        doc! {"$binary": {"base64": "!", "subType": "zz"}},
        doc! {"$binary": "AAEC", "$type": "00"},
        doc! {"$uuid": "01234567-89ab-cdef-0123-456789abcdef"},
        doc! {"$uuid": "garbage"},
        doc! {"$regularExpression": {"pattern": "a", "options": "i"}},
        doc! {"$regex": "a", "$options": "i"},
        doc! {"$dbPointer": {"a": 1}},
        doc! {"$numberLong": "5", "x": 1},
        doc! {"x": 1, "$numberLong": "5"},
        doc! {"$numberLong": "5", "$oid": "0123456789abcdef01234567"},
        doc! {"$numberLong": {"$numberLong": "5"}},
        doc! {"$serde::private::NewtypeStruct": 1, "$__private__bson_RawDocument": [0]},
    ]
}

/// All of [`values`] in one object, and the most telling ones by themselves.
pub fn telling() -> Vec<Bson> {
    let all = values().into_iter().enumerate().map(|(n, value)| (format!("f{n}"), Bson::Document(value)));
    let mut telling = vec![Bson::Document(all.collect())];
    for one in [doc! {"$numberLong": "5"}, doc! {"$date": "garbage"}, doc! {"$oid": "0123456789abcdef01234567"}] {
        telling.push(one.into());
    }
    telling
}

fn find(filter: Document) -> Document {
    doc! {"find": "c", "filter": filter, "sort": {"_id": 1}}
}

fn update(q: Document, u: Bson, upsert: bool) -> Document {
    doc! {"update": "c", "updates": [{"q": q, "u": u, "upsert": upsert}]}
}

/// A `findAndModify` with these further fields.
fn modify(query: Document, more: Document) -> Document {
    let mut command = doc! {"findAndModify": "c", "query": query};
    command.extend(more);
    command
}

/// Writes to a collection `c` that begins empty, and reads, with this value wherever a value may
/// stand.
pub fn commands(value: &Bson) -> Vec<Document> {
    let v = || value.clone();
    let literal = || Bson::from(vec![doc! {"$set": {"p": {"$literal": v()}}}]);
    let whole = || doc! {"_id": 1, "a": v(), "list": [v(), [v()], {"x": v()}], "in": {"x": v(), "y": 1}};
    vec![
        doc! {"insert": "c", "documents": [whole()]},
        doc! {"insert": "c", "documents": [{"_id": 2, "a": v()}, {"_id": 3, "a": {"b": [v()]}}]},
        find(doc! {}),
        find(doc! {"_id": 1}),
        doc! {"find": "c", "filter": {"_id": 1}, "limit": 1, "projection": {"a": 1}},
        find(doc! {"_id": {"$in": [1, 2]}}),
        find(doc! {"a": {"$exists": true}}),
        doc! {"aggregate": "c", "pipeline": [{"$sort": {"_id": 1}}, {"$project": {"b": "$a", "c": {"$literal": v()}}}], "cursor": {}},
        doc! {"distinct": "c", "key": "in.x"},
        update(doc! {"_id": 1}, doc! {"$set": {"b": v(), "in.z": v()}}.into(), false),
        update(doc! {"_id": 1}, doc! {"$push": {"list": v()}}.into(), false),
        update(doc! {"_id": 1}, doc! {"$addToSet": {"list": {"$each": [v(), {"x": v()}]}}}.into(), false),
        update(doc! {"_id": 1}, literal(), false),
        update(doc! {"_id": 2}, doc! {"r": v(), "a": [v()]}.into(), false),
        find(doc! {"_id": 1}),
        find(doc! {}),
        update(doc! {"_id": 4}, doc! {"a": v()}.into(), true),
        update(doc! {"_id": 5}, doc! {"$set": {"a": v()}, "$setOnInsert": {"s": v()}}.into(), true),
        update(doc! {"_id": 6}, literal(), true),
        update(doc! {"_id": 7, "a": {"$eq": v()}}, doc! {"$set": {"z": 1}}.into(), true),
        modify(doc! {"_id": 1}, doc! {"update": {"$set": {"f": v()}}}),
        modify(doc! {"_id": 1}, doc! {"update": {"$set": {"g": v()}}, "new": true}),
        modify(doc! {"_id": 3}, doc! {"update": {"whole": v()}, "new": true}),
        modify(doc! {"_id": {"$gt": 1}}, doc! {"update": {"$set": {"h": v()}}, "sort": {"_id": -1}, "new": false}),
        modify(doc! {"_id": 3}, doc! {"update": {"again": v()}, "fields": {"whole": 1}}),
        modify(doc! {"_id": 8}, doc! {"update": {"$set": {"a": v()}}, "upsert": true, "new": true}),
        find(doc! {}),
        modify(doc! {"_id": 2}, doc! {"remove": true}),
        find(doc! {"a": {"$eq": v()}}),
        find(doc! {"a": {"$in": [v(), 1]}}),
        find(doc! {"$expr": {"$eq": ["$a", {"$literal": v()}]}}),
        doc! {"delete": "c", "deletes": [{"q": {"a": {"$eq": v()}, "_id": {"$lt": 4}}, "limit": 1}]},
        // A filter's operators are the server's to know.
        find(doc! {"a": v()}),
        find(doc! {"a": {"$not": v()}}),
        update(doc! {"a": v()}, doc! {"$set": {"z": 2}}.into(), false),
        doc! {"delete": "c", "deletes": [{"q": {"in.x": v()}, "limit": 0}]},
        modify(doc! {"a": v()}, doc! {"update": {"$set": {"z": 3}}}),
        doc! {"insert": "c", "documents": [{"_id": v()}]},
        find(doc! {}),
    ]
}

/// The content of a reply, as BSON to be compared by its bytes: the documents and values that it
/// shows, its counts, and the codes of refusals.
pub fn content(reply: &Document) -> Document {
    let mut content = Document::new();
    if let Ok(cursor) = reply.get_document("cursor") {
        content.insert("shown", cursor.get("firstBatch").cloned());
    }
    for field in ["value", "values", "n", "nModified", "upserted", "code"] {
        if let Some(value) = reply.get(field) {
            content.insert(field, value.clone());
        }
    }
    let refused = reply.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document);
    let codes: Vec<Bson> = refused.filter_map(|error| error.get("code").cloned()).collect();
    if !codes.is_empty() {
        content.insert("refused", codes);
    }
    content
}
