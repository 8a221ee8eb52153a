//! Pipelines: input and output, side by side.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, doc};
use protocol::{ClientId, TxId};
use sd2v::{
    Error,
    names::{RESERVED, tx_id_to_bson},
    pipeline::*,
};

fn me() -> TxId {
    TxId { client: ClientId([7; 12]), seq: 3 }
}

fn safe(user: &[Document]) -> Result<Vec<Document>, Error> {
    map_pipeline(Some("c"), user, &Sources::default(), true).map(|mapped| mapped.stages)
}

fn own(written: &str, user: &[Document]) -> Result<Vec<Document>, Error> {
    let sources = Sources { me: Some(me()), written: [written.to_owned()].into(), ..Sources::default() };
    map_pipeline(Some("c"), user, &sources, true).map(|mapped| mapped.stages)
}

fn no_insert() -> Document {
    doc! {"_insert": {"$exists": false}}
}

fn unset() -> Document {
    doc! {"$unset": RESERVED.to_vec()}
}

fn matching(filter: Document) -> Document {
    doc! {"$match": {"$and": [filter, no_insert()]}}
}

#[test]
fn safe_view_keeps_what_an_index_can_answer_in_front() {
    let (a, b) = (doc! {"a": 1}, doc! {"b": {"$gt": 2}});
    let sort = doc! {"$sort": {"a": 1}};
    let cases = [
        (vec![], vec![doc! {"$match": no_insert()}]),
        (vec![doc! {"$match": {}}], vec![doc! {"$match": no_insert()}]),
        (vec![doc! {"$match": a.clone()}], vec![matching(a.clone())]),
        (
            vec![doc! {"$match": a.clone()}, doc! {"$match": b.clone()}, sort.clone(), doc! {"$limit": 3}],
            vec![matching(doc! {"$and": [a.clone(), b.clone()]}), sort.clone(), doc! {"$limit": 3}],
        ),
        (
            vec![sort.clone(), doc! {"$match": a.clone()}, doc! {"$group": {"_id": "$b"}}],
            vec![doc! {"$match": no_insert()}, sort, doc! {"$match": a.clone()}, doc! {"$group": {"_id": "$b"}}],
        ),
    ];
    for (user, expected) in cases {
        assert_eq!(safe(&user).unwrap(), expected, "{user:?}");
    }
}

