//! Clients that move money, each transfer in a transaction of the driver's, with a record of it, or
//! that make deposits by single writes, which the driver sends again; and the answers to their
//! attempts.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bson::{Document, doc};
use mongodb::{
    Client, ClientSession,
    error::{Error, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
    options::ReadConcern,
};
use tokio::sync::watch;

use super::LIMIT;

pub(crate) const ACCOUNTS: i32 = 4;
pub(crate) const BEGINNING: i64 = 1_000;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// The answers to the clients' attempts, by the names of these.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) acknowledged: Mutex<Vec<String>>,
    pub(crate) refused: Mutex<Vec<String>>,
    /// Reason for which the last one was refused, for messages.
    last: Mutex<String>,
}

/// A client that moves money until the test stops it.
pub(crate) struct Customer {
    pub(crate) name: String,
    pub(crate) made: watch::Receiver<usize>,
    task: tokio::task::JoinHandle<()>,
}

/// Ends a session and its client.
async fn leave(session: ClientSession) {
    let client = session.client();
    drop(session);
    client.shutdown().immediate(true).await;
}

/// The kinds of work of a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Business {
    Transfers,
    Deposits,
}

/// The answer to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Acknowledged,
    Refused,
}

impl Customer {
    pub(crate) fn start(work: Work, stop: &Arc<AtomicBool>) -> Self {
        let (count, made) = watch::channel(0);
        let name = work.name.clone();
        let stop = Arc::clone(stop);
        let task = tokio::spawn(async move {
            let mut session = work.session().await;
            for transfer in 0.. {
                if stop.load(Relaxed) {
                    break;
                }
                work.once(&mut session, transfer).await;
                count.send_modify(|count| *count += 1);
            }
            leave(session).await;
        });
        Self { name, made, task }
    }

    /// Waits until it has made so many more transfers.
    pub(crate) async fn until_made(&mut self, more: usize) {
        let until = *self.made.borrow() + more;
        let made = tokio::time::timeout(LIMIT, self.made.wait_for(|made| *made >= until)).await;
        made.unwrap_or_else(|_| panic!("{} makes no transfers any more", self.name)).unwrap();
    }

    /// Disconnects in the middle of whatever it does.
    pub(crate) fn leave(self) {
        self.task.abort();
    }

    pub(crate) async fn end(self) {
        tokio::time::timeout(LIMIT, self.task).await.expect("a transfer does not end").unwrap();
    }
}

/// The work of one customer, and its gateways.
pub(crate) struct Work {
    pub(crate) business: Business,
    pub(crate) name: String,
    pub(crate) uri: String,
    pub(crate) db: String,
    pub(crate) ledger: Arc<Ledger>,
}

impl Work {
    async fn session(&self) -> ClientSession {
        // Both gateways are used, however long one of them took to answer when the machine stood
        // still.
        let how = "heartbeatFrequencyMS=500&serverSelectionTimeoutMS=20000&localThresholdMS=60000";
        let uri = format!("{}/?{how}", self.uri);
        Client::with_uri_str(uri).await.unwrap().start_session().await.unwrap()
    }

    /// A single transfer or deposit.
    pub(crate) async fn alone(&self) {
        let done = async {
            let mut session = self.session().await;
            self.once(&mut session, 0).await;
            leave(session).await;
        };
        tokio::time::timeout(LIMIT, done)
            .await
            .unwrap_or_else(|_| panic!("{}: it does not end; {:?}", self.name, self.ledger.last));
    }

    async fn once(&self, session: &mut ClientSession, number: i32) {
        match self.business {
            Business::Transfers => self.transfer(session, number).await,
            Business::Deposits => self.deposit(session, number).await,
        }
    }

    /// A write that the driver sends again when its answer is lost. A write without an answer may
    /// have happened.
    async fn deposit(&self, session: &mut ClientSession, number: i32) {
        let id = format!("{}-{number}", self.name);
        let accounts = session.client().database(&self.db).collection::<Document>("accounts");
        let (which, add) = (doc! {"_id": number % ACCOUNTS}, doc! {"$inc": {"balance": 5_i64}, "$push": {"ids": &id}});
        let answer = match number % 2 {
            0 => accounts.update_one(which, add).session(session).await.map(drop),
            _ => accounts.find_one_and_update(which, add).session(session).await.map(drop),
        };
        match answer {
            Ok(()) => self.ledger.acknowledged.lock().unwrap().push(id),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }

    /// Attempts until one is acknowledged. Every third transfer is attempted and taken back first.
    async fn transfer(&self, session: &mut ClientSession, number: i32) {
        for attempt in 0.. {
            let id = format!("{}-{number}-{attempt}", self.name);
            let gives_up = attempt == 0 && number % 3 == 2;
            match self.attempt(session, &id, number, gives_up).await {
                End::Acknowledged => return self.ledger.acknowledged.lock().unwrap().push(id),
                End::Refused => self.ledger.refused.lock().unwrap().push(id),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(&self, session: &mut ClientSession, id: &str, number: i32, gives_up: bool) -> End {
        match self.statements(session, id, number).await {
            Ok(()) if gives_up => {}
            Ok(()) => return self.commit(session, id).await,
            Err(error) => {
                assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{id}: {error:?}");
                *self.ledger.last.lock().unwrap() = format!("{id}: {error}");
            }
        }
        // Its answer changes nothing: it is not committed and never will be.
        let _ = session.abort_transaction().await;
        End::Refused
    }

    async fn statements(&self, session: &mut ClientSession, id: &str, number: i32) -> Result<(), Error> {
        let database = session.client().database(&self.db);
        let (accounts, audit) = (database.collection::<Document>("accounts"), database.collection::<Document>("audit"));
        let (from, to) = (number % ACCOUNTS, (number + 1 + number % 2) % ACCOUNTS);
        let reads = number % 2 == 1;
        let concern = if reads { ReadConcern::snapshot() } else { ReadConcern::local() };
        session.start_transaction().read_concern(concern).await?;
        if reads {
            accounts.find_one(doc! {"_id": from}).session(&mut *session).await?;
        }
        for (account, amount) in [(from, -5_i64), (to, 5)] {
            let add = doc! {"$inc": {"balance": amount}};
            accounts.update_one(doc! {"_id": account}, add).session(&mut *session).await?;
        }
        audit.insert_one(doc! {"attempt": id, "from": from, "to": to, "amount": 5_i64}).session(session).await?;
        Ok(())
    }

    /// Sends the commit until its outcome is known.
    async fn commit(&self, session: &mut ClientSession, id: &str) -> End {
        loop {
            let Err(error) = session.commit_transaction().await else { return End::Acknowledged };
            *self.ledger.last.lock().unwrap() = format!("{id}: the commit: {error}");
            if error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
                return End::Refused;
            }
            assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{id}: {error:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
