//! Commands outside transactions, at both.

use bson::{Bson, Document, Regex, Timestamp, doc};

use crate::{common::commands::Session, side_by_side::pair::Pair};

async fn all_same(test: &str, commands: Vec<Document>) {
    let mut pair = Pair::start(test).await;
    let mut different = Vec::new();
    for command in commands {
        let (ours, theirs) = pair.ask(command.clone()).await;
        if ours != theirs {
            different.push(format!("{command}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn five() -> Document {
    let documents: Vec<Document> = (1..=5).map(|n| doc! {"_id": n, "a": n % 2}).collect();
    doc! {"insert": "c", "documents": documents}
}

#[tokio::test]
async fn writes_to_names_that_no_collection_has_are_refused_the_same() {
    let long = "n".repeat(256);
    let commands = ["a$b", &long, ".a", ""].into_iter().flat_map(|name| {
        let upsert = doc! {"q": {"_id": 1}, "u": {"$set": {"a": 1}}, "upsert": true};
        [
            doc! {"insert": name, "documents": [{"_id": 1}]},
            doc! {"insert": name, "documents": [{"_id": 1}, {"_id": 2}], "ordered": false},
            doc! {"update": name, "updates": [upsert.clone()]},
            doc! {"update": name, "updates": [upsert.clone(), upsert]},
            doc! {"delete": name, "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        ]
    });
    all_same("cmp_bad_names", commands.collect()).await;
}

#[tokio::test]
async fn finds_are_answered_the_same() {
    let sorted = |more: Document| {
        let mut find = doc! {"find": "c", "sort": {"_id": 1}};
        find.extend(more);
        find
    };
    all_same(
        "cmp_find",
        vec![
            five(),
            sorted(doc! {}),
            sorted(doc! {"batchSize": 2}),
            sorted(doc! {"batchSize": 0}),
            sorted(doc! {"batchSize": 5}),
            sorted(doc! {"limit": 3, "batchSize": 3}),
            sorted(doc! {"limit": 3, "batchSize": 2, "singleBatch": true}),
            sorted(doc! {"skip": 2, "limit": 2.5}),
            sorted(doc! {"projection": {"a": 1, "_id": 0}}),
            sorted(doc! {"filter": {"a": 1}, "comment": {"x": 1}, "maxTimeMS": 60_000}),
            sorted(
                doc! {"limit": null, "collation": {}, "let": {"x": 1}, "filter": {"$expr": {"$eq": ["$_id", "$$x"]}}},
            ),
            doc! {"find": "missing"},
            doc! {"find": "c", "filter": 5},
            doc! {"find": 5},
            doc! {"find": ""},
            doc! {"find": "c", "limit": -1},
            doc! {"find": "c", "limit": "x"},
            doc! {"find": "c", "batchSize": -1},
            doc! {"find": "c", "singleBatch": 1},
            doc! {"find": "c", "hint": 5},
            doc! {"find": "c", "hint": "nope"},
            doc! {"find": "c", "maxTimeMS": -1},
            doc! {"find": "c", "filter": {"_id": 2}, "$clusterTime": {"clusterTime": {}}},
            doc! {"find": "c", "filter": {"_id": 2}, "$clusterTime": {}},
            doc! {"find": "c", "filter": {"_id": 2}, "$clusterTime": 5},
            doc! {"insert": "c", "documents": [{"_id": 9}], "$clusterTime": {"clusterTime": 5}},
            doc! {"find": "c", "awaitData": true},
            doc! {"find": "c", "filter": {"a": {"$foo": 1}}},
            doc! {"find": "c", "unknown": 1},
            doc! {"find": "c", "readConcern": {"level": "x"}},
            doc! {"find": "c", "readConcern": {"level": "majority"}, "limit": 0, "filter": {"_id": 2}},
            doc! {"find": "c", "apiVersion": "2"},
            doc! {"find": "c", "apiStrict": true},
            doc! {"getMore": 5_i64, "collection": "c"},
            doc! {"getMore": 5, "collection": "c"},
            doc! {"getMore": 5_i64},
            doc! {"killCursors": "c", "cursors": [7_i64]},
            doc! {"killCursors": "c", "cursors": [7]},
            doc! {"killCursors": "c"},
        ],
    )
    .await;
}

#[tokio::test]
async fn counts_and_pipelines_are_answered_the_same() {
    all_same(
        "cmp_count",
        vec![
            five(),
            doc! {"count": "c"},
            doc! {"count": "c", "query": {"a": 1}},
            // A sparse index has the documents with the field only.
            doc! {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1", "sparse": true}]},
            doc! {"insert": "c", "documents": [{"_id": 6, "x": 1}, {"_id": 7, "x": 2}]},
            doc! {"count": "c", "hint": "x_1"},
            doc! {"count": "c", "hint": {"x": 1}, "query": {}, "limit": 0},
            doc! {"count": "c", "hint": "nope"},
            doc! {"count": "missing", "hint": "nope"},
            doc! {"count": "c", "limit": 2},
            doc! {"count": "c", "limit": -2, "skip": 1},
            doc! {"count": "missing"},
            doc! {"distinct": "c", "key": "a"},
            doc! {"distinct": "c", "key": "_id", "query": {"a": 0}},
            doc! {"distinct": "c"},
            doc! {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$sort": {"_id": 1}}], "cursor": {"batchSize": 1}},
            doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": null, "n": {"$sum": "$a"}}}], "cursor": {}},
            doc! {"aggregate": "c", "pipeline": [{"$sort": {"_id": 1}}, {"$out": "copy"}], "cursor": {}},
            doc! {"find": "copy", "sort": {"_id": 1}},
            doc! {"aggregate": "c", "pipeline": []},
            doc! {"aggregate": "c", "cursor": {}},
            doc! {"aggregate": "c", "pipeline": [{"$nope": 1}], "cursor": {}},
            doc! {"aggregate": 2, "pipeline": [], "cursor": {}},
        ],
    )
    .await;
}

/// At `snapshot` and `linearizable`: what is answered, and which commands take them.
#[tokio::test]
async fn reads_of_one_moment_are_answered_the_same() {
    let pipeline = |stages: Vec<Document>| doc! {"aggregate": "c", "pipeline": stages, "cursor": {"batchSize": 2}};
    let find = |more: Document| {
        let mut find = doc! {"find": "c", "sort": {"_id": 1}};
        find.extend(more);
        find
    };
    let plan = doc! {"aggregate": "c", "pipeline": [], "explain": true};
    let commands = [
        find(doc! {}),
        find(doc! {"batchSize": 0}),
        find(doc! {"batchSize": 2}),
        find(doc! {"batchSize": 5}),
        find(doc! {"limit": 3, "batchSize": 3}),
        find(doc! {"limit": 3, "batchSize": 2, "singleBatch": true}),
        find(doc! {"filter": {"_id": 3}}),
        find(doc! {"filter": {"$nope": 1}, "batchSize": -1}),
        pipeline(vec![doc! {"$sort": {"_id": 1}}]),
        pipeline(vec![doc! {"$group": {"_id": null, "n": {"$sum": "$a"}}}]),
        doc! {"distinct": "c", "key": "a"},
        doc! {"count": "c"},
        doc! {"count": "c", "query": {"a": 1}},
        doc! {"explain": {"find": "c"}},
        plan,
        doc! {"insert": "c", "documents": [{"_id": 9}]},
        doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
        doc! {"findAndModify": "c", "query": {}, "remove": true},
        doc! {"listCollections": 1},
        doc! {"listIndexes": "c"},
        doc! {"create": "d"},
        doc! {"getMore": 5_i64, "collection": "c"},
    ];
    let mut all = vec![five()];
    for level in ["snapshot", "linearizable"] {
        for mut command in commands.clone() {
            command.insert("readConcern", doc! {"level": level});
            all.push(command);
        }
    }
    let time = Timestamp { time: 7, increment: 1 };
    for concern in [
        doc! {"level": "linearizable", "afterClusterTime": time},
        doc! {"level": "local", "atClusterTime": time},
        doc! {"atClusterTime": time},
        doc! {"level": "snapshot", "afterClusterTime": time},
        doc! {"level": "snapshot", "afterClusterTime": time, "atClusterTime": time},
        doc! {"level": "snapshot", "atClusterTime": 1},
        doc! {"afterClusterTime": 1},
    ] {
        all.push(find(doc! {"readConcern": concern}));
    }
    let mut writes = pipeline(vec![doc! {"$out": "d"}]);
    writes.insert("readConcern", doc! {"level": "linearizable"});
    all.push(writes);
    all_same("cmp_moment", all).await;
}

#[tokio::test]
async fn writes_are_answered_the_same() {
    let pattern = || Regex { pattern: "a".try_into().unwrap(), options: "".try_into().unwrap() };
    all_same(
        "cmp_write",
        vec![
            five(),
            doc! {"insert": "c", "documents": []},
            doc! {"insert": "c"},
            doc! {"insert": "c", "documents": 5},
            doc! {"insert": "c", "documents": [5]},
            doc! {"insert": "c", "documents": [{"_id": pattern()}]},
            doc! {"insert": "c", "documents": [{"_id": 9}], "ordered": 5},
            doc! {"insert": "c", "documents": [{"_id": 9}], "x": 5},
            doc! {"insert": "", "documents": [{"_id": 9}]},
            doc! {"insert": "c", "documents": [{"_id": 6}, {"_id": 1}, {"_id": 7}]},
            doc! {"insert": "c", "documents": [{"_id": 7}, {"_id": 1}, {"_id": 8}], "ordered": false},
            doc! {"insert": "c", "documents": [{"_id": 10}], "writeConcern": {"w": 2}},
            doc! {"insert": "c", "documents": [{"_id": 11}], "writeConcern": {"w": "dc"}},
            doc! {"insert": "c", "documents": [{"_id": 12}], "writeConcern": {"w": "majority", "wtimeout": 60_000}},
            doc! {"insert": "c", "documents": [{"_id": 13}], "writeConcern": {"w": -1}},
            doc! {"insert": "c", "documents": [{"_id": 13}], "writeConcern": {"x": 1}},
            doc! {"insert": "c", "documents": [{"_id": 13}], "writeConcern": 5},
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}, {"q": {"_id": 2}, "u": {"b": 2}}]},
            doc! {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$inc": {"b": 1}}, "multi": true}]},
            doc! {"update": "c", "updates": [{"q": {"_id": 99}, "u": [{"$set": {"x": 1}}], "upsert": true}]},
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": "x"}}}, {"q": {"_id": 2}, "u": {"$set": {"c": 1}}}]},
            doc! {"update": "c", "updates": [{"q": {}, "u": {"x": 1}, "multi": true}]},
            doc! {"update": "c", "updates": [{"q": {"_id": 1}}]},
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a.$[e]": 1}}, "arrayFilters": [{"e": 1}]}]},
            doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}, {"q": {"a": 1}, "limit": 0}]},
            doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 2}]},
            doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0.5}]},
            doc! {"delete": "c", "deletes": [{"q": {}, "limit": f64::NAN}]},
            doc! {"delete": "c", "deletes": [{"q": {"_id": 55}, "limit": 1.0}]},
            doc! {"delete": "c", "deletes": [{"q": {"_id": 1}}]},
            doc! {"findAndModify": "c", "query": {"_id": 2}, "update": {"$set": {"z": 1}}, "new": true},
            doc! {"findAndModify": "c", "query": {"_id": 77}, "update": {"$set": {"z": 1}}},
            doc! {"findAndModify": "c", "query": {"_id": 77}, "update": {"$set": {"z": 1}}, "upsert": true},
            doc! {"findAndModify": "c", "query": {"_id": 78}, "update": {"$set": {"z": 1}}, "upsert": true, "new": true},
            doc! {"findAndModify": "c", "query": {"_id": 78}, "remove": true, "fields": {"z": 1}},
            doc! {"findAndModify": "c", "query": {"_id": 78}, "remove": true},
            doc! {"findAndModify": "c", "sort": {"_id": -1}, "update": {"q": 1}},
            doc! {"findAndModify": "c", "query": {"_id": 78}},
            doc! {"findAndModify": "c", "remove": true, "new": true},
            doc! {"findAndModify": "c", "remove": true, "update": {}},
            doc! {"find": "c", "sort": {"_id": 1}},
        ],
    )
    .await;
}