/// One stage of each kind, and whether reserved fields have to be taken away before it.
#[test]
fn reserved_fields_are_taken_away_where_they_could_surface() {
    let all = doc! {"$push": "$$ROOT"};
    let cases = [
        (doc! {"$project": {"a": 1}}, false),
        (doc! {"$project": {"a": 0}}, false),
        (doc! {"$project": {"a": "$$ROOT"}}, true),
        (doc! {"$set": {"x": "$a"}}, false),
        (doc! {"$set": {"x": {"$objectToArray": "$$CURRENT"}}}, true),
        (doc! {"$set": {"x": {"$literal": "$$ROOT"}}}, false),
        (doc! {"$group": {"_id": "$a", "n": {"$sum": 1}}}, false),
        (doc! {"$group": {"_id": "$a", "all": all.clone()}}, true),
        (doc! {"$bucketAuto": {"groupBy": "$a", "buckets": 2, "output": {"all": all}}}, true),
        (doc! {"$sortByCount": "$a"}, false),
        (doc! {"$count": "n"}, false),
        (doc! {"$replaceWith": "$d"}, false),
        (doc! {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$$ROOT", {"x": 1}]}}}, true),
        (doc! {"$unwind": "$t"}, false),
        (doc! {"$redact": "$$DESCEND"}, true),
        (doc! {"$match": {"$jsonSchema": {"maxProperties": 2}}}, true),
        (doc! {"$facet": {"all": []}}, true),
        (doc! {"$facet": {"n": [{"$count": "n"}]}}, false),
        (doc! {"$someNewStage": 1}, true),
    ];
    for (stage, taken) in cases {
        let mapped = safe(std::slice::from_ref(&stage)).unwrap();
        let expected = if taken {
            vec![doc! {"$match": no_insert()}, unset(), stage]
        } else {
            vec![doc! {"$match": no_insert()}, stage]
        };
        assert_eq!(mapped, expected);
    }
    // An answer from which the caller does not remove the reserved fields.
    let kept = map_pipeline(Some("c"), &[], &Sources::default(), false).unwrap().stages;
    assert_eq!(kept, [doc! {"$match": no_insert()}, unset()]);
}

#[test]
fn expressions_that_can_fail_are_not_asked_of_pending_inserts() {
    let risky = doc! {"$match": {"$expr": {"$in": [1, "$t"]}}};
    for user in [vec![doc! {"$sort": {"a": 1}}, risky.clone()], vec![doc! {"$set": {"x": 1}}, risky]] {
        let mapped = format!("{:?}", safe(&user).unwrap().last().unwrap());
        assert!(mapped.contains("$_insert"), "{mapped}");
    }
}

#[test]
fn own_view_maps_before_the_filter() {
    let filter = doc! {"a": 1};
    let mut expected = vec![sd2v::view::select(&filter, &[me()])];
    expected.extend(sd2v::view::map(&[me()]));
    expected.extend([doc! {"$match": filter.clone()}, doc! {"$sort": {"a": 1}}, doc! {"$set": {"x": "$$ROOT"}}]);
    let user = [doc! {"$match": filter}, doc! {"$sort": {"a": 1}}, doc! {"$set": {"x": "$$ROOT"}}];
    assert_eq!(own("c", &user).unwrap(), expected);
}

#[test]
fn own_view_of_the_top_sorts_the_safe_versions_by_index() {
    let filter = doc! {"a": 1};
    let id = tx_id_to_bson(me());
    let mut mine = vec![doc! {"$match": {"_xTxId": id.clone(), "_remove": {"$exists": false}}}];
    mine.extend(sd2v::view::map(&[me()]));
    mine.push(doc! {"$match": filter.clone()});
    let sort = doc! {"$sort": {"b": -1}};
    let expected = vec![
        doc! {"$match": {"$and": [filter.clone(), {"_xTxId": {"$ne": id}, "_insert": {"$exists": false}}]}},
        sort.clone(),
        doc! {"$limit": 7_i64},
        unset(),
        doc! {"$unionWith": {"coll": "c", "pipeline": mine}},
        sort.clone(),
        doc! {"$skip": 2_i64},
        doc! {"$limit": 5_i64},
        doc! {"$count": "n"},
    ];
    let user = [doc! {"$match": filter}, sort, doc! {"$skip": 2}, doc! {"$limit": 5}, doc! {"$count": "n"}];
    assert_eq!(own("c", &user).unwrap(), expected);
}

#[test]
fn foreign_collections_are_mapped_where_they_are_read() {
    let by_field = doc! {"from": "f", "localField": "a", "foreignField": "b", "as": "x"};
    let mut expected = by_field.clone();
    expected.insert("pipeline", vec![doc! {"$match": no_insert()}, unset()]);
    // The content of a dotted field, or an array that is taken apart at once, is not cleaned up
    // afterwards.
    let unwind = doc! {"$unwind": "$x"};
    assert_eq!(safe(&[doc! {"$lookup": by_field.clone()}, unwind]).unwrap()[1], doc! {"$lookup": expected});
    let mapped = safe(&[doc! {"$lookup": by_field.clone()}]).unwrap();
    assert_eq!(mapped[1], doc! {"$lookup": by_field});
    let cleaned = mapped[2].get_document("$set").unwrap().get_document("x").unwrap().to_string();
    assert!(RESERVED.iter().all(|name| cleaned.contains(name)), "{cleaned}");

    let inner = doc! {"$unionWith": {"coll": "g", "pipeline": [{"$match": {"a": 1}}, {"$count": "n"}]}};
    let user = doc! {"$facet": {"x": [{"$lookup": {"from": "f", "pipeline": [inner], "as": "y"}}]}};
    let mapped_inner = doc! {"$unionWith": {"coll": "g", "pipeline": [matching(doc! {"a": 1}), {"$count": "n"}]}};
    let lookup =
        doc! {"$lookup": {"from": "f", "pipeline": [{"$match": no_insert()}, unset(), mapped_inner], "as": "y"}};
    assert_eq!(safe(&[user]).unwrap().last().unwrap(), &doc! {"$facet": {"x": [lookup]}});

    let mapped = safe(&[doc! {"$unionWith": "f"}]).unwrap();
    assert_eq!(mapped[1], doc! {"$unionWith": {"coll": "f", "pipeline": [{"$match": no_insert()}, unset()]}});
}

#[test]
fn graph_lookup_searches_no_pending_inserts_and_shows_no_locks() {
    let search = doc! {"from": "f", "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "d.x"};
    let mapped = safe(&[doc! {"$graphLookup": search.clone()}]).unwrap();
    let mut expected = search;
    expected.insert("restrictSearchWithMatch", no_insert());
    let hidden: Vec<String> = RESERVED.iter().map(|name| format!("d.x.{name}")).collect();
    assert_eq!(mapped[1..], [doc! {"$graphLookup": expected}, doc! {"$unset": hidden}]);
}

#[test]
fn lookup_into_own_writes_finds_both_versions_by_field_and_fetches_by_id() {
    let lookup = doc! {"from": "f", "localField": "a", "foreignField": "b", "as": "x"};
    let mapped = own("f", &[doc! {"$lookup": lookup}]).unwrap();
    let names: Vec<&String> = mapped.iter().flat_map(Document::keys).collect();
    assert_eq!(names, ["$match", "$lookup", "$lookup", "$set", "$lookup", "$unset"]);
    assert_eq!(mapped[1].get_document("$lookup").unwrap().get_str("foreignField").unwrap(), "b");
    assert_eq!(mapped[2].get_document("$lookup").unwrap().get_str("foreignField").unwrap(), "_unsafe.b");
    let fetch = mapped[4].get_document("$lookup").unwrap();
    assert_eq!((fetch.get_str("foreignField").unwrap(), fetch.get_str("as").unwrap()), ("_id", "x"));
}

#[test]
fn reads_are_what_a_pipeline_reads() {
    let user = [
        doc! {"$match": {"a": 1}},
        doc! {"$unionWith": {"coll": "f", "pipeline": [{"$match": {"b": 1}}]}},
        doc! {"$lookup": {"from": "g", "let": {"v": "$a"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$b", "$$v"]}}}], "as": "x"}},
        doc! {"$unionWith": {"coll": "h", "pipeline": [{"$match": {"b": 1}}]}},
        doc! {"$unionWith": {"coll": "h", "pipeline": [{"$match": {"b": 2}}]}},
    ];
    let mapped = map_pipeline(Some("c"), &user, &Sources::default(), true).unwrap();
    let read = |collection: &str, filter| Read { collection: collection.to_owned(), filter };
    let expected = [read("c", doc! {"a": 1}), read("f", doc! {"b": 1}), read("g", doc! {}), read("h", doc! {})];
    assert_eq!(mapped.reads, expected);
    assert!(mapped.stands_in_union);
    let stats = map_pipeline(Some("c"), &[doc! {"$collStats": {}}], &Sources::default(), true).unwrap();
    assert!(stats.reads.is_empty() && !stats.stands_in_union);
}

#[test]
fn refusals_name_what_they_refuse() {
    let search = doc! {"from": "f", "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "x"};
    let near = doc! {"near": [0, 0], "distanceField": "d"};
    let cases = [
        (own("f", &[doc! {"$graphLookup": search}]), "$graphLookup"),
        (own("c", &[doc! {"$geoNear": near}]), "$geoNear"),
        (own("c", &[doc! {"$match": {"$text": {"$search": "a"}}}]), "$text"),
        (safe(&[doc! {"$changeStream": {}}]), "$changeStream"),
        (safe(&[doc! {"$new": {"from": "f"}}]), "$new"),
        (safe(&[doc! {"$match": {"$where": "1"}}]), "$where"),
        (safe(&[doc! {"$group": {"_id": 1, "_insert": {"$sum": 1}}}]), "_insert"),
        (safe(&[doc! {"$replaceWith": {"_insert": 1}}]), "_insert"),
        (safe(&[doc! {"$replaceRoot": {"newRoot": {"_remove": "$a"}}}]), "_remove"),
        (safe(&[doc! {"$replaceRoot": {"newRoot": "$_unsafe"}}]), "_unsafe"),
        (safe(&[doc! {"$set": {"x": "$_unsafe.a"}}]), "_unsafe"),
        (safe(&[doc! {"$sort": {"_xTxId": 1}}]), "_xTxId"),
        (safe(&[doc! {"$lookup": {"from": "f", "pipeline": [{"$unset": "_remove"}], "as": "x"}}]), "_remove"),
        (safe(&[doc! {"$a": 1, "$b": 1}]), "exactly one field"),
        (safe(&[doc! {"$out": "x"}, doc! {"$limit": 1}]), "$out"),
    ];
    for (result, name) in cases {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(name), "{name}: {message}");
    }
}

#[test]
fn text_and_near_search_safe_versions() {
    let text = doc! {"$text": {"$search": "a"}};
    assert_eq!(safe(&[doc! {"$match": text.clone()}]).unwrap(), [matching(text)]);
    let near = doc! {"near": [0, 0], "distanceField": "d", "query": {"a": 1}};
    let mapped = safe(&[doc! {"$geoNear": near}]).unwrap();
    let query = mapped[0].get_document("$geoNear").unwrap().get_document("query").unwrap();
    assert_eq!(query, &doc! {"$and": [no_insert(), {"a": 1}]});
}

#[test]
fn near_of_own_writes_takes_the_field_that_it_is_given() {
    let near = [doc! {"$geoNear": {"near": [0, 0], "distanceField": "d"}}, doc! {"$limit": 2}];
    let asked = map_pipeline(Some("c"), &near, &Sources::default(), true).unwrap();
    assert_eq!(asked.without_geo_field, BTreeSet::from(["c".to_owned()]));
    let geo_fields = BTreeMap::from([("c".to_owned(), "p".to_owned())]);
    let written = BTreeSet::from(["c".to_owned()]);
    let sources = Sources { me: Some(me()), written, geo_fields, ..Sources::default() };
    let mapped = map_pipeline(Some("c"), &near, &sources, true).unwrap();
    assert!(mapped.without_geo_field.is_empty());
    assert!(mapped.stages[0].to_string().contains(r#""key": "p""#));
    let both = mapped.stages.iter().position(|stage| stage.contains_key("$unionWith")).unwrap();
    assert!(mapped.stages[both].to_string().contains(r#""key": "_unsafe.p""#));
    assert_eq!(
        mapped.stages[both + 1..],
        [doc! {"$sort": {"_unsafe": 1}}, doc! {"$unset": "_unsafe"}, doc! {"$limit": 2}]
    );
    let lookup = [doc! {"$lookup": {"from": "c", "pipeline": near.to_vec(), "as": "x"}}];
    let refused = map_pipeline(Some("e"), &lookup, &sources, true).unwrap_err().to_string();
    assert!(refused.contains("$geoNear"), "{refused}");
}

#[test]
fn views_are_replaced_by_what_they_are_on() {
    let view = |on: &str, stages: Vec<Document>| View { on: on.to_owned(), stages };
    let (one, two) = (doc! {"$match": {"a": 1}}, doc! {"$set": {"b": 1}});
    let views = BTreeMap::from([
        ("v".to_owned(), view("c", vec![one.clone()])),
        ("w".to_owned(), view("v", vec![two.clone()])),
        ("loop".to_owned(), view("loop", vec![])),
    ]);
    let expand = |main: &str, user: &[Document]| expand_views(Some(main), user, &views);
    let (base, stages) = expand("w", &[doc! {"$count": "n"}]).unwrap();
    assert_eq!((base.as_deref(), stages), (Some("c"), vec![one.clone(), two.clone(), doc! {"$count": "n"}]));
    let (_, stages) = expand("x", &[doc! {"$unionWith": "w"}]).unwrap();
    assert_eq!(stages, [doc! {"$unionWith": {"coll": "c", "pipeline": [one.clone(), two]}}]);
    let by_field = |from: &str| doc! {"$lookup": {"from": from, "localField": "a", "foreignField": "b", "as": "x"}};
    let (_, stages) = expand("x", &[by_field("v")]).unwrap();
    assert_eq!(stages[0].get_document("$lookup").unwrap().get_array("pipeline").unwrap(), &vec![one.into()]);
    assert!(expand("x", &[by_field("w")]).unwrap_err().to_string().contains("localField into a view"));
    assert!(matches!(expand("loop", &[]), Err(Error::Invalid { code: 165, .. })));
}

#[test]
fn output_is_taken_off_the_end() {
    let count = doc! {"$count": "n"};
    let user =
        [count.clone(), doc! {"$merge": {"into": {"db": "d", "coll": "t"}, "on": ["a", "b"], "whenMatched": "fail"}}];
    let (before, output) = split_output(&user).unwrap();
    assert_eq!(before, [count]);
    let Some(Output::Merge(merge)) = output else { panic!("{output:?}") };
    assert_eq!((merge.db.as_deref(), merge.collection.as_str(), merge.on.len()), (Some("d"), "t", 2));
    assert_eq!((merge.when_matched, merge.when_not_matched), (WhenMatched::Fail, WhenNotMatched::Insert));
    for wrong in [doc! {"into": 1}, doc! {"into": "t", "on": 1}, doc! {"into": "t", "whenMatched": "x"}] {
        assert!(matches!(split_output(&[doc! {"$merge": wrong}]), Err(Error::Invalid { .. })));
    }
}
