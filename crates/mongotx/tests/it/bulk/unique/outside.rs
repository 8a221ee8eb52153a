//! Bulks outside transactions that change keys: each is one transaction of its own.

use bson::{Bson, doc};
use mongotx::{ClientOptions, PartialBulkResult, Step, WriteModel};

use super::{super::LONG, each, keyed, keys, place, set, upsert};
use crate::quiet;

/// Outside transactions: one transaction of all, in which each is refused or done as it is alone.
#[tokio::test]
async fn writes_outside_are_one_transaction() {
    let (client, coll, _) = place(10).await;
    let told = |first: &PartialBulkResult| -> Vec<(usize, Option<i32>)> {
        first.not_done.iter().map(|(place, error)| (*place, error.as_ref().and_then(mongotx::Error::code))).collect()
    };
    let sent = quiet::commands_of(&client, async {
        let all: Vec<WriteModel> = (1..=10).map(|id| set(id, 10 * id + 1)).collect();
        let first = coll.write_first(&all, true).await.unwrap();
        assert_eq!((first.taken, first.result.modified_count, first.not_done.len()), (10, 10, 0));
        assert!(client.flush(LONG).await);
    });
    // The statements, the decision, the finishing, and what keeps the record short.
    let sent = sent.await.values().sum::<u64>();
    assert!(sent <= 6, "{sent}");
    for ordered in [true, false] {
        let (base, all) = (if ordered { 100 } else { 200 }, |base: i32| {
            vec![upsert(base, base), upsert(base + 1, 21), upsert(base + 2, base + 2), upsert(1, base + 3)]
        });
        let first = coll.write_first(&all(base), ordered).await.unwrap();
        assert_eq!((first.taken, told(&first)), (if ordered { 2 } else { 4 }, vec![(1, Some(11_000))]));
        let ids: Vec<(usize, Bson)> = first.result.upserted_ids.clone();
        let expected = if ordered { vec![(0, base.into())] } else { vec![(0, base.into()), (2, (base + 2).into())] };
        assert_eq!((ids, first.result.matched_count), (expected, u64::from(!ordered)));
    }
    // A rival is in the way: nothing is done, and none is taken.
    let other = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&other, &coll);
    let mut rival = other.session();
    rival.begin().unwrap();
    theirs.update_one(doc! {"_id": 5}, doc! {"$set": {"n": 1}}).session(&mut rival).await.unwrap();
    let before = coll.find_one(doc! {"_id": 4}).await.unwrap();
    let first = coll.write_first(&[set(4, 400), set(5, 500)], true).await.unwrap();
    assert_eq!((first.taken, first.not_done.len(), first.failed.is_none()), (0, 0, true));
    assert_eq!(client.metrics().waits, 0, "it holds what others may want");
    rival.rollback().await.unwrap();
    assert!(client.flush(LONG).await);
    assert_eq!(coll.find_one(doc! {"_id": 4}).await.unwrap(), before);
}

/// The future of such writes is dropped at every step: all of them are done in the end or none, and
/// nothing stays locked.
#[tokio::test]
async fn writes_outside_that_are_dropped_are_done_as_a_whole_or_not_at_all() {
    for step in [Step::BeforeLock, Step::AfterLock, Step::BeforeDecision, Step::AfterDecision, Step::BeforeFinish] {
        let gate = quiet::Gate::before(&[step]);
        let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
        let coll = keyed(&client, 4).await;
        gate.shut();
        let all = [set(1, 11), set(2, 10), set(3, 31), upsert(7, 70)];
        tokio::select! {
            first = coll.write_first(&all, true) => assert_eq!((step, first.unwrap().taken), (Step::BeforeFinish, 4)),
            () = gate.until_held() => {}
        }
        gate.open();
        let done = [(1, 11), (2, 10), (3, 31), (4, 40), (7, 70)];
        let begun = std::time::Instant::now();
        loop {
            let found = keys(&client, &coll).await;
            let is_done = matches!(step, Step::BeforeDecision | Step::AfterDecision | Step::BeforeFinish);
            if found == done || !is_done && found == each(4, |id| 10 * id) {
                break;
            }
            // The commit that was requested is decided a moment later.
            assert!(begun.elapsed() < LONG, "{step:?}: {found:?}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        for id in 1..=4 {
            coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": 1}}).await.unwrap();
        }
        client.shutdown().await.unwrap();
    }
}