#[tokio::test]
async fn collections_and_indexes_are_answered_the_same() {
    all_same(
        "cmp_ddl",
        vec![
            doc! {"create": "c"},
            doc! {"create": "c", "capped": true, "size": 1000},
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}, {"key": {"b": 1}, "name": "b", "unique": true}]},
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
            doc! {"createIndexes": "new", "indexes": [{"key": {"a": 1}, "name": "a"}]},
            doc! {"createIndexes": "c", "indexes": []},
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}}]},
            doc! {"insert": "c", "documents": [{"_id": 1, "b": 1}, {"_id": 2, "b": 1}]},
            doc! {"listIndexes": "c"},
            doc! {"listIndexes": "missing"},
            doc! {"dropIndexes": "c", "index": "b"},
            doc! {"dropIndexes": "c", "index": "nope"},
            doc! {"dropIndexes": "c", "index": "*"},
            doc! {"dropIndexes": "missing", "index": "*"},
            doc! {"listCollections": 1, "nameOnly": true, "filter": {"name": "c"}},
            doc! {"drop": "new"},
            doc! {"drop": "missing"},
            doc! {"dropDatabase": 1},
            doc! {"dropDatabase": 1},
        ],
    )
    .await;
}

/// Beside a unique index, and in a transaction, the document is shown by a command of its own.
#[tokio::test]
async fn computed_fields_of_find_and_modify_are_shown_with_collation_and_variables() {
    let mut pair = Pair::start("cmp_shown").await;
    let unique = doc! {"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n", "unique": true}]};
    let ids: [Bson; 3] = [1.into(), "b".into(), "B".into()];
    let documents: Vec<Document> = (1..).zip(ids).map(|(n, id)| doc! {"_id": id, "name": "Ann", "n": n}).collect();
    pair.same(unique).await;
    pair.same(doc! {"insert": "c", "documents": documents}).await;
    let collated = doc! {
        "collation": {"locale": "en", "strength": 2}, "fields": {"n": 1, "isAnn": {"$eq": ["$name", "ann"]}},
    };
    let with_variable = doc! {"let": {"t": 11}, "fields": {"over": {"$gt": ["$n", "$$t"]}}};
    let mut commands = Vec::new();
    for (n, more) in [(1, &collated), (2, &collated), (3, &collated), (3, &with_variable)] {
        for (from, new) in [(n, true), (n + 10, false)] {
            let step = if new { 10 } else { -10 };
            let mut command =
                doc! {"findAndModify": "c", "query": {"n": from}, "update": {"$inc": {"n": step}}, "new": new};
            command.extend(more.clone());
            commands.push(command);
        }
        let mut command = doc! {"findAndModify": "c", "query": {"n": n}, "update": {"$set": {"x": 1}}, "hint": "n"};
        command.extend(more.clone());
        commands.push(command);
    }
    for command in &commands {
        pair.same(command.clone()).await;
    }
    let session = Session::new();
    pair.same(session.first(doc! {"find": "c", "sort": {"n": 1}})).await;
    for command in commands {
        pair.same(session.next(command)).await;
    }
    pair.same(session.commit()).await;
}

