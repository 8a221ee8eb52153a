//! A server of DTranx that is killed and started again; measures the time until it answers.
//!
//! A marker is counted up by each transaction around a kill: what was acknowledged before must be
//! there after it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use dtranx::client::{AsyncClient, AsyncTransaction, ClientOptions, Error};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    error::BenchError,
    rival::{Dtranx, until_ready},
    settings::Settings,
    workload::{counter, key, value},
};

const NAME: &str = "dtranx";
const MARKER: &str = "marker";
/// Time between two looks whether the server answers.
const POLL: Duration = Duration::from_millis(2);
/// Time limit of a restart.
const RESTART_LIMIT: Duration = Duration::from_secs(300);
/// Time limit of collecting the log; then, the time between two looks at it.
const COLLECTED_LIMIT: Duration = Duration::from_secs(30);
const COLLECTED_POLL: Duration = Duration::from_millis(100);
/// Transactions under way while a log is filled.
const WRITERS: usize = 256;

/// Writes that fill a log: transactions of one value each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Keys, each written again and again.
    pub(crate) keys: u64,
    /// Bytes of each value.
    pub(crate) value_bytes: u32,
}

/// One server, with a client.
pub(crate) struct Restarted {
    server: Dtranx,
    client: AsyncClient,
    marker: i64,
    /// Number of values written.
    written: Arc<AtomicU64>,
}

impl Restarted {
    /// Starts a server with nothing in it.
    pub(crate) async fn start(settings: &Settings) -> Result<Self, BenchError> {
        let server = Dtranx::start(1, settings)?;
        let connect = async || AsyncClient::connect(server.addresses(), ClientOptions::default()).await.map_err(failed);
        until_ready(NAME, async || connect().await.map(drop)).await?;
        let client = connect().await?;
        let mut restarted = Self { server, client, marker: 0, written: Arc::default() };
        restarted.mark().await?;
        Ok(restarted)
    }

    /// Writes values until so many bytes were written since the server was new.
    pub(crate) async fn fill(&self, filling: Filling, bytes: u64) -> Result<(), BenchError> {
        let values = bytes / u64::from(filling.value_bytes);
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let (client, written) = (self.client.clone(), Arc::clone(&self.written));
            writers.spawn(async move {
                let next = |number| (number < values).then_some(number + 1);
                while let Ok(number) = written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
                    let value = value(number as i64, filling.value_bytes);
                    client.put(key(number % filling.keys), value).await.map_err(failed)?;
                }
                Ok::<_, BenchError>(())
            });
        }
        while let Some(ended) = writers.join_next().await {
            ended.map_err(|error| BenchError::Refused(format!("a writer ended: {error}")))??;
        }
        Ok(())
    }

    /// Waits until the log has so few segments, so that what is collected is.
    pub(crate) async fn until_collected(&self, segments: u64) -> Result<(), BenchError> {
        let until = Instant::now() + COLLECTED_LIMIT;
        while self.status().await?.0 > segments {
            if Instant::now() >= until {
                let why = format!("its log still has more than {segments} segments after {COLLECTED_LIMIT:?}");
                return Err(BenchError::store(NAME, why));
            }
            sleep(COLLECTED_POLL).await;
        }
        Ok(())
    }

    /// The size of the log.
    pub(crate) async fn log_bytes(&self) -> Result<u64, BenchError> {
        Ok(self.status().await?.1)
    }

    /// Segments and bytes of the log.
    async fn status(&self) -> Result<(u64, u64), BenchError> {
        let mut all = (0, 0);
        for member in &self.client.cluster().servers {
            let status = self.client.status(member.id).await.map_err(failed)?;
            all = (all.0 + status.log_segments, all.1 + status.log_bytes);
        }
        Ok(all)
    }

    /// Kills the server, starts it, and measures from then until a durable transaction is answered.
    pub(crate) async fn kill_and_start(&mut self) -> Result<Duration, BenchError> {
        self.mark().await?;
        self.server.kill()?;
        let began = Instant::now();
        self.server.start_again()?;
        self.client = loop {
            match AsyncClient::connect(self.server.addresses(), ClientOptions::default()).await {
                Ok(client) => break client,
                Err(error) if began.elapsed() >= RESTART_LIMIT => return Err(failed(error)),
                Err(_) => sleep(POLL).await,
            }
        };
        self.mark().await?;
        Ok(began.elapsed())
    }

    /// Counts the marker up. It must have the value that was acknowledged last.
    async fn mark(&mut self) -> Result<(), BenchError> {
        let next = self.marker + 1;
        let count = async move |tranx: &mut AsyncTransaction| {
            let found = tranx.get(MARKER).await?;
            tranx.put(MARKER, value(next, 8))?;
            Ok(found.map_or(Some(0), |found| counter(&found)))
        };
        let found = self.client.transact(count).await.map_err(failed)?;
        if found != Some(self.marker) {
            let what = format!("the marker is {found:?}, and {} was acknowledged", self.marker);
            return Err(BenchError::Broken { store: NAME, what });
        }
        self.marker = next;
        Ok(())
    }
}

fn failed(error: Error) -> BenchError {
    BenchError::store(NAME, error)
}
