//! Statistics of collections, at both: with the indexes that the application has made, and no
//! others.

use bson::{Bson, Document, doc};

use crate::side_by_side::pair::Pair;

/// The names that a reply shows: the fields of these documents in it, and what counts them.
fn names(reply: &Document) -> Vec<String> {
    let listed = ["indexSizes", "indexDetails", "keysPerIndex"].into_iter();
    let listed = listed.filter_map(|field| reply.get_document(field).ok());
    let mut names: Vec<String> = listed.flat_map(Document::keys).cloned().collect();
    names.sort();
    let counts = ["nindexes", "nIndexes"].into_iter().filter_map(|field| reply.get(field));
    names.extend(counts.map(Bson::to_string));
    names
}

#[tokio::test]
async fn statistics_name_the_indexes_of_the_application() {
    let mut pair = Pair::start("cmp_statistics").await;
    let indexes = vec![
        doc! {"key": {"k": 1}, "name": "k_1", "unique": true},
        doc! {"key": {"a": 1, "b": -1}, "name": "a_1_b_-1"},
        doc! {"key": {"c": 1, "d": 1}, "name": "both", "unique": true, "sparse": true},
    ];
    pair.same(doc! {"createIndexes": "c", "indexes": indexes}).await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1, "k": 1}, {"_id": 2, "k": 2}]}).await;
    for command in [doc! {"collStats": "c"}, doc! {"validate": "c"}] {
        let (ours, theirs) = pair.ask(command.clone()).await;
        assert!(names(&theirs).len() >= 2 * 4, "{theirs}");
        assert_eq!(names(&ours), names(&theirs), "{command}");
    }
    let shown = doc! {"name": 1, "key": 1, "spec.key": 1, "spec.name": 1, "spec.unique": 1};
    let stages = [doc! {"$indexStats": {}}, doc! {"$project": shown}, doc! {"$sort": {"name": 1}}];
    pair.same(doc! {"aggregate": "c", "pipeline": stages.to_vec(), "cursor": {}}).await;
}
