//! DTranx, through its asynchronous client. All workers are one client, or few: their requests go
//! out together.
//!
//! A transaction's reads count only if it commits: before that a key may not have what an
//! acknowledged transaction wrote.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use async_trait::async_trait;
use benchkit::run::Attempt;
use dtranx::{
    client::{AsyncClient, AsyncTransaction, ClientOptions, Error},
    core::Refusal,
    wire::ServerStatus,
};

use super::{Served, Store, Worker, transferred};
use crate::{
    error::BenchError,
    rival,
    settings::Settings,
    workload::{Transaction, key, value},
};

const NAME: &str = "dtranx";
/// Keys written by one transaction while the store is filled.
const BATCH: u64 = 500;

pub(super) struct Dtranx {
    client: AsyncClient,
    /// Clients of the workers, which take turns at them.
    clients: Vec<AsyncClient>,
    next: AtomicUsize,
    uses_current_items: bool,
    _servers: rival::Dtranx,
}

impl Dtranx {
    pub(super) async fn start(servers: u16, settings: &Settings) -> Result<Self, BenchError> {
        let servers = rival::Dtranx::start(servers, settings)?;
        let options = ClientOptions { cache_items: settings.cache_items, ..ClientOptions::default() };
        let connect = async || AsyncClient::connect(servers.addresses(), options.clone()).await.map_err(failed);
        rival::until_ready(NAME, async || {
            let client = connect().await?;
            // Every server answers.
            for member in &client.cluster().servers {
                client.status(member.id).await.map_err(failed)?;
            }
            Ok(())
        })
        .await?;
        let mut clients = Vec::new();
        for _ in 0..settings.clients {
            clients.push(connect().await?);
        }
        let (next, uses_current_items) = (AtomicUsize::new(0), settings.uses_current_items);
        Ok(Self { client: connect().await?, clients, next, uses_current_items, _servers: servers })
    }

    async fn statuses(&self) -> Result<Vec<ServerStatus>, BenchError> {
        let mut statuses = Vec::new();
        for member in &self.client.cluster().servers {
            statuses.push(self.client.status(member.id).await.map_err(failed)?);
        }
        Ok(statuses)
    }
}

fn failed(error: Error) -> BenchError {
    BenchError::store(NAME, error)
}

fn batches(keys: u64) -> impl Iterator<Item = Range<u64>> {
    (0..keys).step_by(BATCH as usize).map(move |first| first..(first + BATCH).min(keys))
}

#[async_trait]
impl Store for Dtranx {
    async fn load(&self, keys: u64, value_bytes: u32) -> Result<(), BenchError> {
        for batch in batches(keys) {
            let fill = async move |tranx: &mut AsyncTransaction| {
                batch.clone().try_for_each(|number| tranx.put(key(number), value(0, value_bytes)))
            };
            self.client.transact(fill).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn worker(&self, value_bytes: u32) -> Result<Box<dyn Worker>, BenchError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let client = self.clients.get(turn % self.clients.len().max(1)).unwrap_or(&self.client).clone();
        let uses_current_items = self.uses_current_items;
        Ok(Box::new(DtranxWorker { client, value_bytes, written: 0, uses_current_items, refused: None }))
    }

    async fn values(&self, keys: u64) -> Result<Vec<Option<Vec<u8>>>, BenchError> {
        let mut values = Vec::new();
        for batch in batches(keys) {
            let read = async move |tranx: &mut AsyncTransaction| tranx.multi_get(batch.clone().map(key)).await;
            let found = self.client.transact(read).await.map_err(failed)?;
            values.extend(found.into_iter().map(|value| value.map(Vec::from)));
        }
        Ok(values)
    }

    async fn log_bytes(&self) -> Result<u64, BenchError> {
        Ok(self.statuses().await?.iter().map(|status| status.log_bytes).sum())
    }

    async fn served(&self) -> Result<Option<Served>, BenchError> {
        let mut served = Served::default();
        for status in self.statuses().await? {
            served.reads += status.cached_reads;
            for stage in &status.readings.stages {
                match stage.name.as_str() {
                    "read" => served.reads += stage.handled,
                    "network" => served.messages += stage.handled,
                    _ => {}
                }
            }
        }
        Ok(Some(served))
    }
}

struct DtranxWorker {
    client: AsyncClient,
    value_bytes: u32,
    written: i64,
    uses_current_items: bool,
    /// Refusal of the last attempt, if it is used, and the time of the first attempt.
    refused: Option<(Refusal, Instant)>,
}

impl DtranxWorker {
    /// Reads and writes. The inner error reports a read of an impossible value, which counts if the
    /// transaction commits.
    async fn work(
        &mut self,
        tranx: &mut AsyncTransaction,
        transaction: &Transaction,
    ) -> Result<Result<(), BenchError>, Error> {
        match transaction {
            Transaction::Read(read) => drop(tranx.multi_get(read.iter().map(|number| key(*number))).await?),
            Transaction::Update(read, written) => {
                if !read.is_empty() {
                    tranx.multi_get(read.iter().map(|number| key(*number))).await?;
                }
                self.written += 1;
                tranx.put(key(*written), value(self.written, self.value_bytes))?;
            }
            Transaction::Transfer(from, to) => {
                let found = tranx.multi_get([key(*from), key(*to)]).await?;
                let old = |nth: usize| found.get(nth).and_then(Option::as_deref);
                match transferred(NAME, old(0), old(1), self.value_bytes) {
                    Ok((lowered, raised)) => {
                        tranx.put(key(*from), lowered)?;
                        tranx.put(key(*to), raised)?;
                    }
                    Err(broken) => return Ok(Err(broken)),
                }
            }
        }
        Ok(Ok(()))
    }
}

#[async_trait]
impl Worker for DtranxWorker {
    async fn attempt(&mut self, transaction: &Transaction) -> Result<Attempt, BenchError> {
        let (mut tranx, first) = match self.refused.take() {
            Some((refusal, first)) => (self.client.begin_again(refusal).tried_since(first), first),
            None => (self.client.begin(), Instant::now()),
        };
        let judged = self.work(&mut tranx, transaction).await.map_err(failed)?;
        match tranx.commit().await {
            Ok(_) => judged.map(|()| Attempt::Committed),
            Err(Error::Refused(refusal)) => {
                let is_kept = self.uses_current_items && matches!(refusal, Refusal::Stale { kept: Some(_), .. });
                let reason = reason(&refusal);
                self.refused = self.uses_current_items.then_some((refusal, first));
                Ok(if is_kept { Attempt::Kept(reason) } else { Attempt::Conflict(reason) })
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// A refusal in a few words, for counting.
fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::ReadLocked { .. } | Refusal::WriteLocked { .. } => "locked",
        Refusal::Stale { .. } => "read what has changed",
        Refusal::LockWaitExpired => "waited for a lock",
        _ => "refused",
    }
}
