//! One client: draws the operations of a transaction and carries them out.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use bson::doc;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    INSERTS, WRITES,
    keys::{Keys, key},
    mix::{Kind, Mix},
    options::YcsbOptions,
    record::{self, RECORDS, WRITTEN},
};
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::{Find, Session, TxOptions, Update},
    workload::{Chosen, Client, ClientId, Done},
};

pub(super) struct YcsbClient {
    options: YcsbOptions,
    mix: Mix,
    keys: Keys,
    random: StdRng,
    seed: u64,
    chosen: Vec<Operation>,
    effects: BTreeMap<&'static str, u64>,
}

/// An operation, with all that was drawn for it.
enum Operation {
    Read(String),
    Scan(String, u32),
    Insert(u64),
    Update(String, Written),
    ReadModifyWrite(String, Written),
}

/// A field and its new value.
#[derive(Clone)]
struct Written(String, String);

impl YcsbClient {
    pub(super) fn new(options: &YcsbOptions, mix: Mix, id: ClientId) -> Result<Self, BenchError> {
        Ok(Self {
            options: options.clone(),
            mix,
            keys: Keys::new(options, id)?,
            random: StdRng::seed_from_u64(id.seed),
            seed: id.seed,
            chosen: Vec::new(),
            effects: BTreeMap::new(),
        })
    }

    /// Draws an operation; `inserted` is the number of inserts that the transaction has already.
    fn draw(&mut self, kind: Kind, inserted: u64) -> Operation {
        if kind == Kind::Insert {
            return Operation::Insert(self.keys.next_to_insert(inserted));
        }
        let key = key(self.keys.choose(&mut self.random));
        match kind {
            Kind::Read | Kind::Insert => Operation::Read(key),
            Kind::Scan => {
                let lengths = self.options.scan_lengths;
                Operation::Scan(key, self.random.random_range(lengths.least..=lengths.most))
            }
            Kind::Update => Operation::Update(key, self.draw_value()),
            Kind::ReadModifyWrite => Operation::ReadModifyWrite(key, self.draw_value()),
        }
    }

    fn draw_value(&mut self) -> Written {
        let field = record::name(self.random.random_range(0..self.options.fields));
        Written(field, record::value(&self.options, &mut self.random))
    }

    /// Options of the transaction: a record that is updated must not change after it was read.
    fn transaction(&self) -> TxOptions {
        let depends = self.chosen.iter().any(|operation| matches!(operation, Operation::ReadModifyWrite(..)));
        TxOptions { no_lost_updates: depends, ..TxOptions::default() }
    }

    async fn carry_out(&self, session: &mut dyn Session, operation: &Operation) -> OpResult<()> {
        match operation {
            Operation::Read(key) => found(session.find_one(RECORDS, Find::new(doc! {"_id": key})).await?.map(drop)),
            Operation::Scan(from, length) => {
                let range = Find::new(doc! {"_id": {"$gte": from}}).sort(doc! {"_id": 1}).limit(*length);
                found(session.find(RECORDS, range).await?.first().map(drop))
            }
            Operation::Insert(number) => {
                session.insert(RECORDS, vec![record::new(&self.options, *number, self.seed)]).await
            }
            Operation::Update(key, Written(field, value)) => {
                let update = doc! {"$set": {field: value}, "$inc": {WRITTEN: 1_i64}};
                found(session.update(RECORDS, Update { filter: doc! {"_id": key}, update }).await?.then_some(()))
            }
            Operation::ReadModifyWrite(key, Written(field, value)) => {
                let read = session.find_one(RECORDS, Find::new(doc! {"_id": key}).for_update()).await?;
                let writes = read.and_then(|record| record.get_i64(WRITTEN).ok());
                let update = doc! {"$set": {field: value, WRITTEN: writes.unwrap_or(0) + 1}};
                found(session.update(RECORDS, Update { filter: doc! {"_id": key}, update }).await?.then_some(()))
            }
        }
    }

    fn note_effects(&mut self) {
        let inserts = self.chosen.iter().filter(|operation| matches!(operation, Operation::Insert(_))).count() as u64;
        let writes =
            |operation: &&Operation| matches!(operation, Operation::Update(..) | Operation::ReadModifyWrite(..));
        *self.effects.entry(WRITES).or_default() += self.chosen.iter().filter(writes).count() as u64;
        *self.effects.entry(INSERTS).or_default() += inserts;
        self.keys.note_inserted(inserts);
    }
}

/// Fails if a record was not found: each record that is read exists.
fn found(found: Option<()>) -> OpResult<()> {
    found.ok_or_else(|| OpError::Fatal(BenchError::Failed("a record that exists was not found".to_owned())))
}

#[async_trait]
impl Client for YcsbClient {
    fn choose(&mut self) -> Chosen {
        self.chosen.clear();
        let mut inserted = 0;
        for _ in 0..self.options.operations {
            let kind = self.mix.draw(&mut self.random);
            let operation = self.draw(kind, inserted);
            inserted += u64::from(kind == Kind::Insert);
            self.chosen.push(operation);
        }
        let kind = match self.chosen.as_slice() {
            [Operation::Read(_)] => Kind::Read.as_str(),
            [Operation::Scan(..)] => Kind::Scan.as_str(),
            [Operation::Insert(_)] => Kind::Insert.as_str(),
            [Operation::Update(..)] => Kind::Update.as_str(),
            [Operation::ReadModifyWrite(..)] => Kind::ReadModifyWrite.as_str(),
            _ => "transaction",
        };
        Chosen { kind, operations: self.options.operations, wait: Duration::ZERO }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        // An operation that stands alone is sent as such, but for the one that is two.
        let alone = matches!(self.chosen.as_slice(), [one] if !matches!(one, Operation::ReadModifyWrite(..)));
        if !alone {
            session.begin(&self.transaction()).await?;
        }
        for operation in &self.chosen {
            self.carry_out(session, operation).await?;
        }
        if !alone {
            session.commit().await?;
        }
        self.note_effects();
        Ok(Done::Committed)
    }

    fn effects(&self) -> BTreeMap<&'static str, u64> {
        self.effects.clone()
    }
}
