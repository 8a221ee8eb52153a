//! The same histories on MongoDB's own transactions (snapshot isolation, one-node replica set),
//! through the plain driver: the column "native" of `docs/isolation.md`.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, doc};
use mongodb::{
    Client, ClientSession, Collection,
    error::{Error, TRANSIENT_TRANSACTION_ERROR},
    options::{ReadConcern, WriteConcern},
};
use txcheck::{
    Anomaly::{self, G2, G2Item, StaleRead},
    Executor, Item, Log, Refused, Tx, Value, interleavings, judge, parse_plans,
    plan::initial,
    run_plans,
};

use super::executor::{item_of, log_of};

/// Anomalies that native transactions allow.
const ALLOWED: [Anomaly; 3] = [G2Item, G2, StaleRead];

struct Native {
    number: i32,
    sessions: Vec<ClientSession>,
    coll: Collection<Document>,
}

impl Native {
    async fn start(client: &Client, coll: &Collection<Document>, number: i32, transactions: usize) -> Self {
        let mut sessions = Vec::new();
        for _ in 0..transactions {
            let mut session = client.start_session().await.unwrap();
            let begin = session.start_transaction().read_concern(ReadConcern::snapshot());
            begin.write_concern(WriteConcern::majority()).await.unwrap();
            sessions.push(session);
        }
        Self { number, sessions, coll: coll.clone() }
    }

    fn document(&self, item: Item, value: Value) -> Document {
        let (id, number) = (self.id(item), value.0 as i32);
        doc! {"_id": id, "run": self.number, "log": [number], "last": number}
    }

    fn id(&self, item: Item) -> i32 {
        self.number * 100 + item.0 as i32
    }
}

fn refused(error: Error) -> Refused {
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error}");
    Refused(error.to_string())
}

fn found(documents: &[Document]) -> BTreeMap<Item, Log> {
    documents.iter().map(|document| (item_of(document), log_of(document))).collect()
}

impl Executor for Native {
    async fn read(&mut self, tx: Tx, item: Item) -> Result<Option<Log>, Refused> {
        let by_id = doc! {"_id": self.id(item)};
        let found = self.coll.find_one(by_id).session(&mut self.sessions[tx.0]).await.map_err(refused)?;
        Ok(found.as_ref().map(log_of))
    }

    async fn scan(&mut self, tx: Tx) -> Result<BTreeMap<Item, Log>, Refused> {
        let session = &mut self.sessions[tx.0];
        let mut cursor = self.coll.find(doc! {"run": self.number}).session(&mut *session).await.map_err(refused)?;
        let mut documents = Vec::new();
        while let Some(next) = cursor.next(session).await {
            documents.push(next.map_err(refused)?);
        }
        Ok(found(&documents))
    }

    async fn write(&mut self, tx: Tx, item: Item, value: Value, still: Option<Value>) -> Result<bool, Refused> {
        let mut filter = doc! {"_id": self.id(item)};
        if let Some(still) = still {
            filter.insert("last", still.0 as i32);
        }
        let change = doc! {"$push": {"log": value.0 as i32}, "$set": {"last": value.0 as i32}};
        let done = self.coll.update_one(filter, change).session(&mut self.sessions[tx.0]).await.map_err(refused)?;
        Ok(done.matched_count == 1)
    }

    async fn insert(&mut self, tx: Tx, item: Item, value: Value) -> Result<bool, Refused> {
        let document = self.document(item, value);
        self.coll.insert_one(document).session(&mut self.sessions[tx.0]).await.map(|_| true).map_err(refused)
    }

    async fn delete(&mut self, tx: Tx, item: Item) -> Result<bool, Refused> {
        let by_id = doc! {"_id": self.id(item)};
        let done = self.coll.delete_one(by_id).session(&mut self.sessions[tx.0]).await.map_err(refused)?;
        Ok(done.deleted_count == 1)
    }

    async fn commit(&mut self, tx: Tx) -> Result<(), Refused> {
        self.sessions[tx.0].commit_transaction().await.map_err(refused)
    }

    async fn abort(&mut self, tx: Tx) {
        self.sessions[tx.0].abort_transaction().await.unwrap();
    }

    async fn last(&mut self) -> BTreeMap<Item, Log> {
        let mut cursor = self.coll.find(doc! {"run": self.number}).await.unwrap();
        let mut documents = Vec::new();
        while cursor.advance().await.unwrap() {
            documents.push(cursor.deserialize_current().unwrap());
        }
        found(&documents)
    }
}

async fn anomalies(client: &Client, texts: &[&str]) -> BTreeSet<Anomaly> {
    let plans = parse_plans(texts).unwrap();
    let coll = client.database(&local_mongod::unique_db("native")).collection::<Document>("items");
    coll.insert_one(doc! {"_id": -1}).await.unwrap();
    let mut all = BTreeSet::new();
    for (number, order) in interleavings(&plans, 100).unwrap().iter().enumerate() {
        let mut native = Native::start(client, &coll, number as i32, plans.len()).await;
        for item in initial(&plans) {
            coll.insert_one(native.document(item, Value::INITIAL)).await.unwrap();
        }
        let history = run_plans(&mut native, &plans, order).await;
        for (anomaly, example) in judge(&history).iter() {
            assert!(ALLOWED.contains(&anomaly), "{anomaly}: {example}\n{history}");
            all.insert(anomaly);
        }
    }
    println!("{texts:?}: {all:?}");
    all
}

#[tokio::test]
async fn native_snapshots_allow_write_skew_and_stale_reads_and_nothing_else() {
    let client = local_mongod::shared_replica_set().await.unwrap().client().await.unwrap();
    let histories: [&[&str]; 9] = [
        &["W(A,B) C", "W(A,B) C"],
        &["W(A) I(C) A", "R(A,C) C"],
        &["W(A) W(A) C", "R(A) P() C"],
        &["W(A) R(B) C", "W(B) R(A) C"],
        &["R(A) W(A) C", "R(A) W(A) C"],
        &["R(A) R(A) C", "W(A) C"],
        &["R(A,B) C", "W(A,B) C"],
        &["P() P() C", "I(C) C"],
        &["P() I(C) C", "P() I(D) C"],
    ];
    let mut all = BTreeSet::new();
    for texts in histories {
        all.extend(anomalies(&client, texts).await);
    }
    assert_eq!(all, ALLOWED.into());
}
