//! The balances of all accounts for the page, read about once a second by a client of their own:
//! each time all of them as of one moment, in a transaction like those of the workers.

use std::time::{Duration, Instant};

use bson::Document;
use mongotx::{Client, Collection, ErrorKind};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{live::Live, stage::Stage, worker::read_balances};
use crate::failure::Failure;

/// Time between two readings, if reading is quick.
const PAUSE: Duration = Duration::from_secs(1);
/// Least ratio of the pause to the time of the reading, which holds locks.
const SHARE: u32 = 4;
/// Pause after a reading that met another transaction.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Time that a reading waits for a transfer that is in its way.
const LOCK_WAIT: Duration = Duration::from_millis(200);

/// The task that reads.
pub(super) struct Watching {
    ending: CancellationToken,
    task: JoinHandle<Result<(), mongotx::Error>>,
}

impl Watching {
    /// Reads the accounts of the bank from now on.
    pub(super) async fn begin(stage: &Stage, live: &Live) -> Result<Self, Failure> {
        let client = stage.client().await?;
        let accounts = client.database(&stage.database).collection("accounts");
        let (ending, live) = (CancellationToken::new(), live.clone());
        let ended = ending.clone();
        let task = tokio::spawn(async move {
            while !ended.is_cancelled() {
                let pause = read_once(&client, &accounts, &live).await?;
                let _ = tokio::time::timeout(pause, ended.cancelled()).await;
            }
            client.shutdown().await
        });
        Ok(Self { ending, task })
    }

    /// Ends the readings; nothing of theirs is locked afterwards.
    pub(super) async fn end(self) -> Result<(), Failure> {
        self.ending.cancel();
        match self.task.await {
            Ok(ended) => Ok(ended?),
            Err(error) => Err(Failure::new(format!("the accounts could not be read: {error}"))),
        }
    }
}

/// Reads, unless a transfer is in the way. Returns the time until the next reading.
async fn read_once(client: &Client, accounts: &Collection<Document>, live: &Live) -> mongotx::Result<Duration> {
    let begun = Instant::now();
    match read_balances(&mut client.session(), accounts, LOCK_WAIT).await {
        Ok(balances) => {
            live.read(balances);
            Ok(PAUSE.max(begun.elapsed() * SHARE))
        }
        Err(error) => match error.kind() {
            ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::Unavailable | ErrorKind::Indeterminate => {
                Ok(RETRY_PAUSE)
            }
            _ => Err(error),
        },
    }
}
