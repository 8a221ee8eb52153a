//! Taking the first document of an order depends on the documents that could come before it, and on
//! none behind it.

use std::{sync::Arc, time::Duration};

use bson::{Bson, DateTime, Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, Session, Step, TransactionOptions};

use crate::quiet::{self, Gate};

const LONG: Duration = Duration::from_secs(60);
const LEVELS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

/// A collection of six documents `{_id, k, n, m}` in an order, and a rival whose commits can be
/// kept from being finished.
struct Stage {
    client: Client,
    rival: Client,
    unfinished: Arc<Gate>,
    coll: Collection<Document>,
    sort: Document,
}

/// Some change by a rival.
type Change = fn(i32) -> Write;

enum Write {
    Insert(Document),
    Set(i32, Bson),
    Remove(i32),
}

impl Stage {
    /// `direction` 1: `k` is 1, 2, …; -1: it is -1, -2, …, and the greatest comes first.
    async fn new(direction: i32, more: Document) -> Self {
        let unfinished = Gate::before(&[Step::BeforeFinish]);
        let options = ClientOptions { hook: Some(unfinished.clone()), ..quiet::options() };
        let (client, rival) = (quiet::connect(quiet::options()).await, quiet::connect(options).await);
        let coll = quiet::collection(&client, 0).await;
        let sort: Document = doc! {"k": direction}.into_iter().chain(more).collect();
        coll.create_index(IndexModel::new(sort.clone())).await.unwrap();
        let documents: Vec<Document> =
            (1..=6).map(|id| doc! {"_id": id, "k": id * direction, "n": 1, "m": 1}).collect();
        coll.insert_many(&documents).await.unwrap();
        let stage = Self { client, rival, unfinished, coll, sort };
        // Makes all look-ups that a client makes once.
        for isolation in LEVELS {
            let mut session = begun(&stage.client, isolation);
            stage.take(&mut session, 1).await;
            session.rollback().await.unwrap();
        }
        assert!(stage.client.flush(LONG).await);
        stage
    }

    async fn take(&self, session: &mut Session, id: i32) {
        let first = self.coll.find_one_and_delete(doc! {"n": 1}).sort(self.sort.clone()).session(session);
        assert_eq!(first.await.unwrap().unwrap().get_i32("_id").unwrap(), id);
    }

    /// Takes the first two, and commits after the rival has written. Returns the commit's answer,
    /// and the number of its joint reads.
    async fn commit_beside(
        &self,
        isolation: Isolation,
        writes: &[Write],
        is_committed: bool,
    ) -> (mongotx::Result<()>, u64) {
        let mut session = begun(&self.client, isolation);
        self.take(&mut session, 1).await;
        self.take(&mut session, 2).await;
        let others = quiet::through(&self.rival, &self.coll);
        self.unfinished.shut();
        let mut rival = begun(&self.rival, Isolation::ReadCommitted);
        for write in writes {
            let rival = &mut rival;
            match write {
                Write::Insert(document) => drop(others.insert_one(document).session(rival).await.unwrap()),
                Write::Set(id, k) => {
                    let set = doc! {"$set": {"k": k.clone()}};
                    assert_eq!(
                        others.update_one(doc! {"_id": *id}, set).session(rival).await.unwrap().modified_count,
                        1
                    );
                }
                Write::Remove(id) => {
                    assert_eq!(others.delete_one(doc! {"_id": *id}).session(rival).await.unwrap(), 1);
                }
            }
        }
        if is_committed {
            rival.commit().await.unwrap();
        }
        // (How many looks there are is a matter of time: the last one may be good for another.) A
        // read that is sent by itself is an aggregation.
        let mut committed = Ok(());
        let commit = async { committed = session.commit().await.map(drop) };
        let (sent, asked) = quiet::questions_of(&self.client, quiet::commands_of(&self.client, commit)).await;
        let asked = asked + sent.get("aggregate").copied().unwrap_or(0);
        if committed.is_err() {
            session.rollback().await.ok();
        }
        self.unfinished.open();
        if !is_committed {
            rival.rollback().await.unwrap();
        }
        assert!(self.rival.flush(LONG).await && self.client.flush(LONG).await);
        (committed, asked)
    }
}

fn begun(client: &Client, isolation: Isolation) -> Session {
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

fn inserted(k: impl Into<Bson>) -> Write {
    Write::Insert(doc! {"_id": 100, "k": k.into(), "n": 1})
}

#[tokio::test]
async fn what_is_held_behind_the_first_is_of_no_consequence() {
    let behind: [Change; 3] = [|d| inserted(100 * d), |d| Write::Set(5, (50 * d).into()), |_| Write::Remove(6)];
    for (direction, more) in [(1, doc! {}), (-1, doc! {}), (1, doc! {"n": 1}), (-1, doc! {"n": -1})] {
        for isolation in LEVELS {
            let (alone, asked_alone) =
                Stage::new(direction, more.clone()).await.commit_beside(isolation, &[], false).await;
            alone.unwrap();
            assert_eq!(asked_alone, 1);
            for is_committed in [false, true] {
                let writes: Vec<Write> = behind.iter().map(|write| write(direction)).collect();
                let stage = Stage::new(direction, more.clone()).await;
                let (beside, asked) = stage.commit_beside(isolation, &writes, is_committed).await;
                beside.unwrap_or_else(|error| panic!("{direction} {more} {isolation:?}: {error}"));
                assert_eq!(asked, asked_alone, "{direction} {more} {isolation:?} {is_committed}");
            }
        }
    }
}

/// Of every type that comes before numbers, of an item of an array, and by a document that was
/// behind.
#[tokio::test]
async fn what_would_come_before_the_first_is_met() {
    let upwards: [Change; 8] = [
        |_| inserted(0),
        |_| inserted(0.5),
        |_| inserted(f64::NAN),
        |_| inserted(Bson::Null),
        |_| Write::Insert(doc! {"_id": 100, "n": 1}),
        |_| inserted(Bson::MinKey),
        |_| inserted(vec![100, -5]),
        |_| Write::Set(5, 0.into()),
    ];
    let downwards: [Change; 6] = [
        |_| inserted(0),
        |_| inserted("text"),
        |_| inserted(DateTime::from_millis(0)),
        |_| inserted(Bson::MaxKey),
        |_| inserted(vec![-100, 5]),
        |_| Write::Set(5, doc! {"a": 1}.into()),
    ];
    for (direction, ahead) in [(1, &upwards[..]), (-1, &downwards[..])] {
        for (place, write) in ahead.iter().enumerate() {
            let isolation = LEVELS[place % 2];
            let stage = Stage::new(direction, doc! {}).await;
            let (refused, _) = stage.commit_beside(isolation, &[write(direction)], true).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict, "{direction} {place}");
            // A rival that is not decided comes afterwards, unless what was read must hold beside
            // all that others are about to do.
            let stage = Stage::new(direction, doc! {}).await;
            let (beside, _) = stage.commit_beside(isolation, &[write(direction)], false).await;
            assert_eq!(beside.is_ok(), isolation == Isolation::Snapshot, "{direction} {place}: {beside:?}");
        }
    }
}

/// The same `k`, and by the second field before the first one.
#[tokio::test]
async fn what_comes_before_the_first_by_another_field_is_met() {
    let stage = Stage::new(1, doc! {"m": 1}).await;
    let before = Write::Insert(doc! {"_id": 100, "k": 2, "m": -1, "n": 1});
    let (refused, _) = stage.commit_beside(Isolation::Snapshot, &[before], true).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
}
