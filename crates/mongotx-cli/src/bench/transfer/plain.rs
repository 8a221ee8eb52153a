//! The two updates without a transaction: fast, and half a transfer when the client dies in between.

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use mongodb::{
    Collection,
    options::{Acknowledgment, WriteConcern},
};

use super::{
    super::{BenchError, counting::CountingDriver},
    target::{ACCOUNTS, Outcome, Target, Transfer, Worker},
};

/// The official driver, without transactions.
pub(crate) struct Plain {
    driver: CountingDriver,
    db: String,
}

struct PlainWorker {
    accounts: Collection<Document>,
}

impl Plain {
    pub(crate) async fn connect(uri: &str, db: &str) -> Result<Self, BenchError> {
        let driver = CountingDriver::connect(uri).await?;
        driver.client.database("admin").run_command(doc! {"ping": 1}).await?;
        Ok(Self { driver, db: db.to_owned() })
    }
}

impl Target for Plain {
    fn worker(&self) -> BoxFuture<'_, Result<Box<dyn Worker>, BenchError>> {
        let accounts = self.driver.client.database(&self.db).collection(ACCOUNTS);
        Box::pin(async { Ok(Box::new(PlainWorker { accounts }) as Box<dyn Worker>) })
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

impl Worker for PlainWorker {
    fn transfer(&mut self, transfer: Transfer) -> BoxFuture<'_, Result<Outcome, BenchError>> {
        let [(from, less), (to, more)] = transfer.updates();
        Box::pin(async move {
            let acknowledged = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
            let journaled = WriteConcern::builder().w(Acknowledgment::Nodes(1)).journal(true).build();
            self.accounts.update_one(from, less).write_concern(acknowledged).await?;
            self.accounts.update_one(to, more).write_concern(journaled).await?;
            Ok(Outcome::Done)
        })
    }
}
