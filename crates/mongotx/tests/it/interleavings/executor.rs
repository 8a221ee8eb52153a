//! Steps of a planned history as calls of MongoTx.
//!
//! An item is a document `{_id, run, log: [0, …], last}`; a write appends to `log`. With
//! [`Form::Fused`] it sets a field of its own instead (`v102: 1`), which MongoTx does in one
//! statement; the order of the fields is then the log.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use futures_util::future::BoxFuture;
use mongotx::{
    Client, ClientOptions, Collection, Error, ErrorKind, Isolation, Session, Step, StepHook, TransactionOptions,
};
use txcheck::{Executor, Item, Log, Refused, Tx, Value};

/// Form in which a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `$push` and `$set`: lock, copy and change in two statements.
    Push,
    /// Update by `$set` alone: one statement.
    Fused,
}

/// The clients that run the transactions, and their options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// One client for all transactions.
    OneClient,
    /// A client for each transaction: they know of each other only what is stored.
    ClientEach,
    /// The same, and what is committed stays unfinished for a while: the others meet it.
    SlowFinish,
}

impl Setting {
    pub(crate) const ALL: [Self; 3] = [Self::OneClient, Self::ClientEach, Self::SlowFinish];

    fn form(self) -> Form {
        if self == Self::ClientEach { Form::Push } else { Form::Fused }
    }
}

/// A hook that makes finishing late.
struct Slow;

impl StepHook for Slow {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let pause = if step == Step::BeforeFinish { Duration::from_millis(4) } else { Duration::ZERO };
        Box::pin(async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        })
    }
}

/// The clients that all runs of one setting share.
pub(crate) struct Clients {
    pub(crate) setting: Setting,
    clients: Vec<Client>,
    db: String,
}

impl Clients {
    pub(crate) async fn connect(setting: Setting, transactions: usize) -> Self {
        let server = crate::quiet::server_apart().await;
        let hook: Option<Arc<dyn StepHook>> = match setting {
            Setting::SlowFinish => Some(Arc::new(Slow)),
            Setting::OneClient | Setting::ClientEach => None,
        };
        let mut clients = Vec::new();
        for _ in 0..if setting == Setting::OneClient { 1 } else { transactions } {
            let options = ClientOptions {
                sweep: false,
                lease: Duration::from_secs(600),
                hook: hook.clone(),
                ..crate::quiet::at_read_committed()
            };
            clients.push(Client::connect_with(&server.uri(), options).await.unwrap());
        }
        Self { setting, clients, db: local_mongod::unique_db("inter") }
    }

    fn client(&self, tx: usize) -> &Client {
        &self.clients[tx % self.clients.len()]
    }

    /// Every document of every run is clean when everything is finished.
    pub(crate) async fn assert_clean(&self) {
        for client in &self.clients {
            assert!(client.flush(Duration::from_secs(10)).await);
        }
        let coll: Collection<Document> = self.clients[0].database(&self.db).collection("items");
        assert_eq!(self.clients[0].locked_documents(coll.namespace(), 1).await.unwrap().len(), 0);
    }
}

/// One run: its own documents, a session for each transaction.
pub(crate) struct Run<'a> {
    number: i32,
    clients: &'a Clients,
    sessions: Vec<Session>,
    levels: Vec<Isolation>,
    coll: Vec<Collection<Document>>,
}

impl<'a> Run<'a> {
    /// Stores the initial items, and opens a session for each client.
    pub(crate) async fn start(
        clients: &'a Clients,
        number: usize,
        levels: &[Isolation],
        items: impl IntoIterator<Item = Item>,
    ) -> Self {
        let options = |isolation| TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
        let sessions = levels.iter().enumerate().map(|(tx, level)| clients.client(tx).session_with(options(*level)));
        let coll = (0..levels.len()).map(|tx| clients.client(tx).database(&clients.db).collection("items"));
        let (number, levels) = (number as i32, levels.to_vec());
        let mut run = Self { number, clients, sessions: sessions.collect(), levels, coll: coll.collect() };
        run.sessions.iter_mut().for_each(|session| session.begin().unwrap());
        for item in items {
            run.coll[0].insert_one(&run.document(item, Value::INITIAL)).await.unwrap();
        }
        run
    }

    fn id(&self, item: Item) -> i32 {
        self.number * 100 + item.0 as i32
    }

