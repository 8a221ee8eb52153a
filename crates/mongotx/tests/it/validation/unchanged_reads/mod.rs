//! A commit does not read again what nothing has changed (decision 0068), and reads everything
//! again that may have been changed.
//!
//! | file | content |
//! | --- | --- |
//! | [`own`] | changes of the same client, decided or plain |
//! | [`fields`] | changes of the same client to fields that nothing was read of (decision 0069) |
//! | [`others`] | plain writes and decisions of other clients, and the notices of plain writes |
//! | [`always`] | what is read again whatever has changed |
//! | [`audits`] | sums beside writers of the same client, which are of one moment |
//!
//! Each test has a server of its own: on the shared one others write all the time.

mod always;
mod audits;
mod fields;
mod others;
mod own;

use std::time::{Duration, Instant};

use bson::{Document, doc};
use local_mongod::{Server, ServerOptions};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, Session, TransactionOptions};

use crate::quiet;

const LONG: Duration = Duration::from_secs(60);

/// A client on a server of its own, with the documents `{_id: 1..=20, k: _id, n: 0}`.
struct Stage {
    server: Server,
    client: Client,
    coll: Collection<Document>,
}

impl Stage {
    async fn start() -> Self {
        let server = ServerOptions::standalone().in_memory().start().await.unwrap();
        let client = connect(&server).await;
        let coll = quiet::collection(&client, 0).await;
        coll.create_index(IndexModel::new(doc! {"k": 1})).await.unwrap();
        let all: Vec<Document> = (1..=20).map(|id| doc! {"_id": id, "k": id, "n": 0}).collect();
        coll.insert_many(&all).await.unwrap();
        assert!(client.flush(LONG).await);
        let stage = Self { server, client, coll };
        stage.look().await;
        stage
    }

    /// Lets the client look at the change stamps, by a validation.
    async fn look(&self) {
        let mut session = self.reading().await;
        session.commit().await.unwrap();
    }

    /// A transaction that has read the documents 1 and 2, and some by their keys.
    async fn reading(&self) -> Session {
        let mut session = begun(&self.client, Isolation::Snapshot);
        for id in [1, 2] {
            assert!(self.coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
        }
        let some = self.coll.find(doc! {"k": {"$in": [3, 4, 99]}}).session(&mut session).await.unwrap();
        assert!(!some.try_collect().await.unwrap().is_empty());
        session
    }

    /// Such a transaction is committed without asking anything again: not perhaps the first one,
    /// because the client may have begun a connection in between.
    async fn until_unasked(&self, transaction: impl AsyncFn() -> Session) {
        let begun = Instant::now();
        loop {
            match self.commit(transaction().await).await {
                UNASKED => return,
                found => assert_eq!(found, ASKED),
            }
            assert!(begun.elapsed() < LONG, "everything is asked again: {:?}", self.client.metrics());
        }
    }

    /// Such transactions are committed, and each has read again.
    async fn always_asked(&self, transaction: impl AsyncFn() -> Session) {
        for _ in 0..5 {
            assert_eq!(self.commit(transaction().await).await, ASKED);
        }
    }

    /// Commits; returns whether it was committed, and whether nothing was read again.
    async fn commit(&self, mut session: Session) -> (bool, bool) {
        let before = self.client.metrics().validations_unasked;
        let committed = session.commit().await;
        if let Err(error) = &committed {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
        (committed.is_ok(), self.client.metrics().validations_unasked > before)
    }
}

const UNASKED: (bool, bool) = (true, true);
const ASKED: (bool, bool) = (true, false);
const CONFLICT: (bool, bool) = (false, false);

async fn connect(server: &Server) -> Client {
    let options = ClientOptions { count_commands: true, ..quiet::options() };
    Client::connect_with(&server.uri(), options).await.unwrap()
}

fn begun(client: &Client, isolation: Isolation) -> Session {
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

async fn set(coll: &Collection<Document>, filter: Document) {
    let changed = coll.update_one(filter, doc! {"$inc": {"n": 1}}).await.unwrap();
    assert_eq!(changed.modified_count, 1);
}

/// A transaction of this client changes these documents.
async fn commit_change(client: &Client, coll: &Collection<Document>, ids: &[i32]) {
    let mut session = begun(client, Isolation::ReadCommitted);
    for id in ids {
        coll.update_one(doc! {"_id": *id}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
}
