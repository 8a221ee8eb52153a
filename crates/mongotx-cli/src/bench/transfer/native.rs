//! MongoDB's own transactions through the official driver: start, two updates, commit; abort after a transient error.

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use mongodb::{
    ClientSession, Collection,
    error::{Error, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
    options::{Acknowledgment, WriteConcern},
};

use super::{
    super::{BenchError, counting::CountingDriver},
    target::{ACCOUNTS, Outcome, Target, Transfer, Worker},
};

/// Times that a commit whose outcome is unknown is sent again.
const COMMITS: usize = 10;

/// The official driver with its sessions.
pub(crate) struct Native {
    driver: CountingDriver,
    db: String,
}

struct NativeWorker {
    session: ClientSession,
    accounts: Collection<Document>,
}

impl Native {
    pub(crate) async fn connect(uri: &str, db: &str) -> Result<Self, BenchError> {
        let driver = CountingDriver::connect(uri).await?;
        driver.client.database("admin").run_command(doc! {"ping": 1}).await?;
        Ok(Self { driver, db: db.to_owned() })
    }
}

impl Target for Native {
    fn worker(&self) -> BoxFuture<'_, Result<Box<dyn Worker>, BenchError>> {
        Box::pin(async {
            let session = self.driver.client.start_session().await?;
            let accounts = self.driver.client.database(&self.db).collection(ACCOUNTS);
            Ok(Box::new(NativeWorker { session, accounts }) as Box<dyn Worker>)
        })
    }

    fn commands(&self) -> u64 {
        self.driver.commands()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            self.driver.client.shutdown().await;
            Ok(())
        })
    }
}

impl Worker for NativeWorker {
    fn transfer(&mut self, transfer: Transfer) -> BoxFuture<'_, Result<Outcome, BenchError>> {
        Box::pin(async move {
            match self.attempt(transfer).await {
                Ok(()) => Ok(Outcome::Done),
                Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => {
                    // The server has aborted it already when the error came from there.
                    let _ = self.session.abort_transaction().await;
                    Ok(Outcome::Conflict)
                }
                Err(error) => Err(error.into()),
            }
        })
    }
}

impl NativeWorker {
    async fn attempt(&mut self, transfer: Transfer) -> Result<(), Error> {
        let durable = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
        self.session.start_transaction().write_concern(durable).await?;
        for (filter, change) in transfer.updates() {
            self.accounts.update_one(filter, change).session(&mut self.session).await?;
        }
        self.commit().await
    }

    async fn commit(&mut self) -> Result<(), Error> {
        let mut done = self.session.commit_transaction().await;
        for _ in 1..COMMITS {
            match &done {
                Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {
                    done = self.session.commit_transaction().await;
                }
                _ => break,
            }
        }
        done
    }
}
