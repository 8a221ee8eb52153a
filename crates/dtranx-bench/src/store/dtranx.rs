//! DTranx, through its client library. Each worker is a thread while it waits, as an application's would be.

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
            let found = self.client.begin().multi_get(batch.map(key))?;
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
    fn write(&mut self, tranx: &mut Tranx, transaction: &Transaction) -> Result<(), BenchError> {
        match transaction {
            Transaction::Read(keys) => {
                tranx.multi_get(keys.iter().map(|number| key(*number))).map(drop).map_err(failed)
            }
            Transaction::Update(keys, written) => {
                tranx.multi_get(keys.iter().map(|number| key(*number))).map_err(failed)?;
                self.written += 1;
                tranx.put(key(*written), value(self.written, self.value_bytes)).map_err(failed)
            }
            Transaction::Transfer(from, to) => {
                let found = tranx.multi_get([key(*from), key(*to)]).map_err(failed)?;
                let old = |nth: usize| found.get(nth).and_then(Option::as_deref);
                let (lowered, raised) = transferred(NAME, old(0), old(1), self.value_bytes)?;
                tranx.put(key(*from), lowered).map_err(failed)?;
                tranx.put(key(*to), raised).map_err(failed)
            }
        }
    }
}

#[async_trait]
impl Worker for DtranxWorker {
    async fn attempt(&mut self, transaction: &Transaction) -> Result<Attempt, BenchError> {
        block_in_place(|| {
            let mut tranx = self.client.begin();
            self.write(&mut tranx, transaction)?;
            match tranx.commit() {
                Ok(_) => Ok(Attempt::Committed),
                Err(Error::Refused(_)) => Ok(Attempt::Conflict),
                Err(error) => Err(failed(error)),
            }
        })
    }
}
