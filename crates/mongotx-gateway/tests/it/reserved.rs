//! No command stores a field with a reserved name, in collections in which transactions lock
//! nothing either.

use crate::common;

use bson::{Bson, Document, doc};
use common::{driver, gateway};
use mongotx_gateway::{Gateway, Limits};

const NAMES: [&str; 6] = ["_unsafe", "_xTxId", "_sTxIds", "_insert", "_remove", "_slot"];

/// A database through a gateway and by the plain driver, with a document for each name in `c` and
/// in a capped collection.
struct Place {
    _gateway: Gateway,
    client: mongodb::Client,
    through: mongodb::Database,
    plain: mongodb::Database,
}

impl Place {
    async fn filled() -> Self {
        let (gateway, address) = gateway(Limits::default()).await;
        let client = driver(address, "").await;
        let plain = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
        let plain = plain.database(&local_mongod::unique_db("gw_reserved"));
        let through = client.database(plain.name());
        through.run_command(doc! {"create": "capped", "capped": true, "size": 65536}).await.unwrap();
        for coll in ["c", "capped"] {
            let documents = NAMES.map(|name| doc! {"_id": name, "nested": {name: true}});
            plain.collection(coll).insert_many(documents).await.unwrap();
        }
        Self { _gateway: gateway, client, through, plain }
    }

    async fn stored(&self) -> Vec<Vec<Document>> {
        let mut all = Vec::new();
        for coll in ["c", "capped", "new"] {
            let mut found = self.plain.collection::<Document>(coll).find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
            let mut documents = Vec::new();
            while found.advance().await.unwrap() {
                documents.push(found.deserialize_current().unwrap());
            }
            all.push(documents);
        }
        all
    }
}