/// A hint is one for the collection below, whose unique index is stored under another name.
#[tokio::test]
async fn views_are_read_with_hints_and_with_their_own_collation() {
    let loose = || doc! {"locale": "en", "strength": 2};
    let indexes = [
        doc! {"key": {"email": 1}, "name": "email_1", "unique": true},
        doc! {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 5},
    ];
    let mut commands = vec![
        doc! {"createIndexes": "c", "indexes": indexes.to_vec()},
        doc! {"insert": "c", "documents": [{"_id": 1, "email": "a", "at": 1}, {"_id": 2, "email": "A", "at": 2}]},
        doc! {"create": "v", "viewOn": "c", "pipeline": [{"$match": {"_id": {"$gt": 0}}}]},
        doc! {"create": "above", "viewOn": "v", "pipeline": []},
        doc! {"create": "loose", "viewOn": "c", "pipeline": [], "collation": loose()},
        doc! {"create": "looser", "viewOn": "loose", "pipeline": [], "collation": loose()},
        doc! {"create": "base", "collation": loose()},
        doc! {"insert": "base", "documents": [{"_id": 1, "email": "a"}]},
    ];
    for hint in [Bson::from("email_1"), doc! {"email": 1}.into(), doc! {"at": 1}.into(), "at_1".into(), "nope".into()] {
        for view in ["v", "above"] {
            commands.extend([
                doc! {"find": view, "filter": {"email": "a", "at": 1}, "hint": hint.clone()},
                doc! {"aggregate": view, "pipeline": [{"$sort": {"_id": 1}}], "cursor": {}, "hint": hint.clone()},
            ]);
        }
    }
    let by_id = doc! {"_id": 1};
    for collation in [loose(), doc! {"locale": "en", "strength": 1}, doc! {"locale": "simple"}] {
        for view in ["v", "loose", "looser"] {
            let found =
                doc! {"find": view, "filter": {"email": "a"}, "sort": by_id.clone(), "collation": collation.clone()};
            let union = [doc! {"$match": {"email": "a"}}, doc! {"$unionWith": view}, doc! {"$sort": by_id.clone()}];
            let from = ["c", "base"].map(|from| {
                doc! {"aggregate": from, "pipeline": union.to_vec(), "cursor": {}, "collation": collation.clone()}
            });
            commands.push(found);
            commands.extend(from);
        }
    }
    let looking = doc! {"$lookup": {"from": "loose", "localField": "email", "foreignField": "email", "as": "x"}};
    commands.push(doc! {"aggregate": "base", "pipeline": [looking.clone()], "cursor": {}});
    commands.push(doc! {"aggregate": "c", "pipeline": [looking], "cursor": {}});
    all_same("cmp_views", commands).await;
}

