//! Clients of the official driver work on the same documents through two gateways, in an order that
//! is left to chance: lists that are judged by `adya` and by counting, and upserts of the same
//! values. The same through the library, and more of it, is in `mongotx`'s own `histories`.
//!
//! `MONGOTX_HISTORIES_SECONDS=600 cargo test -p mongotx-gateway --test it -- histories` goes on for
//! ten minutes a test.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc};
use futures_util::future::join_all;
use mongodb::{
    ClientSession, Collection,
    error::{Error, Result, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
    options::{IndexOptions, ReadConcern, ReturnDocument},
};
use mongotx::Isolation;
use mongotx_gateway::{Gateway, GatewayOptions, Limits};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use txcheck::lists::{End, Lists, Op, Recorder};

use crate::common;

const KEYS: i64 = 3;
/// Transactions that are to be acknowledged before a run ends, on a slow machine too, and the
/// longest that is waited for them.
const ENOUGH: usize = 30;
const LIMIT: Duration = Duration::from_secs(90);

fn seconds() -> Duration {
    let asked = std::env::var("MONGOTX_HISTORIES_SECONDS").ok();
    Duration::from_secs(asked.map_or(2, |seconds| seconds.parse().expect("MONGOTX_HISTORIES_SECONDS is no number")))
}

/// Two gateways before one server, and the same empty collection through drivers of both.
async fn crew(test: &str) -> (Vec<Gateway>, Vec<(mongodb::Client, Collection<Document>)>) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut options = common::options(&server.uri(), Limits::default());
    options.client.lease = Duration::from_secs(120);
    options.client.write_wait = Duration::from_secs(120);
    // The levels above it are requested by their names.
    options.client.isolation = Isolation::ReadCommitted;
    let (db, mut gateways, mut crew) = (local_mongod::unique_db(test), Vec::new(), Vec::new());
    for _ in 0..2 {
        let gateway = Gateway::start(GatewayOptions { ..options.clone() }).await.unwrap();
        let address = gateway.address().unwrap();
        gateways.push(gateway);
        for _ in 0..2 {
            let driver = common::driver(address, "").await;
            crew.push((driver.clone(), driver.database(&db).collection("c")));
        }
    }
    (gateways, crew)
}

fn values(list: &Document) -> Vec<u64> {
    list.get_array("list").unwrap().iter().map(|value| value.as_i64().unwrap() as u64).collect()
}

/// A read concern that a client sends, as drivers do: `local`, `snapshot` or `linearizable`.
type Level = fn() -> ReadConcern;

/// One client: the lists by `_id`, in sessions of its own.
struct Worker {
    recorder: Arc<Recorder>,
    level: Level,
    random: StdRng,
    coll: Collection<Document>,
    session: ClientSession,
    until: Instant,
}

impl Worker {
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    async fn work(mut self) {
        let mut process = self.recorder.process();
        let mut refusals = 0;
        while !self.is_over() {
            let count = self.random.random_range(1..=4);
            let planned: Vec<Op> = (0..count).map(|_| self.plan()).collect();
            self.recorder.begin(process, &planned);
            let end = match self.one(&planned).await {
                Ok(done) => End::Committed(done),
                Err(error) => self.give_up(&error).await,
            };
            self.recorder.end(process, &planned, &end);
            match end {
                End::Committed(_) => refusals = 0,
                End::Refused => {
                    // Transactions that have all read what all of them want to write are in each
                    // other's way until one is alone.
                    refusals += 1;
                    let pause = self.random.random_range(0..10_u64 << refusals.min(6));
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                End::Unknown => process = self.recorder.process(),
            }
        }
    }

    fn is_over(&self) -> bool {
        let now = Instant::now();
        now >= self.until + LIMIT || now >= self.until && self.recorder.committed() >= ENOUGH
    }

    async fn give_up(&mut self, error: &Error) -> End {
        if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
            return End::Unknown;
        }
        assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
        self.session.abort_transaction().await.ok();
        End::Refused
    }

    fn plan(&mut self) -> Op {
        let key = self.random.random_range(0..KEYS) as u64;
        if self.chance(50) { Op::Append(key, self.recorder.value()) } else { Op::Read(key, None) }
    }