/// Each way to write the name to one of the collections.
fn commands(coll: &str, name: &str) -> Vec<Document> {
    let (up, given) = (vec![doc! {"$replaceWith": "$nested"}], vec![doc! {"$replaceWith": "$$given"}]);
    let merged = vec![doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$nested"]}}];
    let (one, variables) = (doc! {"_id": name}, doc! {"given": {name: true}});
    let new = doc! {"_id": "new", "nested": {name: true}};
    let document = doc! {"_id": "new", name: true};
    let update = |statement: Document| doc! {"update": coll, "updates": [statement]};
    vec![
        doc! {"insert": coll, "documents": [document.clone()]},
        doc! {"insert": coll, "documents": [document.clone()], "ordered": false},
        update(doc! {"q": one.clone(), "u": up.clone()}),
        update(doc! {"q": one.clone(), "u": merged.clone()}),
        update(doc! {"q": new.clone(), "u": up.clone(), "upsert": true}),
        update(doc! {"q": one.clone(), "u": document.clone()}),
        update(doc! {"q": one.clone(), "u": {"$rename": {"nested": name}}}),
        update(doc! {"q": {"_id": "new"}, "u": {"$setOnInsert": {name: true}}, "upsert": true}),
        update(doc! {"q": {"_id": "new", name: true}, "u": {"$set": {"a": 1}}, "upsert": true}),
        doc! {"update": coll, "updates": [{"q": one.clone(), "u": given.clone()}], "let": variables.clone()},
        doc! {"findAndModify": coll, "query": one.clone(), "update": up.clone()},
        doc! {"findandmodify": coll, "query": one.clone(), "update": merged, "new": true},
        doc! {"findAndModify": coll, "query": one.clone(), "sort": {"_id": 1}, "update": up.clone()},
        doc! {"findAndModify": coll, "query": new, "update": up, "upsert": true},
        doc! {"findAndModify": coll, "query": one.clone(), "update": given, "let": variables},
        doc! {"findAndModify": coll, "query": one, "update": document},
    ]
}

/// Pipelines that write the name from one of the collections.
fn outputs(coll: &str, name: &str) -> Vec<Document> {
    let (only, up) = (doc! {"$match": {"_id": name}}, doc! {"$replaceWith": "$nested"});
    let change = vec![doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$$new.nested"]}}];
    let all = |last: Vec<Document>| {
        let pipeline: Vec<Document> = [only.clone()].into_iter().chain(last).collect();
        doc! {"aggregate": coll, "pipeline": pipeline, "cursor": {}}
    };
    vec![
        all(vec![up.clone(), doc! {"$out": "new"}]),
        all(vec![up.clone(), doc! {"$out": "c"}]),
        all(vec![up.clone(), doc! {"$merge": "new"}]),
        all(vec![up, doc! {"$merge": {"into": "c", "whenMatched": "fail"}}]),
        all(vec![doc! {"$merge": {"into": "c", "whenMatched": change}}]),
    ]
}

/// The server's error, of the command or of its statement, names the field.
fn assert_refused(answer: mongodb::error::Result<Document>, name: &str, command: &Document) {
    let (code, words) = match answer {
        Err(error) => match *error.kind {
            mongodb::error::ErrorKind::Command(refused) => (refused.code, refused.message),
            other => panic!("{command}: {other}"),
        },
        Ok(answer) => {
            let refused =
                answer.get_array("writeErrors").ok().and_then(|errors| errors.first()?.as_document().cloned());
            let refused = refused.unwrap_or_else(|| panic!("{command}: it was done: {answer}"));
            (refused.get_i32("code").unwrap(), refused.get_str("errmsg").unwrap().to_owned())
        }
    };
    assert_eq!(code, 2, "{command}: {words}");
    assert!(words.contains(&format!("the field {name:?} is reserved")), "{command}: {words}");
}

#[tokio::test]
async fn outside_transactions_nothing_is_stored() {
    let place = Place::filled().await;
    let before = place.stored().await;
    for name in NAMES {
        for coll in ["c", "capped"] {
            for command in commands(coll, name).into_iter().chain(outputs(coll, name)) {
                assert_refused(place.through.run_command(command.clone()).await, name, &command);
            }
        }
        assert_eq!(place.stored().await, before, "{name}");
    }
}

/// A refused statement ends a transaction on the wire: each has one of its own.
#[tokio::test]
async fn inside_transactions_nothing_is_stored() {
    let place = Place::filled().await;
    let before = place.stored().await;
    let mut session = place.client.start_session().await.unwrap();
    for name in NAMES {
        for command in commands("c", name) {
            session.start_transaction().await.unwrap();
            let answer = place.through.run_command(command.clone()).session(&mut session).await;
            assert_refused(answer, name, &command);
            let _ = session.abort_transaction().await;
        }
    }
    assert_eq!(place.stored().await, before);
}

/// Writes of other kinds go through as before.
#[tokio::test]
async fn other_writes_to_a_capped_collection_are_the_servers_own() {
    let place = Place::filled().await;
    for command in [
        doc! {"insert": "capped", "documents": [{"_id": "new", "a": {"_slot": 1}}]},
        doc! {"update": "capped", "updates": [{"q": {"_id": "new"}, "u": [{"$set": {"b": "$a"}}]}]},
        doc! {"findAndModify": "capped", "query": {"_id": "new"}, "update": [{"$set": {"c": 1}}]},
    ] {
        let answer = place.through.run_command(command.clone()).await.unwrap();
        assert!(!answer.contains_key("writeErrors"), "{command}: {answer}");
    }
    let refused = doc! {"update": "capped", "updates": [{"q": {}, "u": [{"$set": {"b": {"$toInt": "x"}}}]}]};
    let answer = place.through.run_command(refused).await.unwrap();
    let error = answer.get_array("writeErrors").unwrap()[0].as_document().unwrap();
    assert_eq!(error.get("code"), Some(&Bson::Int32(241)), "{error}");
    let stored = place.plain.collection::<Document>("capped").find_one(doc! {"_id": "new"}).await.unwrap();
    assert_eq!(stored, Some(doc! {"_id": "new", "a": {"_slot": 1}, "b": {"_slot": 1}, "c": 1}));
}
