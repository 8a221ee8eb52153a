//! Top-level fields that begin with `$`, outside transactions, beside a one-node replica set:
//! upserts insert them, and updates of documents that are there do not make any.

use bson::{Document, doc};

use crate::side_by_side::pair::Pair;

fn updates() -> Vec<Document> {
    vec![
        doc! {"u": {"a": 1, "$b": 2}},
        doc! {"u": {"$set": {"$b": 2}}},
        doc! {"u": {"$set": {"$b.c": 2}}},
        doc! {"u": {"$setOnInsert": {"$b": 2}}},
        doc! {"u": {"$inc": {"$b": 2}}},
        doc! {"u": {"$push": {"$b": 1}}},
        doc! {"u": {"$min": {"$b": 1}, "$set": {"$id": 1, "$ref": 2, "$db": 3}}},
        doc! {"u": {"$rename": {"a": "$b"}}},
        doc! {"u": {"$unset": {"$b": 1}}},
        doc! {"u": [{"$replaceWith": {"$literal": {"$b": 1}}}]},
        doc! {"u": {"$set": {"a": {"$b": 1}}}},
    ]
}

#[tokio::test]
async fn upserts_insert_fields_that_begin_with_a_dollar() {
    let mut pair = Pair::start("dollars").await;
    for (n, update) in updates().into_iter().enumerate() {
        let collection = format!("c{n}");
        let find = doc! {"find": &collection, "sort": {"_id": 1}};
        let change = update.get("u").unwrap().clone();
        for (id, filter) in [doc! {"_id": 1}, doc! {"_id": 2, "k": 1}].into_iter().enumerate() {
            let statement = doc! {"q": filter.clone(), "u": change.clone(), "upsert": true};
            pair.same(doc! {"update": &collection, "updates": [statement.clone()]}).await;
            // Once more, where the document is there.
            pair.same(doc! {"update": &collection, "updates": [statement]}).await;
            let modify =
                doc! {"findAndModify": &collection, "query": {"_id": 10 + id as i32}, "update": change.clone()};
            for new in [false, true] {
                let mut modify = modify.clone();
                modify.extend(doc! {"upsert": true, "new": new});
                pair.same(modify).await;
            }
            pair.same(find.clone()).await;
        }
        // An upsert that inserts nothing.
        let statement = doc! {"q": {"_id": 77}, "u": change};
        pair.same(doc! {"update": &collection, "updates": [statement]}).await;
    }
}
