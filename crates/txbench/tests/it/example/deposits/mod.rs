//! Deposits: every transaction adds one to an account.

use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use clap::Args;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};

use crate::{
    error::{BenchError, OpResult},
    targets::{Feature, Find, Session, Target, TxOptions, Update},
    workload::{Broken, Check, Chosen, Client, ClientId, Done, Progress, Totals, Workload, registry::WorkloadOptions},
};

const ACCOUNTS: &str = "accounts";

/// The options of deposits.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct DepositsOptions {
    /// Accounts to choose from
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub accounts: u32,
}

impl WorkloadOptions for DepositsOptions {
    fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
        Ok(Box::new(Deposits(self.clone())))
    }
}

struct Deposits(DepositsOptions);

#[async_trait]
impl Workload for Deposits {
    fn title(&self) -> String {
        "deposits".to_owned()
    }

    fn about(&self) -> String {
        format!("one of {} accounts gets one more, by _id", self.0.accounts)
    }

    fn needs(&self) -> Vec<Feature> {
        vec![Feature::General]
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![ACCOUNTS]
    }

    async fn load(&self, target: &dyn Target, _seed: u64, progress: Progress<'_>) -> Result<(), BenchError> {
        let all = u64::from(self.0.accounts);
        target.create(ACCOUNTS, &[]).await?;
        target.load(ACCOUNTS, (0..self.0.accounts).map(|id| doc! {"_id": id, "balance": 0_i64}).collect()).await?;
        progress(all, all);
        Ok(())
    }

    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError> {
        Ok(Box::new(Depositor { random: StdRng::seed_from_u64(id.seed), accounts: self.0.accounts, account: 0 }))
    }

    /// Every deposit that was acknowledged is there, and none that was not made.
    async fn check(&self, session: &mut dyn Session, totals: &Totals) -> Check {
        let accounts = session.find(ACCOUNTS, Find::new(doc! {})).await?;
        let sum: i64 = accounts.iter().filter_map(|account| account.get_i64("balance").ok()).sum();
        let (least, most) = (totals.committed, totals.committed + totals.unknown);
        match u64::try_from(sum) {
            Ok(sum) if (least..=most).contains(&sum) => Ok(()),
            _ => Err(Broken::Promise(format!("{sum} deposits are there; {least} to {most} must be"))),
        }
    }
}

struct Depositor {
    random: StdRng,
    accounts: u32,
    account: u32,
}

#[async_trait]
impl Client for Depositor {
    fn choose(&mut self) -> Chosen {
        self.account = self.random.random_range(0..self.accounts);
        Chosen { kind: "deposit", operations: 1, wait: Duration::ZERO }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        session.begin(&TxOptions::default()).await?;
        let update = Update { filter: doc! {"_id": self.account}, update: doc! {"$inc": {"balance": 1_i64}} };
        session.update(ACCOUNTS, update).await?;
        session.commit().await?;
        Ok(Done::Committed)
    }
}
