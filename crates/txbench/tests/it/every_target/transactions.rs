//! Several operations that happen all or not at all.

use bson::{Document, doc};
use txbench::{
    error::OpError,
    targets::{Acknowledged, Change, Durability, Feature, Find, Isolation, Session, TxOptions, Update},
};

use crate::every_target::rig::{DOCS, Rig, all, begin, entries, increment, is_conflict, transactional, values};

#[tokio::test]
async fn a_commit_shows_all_of_it() {
    for entry in entries(&[]) {
        let rig = Rig::with(entry, 3).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        assert!(session.update(DOCS, increment(0, 5)).await.unwrap());
        assert!(session.update(DOCS, increment(1, 7)).await.unwrap());
        session.commit().await.unwrap();
        assert_eq!(values(&rig).await, [5, 7, 0], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn nothing_is_seen_before_the_commit() {
    for entry in transactional(&[]) {
        let rig = Rig::with(entry, 2).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        session.update(DOCS, increment(0, 5)).await.unwrap();
        assert_eq!(values(&rig).await, [0, 0], "{}", rig.traits.name);
        session.commit().await.unwrap();
        assert_eq!(values(&rig).await, [5, 0], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_rollback_leaves_nothing() {
    for entry in transactional(&[Feature::Insert]) {
        let rig = Rig::with(entry, 3).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        session.update(DOCS, increment(0, 5)).await.unwrap();
        session.insert(DOCS, vec![doc! {"_id": 7, "n": 1}]).await.unwrap();
        assert!(session.delete(DOCS, doc! {"_id": 2}).await.unwrap());
        session.rollback().await.unwrap();
        session.rollback().await.unwrap();
        assert_eq!(values(&rig).await, [0, 0, 0], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_transaction_sees_its_own_writes() {
    for entry in transactional(&[Feature::OwnWrites, Feature::Insert, Feature::Query]) {
        let rig = Rig::with(entry, 4).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        session.update(DOCS, increment(0, 5)).await.unwrap();
        session.update(DOCS, increment(0, 1)).await.unwrap();
        session.insert(DOCS, vec![doc! {"_id": 9, "n": 6}]).await.unwrap();
        session.delete(DOCS, doc! {"_id": 1}).await.unwrap();
        let by_id = session.find_one(DOCS, Find::new(doc! {"_id": 0})).await.unwrap();
        assert_eq!(by_id.unwrap(), doc! {"_id": 0, "n": 6, "group": 0}, "{}", rig.traits.name);
        assert!(session.find_one(DOCS, Find::new(doc! {"_id": 1})).await.unwrap().is_none(), "{}", rig.traits.name);
        let found = session.find(DOCS, Find::new(doc! {"n": 6}).sort(doc! {"_id": 1})).await.unwrap();
        let ids: Vec<i32> = found.iter().map(|found| found.get_i32("_id").unwrap()).collect();
        assert_eq!(ids, [0, 9], "{}", rig.traits.name);
        assert_eq!(session.find(DOCS, Find::new(doc! {"n": 0})).await.unwrap().len(), 2, "{}", rig.traits.name);
        // A document that was inserted here can be changed and deleted here.
        session.update(DOCS, increment(9, 1)).await.unwrap();
        assert!(session.delete(DOCS, doc! {"_id": 9}).await.unwrap(), "{}", rig.traits.name);
        assert!(!session.delete(DOCS, doc! {"_id": 9}).await.unwrap(), "{}", rig.traits.name);
        session.commit().await.unwrap();
        assert_eq!(values(&rig).await, [6, 0, 0], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_range_shows_the_transaction_s_own_writes() {
    for entry in transactional(&[Feature::OwnWrites, Feature::Insert, Feature::Range]) {
        let rig = Rig::with(entry, 6).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        session.update(DOCS, increment(2, 5)).await.unwrap();
        session.update(DOCS, increment(2, 1)).await.unwrap();
        session.delete(DOCS, doc! {"_id": 3}).await.unwrap();
        session.insert(DOCS, vec![doc! {"_id": 9, "n": 7}]).await.unwrap();
        let range = |from: i32, limit: u32| Find::new(doc! {"_id": {"$gte": from}}).sort(doc! {"_id": 1}).limit(limit);
        let found = |found: Vec<Document>| {
            let pair = |found: &Document| (found.get_i32("_id").unwrap(), found.get_i32("n").unwrap());
            found.iter().map(pair).collect::<Vec<_>>()
        };
        let first = found(session.find(DOCS, range(1, 3)).await.unwrap());
        assert_eq!(first, [(1, 0), (2, 6), (4, 0)], "{}", rig.traits.name);
        assert_eq!(found(session.find(DOCS, range(5, 0)).await.unwrap()), [(5, 0), (9, 7)], "{}", rig.traits.name);
        session.commit().await.unwrap();
        assert_eq!(values(&rig).await, [0, 0, 6, 0, 0, 7], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_conflict_ends_one_of_two_and_leaves_nothing_of_it() {
    for entry in transactional(&[]) {
        let rig = Rig::with(entry, 3).await;
        let (mut one, mut other) = (rig.session().await, rig.session().await);
        begin(&mut *one).await;
        begin(&mut *other).await;
        one.update(DOCS, increment(0, 1)).await.unwrap();
        other.update(DOCS, increment(1, 10)).await.unwrap();
        let refused = other.update(DOCS, increment(0, 10)).await;
        one.update(DOCS, increment(1, 1)).await.unwrap();
        one.commit().await.unwrap();
        // Where nothing is locked before the commit, that is refused.
        let refused = if refused.is_ok() { other.commit().await } else { refused.map(drop) };
        assert!(is_conflict(&refused), "{}: {refused:?}", rig.traits.name);
        assert_eq!(values(&rig).await, [1, 1, 0], "{}", rig.traits.name);
        // The session can be used again.
        begin(&mut *other).await;
        other.update(DOCS, increment(0, 10)).await.unwrap();
        other.commit().await.unwrap();
        assert_eq!(values(&rig).await, [11, 1, 0], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_duplicate_id_ends_the_transaction() {
    for entry in transactional(&[Feature::Insert]) {
        let rig = Rig::with(entry, 2).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        session.update(DOCS, increment(0, 5)).await.unwrap();
        let refused = session.insert(DOCS, vec![doc! {"_id": 7, "n": 0}, doc! {"_id": 1, "n": 0}]).await;
        assert!(matches!(refused, Err(OpError::Duplicate)), "{}: {refused:?}", rig.traits.name);
        assert_eq!(values(&rig).await, [0, 0], "{}", rig.traits.name);
        begin(&mut *session).await;
        session.update(DOCS, increment(0, 5)).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(values(&rig).await, [5, 0], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn an_id_can_be_used_again_after_its_document_was_deleted() {
    for entry in entries(&[Feature::Insert]) {
        let rig = Rig::with(entry, 1).await;
        let mut session = rig.session().await;
        for n in 1..4 {
            begin(&mut *session).await;
            assert!(session.delete(DOCS, doc! {"_id": 0}).await.unwrap(), "{}", rig.traits.name);
            session.commit().await.unwrap();
            assert!(all(&rig).await.is_empty(), "{}", rig.traits.name);
            begin(&mut *session).await;
            session.insert(DOCS, vec![doc! {"_id": 0, "n": n}]).await.unwrap();
            session.commit().await.unwrap();
            assert_eq!(values(&rig).await, [n], "{}", rig.traits.name);
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_transaction_that_only_reads_commits() {
    for entry in entries(&[]) {
        let rig = Rig::with(entry, 2).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        assert!(session.find_one(DOCS, Find::new(doc! {"_id": 1})).await.unwrap().is_some(), "{}", rig.traits.name);
        session.commit().await.unwrap();
        rig.end().await;
    }
}

#[tokio::test]
async fn every_durability_of_one_node_can_be_had() {
    for entry in entries(&[]) {
        let rig = Rig::with(entry, 2).await;
        let mut session = rig.session().await;
        for nodes in [Acknowledged::Nodes(1), Acknowledged::Majority, Acknowledged::Nodes(1)] {
            let durability = Some(Durability { nodes, journaled: true });
            session.begin(&TxOptions { durability, ..TxOptions::default() }).await.unwrap();
            session.update(DOCS, increment(0, 1)).await.unwrap();
            session.update(DOCS, increment(1, 1)).await.unwrap();
            session.commit().await.unwrap();
        }
        assert_eq!(values(&rig).await, [3, 3], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_document_that_is_changed_in_many_ways_is_written_once() {
    for entry in entries(&[Feature::Insert, Feature::Query]) {
        let rig = Rig::with(entry, 2).await;
        let mut session = rig.session().await;
        begin(&mut *session).await;
        let update = doc! {"$set": {"a.b": 1, "list": [1, 2]}, "$unset": {"group": ""}};
        session.update(DOCS, Update { filter: doc! {"_id": 1}, update }).await.unwrap();
        let update = doc! {"$push": {"list": 3}, "$inc": {"a.b": 1}};
        let changed = session.find_and_modify(DOCS, Find::new(doc! {"a.b": 1}), Change::Update(update)).await.unwrap();
        assert_eq!(changed.unwrap().get_array("list").unwrap().len(), 3, "{}", rig.traits.name);
        let update = doc! {"$set": {"list.0": 11}};
        assert!(session.update(DOCS, Update { filter: doc! {"list": 3}, update }).await.unwrap());
        let expected = doc! {"_id": 1, "n": 0, "a": {"b": 2}, "list": [11, 2, 3]};
        session.commit().await.unwrap();
        assert_eq!(all(&rig).await[1], expected, "{}", rig.traits.name);
        rig.end().await;
    }
}

/// 1 if the session commits, 0 if it meets a conflict.
async fn committed(session: &mut dyn Session) -> i32 {
    match session.commit().await {
        refused if is_conflict(&refused) => 0,
        done => done.map(|()| 1).unwrap(),
    }
}

#[tokio::test]
async fn an_update_on_the_strength_of_a_read_is_not_made_over_a_rival_s() {
    for entry in transactional(&[]) {
        let rig = Rig::with(entry, 1).await;
        let (mut one, mut rival) = (rig.session().await, rig.session().await);
        one.begin(&TxOptions { no_lost_updates: true, ..TxOptions::default() }).await.unwrap();
        let read =
            one.find_one(DOCS, Find::new(doc! {"_id": 0}).for_update()).await.unwrap().unwrap().get_i32("n").unwrap();
        // In a transaction: outside one it would wait for the other, which waits here for it.
        begin(&mut *rival).await;
        let updated = rival.update(DOCS, increment(0, 10)).await;
        let rival = if is_conflict(&updated) { 0 } else { committed(&mut *rival).await * 10 };
        let update = Update { filter: doc! {"_id": 0}, update: doc! {"$set": {"n": read + 1}} };
        let updated = one.update(DOCS, update).await;
        let one = if is_conflict(&updated) { 0 } else { committed(&mut *one).await };
        assert!(rival + one > 0, "{}: both were refused", rig.traits.name);
        assert_eq!(values(&rig).await, [rival + one], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_level_that_a_target_does_not_have_is_refused_by_name() {
    for entry in transactional(&[]) {
        let rig = Rig::with(entry, 1).await;
        let mut session = rig.session().await;
        for level in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
            let begun = session.begin(&TxOptions { isolation: Some(level), ..TxOptions::default() }).await;
            if rig.traits.isolations.contains(&level) {
                begun.unwrap();
                session.rollback().await.unwrap();
                continue;
            }
            let Err(OpError::Fatal(error)) = begun else { panic!("{}: {begun:?}", rig.traits.name) };
            let said = error.to_string();
            assert!(said.contains(rig.traits.name) && said.contains(&level.to_string()), "{said}");
        }
        rig.end().await;
    }
}