    fn document(&self, item: Item, value: Value) -> Document {
        let number = value.0 as i32;
        let mut document = doc! {"_id": self.id(item), "run": self.number, "last": number};
        match self.clients.setting.form() {
            Form::Push => document.insert("log", vec![number]),
            Form::Fused => document.insert(format!("v{number}"), 1),
        };
        document
    }

    fn change(&self, value: Value) -> Document {
        let number = value.0 as i32;
        match self.clients.setting.form() {
            Form::Push => doc! {"$push": {"log": number}, "$set": {"last": number}},
            Form::Fused => doc! {"$set": {"last": number, format!("v{number}"): 1}},
        }
    }

    async fn scan_with(&mut self, tx: Option<Tx>) -> mongotx::Result<BTreeMap<Item, Log>> {
        let coll = &self.coll[tx.map_or(0, |tx| tx.0)];
        let find = coll.find(doc! {"run": self.number});
        let found = match tx {
            Some(tx) => find.session(&mut self.sessions[tx.0]).await?,
            None => find.await?,
        };
        Ok(found.try_collect().await?.iter().map(|document| (item_of(document), log_of(document))).collect())
    }
}

/// The item that a document is.
pub(crate) fn item_of(document: &Document) -> Item {
    let letter = document.get_i32("_id").unwrap() % 100;
    Item(char::from(u8::try_from(letter).unwrap()))
}

/// The log of writes in a document.
pub(crate) fn log_of(document: &Document) -> Log {
    let number = |value: &Bson| Value(value.as_i32().unwrap() as u32);
    match document.get_array("log") {
        Ok(log) => log.iter().map(number).collect(),
        Err(_) => document.keys().filter_map(|field| field.strip_prefix('v')?.parse().ok().map(Value)).collect(),
    }
}

/// A conflict ends a transaction; anything else is a defect.
fn refused(error: Error) -> Refused {
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    Refused(error.to_string())
}

impl Executor for Run<'_> {
    async fn read(&mut self, tx: Tx, item: Item) -> Result<Option<Log>, Refused> {
        let by_id = doc! {"_id": self.id(item)};
        let found = self.coll[tx.0].find_one(by_id).session(&mut self.sessions[tx.0]).await.map_err(refused)?;
        Ok(found.as_ref().map(log_of))
    }

    async fn scan(&mut self, tx: Tx) -> Result<BTreeMap<Item, Log>, Refused> {
        self.scan_with(Some(tx)).await.map_err(refused)
    }

    async fn write(&mut self, tx: Tx, item: Item, value: Value, still: Option<Value>) -> Result<bool, Refused> {
        let mut filter = doc! {"_id": self.id(item)};
        if let Some(still) = still {
            filter.insert("last", still.0 as i32);
        }
        let change = self.change(value);
        let done = self.coll[tx.0].update_one(filter, change).session(&mut self.sessions[tx.0]).await;
        Ok(done.map_err(refused)?.matched_count == 1)
    }

    async fn insert(&mut self, tx: Tx, item: Item, value: Value) -> Result<bool, Refused> {
        let document = self.document(item, value);
        match self.coll[tx.0].insert_one(&document).session(&mut self.sessions[tx.0]).await {
            Ok(_) => Ok(true),
            // At levels that validate reads, a refused statement ends the transaction.
            Err(error) if error.code() == Some(11000) && self.levels[tx.0].validates() => {
                Err(Refused(error.to_string()))
            }
            Err(error) if error.code() == Some(11000) => Ok(false),
            Err(error) => Err(refused(error)),
        }
    }

    async fn delete(&mut self, tx: Tx, item: Item) -> Result<bool, Refused> {
        let by_id = doc! {"_id": self.id(item)};
        let done = self.coll[tx.0].delete_one(by_id).session(&mut self.sessions[tx.0]).await;
        Ok(done.map_err(refused)? == 1)
    }

    async fn commit(&mut self, tx: Tx) -> Result<(), Refused> {
        self.sessions[tx.0].commit().await.map_err(refused)
    }

    async fn abort(&mut self, tx: Tx) {
        self.sessions[tx.0].rollback().await.unwrap();
    }

    async fn last(&mut self) -> BTreeMap<Item, Log> {
        self.scan_with(None).await.unwrap()
    }
}