#[tokio::test]
async fn indexes_of_one_refused_command_are_neither_made_nor_dropped() {
    let index = |field: &str, name: &str, unique: bool| doc! {"key": {field: 1}, "name": name, "unique": unique};
    let refused = [
        [index("a", "a", false), index("b", "b", true)],
        [index("a", "a", true), index("b", "b", true)],
        [index("a", "a", false), index("a", "same", false)],
        [index("a", "a", true), index("a", "a", false)],
        [index("a", "a", true), index("a", "a", true)],
    ];
    let documents = [doc! {"_id": 1, "a": 1, "b": 1}, doc! {"_id": 2, "a": 2, "b": 1}];
    let mut commands = vec![doc! {"insert": "c", "documents": documents.to_vec()}];
    for indexes in refused {
        let create = doc! {"createIndexes": "c", "indexes": indexes.to_vec()};
        commands.extend([create, doc! {"listIndexes": "c"}]);
    }
    let made = [index("a", "a", true), index("c", "c", false)];
    commands.push(doc! {"createIndexes": "c", "indexes": made.to_vec()});
    for names in [["a", "typo"], ["c", "_id_"], ["c", "a"]] {
        let dropped = doc! {"dropIndexes": "c", "index": names.to_vec()};
        commands.extend([dropped, doc! {"listIndexes": "c"}]);
    }
    all_same("cmp_all_or_none", commands).await;
}

