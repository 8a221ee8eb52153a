//! `explain`: the server's own shape, for what the application wrote, on indexes that MongoTx
//! stores otherwise.

use bson::{Bson, Document, doc};

use crate::common::commands::Session;
use crate::side_by_side::pair::Pair;

const VERBOSITIES: [&str; 3] = ["queryPlanner", "executionStats", "allPlansExecution"];

/// Thirty documents, an index on `a`, a unique one on `b`, one on `c` and `a`, and a view of `a`.
async fn indexed(test: &str) -> Pair {
    let mut pair = Pair::start(test).await;
    let documents: Vec<Document> = (0..30).map(|n| doc! {"_id": n, "a": n % 3, "b": n, "c": n % 2}).collect();
    let indexes = vec![
        doc! {"key": {"a": 1}, "name": "a_1"},
        doc! {"key": {"b": 1}, "name": "b_1", "unique": true},
        doc! {"key": {"c": 1, "a": 1}, "name": "c_1_a_1"},
    ];
    pair.same(doc! {"createIndexes": "c", "indexes": indexes}).await;
    pair.same(doc! {"insert": "c", "documents": documents}).await;
    pair.same(doc! {"create": "v", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}]}).await;
    pair
}

fn reads() -> Vec<Document> {
    let pipeline = |stages: Vec<Document>| doc! {"aggregate": "c", "pipeline": stages, "cursor": {}};
    let to = doc! {"from": "c", "localField": "a", "foreignField": "b", "as": "x"};
    vec![
        doc! {"find": "c"},
        doc! {"find": "c", "filter": {"_id": 3}},
        doc! {"find": "c", "filter": {"_id": {"$in": [3, 4]}}},
        doc! {"find": "c", "filter": {"a": 1}, "sort": {"b": -1}, "limit": 3, "comment": "x", "maxTimeMS": 60_000},
        doc! {"find": "c", "filter": {"a": 1, "c": 1}, "projection": {"a": 1, "_id": 0}},
        doc! {"find": "c", "filter": {"b": 7}},
        doc! {"find": "c", "filter": {"b": {"$gt": 7}}, "projection": {"b": 1, "_id": 0}, "skip": 2},
        doc! {"find": "c", "filter": {"$or": [{"b": 7}, {"a": 2, "c": 0}]}},
        doc! {"find": "c", "hint": "b_1"},
        doc! {"find": "c", "hint": {"b": 1}, "filter": {"a": 1}},
        doc! {"find": "c", "min": {"b": 2}, "max": {"b": 5}, "hint": "b_1"},
        doc! {"find": "c", "returnKey": true, "showRecordId": true, "hint": {"b": 1}},
        doc! {"find": "v", "filter": {"c": 1}},
        doc! {"find": "missing", "filter": {"b": 4}},
        pipeline(vec![]),
        pipeline(vec![doc! {"$match": {"a": 1}}, doc! {"$sort": {"b": 1}}]),
        pipeline(vec![doc! {"$match": {"a": 1}}, doc! {"$group": {"_id": "$c", "n": {"$sum": 1}}}]),
        pipeline(vec![doc! {"$match": {"b": {"$gte": 20}}}, doc! {"$lookup": to}]),
        pipeline(vec![doc! {"$match": {"b": 5}}, doc! {"$out": "copy"}]),
        doc! {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}], "cursor": {}, "hint": "b_1"},
        doc! {"count": "c"},
        doc! {"count": "c", "query": {"b": {"$gt": 7}}, "hint": "b_1"},
        doc! {"distinct": "c", "key": "b"},
        doc! {"distinct": "c", "key": "b", "query": {"a": 1}},
    ]
}

fn writes() -> Vec<Document> {
    vec![
        doc! {"update": "c", "updates": [{"q": {"b": 7}, "u": {"$set": {"x": 1}}, "hint": "b_1"}]},
        doc! {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"x": 1}}, "multi": true}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 99}, "u": {"$set": {"x": 1}}, "upsert": true}]},
        doc! {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 0}]},
        doc! {"delete": "c", "deletes": [{"q": {"b": {"$lt": 3}}, "limit": 1, "hint": {"b": 1}}]},
        doc! {"findAndModify": "c", "query": {"b": 4}, "update": {"$set": {"x": 1}}},
        doc! {"findAndModify": "c", "query": {"a": 1}, "sort": {"b": 1}, "remove": true, "hint": {"b": 1}},
    ]
}

