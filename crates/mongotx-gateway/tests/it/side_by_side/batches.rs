//! The batches of a cursor, at both: which documents are in which, and when the cursor is closed.

use bson::{Document, doc};

use crate::{
    common::commands::{Session, code, cursor_id, documents},
    side_by_side::pair::Pair,
};

/// A `getMore`.
fn more(id: i64, size: Option<i32>) -> Document {
    let mut more = doc! {"getMore": id, "collection": "c"};
    more.extend(size.map(|size| ("batchSize".to_owned(), size.into())));
    more
}

/// The first command and a `getMore` of each size until the cursor is closed; the last size is
/// repeated. Answers all documents.
async fn same_batches(pair: &mut Pair, first: &Document, sizes: &[Option<i32>]) -> Vec<Document> {
    let (mut ours, mut theirs) = pair.answers(first.clone(), first.clone()).await;
    let (mut all, mut name, mut turn) = (Vec::new(), "firstBatch", 0);
    loop {
        let batch = documents(&ours, name);
        assert_eq!(batch, documents(&theirs, name), "{first}, {sizes:?}: batch {turn}");
        all.extend(batch);
        let ids = (cursor_id(&ours), cursor_id(&theirs));
        assert_eq!(ids.0 == 0, ids.1 == 0, "{first}, {sizes:?}: is batch {turn} the last one?");
        if ids.0 == 0 {
            return all;
        }
        let size = sizes.get(turn).or(sizes.last()).copied().flatten();
        (ours, theirs) = pair.answers(more(ids.0, size), more(ids.1, size)).await;
        (name, turn) = ("nextBatch", turn + 1);
    }
}

fn numbered(ids: std::ops::Range<i32>) -> Document {
    let documents: Vec<Document> = ids.map(|n| doc! {"_id": n, "a": n % 2, "of": {"_unsafe": n}}).collect();
    doc! {"insert": "c", "documents": documents}
}

fn openings(size: i32) -> [Document; 5] {
    [
        doc! {"find": "c", "sort": {"_id": 1}, "batchSize": size},
        doc! {"find": "c", "sort": {"_id": 1}, "batchSize": size, "limit": 9, "skip": 2},
        doc! {"find": "c", "sort": {"_id": 1}, "batchSize": size, "filter": {"a": 1}, "projection": {"a": 0}},
        doc! {"aggregate": "c", "pipeline": [{"$sort": {"_id": -1}}], "cursor": {"batchSize": size}},
        doc! {"find": "c", "sort": {"_id": 1}},
    ]
}

const SIZES: [&[Option<i32>]; 6] =
    [&[None], &[Some(3)], &[Some(3), None], &[None, Some(3)], &[Some(1), Some(50), None], &[Some(200)]];

#[tokio::test]
async fn batches_are_cut_the_same() {
    let mut pair = Pair::start("cmp_batches").await;
    pair.same(doc! {"create": "c"}).await;
    for count in [0, 1, 4, 9, 101, 250] {
        pair.same(doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}).await;
        if count > 0 {
            pair.same(numbered(0..count)).await;
        }
        for size in [0, 1, 4, 101] {
            for first in openings(size) {
                for sizes in SIZES {
                    same_batches(&mut pair, &first, sizes).await;
                }
            }
        }
    }
}

/// Of documents of 7 MiB two are in a batch of 16 MiB, and of 9 MiB one is.
#[tokio::test]
async fn large_batches_are_cut_the_same() {
    for mib in [7, 9] {
        same_large_batches(mib).await;
    }
}

async fn same_large_batches(mib: usize) {
    let mut pair = Pair::start("cmp_large_batches").await;
    for n in 0..5 {
        pair.same(doc! {"insert": "c", "documents": [{"_id": n, "text": "x".repeat(mib * 1024 * 1024)}]}).await;
    }
    for sizes in [&[None][..], &[Some(2)], &[Some(1), None]] {
        for first in [doc! {"find": "c", "sort": {"_id": 1}}, doc! {"find": "c", "sort": {"_id": 1}, "batchSize": 1}] {
            assert_eq!(same_batches(&mut pair, &first, sizes).await.len(), 5);
        }
    }
}

