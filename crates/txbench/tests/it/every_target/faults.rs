//! Targets that are broken on purpose fail the checks that the others pass.

use local_mongod::shared_standalone;
use txbench::targets::registry::{Entry, HIDDEN};

use crate::common::bench;
use crate::every_target::{
    concurrent::transfers,
    rig::{DOCS, Rig, begin, increment, values},
};

fn faulty(name: &str) -> &'static Entry {
    HIDDEN.iter().find(|entry| entry.traits.name == name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lost_and_repeated_writes_change_what_transfers_leave() {
    for name in ["faulty-lost", "faulty-twice"] {
        let (found, expected) = transfers(faulty(name)).await;
        assert_ne!(found, expected, "{name}");
        assert_ne!(found.iter().sum::<i32>(), 0, "{name}");
    }
}

#[tokio::test]
async fn what_was_rolled_back_is_still_there() {
    let rig = Rig::with(faulty("faulty-kept"), 2).await;
    let mut session = rig.session().await;
    begin(&mut *session).await;
    session.update(DOCS, increment(0, 5)).await.unwrap();
    session.rollback().await.unwrap();
    assert_eq!(values(&rig).await, [5, 0]);
    rig.end().await;
}

#[tokio::test]
async fn a_run_on_a_broken_target_is_reported_as_broken() {
    let uri = shared_standalone().await.unwrap().uri();
    // One transaction is enough for two of its updates to be hit.
    let line = format!(
        "hot-spot --documents 20 --writes 20 --targets faulty-lost,faulty-twice --clients 1 --rounds 1 --seconds 1 \
         --warm-up 0 --uri {uri}"
    );
    let result = bench(&line).await.unwrap();
    assert_eq!(result.runs.len(), 2);
    for run in &result.runs {
        assert!(
            run.broken.as_ref().is_some_and(|what| what.contains("acknowledged were")),
            "{}: {:?}",
            run.target,
            run.broken
        );
    }
}