/// Fields in which no two servers agree: who they are, how long they took, when they yielded, and
/// which plans they have cached.
const OWN: [&str; 10] = [
    "executionTimeMillis",
    "executionTimeMillisEstimate",
    "saveState",
    "restoreState",
    "needYield",
    "planCacheKey",
    "host",
    "port",
    "slotBasedPlan",
    "mongotx",
];

/// The plan without [`OWN`]. Stages of a slot-based plan (version 2) have the numbers of slots,
/// which are not the same on a replica set, in their fields' values and names.
fn normal(plan: &Document) -> Bson {
    let is_slot_based = plan.get_str("explainVersion").is_ok_and(|version| version == "2");
    let left_out: Vec<&str> = OWN.into_iter().chain(is_slot_based.then_some("executionStages")).collect();
    without(&Bson::Document(plan.clone()), &left_out)
}

fn without(value: &Bson, left_out: &[&str]) -> Bson {
    match value {
        Bson::Document(fields) => {
            let kept = fields.iter().filter(|(field, _)| !left_out.contains(&field.as_str()));
            Bson::Document(kept.map(|(field, value)| (field.clone(), without(value, left_out))).collect())
        }
        Bson::Array(items) => items.iter().map(|item| without(item, left_out)).collect(),
        other => other.clone(),
    }
}

async fn same_plan(pair: &mut Pair, command: Document) -> Document {
    let (ours, theirs) = pair.ask(command.clone()).await;
    let (shown, wanted) = (normal(&ours), normal(&theirs));
    assert_eq!(shown, wanted, "{command}\nours:   {shown}\ntheirs: {wanted}");
    let text = shown.to_string();
    for own in ["_mongotx", "_xTxId", "_sTxIds", "_unsafe", "_insert", "_remove", "_slot"] {
        assert!(!text.contains(own), "{own}: {text}");
    }
    ours
}

/// Where the command runs, the script is a function around the application's.
#[tokio::test]
async fn filters_with_scripts_are_explained() {
    let mut pair = indexed("cmp_explain_where").await;
    let filter = doc! {"$where": "this.b > 7 && Object.keys(this).length == 4", "a": 1};
    let update = doc! {"q": filter.clone(), "u": {"$set": {"x": 1}}, "multi": true};
    for command in [
        doc! {"find": "c", "filter": filter.clone()},
        doc! {"count": "c", "query": filter.clone()},
        doc! {"update": "c", "updates": [update]},
        doc! {"findAndModify": "c", "query": filter.clone(), "remove": true},
    ] {
        same_plan(&mut pair, doc! {"explain": command.clone(), "verbosity": "queryPlanner"}).await;
        same_counts(&mut pair, command).await;
    }
    // It sees nothing of what a transaction has written to them.
    let session = Session::new();
    let update = doc! {"q": {"a": 1}, "u": {"$set": {"x": 1}}, "multi": true};
    pair.same(session.first(doc! {"update": "c", "updates": [update]})).await;
    same_counts(&mut pair, doc! {"find": "c", "filter": filter}).await;
    pair.same(session.abort()).await;
}

/// The command runs, and finds as many documents at both.
async fn same_counts(pair: &mut Pair, command: Document) {
    let (ours, theirs) = pair.ask(doc! {"explain": command, "verbosity": "executionStats"}).await;
    let [ours, theirs] = [ours, theirs].map(|plan| {
        let stats = plan.get_document("executionStats").unwrap();
        let counts = ["nReturned", "totalDocsExamined"].map(|count| stats.get(count).cloned());
        (counts, plan.get("command").cloned())
    });
    assert_eq!(ours, theirs);
}

#[tokio::test]
async fn plans_are_shown_the_same_at_every_verbosity() {
    let mut pair = indexed("cmp_explain").await;
    let before = pair.same(doc! {"find": "c", "sort": {"_id": 1}}).await;
    for command in reads().into_iter().chain(writes()) {
        for verbosity in VERBOSITIES {
            same_plan(&mut pair, doc! {"explain": command.clone(), "verbosity": verbosity}).await;
        }
    }
    assert_eq!(pair.same(doc! {"find": "c", "sort": {"_id": 1}}).await, before, "an explained write is not made");
    same_plan(&mut pair, doc! {"explain": {"find": "c", "filter": {"b": 7}}}).await;
    same_plan(&mut pair, doc! {"aggregate": "c", "pipeline": [{"$match": {"b": 7}}], "explain": true}).await;
    same_plan(&mut pair, doc! {"aggregate": "v", "pipeline": [{"$match": {"c": 1}}], "explain": true, "cursor": {}})
        .await;
}

