//! A hot spot: many clients, few documents. Every transaction adds one to several of them, in any
//! order.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Document, doc};
use clap::Args;
use rand::{SeedableRng, rngs::StdRng, seq::index::sample};
use serde::{Deserialize, Serialize};

use super::{Broken, Check, Chosen, Client, ClientId, Done, Progress, Totals, Workload, WorkloadOptions};
use crate::{
    error::{BenchError, OpResult},
    targets::{Feature, Find, Session, Target, TxOptions, Update},
};

const COUNTERS: &str = "counters";

/// The options of a hot spot.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct HotSpotOptions {
    /// Number of documents that all clients change
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub documents: u32,
    /// Number of these documents that one transaction changes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub writes: u32,
}

impl WorkloadOptions for HotSpotOptions {
    fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
        if self.writes > self.documents {
            let reason = format!("--writes: {} of {} documents cannot be changed", self.writes, self.documents);
            return Err(BenchError::Refused(reason));
        }
        Ok(Box::new(HotSpot(self.clone())))
    }
}

struct HotSpot(HotSpotOptions);

#[async_trait]
impl Workload for HotSpot {
    fn title(&self) -> String {
        "hot-spot".to_owned()
    }

    fn about(&self) -> String {
        let HotSpotOptions { documents, writes } = self.0;
        format!("{writes} different ones of {documents} documents incremented by _id, in random order")
    }

    fn needs(&self) -> Vec<Feature> {
        vec![Feature::General]
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![COUNTERS]
    }

    async fn load(&self, target: &dyn Target, _seed: u64, progress: Progress<'_>) -> Result<(), BenchError> {
        target.create(COUNTERS, &[]).await?;
        let counters: Vec<Document> =
            (0..self.0.documents.cast_signed()).map(|id| doc! {"_id": id, "count": 0_i64}).collect();
        target.load(COUNTERS, counters).await?;
        progress(self.0.documents.into(), self.0.documents.into());
        Ok(())
    }

    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError> {
        let random = StdRng::seed_from_u64(id.seed);
        Ok(Box::new(HotSpotClient { random, options: self.0.clone(), chosen: Vec::new() }))
    }

    /// Checks that every acknowledged increment is there, and no other.
    async fn check(&self, session: &mut dyn Session, totals: &Totals) -> Check {
        let found = session.find(COUNTERS, Find::new(doc! {})).await?;
        let sum: i64 = found.iter().filter_map(|counter| counter.get_i64("count").ok()).sum();
        let least = totals.committed * u64::from(self.0.writes);
        let most = least + totals.unknown * u64::from(self.0.writes);
        match u64::try_from(sum) {
            Ok(sum) if (least..=most).contains(&sum) => Ok(()),
            _ => Err(Broken::Promise(format!("the counters hold {sum}; acknowledged were {least}, at most {most}"))),
        }
    }
}

struct HotSpotClient {
    random: StdRng,
    options: HotSpotOptions,
    chosen: Vec<i32>,
}

#[async_trait]
impl Client for HotSpotClient {
    fn choose(&mut self) -> Chosen {
        let HotSpotOptions { documents, writes } = self.options;
        let chosen = sample(&mut self.random, documents as usize, writes as usize);
        self.chosen = chosen.iter().filter_map(|at| i32::try_from(at).ok()).collect();
        Chosen { kind: "increments", operations: writes, wait: Duration::ZERO }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        session.begin(&TxOptions::default()).await?;
        for id in &self.chosen {
            let update = Update { filter: doc! {"_id": id}, update: doc! {"$inc": {"count": 1_i64}} };
            session.update(COUNTERS, update).await?;
        }
        session.commit().await?;
        Ok(Done::Committed)
    }
}
