//! Redis, one server, its append-only file synced before a write is answered.
//!
//! A transaction that only reads is one `MGET`. Others `WATCH` what they read; `EXEC` does nothing
//! if it has changed.

use async_trait::async_trait;
use benchkit::run::Attempt;
use redis::aio::MultiplexedConnection;

use super::{Store, Worker, transferred};
use crate::{
    error::BenchError,
    rival,
    workload::{Transaction, key, value},
};

const NAME: &str = "redis";
const BATCH: u64 = 1_000;

pub(super) struct Redis {
    server: rival::Redis,
}

impl Redis {
    pub(super) async fn start() -> Result<Self, BenchError> {
        let this = Self { server: rival::Redis::start()? };
        rival::until_ready(NAME, async || {
            redis::cmd("PING").query_async::<()>(&mut this.connect().await?).await.map_err(failed)
        })
        .await?;
        Ok(this)
    }

    /// A connection of its own: what is watched belongs to the connection.
    async fn connect(&self) -> Result<MultiplexedConnection, BenchError> {
        let client = redis::Client::open(self.server.url()).map_err(failed)?;
        client.get_multiplexed_async_connection().await.map_err(failed)
    }
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::store(NAME, error)
}

#[async_trait]
impl Store for Redis {
    async fn load(&self, keys: u64, value_bytes: u32) -> Result<(), BenchError> {
        let mut connection = self.connect().await?;
        for first in (0..keys).step_by(BATCH as usize) {
            let mut set = redis::cmd("MSET");
            for number in first..(first + BATCH).min(keys) {
                set.arg(key(number)).arg(value(0, value_bytes));
            }
            set.query_async::<()>(&mut connection).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn worker(&self, value_bytes: u32) -> Result<Box<dyn Worker>, BenchError> {
        Ok(Box::new(RedisWorker { connection: self.connect().await?, value_bytes, written: 0 }))
    }

    async fn values(&self, keys: u64) -> Result<Vec<Option<Vec<u8>>>, BenchError> {
        let mut connection = self.connect().await?;
        let mut values = Vec::new();
        for first in (0..keys).step_by(BATCH as usize) {
            let all: Vec<u64> = (first..(first + BATCH).min(keys)).collect();
            values.extend(mget(&mut connection, &all).await?);
        }
        Ok(values)
    }
}

async fn mget(connection: &mut MultiplexedConnection, keys: &[u64]) -> Result<Vec<Option<Vec<u8>>>, BenchError> {
    let keys: Vec<Vec<u8>> = keys.iter().map(|number| key(*number)).collect();
    redis::cmd("MGET").arg(keys).query_async(connection).await.map_err(failed)
}

struct RedisWorker {
    connection: MultiplexedConnection,
    value_bytes: u32,
    written: i64,
}

impl RedisWorker {
    /// Reads, and watches from then on.
    async fn watch(&mut self, keys: &[u64]) -> Result<Vec<Option<Vec<u8>>>, BenchError> {
        let names: Vec<Vec<u8>> = keys.iter().map(|number| key(*number)).collect();
        let mut both = redis::pipe();
        both.cmd("WATCH").arg(&names).ignore().cmd("MGET").arg(&names);
        let (found,): (Vec<Option<Vec<u8>>>,) = both.query_async(&mut self.connection).await.map_err(failed)?;
        Ok(found)
    }

    /// Writes if what is watched has not changed.
    async fn write(&mut self, writes: Vec<(u64, Vec<u8>)>) -> Result<Attempt, BenchError> {
        let mut all = redis::pipe();
        all.atomic();
        for (number, value) in writes {
            all.cmd("SET").arg(key(number)).arg(value).ignore();
        }
        let done: Option<()> = all.query_async(&mut self.connection).await.map_err(failed)?;
        Ok(if done.is_some() { Attempt::Committed } else { Attempt::Conflict("read what has changed") })
    }
}

#[async_trait]
impl Worker for RedisWorker {
    async fn attempt(&mut self, transaction: &Transaction) -> Result<Attempt, BenchError> {
        match transaction {
            Transaction::Read(keys) => mget(&mut self.connection, keys).await.map(|_| Attempt::Committed),
            Transaction::Update(keys, written) => {
                if !keys.is_empty() {
                    self.watch(keys).await?;
                }
                self.written += 1;
                self.write(vec![(*written, value(self.written, self.value_bytes))]).await
            }
            Transaction::Transfer(from, to) => {
                let found = self.watch(&[*from, *to]).await?;
                let old = |nth: usize| found.get(nth).and_then(Option::as_deref);
                let (lowered, raised) = transferred(NAME, old(0), old(1), self.value_bytes)?;
                self.write(vec![(*from, lowered), (*to, raised)]).await
            }
        }
    }
}
