//! TPC-C as a workload of the workbench: what it needs of targets, its load, its clients, its
//! check.

use async_trait::async_trait;

use super::{
    check::{self, State, read, tell},
    client::{ORDERS, PAID_CENTS, TpccClient},
    kind::Kind,
    load::{Load, load},
    options::TpccOptions,
    rows::customer::FIRST_PAYMENT_CENTS,
    scale::{DISTRICTS, Scale},
};
use crate::{
    error::BenchError,
    targets::{Feature, Session, Target, TxOptions},
    workload::{Broken, Check, Client, ClientId, Progress, Totals, Workload, WorkloadOptions},
};

/// The workload with its options.
pub(super) struct Tpcc(TpccOptions);

impl WorkloadOptions for TpccOptions {
    fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
        Ok(Box::new(Tpcc(self.clone())))
    }
}

impl Tpcc {
    /// Options that keep a run from being TPC-C.
    fn deviations(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.0.scale().is_scaled() {
            all.push(format!("scaled to {} of a warehouse", self.0.scale));
        }
        if self.0.rollback_percent != 1 {
            all.push(format!("{} % of new orders rolled back", self.0.rollback_percent));
        }
        all
    }
}

#[async_trait]
impl Workload for Tpcc {
    fn title(&self) -> String {
        let keys = if self.0.natural_keys { " with natural keys" } else { "" };
        let schema = format!("{}{keys}", self.0.schema.name());
        match self.deviations().is_empty() {
            true => format!("tpcc {schema}"),
            false => format!("tpcc {schema} ({}; not TPC-C)", self.deviations().join(", ")),
        }
    }

    fn about(&self) -> String {
        let (scale, how) = (self.0.scale(), self.0.how());
        let warehouses = scale.warehouses;
        let mut about = format!(
            "{}, {warehouses} warehouse(s) of {} items and {DISTRICTS} districts of {} customers",
            self.title(),
            scale.items,
            scale.customers
        );
        let chosen = [
            (how.needed_fields, "needed fields only"),
            (how.writes_first, "writes first"),
            (how.find_and_modify, "findAndModify"),
            (how.batch, "batches"),
        ];
        about.extend(chosen.into_iter().filter(|(on, _)| *on).map(|(_, what)| format!(", {what}")));
        match self.0.think_time {
            0.0 => about += ", no think time",
            times => about += &format!(", {times} times the think time"),
        }
        for of in &self.0.tx_isolation {
            about += &format!(", {} at {:?}", of.kind, of.value);
        }
        for of in &self.0.tx_write_concern {
            about += &format!(", {} with {}", of.kind, of.value);
        }
        about
    }

    fn needs(&self) -> Vec<Feature> {
        let mut needs = vec![Feature::General, Feature::Insert, Feature::Query, Feature::OwnWrites];
        needs.extend(self.0.natural_keys.then_some(Feature::UniqueIndex));
        needs
    }

    fn transactions(&self) -> Vec<TxOptions> {
        Kind::ALL.map(|kind| self.0.transaction(kind)).to_vec()
    }

    fn collections(&self) -> Vec<&'static str> {
        self.0.schema.collections().into_iter().map(|(name, _)| name).collect()
    }

    async fn load(&self, target: &dyn Target, seed: u64, progress: Progress<'_>) -> Result<(), BenchError> {
        let TpccOptions { schema, constants_seed, natural_keys, .. } = self.0;
        load(target, &Load { scale: self.0.scale(), schema, natural_keys, seed, constants_seed }, progress).await
    }

    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError> {
        Ok(Box::new(TpccClient::new(&self.0, id)))
    }

    /// Checks the consistency conditions of the specification, that no row is lost of those that
    /// are never removed, and that all that was acknowledged is there.
    async fn check(&self, session: &mut dyn Session, totals: &Totals) -> Check {
        let scale = self.0.scale();
        let state = read(session, self.0.schema, &scale).await?;
        let violations = check::violations(&state, &scale);
        if !violations.is_empty() {
            return Err(Broken::Promise(tell(&violations)));
        }
        loaded_rows(&state, &scale)?;
        acknowledged(&state, &scale, totals)
    }
}

fn loaded_rows(state: &State, scale: &Scale) -> Check {
    let found = [state.warehouses.len() as u64, state.districts.len() as u64, state.customers.len() as u64];
    let expected = [scale.warehouses.into(), scale.of_districts(1), scale.of_districts(scale.customers)];
    if found == expected {
        return Ok(());
    }
    let reason = format!("there are {found:?} warehouses, districts and customers; {expected:?} were loaded");
    Err(Broken::Promise(reason))
}

/// Checks the number of orders and payments. A transaction with an unknown outcome may have made
/// one more.
fn acknowledged(state: &State, scale: &Scale, totals: &Totals) -> Check {
    let loaded = scale.of_districts(scale.customers);
    let orders = (state.orders.len() as u64).saturating_sub(loaded);
    let paid: i64 = state.paid_to.values().sum();
    let paid = paid.unsigned_abs().saturating_sub(loaded * FIRST_PAYMENT_CENTS.unsigned_abs());
    for (what, found, most_unknown) in [(ORDERS, orders, totals.unknown), (PAID_CENTS, paid, totals.unknown * 500_000)]
    {
        let acknowledged = totals.effect(what);
        if !(acknowledged..=acknowledged + most_unknown).contains(&found) {
            let unknown = totals.unknown;
            let reason =
                format!("{found} {what} are there; {acknowledged} were acknowledged, {unknown} outcomes are unknown");
            return Err(Broken::Promise(reason));
        }
    }
    Ok(())
}