/// Of a collection with a unique index, writes are transactions: there the version that is judged
/// is the pending one.
#[tokio::test]
async fn validators_are_changed_and_explained_the_same() {
    let positive = || doc! {"n": {"$gt": 0}};
    let schema = || doc! {"$jsonSchema": {"properties": {"n": {"bsonType": "int"}}}};
    let changed = |validator: Document| doc! {"collMod": "c", "validator": validator};
    let refused = |n: Bson| {
        vec![
            doc! {"insert": "c", "documents": [{"_id": 9, "n": n.clone()}]},
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": n.clone()}}}]},
            doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"n": n}}},
        ]
    };
    let unique = doc! {"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n", "unique": true}]};
    let mut commands = vec![changed(positive()), doc! {"insert": "c", "documents": [{"_id": 1, "n": 1}]}];
    for indexed in [false, true] {
        commands.extend(indexed.then(|| unique.clone()));
        commands.push(changed(positive()));
        commands.extend(refused(0.into()));
        commands.push(changed(schema()));
        commands.extend(refused("x".into()));
    }
    commands.extend([changed(doc! {}), doc! {"insert": "c", "documents": [{"_id": 9, "n": "x"}]}]);
    all_same("cmp_validators", commands).await;
}

/// Commands of several statements: most of them go to the server together.
fn several_statements(ordered: bool) -> Vec<Document> {
    let update = |updates: Vec<Document>| doc! {"update": "c", "updates": updates, "ordered": ordered};
    let delete = |deletes: Vec<Document>| doc! {"delete": "c", "deletes": deletes, "ordered": ordered};
    let inc = |id: i32| doc! {"q": {"_id": id}, "u": {"$inc": {"n": 1}}};
    let set = |id: i32| doc! {"q": {"_id": id}, "u": {"$set": {"n": 7}}};
    let upsert = |id: i32| doc! {"q": {"_id": id}, "u": {"$inc": {"n": 1}}, "upsert": true};
    let one = |id: i32| doc! {"q": {"_id": id}, "limit": 1};
    let documents = |ids: &[i32]| ids.iter().map(|id| doc! {"_id": *id, "n": 0}).collect::<Vec<_>>();
    let insert = |ids: &[i32]| doc! {"insert": "c", "documents": documents(ids), "ordered": ordered};
    let found = doc! {"find": "c", "sort": {"_id": 1}};
    vec![
        insert(&[1, 2, 3, 4, 5, 6]),
        insert(&[7, 2, 8, 2, 9]),
        insert(&[1, 2]),
        doc! {"insert": "c", "documents": [{"_id": 20}, {"_id": [1]}, {"_id": 21}], "ordered": ordered},
        found.clone(),
        update(vec![inc(1), inc(2), inc(99), inc(3)]),
        update(vec![inc(1), inc(1), inc(1)]),
        update(vec![set(1), set(1), set(2), inc(98)]),
        update(vec![inc(99), inc(98)]),
        update(vec![inc(1), upsert(30), upsert(31), upsert(1), inc(99), upsert(30), inc(30)]),
        update(vec![inc(1), doc! {"q": {"_id": 2}, "u": {"$set": {"n": "x"}}}, inc(2), inc(3), inc(2)]),
        update(vec![inc(1), doc! {"q": {"_id": 2}, "u": {"$nonsense": {"n": 1}}}, inc(3)]),
        update(vec![inc(1), doc! {"q": {"_id": 2}, "u": {"$set": {"_id": 3}}}, inc(3)]),
        update(vec![inc(1), doc! {"q": {"_id": 3}, "u": {"$set": {"n.$": 3}}}, inc(3)]),
        update(vec![
            doc! {"q": {"_id": 3}, "u": {"m": 1}},
            doc! {"q": {"_id": 40}, "u": {"m": 2}, "upsert": true},
            inc(3),
        ]),
        update(vec![inc(1), doc! {"q": {"_id": 3}, "u": [{"$set": {"n": {"$toInt": "$text"}}}]}, inc(4)]),
        update(vec![
            inc(1),
            doc! {"q": {"_id": 3}, "u": [{"$set": {"n": {"$toInt": {"$concat": ["x", {"$type": "$n"}]}}}}]},
            inc(4),
        ]),
        update(vec![inc(1), doc! {"q": {"_id": 4, "n": {"$gt": 0}}, "u": {"$inc": {"n": 1}}}, inc(4), inc(4)]),
        update(vec![inc(1), doc! {"q": {"n": {"$type": "int"}}, "u": {"$inc": {"n": 1}}, "multi": true}, inc(4)]),
        update(vec![
            doc! {"q": {"_id": {"$eq": 4}}, "u": {"$set": {"l": [1, 2]}}},
            doc! {"q": {"_id": {"$in": [4]}}, "u": {"$push": {"l": 3}}},
        ]),
        update(vec![inc(4), doc! {"q": {"_id": 4}, "u": {"$set": {"l.$[x]": 9}}, "arrayFilters": [{"x": 1}]}, inc(4)]),
        found.clone(),
        delete(vec![one(1), one(99), one(2), one(1)]),
        delete(vec![one(98), one(99)]),
        delete(vec![one(3), doc! {"q": {"n": {"$gt": 100}}, "limit": 0}, one(4)]),
        delete(vec![one(5), doc! {"q": {"$nonsense": 1}, "limit": 1}, one(6)]),
        found,
    ]
}