/// Transactions hold documents of the first batch, and of those that the server sends later: all
/// batches show the committed versions, and nothing of what is MongoTx's.
#[tokio::test]
async fn batches_show_nothing_of_open_transactions() {
    let mut pair = Pair::start("cmp_held_batches").await;
    pair.same(numbered(0..220)).await;
    let session = Session::new();
    let change = doc! {"update": "c", "updates": [
        {"q": {"_id": 3}, "u": {"$set": {"a": 9}}}, {"q": {"_id": 12}, "u": {"$inc": {"a": 2}}},
        {"q": {"_id": 150}, "u": {"$set": {"a": 9}}},
    ]};
    pair.same(session.first(change)).await;
    pair.same(session.next(doc! {"delete": "c", "deletes": [{"q": {"_id": 7}, "limit": 1}]})).await;
    pair.same(session.next(numbered(220..222))).await;
    let all = doc! {"find": "c", "sort": {"_id": 1}};
    let by_name = doc! {"find": "c", "sort": {"_id": 1}, "filter": {"_id": {"$in": [2, 3, 7, 150]}}};
    for sizes in SIZES {
        for first in openings(4).into_iter().chain(openings(1)).chain([by_name.clone()]) {
            let shown = same_batches(&mut pair, &first, sizes).await;
            assert!(shown.iter().all(|one| !one.contains_key("_xTxId") && !one.contains_key("_unsafe")), "{shown:?}");
        }
    }
    assert_eq!(same_batches(&mut pair, &all, &[None]).await.len(), 220);
    pair.same(session.commit()).await;
    let shown = same_batches(&mut pair, &all, &[Some(3)]).await;
    assert_eq!((shown.len(), shown[3].get_i32("a").ok()), (221, Some(9)));
    assert_eq!(same_batches(&mut pair, &by_name, &[None]).await.len(), 3);
}

/// A document that is locked after the first batch comes with the next one, as it was. (The server
/// reads 4 MB of a pipeline's documents ahead: all together are more.)
#[tokio::test]
async fn batches_show_nothing_of_what_is_locked_while_they_are_read() {
    let mut pair = Pair::start("cmp_locked_batches").await;
    let stored = |n: i32| doc! {"_id": n, "a": n % 2, "text": "x".repeat(60_000)};
    pair.same(doc! {"insert": "c", "documents": (0..220).map(stored).collect::<Vec<_>>()}).await;
    for (turn, size) in [None, Some(200), Some(119)].into_iter().enumerate() {
        let find = doc! {"find": "c", "sort": {"_id": 1}};
        let (ours, theirs) = pair.answers(find.clone(), find).await;
        assert_eq!((documents(&ours, "firstBatch").len(), documents(&theirs, "firstBatch").len()), (101, 101));
        let (session, id) = (Session::new(), 210 + turn as i32);
        let change = doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$set": {"a": 9}}}]};
        pair.same(session.first(change)).await;
        let (ours, theirs) = pair.answers(more(cursor_id(&ours), size), more(cursor_id(&theirs), size)).await;
        let shown = documents(&ours, "nextBatch");
        assert!(shown.len() == 119 && shown == documents(&theirs, "nextBatch"), "{size:?}: {}", shown.len());
        assert!(shown[id as usize - 101] == stored(id));
        pair.same(session.abort()).await;
    }
}

/// The values of a view take more than an answer may.
#[tokio::test]
async fn distinct_values_are_bounded() {
    let mut pair = Pair::start("bounded_distinct").await;
    for from in [0, 10_000] {
        let documents: Vec<Document> =
            (from..from + 10_000).map(|n: i32| doc! {"_id": n, "v": format!("{n:01000}")}).collect();
        pair.same(doc! {"insert": "c", "documents": documents}).await;
    }
    pair.same(doc! {"create": "v", "viewOn": "c", "pipeline": []}).await;
    let distinct = || doc! {"distinct": "v", "key": "v"};
    let (ours, theirs) = pair.answers(distinct(), distinct()).await;
    assert_eq!((code(&ours), code(&theirs)), (10_334, 10_334));
}
