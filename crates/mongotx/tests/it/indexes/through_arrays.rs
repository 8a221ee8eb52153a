//! Unique indexes on paths through arrays: of each pair of many documents, the query for rivals
//! finds the first for the second exactly if the server refuses the second beside the first.

use std::collections::HashSet;

use bson::{Bson, Document, bson, doc};
use futures_util::TryStreamExt;
use mongotx::IndexModel;
use sd2v::index::Unique;

use super::{Place, assert_duplicate};

/// Values of a field through which a path leads.
fn values() -> Vec<Bson> {
    let documents = [
        bson!({}),
        bson!({"b": 1}),
        bson!({"b": null}),
        bson!({"c": 1}),
        bson!({"b": []}),
        bson!({"b": [1]}),
        bson!({"b": [[2]]}),
        bson!({"b": {"c": 1}}),
        bson!({"b": [{"c": 1}, {}]}),
        bson!({"b": [5]}),
        bson!({"b": [{"c": []}]}),
        bson!({"b": 1, "c": 2}),
        bson!({"b": 2, "c": 1}),
    ];
    let pairs = [
        bson!([{"b": 1}, 5]),
        bson!([{"b": 1}, {"c": 2}]),
        bson!([{"b": 1, "c": 1}, {"b": 2, "c": 2}]),
        bson!([{"b": 1, "c": 2}, {"b": 2, "c": 1}]),
        bson!([{"b": {"c": 2}}, {"b": [{"c": 1}]}]),
    ];
    let alone = [Bson::Null, 1.into(), bson!([]), bson!([1]), bson!([null]), bson!([[]]), bson!([[1]])];
    let nested = documents.clone().map(|document| bson!([document]));
    documents.into_iter().chain(pairs).chain(alone).chain(nested).collect()
}

fn all() -> Vec<Document> {
    let with = values().into_iter().map(|value| doc! {"a": value});
    [doc! {}].into_iter().chain(with).collect()
}

/// The pairs of which a plain server refuses the second document beside the first. (All pairs are
/// in one collection: the index begins with their number.)
async fn refused(db: &mongodb::Database, key: &Document, documents: &[Document]) -> HashSet<(usize, usize)> {
    let coll = db.collection::<Document>("pairs");
    coll.drop().await.unwrap();
    let mut numbered = doc! {"pair": 1};
    numbered.extend(key.clone());
    let options = mongodb::options::IndexOptions::builder().unique(true).build();
    coll.create_index(mongodb::IndexModel::builder().keys(numbered).options(options).build()).await.unwrap();
    let pairs: Vec<(usize, usize)> = (0..documents.len())
        .flat_map(|first| (0..documents.len()).map(move |second| (first, second)))
        .filter(|(first, second)| first != second)
        .collect();
    let of_pair = |(number, (first, second)): (usize, &(usize, usize))| {
        [first, second].map(|place| {
            let mut document = doc! {"pair": number as i64};
            document.extend(documents[*place].clone());
            document
        })
    };
    let stored: Vec<Document> = pairs.iter().enumerate().flat_map(of_pair).collect();
    let mut refused = HashSet::new();
    let mongodb::error::ErrorKind::InsertMany(errors) =
        *coll.insert_many(stored).ordered(false).await.unwrap_err().kind
    else {
        panic!("nothing is refused")
    };
    for error in errors.write_errors.unwrap() {
        assert_eq!(error.code, 11_000, "{error:?}");
        assert_eq!(error.index % 2, 1, "a document is refused beside nothing: {error:?}");
        refused.insert(pairs[error.index / 2]);
    }
    refused
}

