//! MongoTx, with either layout.

use std::time::Duration;

use ::mongotx::{
    Client, ClientOptions, Collection, Error, Layout, Session, TransactionOptions, error::TRANSIENT_TRANSACTION_ERROR,
};
use bson::Document;
use futures_util::future::BoxFuture;

use super::{
    super::BenchError,
    target::{ACCOUNTS, Outcome, Target, Transfer, Worker},
};

/// How long the last transactions may take to be finished.
const FLUSH_LIMIT: Duration = Duration::from_secs(30);

/// The library under test. Its records lie in the measurement's own database.
pub(crate) struct MongoTx {
    client: Client,
    db: String,
}

struct MongoTxWorker {
    session: Session,
    accounts: Collection<Document>,
}

impl MongoTx {
    pub(crate) async fn connect(uri: &str, db: &str, layout: Layout) -> Result<Self, BenchError> {
        let options = ClientOptions { layout, tx_database: db.to_owned(), ..ClientOptions::default() };
        Ok(Self { client: Client::connect_with(uri, options).await?, db: db.to_owned() })
    }
}

impl Target for MongoTx {
    fn worker(&self) -> BoxFuture<'_, Result<Box<dyn Worker>, BenchError>> {
        let session = self.client.session_with(TransactionOptions::default());
        let accounts = self.client.database(&self.db).collection(ACCOUNTS);
        Box::pin(async { Ok(Box::new(MongoTxWorker { session, accounts }) as Box<dyn Worker>) })
    }

    fn commands(&self) -> u64 {
        self.client.metrics().commands_sent()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            if !self.client.flush(FLUSH_LIMIT).await {
                let reason = format!("committed transactions were not finished within {FLUSH_LIMIT:?}");
                return Err(BenchError::Failed(reason));
            }
            Ok(self.client.shutdown().await?)
        })
    }
}

impl Worker for MongoTxWorker {
    fn transfer(&mut self, transfer: Transfer) -> BoxFuture<'_, Result<Outcome, BenchError>> {
        Box::pin(async move {
            match self.attempt(transfer).await {
                Ok(()) => Ok(Outcome::Done),
                Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => Ok(Outcome::Conflict),
                Err(error) => Err(error.into()),
            }
        })
    }
}

impl MongoTxWorker {
    /// An error has rolled the transaction back before it is returned.
    async fn attempt(&mut self, transfer: Transfer) -> Result<(), Error> {
        self.session.begin()?;
        for (filter, change) in transfer.updates() {
            self.accounts.update_one(filter, change).session(&mut self.session).await?;
        }
        self.session.commit().await
    }
}