/// The figures are of committed documents, finished or not.
#[tokio::test]
async fn plans_beside_a_transaction_are_of_what_is_committed() {
    let mut pair = indexed("cmp_explain_rival").await;
    let rival = Session::new();
    let update = doc! {"update": "c", "updates": [{"q": {"_id": {"$lt": 6}}, "u": {"$set": {"a": 7}}, "multi": true}]};
    pair.same(rival.first(update)).await;
    pair.same(rival.next(doc! {"insert": "c", "documents": [{"_id": 100, "a": 7, "b": 100}]})).await;
    let explain = |a: i32| doc! {"explain": {"find": "c", "filter": {"a": a}}, "verbosity": "executionStats"};
    same_plan(&mut pair, explain(1)).await;
    same_plan(&mut pair, explain(7)).await;
    pair.same(rival.commit()).await;
    same_plan(&mut pair, explain(1)).await;
    let plan = same_plan(&mut pair, explain(7)).await;
    assert_eq!(plan.get_document("executionStats").unwrap().get_i32("nReturned").unwrap(), 7);
}

/// The field `mongotx` shows how MongoTx runs the command.
#[tokio::test]
async fn what_is_sent_is_shown_in_a_field_of_its_own() {
    let mut pair = indexed("cmp_explain_sent").await;
    let find = doc! {"explain": {"find": "c", "filter": {"a": 1}}, "verbosity": "executionStats"};
    let pipeline = doc! {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}], "explain": true};
    for command in [find, pipeline] {
        let (plan, theirs) = pair.ask(command.clone()).await;
        assert!(!theirs.contains_key("mongotx"));
        let sent = plan.get_document("mongotx").unwrap();
        assert!(sent.contains_key("command") && sent.contains_key("stages"), "{command}: {sent}");
        assert!(!sent.contains_key("serverInfo") && !sent.contains_key("ok"), "{sent}");
        assert!(sent.to_string().contains("_xTxId"), "{sent}");
    }
}

#[tokio::test]
async fn what_cannot_be_explained_is_refused_the_same() {
    let mut pair = indexed("cmp_explain_refused").await;
    let level = |level: &str| doc! {"level": level};
    for command in [
        doc! {"explain": {}},
        doc! {"explain": 1},
        doc! {"explain": {"nope": "c"}},
        doc! {"explain": {"ping": 1}},
        doc! {"explain": {"create": "d"}},
        doc! {"explain": {"insert": "c", "documents": [{}]}},
        doc! {"explain": {"explain": {"find": "c"}}},
        doc! {"explain": {"find": "c"}, "verbosity": "x"},
        doc! {"explain": {"find": "c"}, "verbosity": 5},
        doc! {"explain": {"find": "c"}, "unknown": 1},
        doc! {"explain": {"find": "c", "unknown": 1}},
        doc! {"explain": {"find": "c", "$db": "other"}},
        doc! {"explain": {"find": 5}},
        doc! {"explain": {"find": ""}},
        doc! {"explain": {"find": "c", "filter": {"a": {"$foo": 1}}}},
        doc! {"explain": {"find": "c", "hint": "nope"}},
        doc! {"explain": {"find": "c", "tailable": true}},
        doc! {"explain": {"aggregate": "c", "pipeline": []}},
        doc! {"explain": {"aggregate": "c", "pipeline": [], "explain": true}},
        doc! {"explain": {"aggregate": "c", "pipeline": [{"$nope": 1}], "cursor": {}}},
        doc! {"explain": {"update": "c", "updates": [{"q": {}, "u": {"a": 1}}, {"q": {}, "u": {"a": 1}}]}},
        doc! {"explain": {"delete": "c", "deletes": []}},
        doc! {"explain": {"find": "c"}, "readConcern": level("majority")},
        doc! {"explain": {"find": "c"}, "readConcern": level("available")},
        doc! {"explain": {"find": "c"}, "readConcern": level("snapshot")},
        doc! {"aggregate": "c", "pipeline": [], "explain": true, "readConcern": level("majority")},
    ] {
        pair.same(command).await;
    }
    for command in [doc! {"explain": {"find": "c"}}, doc! {"aggregate": "c", "pipeline": [], "explain": true}] {
        let session = Session::new();
        pair.same(session.first(doc! {"insert": "c", "documents": [{"_id": 100, "b": 100}]})).await;
        pair.same(session.next(command)).await;
        pair.same(session.commit()).await;
    }
    let (ours, _) = pair.ask(doc! {"explain": {"count": "c", "query": {"_xTxId": 1}}}).await;
    assert_eq!(ours.get_i32("code").unwrap_or(0), 2);
}
