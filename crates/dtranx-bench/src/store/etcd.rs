//! etcd. It syncs its log before it answers; reads go to the leader, so that they are the latest.
//!
//! A transaction that only reads is one request. Others read with one request, and with the second
//! write if nothing of what they read has changed since.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use benchkit::run::Attempt;
use tonic::transport::{Channel, Endpoint};

use super::{
    Store, Worker,
    etcd_api::{Compare, KeyValue, Operation, Txn, TxnAnswer, send},
    transferred,
};
use crate::{
    error::BenchError,
    rival,
    workload::{Transaction, key, value},
};

const NAME: &str = "etcd";
/// Number of operations that etcd takes in one transaction by default.
const BATCH: u64 = 128;

/// Connections that workers share, as etcd's own clients do: requests that gather on one go out
/// together.
const CONNECTIONS: usize = 8;

/// Servers, and connections to them.
pub(super) struct Etcd {
    servers: rival::Etcd,
    channels: Vec<Channel>,
    next: AtomicUsize,
}

impl Etcd {
    pub(super) async fn start(servers: u16) -> Result<Self, BenchError> {
        let mut this = Self { servers: rival::Etcd::start(servers)?, channels: Vec::new(), next: AtomicUsize::new(0) };
        rival::until_ready(NAME, async || {
            let asked = Txn { compare: Vec::new(), success: vec![Operation::read(key(0))] };
            send(&this.connect().await?, asked).await.map(drop).map_err(failed)
        })
        .await?;
        for _ in 0..CONNECTIONS {
            this.channels.push(this.connect().await?);
        }
        Ok(this)
    }

    /// A connection to the next server.
    async fn connect(&self) -> Result<Channel, BenchError> {
        let urls = self.servers.urls();
        let url = &urls[self.next.fetch_add(1, Ordering::Relaxed) % urls.len()];
        Endpoint::from_shared(url.clone()).map_err(failed)?.connect().await.map_err(failed)
    }
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::store(NAME, error)
}

#[async_trait]
impl Store for Etcd {
    async fn load(&self, keys: u64, value_bytes: u32) -> Result<(), BenchError> {
        let channel = self.connect().await?;
        for first in (0..keys).step_by(BATCH as usize) {
            let batch = first..(first + BATCH).min(keys);
            let success = batch.map(|number| Operation::write(key(number), value(0, value_bytes))).collect();
            send(&channel, Txn { compare: Vec::new(), success }).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn worker(&self, value_bytes: u32) -> Result<Box<dyn Worker>, BenchError> {
        let channel = self.channels[self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS].clone();
        Ok(Box::new(EtcdWorker { channel, value_bytes, written: 0 }))
    }

    async fn values(&self, keys: u64) -> Result<Vec<Option<Vec<u8>>>, BenchError> {
        let channel = self.connect().await?;
        let mut values = Vec::new();
        for first in (0..keys).step_by(BATCH as usize) {
            let success = (first..(first + BATCH).min(keys)).map(|number| Operation::read(key(number))).collect();
            let answer = send(&channel, Txn { compare: Vec::new(), success }).await.map_err(failed)?;
            values.extend(answer.found().into_iter().map(|found| found.map(|found| found.value)));
        }
        Ok(values)
    }
}

struct EtcdWorker {
    channel: Channel,
    value_bytes: u32,
    written: i64,
}

impl EtcdWorker {
    async fn send(&self, compare: Vec<Compare>, success: Vec<Operation>) -> Result<TxnAnswer, BenchError> {
        send(&self.channel, Txn { compare, success }).await.map_err(failed)
    }

    async fn read(&self, keys: &[u64]) -> Result<Vec<Option<KeyValue>>, BenchError> {
        let reads = keys.iter().map(|number| Operation::read(key(*number))).collect();
        Ok(self.send(Vec::new(), reads).await?.found())
    }

    /// Writes if what was read has not changed.
    async fn write(
        &self,
        read: &[u64],
        found: &[Option<KeyValue>],
        writes: Vec<Operation>,
    ) -> Result<Attempt, BenchError> {
        let revision = |found: &Option<KeyValue>| found.as_ref().map_or(0, |found| found.mod_revision);
        let unchanged = read.iter().zip(found).map(|(number, found)| Compare::unchanged(key(*number), revision(found)));
        let answer = self.send(unchanged.collect(), writes).await?;
        Ok(if answer.succeeded { Attempt::Committed } else { Attempt::Conflict("read what has changed") })
    }
}

#[async_trait]
impl Worker for EtcdWorker {
    async fn attempt(&mut self, transaction: &Transaction) -> Result<Attempt, BenchError> {
        match transaction {
            Transaction::Read(keys) => self.read(keys).await.map(|_| Attempt::Committed),
            Transaction::Update(keys, written) => {
                let found = if keys.is_empty() { Vec::new() } else { self.read(keys).await? };
                self.written += 1;
                let write = Operation::write(key(*written), value(self.written, self.value_bytes));
                self.write(keys, &found, vec![write]).await
            }
            Transaction::Transfer(from, to) => {
                let keys = [*from, *to];
                let found = self.read(&keys).await?;
                let old = |nth: usize| found.get(nth).and_then(Option::as_ref).map(|found| found.value.as_slice());
                let (lowered, raised) = transferred(NAME, old(0), old(1), self.value_bytes)?;
                let writes = vec![Operation::write(key(*from), lowered), Operation::write(key(*to), raised)];
                self.write(&keys, &found, writes).await
            }
        }
    }
}
