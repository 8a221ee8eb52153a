//! Documents that a rival holds, or that are committed and wait to be finished.

use std::collections::BTreeMap;

use bson::{Document, doc};
use mongotx::{ClientOptions, Isolation, Step};

use super::{LIMIT, increment, warm, warm_up};
use crate::quiet::{self, Gate, commands_of, questions_of};

/// Documents that are committed and wait to be finished: the new version comes along with the old
/// one, and nothing is finished for it.
#[tokio::test]
async fn fields_of_documents_that_wait_to_be_finished_are_one_command() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let (client, coll) = warm(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    gate.shut();
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 5, "m": 6}}).session(&mut session).await.unwrap();
    coll.delete_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
    coll.insert_one(&doc! {"_id": 70, "n": 7}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    for (shown, fields) in [
        (doc! {"n": 1}, doc! {"_id": 1, "n": 5}),
        (doc! {"_id": 0, "m": 1, "n": 1}, doc! {"n": 5, "m": 6}),
        (doc! {"_id": 1}, doc! {"_id": 1}),
        (doc! {"n": 0}, doc! {"_id": 1, "m": 6}),
        (doc! {}, doc! {"_id": 1, "n": 5, "m": 6}),
    ] {
        let one = async {
            let found = coll.find_one(doc! {"_id": 1}).projection(shown.clone()).await.unwrap();
            assert_eq!(found.as_ref(), Some(&fields), "{shown}");
        };
        assert_eq!(commands_of(&client, one).await, BTreeMap::from([("find".to_owned(), 1)]), "{shown}");
        let few = async {
            let all = coll.find(doc! {"_id": {"$in": [1, 2]}}).projection(shown.clone()).await.unwrap();
            assert_eq!(all.try_collect().await.unwrap(), [fields], "{shown}");
        };
        assert_eq!(commands_of(&client, few).await, BTreeMap::from([("find".to_owned(), 1)]), "{shown}");
    }
    let others = async {
        for (id, found) in [(2, None), (70, Some(doc! {"_id": 70, "n": 7}))] {
            let shown = coll.find_one(doc! {"_id": id}).projection(doc! {"n": 1}).await.unwrap();
            assert_eq!(shown, found);
        }
    };
    assert_eq!(commands_of(&client, others).await, BTreeMap::from([("find".to_owned(), 2)]));
    gate.open();
    assert!(client.flush(LIMIT).await);
}

/// At snapshot, so they are at the validation.
#[tokio::test]
async fn validation_of_fields_of_documents_that_wait_to_be_finished_is_two_commands() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let options = ClientOptions { hook: Some(gate.clone()), isolation: Isolation::Snapshot, ..quiet::options() };
    let (client, coll) = warm(options).await;
    gate.shut();
    let mut writer = client.session();
    writer.begin().unwrap();
    increment(&mut writer, &coll, 1).await;
    writer.commit().await.unwrap();
    let mut session = client.session();
    let transaction = async {
        session.begin().unwrap();
        for id in [1, 2] {
            let read = coll.find_one(doc! {"_id": id}).projection(doc! {"n": 1}).session(&mut session).await.unwrap();
            assert_eq!(read, Some(doc! {"_id": id, "n": 3 - id}));
        }
        increment(&mut session, &coll, 3).await;
        session.commit().await.unwrap();
    };
    let (sent, asked) = questions_of(&client, commands_of(&client, transaction)).await;
    // Two reads, a look before and one after the joint read, which is two commands in one write; a
    // lock and the decision.
    let finds = sent.get("find").copied().unwrap_or_default();
    assert!((5..=6).contains(&finds), "{sent:?}");
    assert_eq!((asked, sent.get("aggregate"), sent.get("update")), (1, None, Some(&2)), "{sent:?}");
    gate.open();
    assert!(client.flush(LIMIT).await);
}

/// Fields that both versions of a held document have alike stay so, whatever becomes of the
/// transaction that holds it. No record is read for them (that is an aggregation), neither by a
/// read nor by a validation.
#[tokio::test]
async fn fields_that_a_rival_leaves_as_they_are_are_read_and_validated_without_its_record() {
    let (rivals, theirs) = warm(quiet::options()).await;
    for (isolation, questions) in [(Isolation::ReadCommitted, 0), (Isolation::Snapshot, 1)] {
        let client = quiet::connect(ClientOptions { isolation, ..quiet::options() }).await;
        let coll = quiet::through(&client, &theirs);
        theirs.update_one(doc! {"_id": 64}, doc! {"$set": {"n": 1}}).await.unwrap();
        warm_up(&client, &coll).await;
        let mut rival = rivals.session();
        rival.begin().unwrap();
        for id in [1, 2] {
            let change = doc! {"$inc": {"other": 5}};
            theirs.update_one(doc! {"_id": id}, change).session(&mut rival).await.unwrap();
        }
        let mut session = client.session();
        let transaction = async {
            session.begin().unwrap();
            for id in [1, 2] {
                let read =
                    coll.find_one(doc! {"_id": id}).projection(doc! {"n": 1}).session(&mut session).await.unwrap();
                assert_eq!(read, Some(doc! {"_id": id, "n": 1}));
            }
            if isolation == Isolation::ReadCommitted {
                let few = coll.find(doc! {"_id": {"$in": [1, 2]}}).projection(doc! {"n": 1}).session(&mut session);
                let few = few.await.unwrap().try_collect().await.unwrap();
                assert_eq!(few, [doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 1}]);
            }
            increment(&mut session, &coll, 64).await;
            session.commit().await.unwrap();
        };
        let (sent, asked) = questions_of(&client, commands_of(&client, transaction)).await;
        assert_eq!((asked, sent.get("aggregate")), (questions, None), "{sent:?}");
        rival.rollback().await.unwrap();
        assert!(client.flush(LIMIT).await && rivals.flush(LIMIT).await);
    }
}

/// The status of a rival that changes what is shown, inserts or removes it is read.
#[tokio::test]
async fn fields_that_a_rival_changes_are_those_of_the_version_that_counts() {
    let (rivals, theirs) = warm(quiet::options()).await;
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::through(&client, &theirs);
    let mut rival = rivals.session();
    rival.begin().unwrap();
    increment(&mut rival, &theirs, 1).await;
    theirs.delete_one(doc! {"_id": 2}).session(&mut rival).await.unwrap();
    theirs.insert_one(&doc! {"_id": 70, "n": 7}).session(&mut rival).await.unwrap();
    let shown = async |fields: Document| {
        let all = coll.find(doc! {"_id": {"$in": [1, 2, 70]}}).projection(fields.clone()).await.unwrap();
        let together: Vec<Document> = all.try_collect().await.unwrap();
        let mut alone = Vec::new();
        for id in [1, 2, 70] {
            alone.extend(coll.find_one(doc! {"_id": id}).projection(fields.clone()).await.unwrap());
        }
        assert_eq!(together, alone);
        alone
    };
    assert_eq!(shown(doc! {"n": 1}).await, [doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 1}]);
    // The `_id` is in what an inserted document has of either version.
    assert_eq!(shown(doc! {"_id": 1}).await, [doc! {"_id": 1}, doc! {"_id": 2}]);
    rival.commit().await.unwrap();
    assert_eq!(shown(doc! {"n": 1}).await, [doc! {"_id": 1, "n": 2}, doc! {"_id": 70, "n": 7}]);
    assert_eq!(shown(doc! {"_id": 1}).await, [doc! {"_id": 1}, doc! {"_id": 70}]);
}