#[tokio::test]
async fn commands_of_several_statements_are_answered_the_same_in_order() {
    all_same("cmp_several_ordered", several_statements(true)).await;
}

#[tokio::test]
async fn commands_of_several_statements_are_answered_the_same_in_any_order() {
    all_same("cmp_several", several_statements(false)).await;
}

#[tokio::test]
async fn write_concerns_of_every_command_are_met_or_missed_the_same() {
    let with = |mut command: Document, concern: Document| {
        command.insert("writeConcern", concern);
        command
    };
    let out = |stage: Document| doc! {"aggregate": "c", "pipeline": [stage], "cursor": {}};
    let index = doc! {"key": {"a": 1}, "name": "a_1"};
    let mut commands = vec![five(), doc! {"create": "capped", "capped": true, "size": 4096}];
    for concern in [doc! {"w": 2}, doc! {"w": "dc", "j": true}, doc! {"w": "majority"}, doc! {"j": true}] {
        commands.extend(
            [
                doc! {"create": "made"},
                doc! {"collMod": "made", "validationLevel": "off"},
                doc! {"createIndexes": "made", "indexes": [index.clone()]},
                doc! {"createIndexes": "made", "indexes": [index.clone()]},
                doc! {"dropIndexes": "made", "index": "a_1"},
                doc! {"drop": "made"},
                doc! {"insert": "capped", "documents": [{"a": 1}]},
                doc! {"insert": "c", "documents": [{"_id": 1}]},
                doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}},
                doc! {"findAndModify": "capped", "query": {"_id": 77}, "update": {"$inc": {"n": 1}}},
            ]
            .map(|command| with(command, concern.clone())),
        );
        commands.push(with(out(doc! {"$match": {}}), concern));
    }
    for concern in [doc! {"w": "majority"}, doc! {"j": true}] {
        commands.push(with(out(doc! {"$out": "o"}), concern.clone()));
        commands.push(with(out(doc! {"$merge": "o"}), concern));
    }
    all_same("cmp_concerns", commands).await;
}

