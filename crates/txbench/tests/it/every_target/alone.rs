//! Operations outside a transaction, and the commands that are counted.

use bson::doc;
use txbench::{
    error::OpError,
    targets::{Feature, Find},
};

use crate::every_target::rig::{DOCS, Rig, all, entries, increment, values};

#[tokio::test]
async fn what_is_loaded_is_found() {
    for entry in entries(&[]) {
        let rig = Rig::with(entry, 200).await;
        let found = all(&rig).await;
        assert_eq!(found.len(), 200, "{}", rig.traits.name);
        assert_eq!(found[7], doc! {"_id": 7, "n": 0, "group": 1}, "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn an_operation_outside_a_transaction_is_done_when_it_is_answered() {
    for entry in entries(&[Feature::Insert]) {
        let rig = Rig::with(entry, 3).await;
        let mut session = rig.session().await;
        assert!(session.update(DOCS, increment(0, 2)).await.unwrap(), "{}", rig.traits.name);
        assert!(session.delete(DOCS, doc! {"_id": 1}).await.unwrap(), "{}", rig.traits.name);
        session.insert(DOCS, vec![doc! {"_id": 5, "n": 9}, doc! {"_id": 6, "n": 8}]).await.unwrap();
        assert_eq!(values(&rig).await, [2, 0, 9, 8], "{}", rig.traits.name);
        let refused = session.insert(DOCS, vec![doc! {"_id": 5}]).await;
        assert!(matches!(refused, Err(OpError::Duplicate)), "{}: {refused:?}", rig.traits.name);
        assert_eq!(session.update_each(DOCS, vec![increment(5, 1), increment(6, 1)]).await.unwrap(), 2);
        assert_eq!(values(&rig).await, [2, 0, 10, 9], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn commands_are_counted_by_name() {
    for entry in entries(&[]) {
        let rig = Rig::with(entry, 3).await;
        let finds = |rig: &Rig| {
            let commands = rig.target.commands();
            ["find", "aggregate", "get"].iter().filter_map(|name| commands.get(*name)).sum::<u64>()
        };
        let before = finds(&rig);
        let mut session = rig.session().await;
        for _ in 0..5 {
            session.find_one(DOCS, Find::new(doc! {"_id": 1})).await.unwrap();
        }
        assert_eq!(finds(&rig) - before, 5, "{}", rig.traits.name);
        rig.end().await;
    }
}