/// The pairs of which the query for rivals of the second finds the first.
async fn found(db: &mongodb::Database, key: &Document, documents: &[Document]) -> HashSet<(usize, usize)> {
    let unique = Unique { name: "u".to_owned(), key: key.clone(), collation: None, partial: None, sparse: false };
    let coll = db.collection::<Document>("alone");
    coll.drop().await.unwrap();
    let numbered = documents.iter().enumerate().map(|(place, document)| {
        let mut numbered = doc! {"_id": place as i64};
        numbered.extend(document.clone());
        numbered
    });
    coll.insert_many(numbered).await.unwrap();
    let mut found = HashSet::new();
    for (second, document) in documents.iter().enumerate() {
        let rivals: Vec<Document> =
            coll.find(unique.rivals_of(document).unwrap()).await.unwrap().try_collect().await.unwrap();
        let firsts = rivals.iter().map(|rival| rival.get_i64("_id").unwrap() as usize);
        found.extend(firsts.filter(|first| *first != second).map(|first| (first, second)));
        // What is asked for several documents together finds no less.
        let together = doc! {"$or": unique.rivals_of_any(&[document])};
        let least = coll.count_documents(together).await.unwrap();
        assert!(least >= rivals.len() as u64, "{key}: {document}");
    }
    found
}

#[tokio::test]
async fn query_for_rivals_finds_what_the_server_refuses() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let db = server.client().await.unwrap().database(&local_mongod::unique_db("through_arrays"));
    let all = all();
    for key in [
        doc! {"a": 1},
        doc! {"a.b": 1},
        doc! {"a.b.c": 1},
        doc! {"a.b": 1, "a.c": 1},
        doc! {"a.b.c": 1, "a.c": 1},
        doc! {"a.b": 1, "z": 1},
    ] {
        // An index of two paths refuses a document with two arrays.
        let coll = db.collection::<Document>("possible");
        coll.drop().await.unwrap();
        coll.create_index(mongodb::IndexModel::builder().keys(key.clone()).build()).await.unwrap();
        let mut documents = Vec::new();
        for document in &all {
            if coll.insert_one(document).await.is_ok() {
                documents.push(document.clone());
            }
        }
        let (refused, found) = (refused(&db, &key, &documents).await, found(&db, &key, &documents).await);
        if let Some((first, second)) = refused.symmetric_difference(&found).next() {
            let is_refused = refused.contains(&(*first, *second));
            panic!("{key}: {} beside {}: refused: {is_refused}", documents[*second], documents[*first]);
        }
        assert!(refused.len() > documents.len(), "{key}: {}", refused.len());
    }
    db.drop().await.unwrap();
}

#[tokio::test]
async fn null_of_an_empty_array_is_a_duplicate() {
    let place = Place::new("null_of_an_array").await;
    place.coll.create_index(IndexModel::new(doc! {"a.b": 1}).unique(true)).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 1, "a": []}).await.unwrap();
    // Pending, it would be the mirrored index that judges.
    assert_eq!(place.stored().await.len(), 1);
    for second in [doc! {"_id": 2, "a": []}, doc! {"_id": 2}, doc! {"_id": 2, "a": [{"b": 1}, 5]}] {
        let mut session = place.begin();
        let error = place.coll.insert_one(&second).session(&mut session).await.unwrap_err();
        assert_eq!(error.code(), Some(11_000), "{second}: {error}");
        session.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn values_of_two_elements_are_no_key() {
    let place = Place::new("values_of_two_elements").await;
    place.coll.create_index(IndexModel::new(doc! {"x.a": 1, "x.b": 1}).unique(true)).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 1, "x": [{"a": 1, "b": 9}, {"a": 7, "b": 2}]}).await.unwrap();
    // Pending, it would be the mirrored index that judges.
    assert_eq!(place.stored().await.len(), 1);
    let mut session = place.begin();
    place.coll.insert_one(&doc! {"_id": 2, "x": [{"a": 1, "b": 2}]}).session(&mut session).await.unwrap();
    let taken = doc! {"_id": 3, "x": {"a": 7, "b": 2}};
    let error = place.coll.insert_one(&taken).session(&mut session).await.unwrap_err();
    assert_duplicate(&error, doc! {"x.a": 1, "x.b": 1}, doc! {"x.a": 7, "x.b": 2});
    session.commit().await.unwrap();
    assert_eq!(place.stored().await.len(), 2);
}