#[tokio::test]
async fn indexes_are_changed_the_same() {
    let indexes = vec![
        doc! {"key": {"a": 1}, "name": "a_1"},
        doc! {"key": {"b": 1}, "name": "b_1", "unique": true},
        doc! {"key": {"t": 1}, "name": "t_1", "expireAfterSeconds": 3600},
        doc! {"key": {"a": 1, "b": -1}, "name": "a_1_b_-1"},
        doc! {"key": {"l": 1}, "name": "l_1"},
        doc! {"key": {"l": 1}, "name": "l_de", "collation": {"locale": "de"}},
    ];
    let changes = [
        doc! {"name": "t_1", "expireAfterSeconds": 100},
        doc! {"name": "t_1", "expireAfterSeconds": 100},
        doc! {"keyPattern": {"t": 1.0}, "expireAfterSeconds": 50},
        doc! {"name": "t_1", "hidden": true},
        doc! {"name": "t_1", "hidden": false, "expireAfterSeconds": 70.5},
        doc! {"name": "a_1", "expireAfterSeconds": 99_999_999_999_i64},
        doc! {"name": "b_1", "expireAfterSeconds": 5},
        doc! {"name": "b_1", "hidden": true},
        doc! {"keyPattern": {"b": 1}, "hidden": false},
        doc! {"name": "a_1_b_-1", "hidden": true},
        doc! {"name": "a_1_b_-1", "expireAfterSeconds": 5},
        doc! {"name": "_id_", "hidden": true},
        doc! {"name": "_id_", "expireAfterSeconds": 5},
        doc! {"name": "nope", "hidden": true},
        doc! {"keyPattern": {"q": 1}, "hidden": true},
        doc! {"keyPattern": {"l": 1}, "hidden": true},
        doc! {"name": "a_1"},
        doc! {"hidden": true},
        doc! {"name": "a_1", "keyPattern": {"a": 1}, "hidden": true},
        doc! {"name": "a_1", "hidden": "x"},
        doc! {"name": "t_1", "expireAfterSeconds": "x", "hidden": true},
        doc! {"name": "t_1", "expireAfterSeconds": -1},
        doc! {"name": "a_1", "zz": 1},
    ];
    let mut commands = vec![doc! {"createIndexes": "c", "indexes": indexes}];
    commands.extend(changes.map(|change| doc! {"collMod": "c", "index": change}));
    commands.extend([
        doc! {"collMod": "c", "index": 5},
        doc! {"collMod": "c", "index": {"name": "a_1", "hidden": true}, "dryRun": true},
        doc! {"collMod": "c", "index": {"name": "a_1", "hidden": true}, "validator": {"a": {"$lt": 1000}}},
        doc! {"collMod": "missing", "index": {"name": "a_1", "hidden": true}},
        doc! {"listIndexes": "c"},
        doc! {"insert": "c", "documents": [{"_id": 1, "b": 1}]},
        doc! {"insert": "c", "documents": [{"_id": 2, "b": 1}]},
        doc! {"find": "c", "hint": "a_1"},
    ]);
    all_same("cmp_change", commands).await;
}