    async fn one(&mut self, planned: &[Op]) -> Result<Vec<Op>> {
        self.session.start_transaction().read_concern((self.level)()).await?;
        let mut done = Vec::new();
        for op in planned {
            match op {
                Op::Read(key, _) => done.push(Op::Read(*key, Some(self.read(*key).await?))),
                Op::Append(key, value) => {
                    if (self.level)() != ReadConcern::local() && self.chance(60) {
                        let seen = self.read(*key).await?;
                        let list = seen.iter().chain([value]).map(|value| Bson::Int64(*value as i64));
                        let set = doc! {"$set": {"list": list.collect::<Vec<_>>()}};
                        self.coll.update_one(doc! {"_id": *key as i64}, set).session(&mut self.session).await?;
                        done.push(Op::Read(*key, Some(seen)));
                    } else {
                        self.append(*key, *value).await?;
                    }
                    done.push(op.clone());
                }
            }
        }
        self.session.commit_transaction().await?;
        Ok(done)
    }

    async fn read(&mut self, key: u64) -> Result<Vec<u64>> {
        let found = self.coll.find_one(doc! {"_id": key as i64}).session(&mut self.session).await?;
        Ok(values(&found.unwrap()))
    }

    async fn append(&mut self, key: u64, value: u64) -> Result<()> {
        let (one, push) = (doc! {"_id": key as i64}, doc! {"$push": {"list": value as i64}});
        if self.chance(50) {
            let done = self.coll.update_one(one, push).session(&mut self.session).await?;
            assert_eq!(done.matched_count, 1);
        } else {
            let ask = self.coll.find_one_and_update(one, push).return_document(ReturnDocument::After);
            assert_eq!(values(&ask.session(&mut self.session).await?.unwrap()).last(), Some(&value));
        }
        Ok(())
    }
}

/// Six clients, which use these levels in turn.
async fn lists(levels: &[Level], model: &str) {
    let (_gateways, crew) = crew("gw_histories").await;
    for key in 0..KEYS {
        crew[0].1.insert_one(doc! {"_id": key, "list": []}).await.unwrap();
    }
    let (recorder, until) = (Arc::new(Recorder::default()), Instant::now() + seconds());
    let mut workers = Vec::new();
    for nth in 0..6 {
        let (driver, coll) = &crew[nth % crew.len()];
        let worker = Worker {
            recorder: Arc::clone(&recorder),
            level: levels[nth % levels.len()],
            random: StdRng::seed_from_u64(nth as u64),
            coll: coll.clone(),
            session: driver.start_session().await.unwrap(),
            until,
        };
        workers.push(tokio::spawn(worker.work()));
    }
    for done in join_all(workers).await {
        done.unwrap();
    }
    let mut last = Lists::new();
    for key in 0..KEYS {
        let list = crew[1].1.find_one(doc! {"_id": key}).await.unwrap().unwrap();
        last.insert(key as u64, values(&list));
    }
    let summary = recorder.judge(model, &last).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(summary.committed > 0, "no transaction committed");
    println!("{summary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_read_committed_through_two_gateways() {
    lists(&[ReadConcern::local], "strong-read-committed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_snapshot_through_two_gateways() {
    lists(&[ReadConcern::snapshot], "strong-snapshot-isolation").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_serializable_through_two_gateways() {
    lists(&[ReadConcern::linearizable], "strict-serializable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_snapshot_and_serializable_through_two_gateways() {
    lists(&[ReadConcern::snapshot, ReadConcern::linearizable], "strong-snapshot-isolation").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_all_levels_through_two_gateways() {
    lists(&[ReadConcern::local, ReadConcern::snapshot, ReadConcern::linearizable], "strong-read-committed").await;
}

/// The driver gets no duplicate key, outside transactions and inside, where it would get none from
/// the server alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_of_one_unique_value_through_two_gateways() {
    const EACH: i32 = 8;
    let (_gateways, crew) = crew("gw_upserts").await;
    let unique = IndexOptions::builder().unique(true).build();
    let index = mongodb::IndexModel::builder().keys(doc! {"k": 1}).options(unique).build();
    crew[0].1.create_index(index).await.unwrap();
    let tasks = (0..8).map(|nth| {
        let (driver, coll) = crew[nth % crew.len()].clone();
        async move {
            let mut session = driver.start_session().await.unwrap();
            for k in 0..EACH {
                let (filter, add) = (doc! {"k": k}, doc! {"$inc": {"n": 1}});
                if nth % 2 == 0 {
                    coll.update_one(filter, add).upsert(true).await.unwrap();
                    continue;
                }
                let upsert = async |session: &mut ClientSession| {
                    coll.find_one_and_update(filter.clone(), add.clone()).upsert(true).session(session).await
                };
                session.start_transaction().and_run2(upsert).await.unwrap();
            }
        }
    });
    join_all(tasks).await;
    for k in 0..EACH {
        assert_eq!(crew[1].1.count_documents(doc! {"k": k, "n": 8}).await.unwrap(), 1, "{k}");
    }
}
