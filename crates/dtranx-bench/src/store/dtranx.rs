//! DTranx, through its client library. Each worker is a thread while it waits, as an application's would be.
//!
//! What a transaction reads counts only if it commits: before that a key may not have what an acknowledged transaction wrote.

use async_trait::async_trait;
use dtranx::client::{Client, ClientOptions, Error, Transaction as Tranx};
use tokio::task::block_in_place;

use super::{Attempt, Store, Worker, transferred};
use crate::{
    args::DtranxOptions,
    error::BenchError,
    rival,
    workload::{Transaction, key, value},
};

const NAME: &str = "dtranx";
/// Keys written by one transaction while the store is filled.
const BATCH: u64 = 500;

pub(super) struct Dtranx {
    client: Client,
    _servers: rival::Dtranx,
}

impl Dtranx {
    pub(super) async fn start(servers: u16, options: &DtranxOptions) -> Result<Self, BenchError> {
        let servers = rival::Dtranx::start(servers, options)?;
        let connect = || Client::connect(servers.addresses(), ClientOptions::default()).map_err(failed);
        rival::until_ready(NAME, async || {
            let client = block_in_place(connect)?;
            // Every server answers.
            for member in &client.cluster().servers {
                block_in_place(|| client.status(member.id)).map_err(failed)?;
            }
            Ok(())
        })
        .await?;
        Ok(Self { client: block_in_place(connect)?, _servers: servers })
    }
}

fn failed(error: Error) -> BenchError {
    BenchError::store(NAME, error)
}

fn batches(keys: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..keys).step_by(BATCH as usize).map(move |first| first..(first + BATCH).min(keys))
}

#[async_trait]
impl Store for Dtranx {
    async fn load(&self, keys: u64, value_bytes: u32) -> Result<(), BenchError> {
        block_in_place(|| {
            batches(keys).try_for_each(|batch| {
                let fill = |tranx: &mut Tranx| {
                    batch.clone().try_for_each(|number| tranx.put(key(number), value(0, value_bytes)))
                };
                self.client.transact(fill).map(drop)
            })
        })
        .map_err(failed)
    }

    async fn worker(&self, value_bytes: u32) -> Result<Box<dyn Worker>, BenchError> {
        Ok(Box::new(DtranxWorker { client: self.client.clone(), value_bytes, written: 0 }))
    }

    async fn values(&self, keys: u64) -> Result<Vec<Option<Vec<u8>>>, BenchError> {
        let read = |batch: std::ops::Range<u64>| {
            let found = self.client.transact(|tranx| tranx.multi_get(batch.clone().map(key)))?;
            Ok(found.into_iter().map(|value| value.map(Vec::from)).collect::<Vec<_>>())
        };
        let all: Result<Vec<Vec<_>>, Error> = block_in_place(|| batches(keys).map(read).collect());
        Ok(all.map_err(failed)?.concat())
    }
}

struct DtranxWorker {
    client: Client,
    value_bytes: u32,
    written: i64,
}

impl DtranxWorker {
    /// Reads and writes. The inner error tells that it read what cannot be, which counts if that commits.
    fn write(&mut self, tranx: &mut Tranx, transaction: &Transaction) -> Result<Result<(), BenchError>, Error> {
        let keys = |numbers: &[u64]| numbers.iter().map(|number| key(*number)).collect::<Vec<_>>();
        match transaction {
            Transaction::Read(read) => tranx.multi_get(keys(read)).map(drop)?,
            Transaction::Update(read, written) => {
                tranx.multi_get(keys(read))?;
                self.written += 1;
                tranx.put(key(*written), value(self.written, self.value_bytes))?;
            }
            Transaction::Transfer(from, to) => {
                let found = tranx.multi_get(keys(&[*from, *to]))?;
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

    fn try_once(&mut self, transaction: &Transaction) -> Result<Attempt, BenchError> {
        let mut tranx = self.client.begin();
        let judged = self.write(&mut tranx, transaction).map_err(failed)?;
        match tranx.commit() {
            Ok(_) => judged.map(|()| Attempt::Committed),
            Err(Error::Refused(_)) => Ok(Attempt::Conflict),
            Err(error) => Err(failed(error)),
        }
    }
}

#[async_trait]
impl Worker for DtranxWorker {
    async fn attempt(&mut self, transaction: &Transaction) -> Result<Attempt, BenchError> {
        block_in_place(|| self.try_once(transaction))
    }
}
