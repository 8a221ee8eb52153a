//! YCSB: the core workloads A to F, with any number of operations in a transaction.
//!
//! As published (Cooper et al., SoCC 2010) but for two things: operations are grouped into
//! transactions, five by default (paper 000, section 6.1), and a record has a counter besides its
//! fields, which every write raises, so that a run can be checked: writes that were acknowledged
//! are there, and no others.
//!
//! `mix` chooses operations; `keys` chooses records; `record` has their form; `client` carries the
//! operations out.

mod client;
mod distribution;
mod keys;
mod mix;
mod options;
mod record;

use async_trait::async_trait;
use bson::{Document, doc};

use self::{client::YcsbClient, record::RECORDS};
pub use self::{
    distribution::Distribution,
    mix::{Core, Mix},
    options::YcsbOptions,
};
use super::{Broken, Check, Client, ClientId, Progress, Totals, Workload};
use crate::{
    error::BenchError,
    targets::{Feature, Find, Session, Target},
};

const BATCH: u32 = 2_000;
/// Names of the effects that [`Client::effects`] counts.
const WRITES: &str = "writes";
const INSERTS: &str = "inserts";

struct Ycsb {
    options: YcsbOptions,
    mix: Mix,
}

#[async_trait]
impl Workload for Ycsb {
    fn title(&self) -> String {
        format!("ycsb {}", self.options.name())
    }

    fn about(&self) -> String {
        let YcsbOptions { records, fields, field_bytes, operations, .. } = self.options;
        let distribution = self.options.distribution();
        format!(
            "{operations} operation(s) a transaction ({}), on {records} records of {fields} fields of {field_bytes} bytes, \
             chosen {distribution}",
            self.mix
        )
    }

    fn needs(&self) -> Vec<Feature> {
        let mut needs = vec![Feature::General];
        if self.mix.insert > 0.0 {
            needs.push(Feature::Insert);
        }
        if self.mix.scan > 0.0 {
            needs.push(Feature::Range);
        }
        needs
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![RECORDS]
    }

    /// Not reusable: another run would insert the same keys again.
    fn reusable(&self) -> bool {
        self.mix.insert == 0.0
    }

    async fn load(&self, target: &dyn Target, seed: u64, progress: Progress<'_>) -> Result<(), BenchError> {
        target.create(RECORDS, &[]).await?;
        let all = self.options.records;
        let mut first = 0;
        while first < all {
            let end = all.min(first + BATCH);
            let batch = (first..end).map(|number| record::new(&self.options, number.into(), seed)).collect();
            target.load(RECORDS, batch).await?;
            first = end;
            progress(end.into(), all.into());
        }
        Ok(())
    }

    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError> {
        Ok(Box::new(YcsbClient::new(&self.options, self.mix, id)?))
    }

    /// Checks that there are as many records as were loaded and inserted, each whole, with as many
    /// writes as were acknowledged.
    async fn check(&self, session: &mut dyn Session, totals: &Totals) -> Check {
        let uncertain = totals.unknown * u64::from(self.options.operations);
        let (mut found, mut writes, mut last) = (0_u64, 0_u64, None);
        loop {
            let batch = session.find(RECORDS, next_batch(last.take())).await?;
            let Some(end) = batch.last() else { break };
            last = end.get_str("_id").ok().map(str::to_owned);
            found += batch.len() as u64;
            for record in &batch {
                writes += record::writes(&self.options, record).map_err(Broken::Promise)?;
            }
        }
        let promise = |what: &str, found: u64, least: u64| match (least..=least + uncertain).contains(&found) {
            true => Ok(()),
            false => Err(Broken::Promise(format!("{found} {what}; acknowledged {least}, uncertain {uncertain}"))),
        };
        promise("records", found, u64::from(self.options.records) + totals.effect(INSERTS))?;
        promise("writes", writes, totals.effect(WRITES))
    }
}

/// The records after this one, so many that no answer is too large.
fn next_batch(last: Option<String>) -> Find {
    let filter = last.map_or_else(Document::new, |last| doc! {"_id": {"$gt": last}});
    Find::new(filter).sort(doc! {"_id": 1}).limit(BATCH)
}
