//! The kinds of reads that the tests of validation run.

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use mongotx::{Collection, Result, Session};

/// Documents that are read, changed and written to: `{_id, k, n}` with `k = 10 _id`, of which `n`
/// is 1 for all but the last two.
pub(crate) fn documents() -> Vec<Document> {
    (1..=8).map(|id| doc! {"_id": id, "k": id * 10, "n": if id > 6 { 2 } else { 1 }}).collect()
}

type Run = for<'a> fn(&'a Collection<Document>, &'a mut Session) -> BoxFuture<'a, Result<()>>;

/// A read of the documents 2 to 6, as it were: those with `n: 1` and `k` above 15.
pub(crate) struct Read {
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    /// True if it shows every document in the range.
    pub(crate) shows_range: bool,
}

fn range() -> Document {
    doc! {"n": 1, "k": {"$gt": 15}}
}

macro_rules! read {
    ($name:literal, $shows:literal, |$coll:ident, $session:ident| $run:expr) => {
        Read {
            name: $name,
            run: |$coll, $session| {
                Box::pin(async move {
                    $run;
                    Ok(())
                })
            },
            shows_range: $shows,
        }
    };
}

pub(crate) fn all() -> Vec<Read> {
    vec![
        read!("find", true, |coll, session| coll.find(range()).session(session).await?.try_collect().await?),
        read!("find, sorted", true, |coll, session| {
            coll.find(range()).sort(doc! {"k": -1}).session(session).await?.try_collect().await?
        }),
        read!("find, projected", true, |coll, session| {
            let shown = doc! {"_id": 0, "n": 1, "k": 1};
            coll.find(range()).projection(shown).session(session).await?.try_collect().await?
        }),
        read!("find, the first four", true, |coll, session| {
            coll.find(range()).sort(doc! {"k": 1}).limit(6).session(session).await?.try_collect().await?
        }),
        read!("find_one, by its _id", false, |coll, session| coll.find_one(doc! {"_id": 3}).session(session).await?),
        read!("find, by _ids", false, |coll, session| {
            coll.find(doc! {"_id": {"$in": [3, 4]}}).session(session).await?.try_collect().await?
        }),
        read!("count", true, |coll, session| coll.count_documents(range()).session(session).await?),
        read!("distinct", true, |coll, session| coll.distinct("k", range()).session(session).await?),
        read!("aggregate", true, |coll, session| {
            let sum = [doc! {"$match": range()}, doc! {"$group": {"_id": 1, "k": {"$sum": "$k"}}}];
            coll.aggregate(sum).session(session).await?.try_collect().await?
        }),
        read!("aggregate, by $lookup", true, |coll, session| {
            let name = coll.namespace().coll.clone();
            let joined = doc! {"$lookup": {"from": name, "pipeline": [{"$match": range()}], "as": "others"}};
            coll.aggregate([doc! {"$match": {"_id": 1}}, joined]).session(session).await?.try_collect().await?
        }),
        read!("update_many that changes nothing", true, |coll, session| {
            coll.update_many(doc! {"n": 1, "k": {"$gt": 1_000}}, doc! {"$set": {"z": 1}}).session(session).await?
        }),
        read!("delete_one that finds nothing", true, |coll, session| {
            coll.delete_one(doc! {"n": 1, "k": 35}).session(session).await?
        }),
    ]
}