/// Two indexes may have the same fields in another order: then they are others.
#[tokio::test]
async fn indexes_of_the_same_fields_in_another_order_are_distinguished() {
    let index = |key: Document, name: &str, unique: bool| doc! {"key": key, "name": name, "unique": unique};
    let one = |index: Document| doc! {"createIndexes": "c", "indexes": [index]};
    all_same(
        "cmp_order",
        vec![
            one(index(doc! {"a": 1, "b": 1}, "a_b", false)),
            one(index(doc! {"b": 1, "a": 1}, "b_a", false)),
            one(index(doc! {"x": 1, "y": 1}, "x_y", true)),
            one(index(doc! {"y": 1, "x": 1}, "y_x", true)),
            doc! {"insert": "c", "documents": [{"_id": 1, "a": 1, "b": 2, "x": 1, "y": 2}, {"_id": 2, "a": 2, "b": 1, "x": 2, "y": 1}]},
            doc! {"find": "c", "hint": {"x": 1, "y": 1}},
            doc! {"find": "c", "hint": {"y": 1, "x": 1}},
            doc! {"dropIndexes": "c", "index": {"y": 1.0, "x": 1}},
            doc! {"dropIndexes": "c", "index": {"b": 1, "a": 1}},
            doc! {"listIndexes": "c"},
        ],
    )
    .await;
}
