//! An insert with reads and a look behind it, in one write (decision 0061): a rival decides
//! between them, and the future is dropped while one of them is on its way.

use std::{future::IntoFuture, net::SocketAddr};

use bson::{Document, doc};
use futures_util::future;
use mongotx::{Client, Collection, ErrorKind, Isolation, Result, Session, TransactionOptions};

use super::{LIMIT, proxy::Proxy};
use crate::quiet;

/// The insert, the two `find`s of the reads, and the look.
const MESSAGES: usize = 4;
const ATTEMPTS: i32 = 20;

/// Transactions that have read three documents by a query, hold a fourth one, for which another one
/// waits, and insert.
struct Place {
    proxy: Proxy,
    client: Client,
    rival: Client,
    docs: Collection<Document>,
    rivals: Collection<Document>,
}

impl Place {
    async fn new() -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let rival = quiet::connect(quiet::options()).await;
        let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
        let client = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
        // Of this client: what others have written there makes looks too old soon.
        let docs = quiet::collection(&client, 4).await;
        let rivals = quiet::through(&rival, &docs);
        let place = Self { proxy, client, rival, docs, rivals };
        place.get_ready(100).await;
        place
    }

    /// After two commits behind an insert, the next one is expected, and a look is remembered of
    /// the connections that there are.
    async fn get_ready(&self, first: i32) {
        for id in [first, first + 1] {
            self.run(id, async |session| self.insert(id, session).await.unwrap()).await.unwrap();
        }
    }

    fn begun(&self) -> Session {
        let isolation = Some(Isolation::Snapshot);
        let options = TransactionOptions { isolation, lock_wait: LIMIT, ..TransactionOptions::default() };
        let mut session = self.client.session_with(options);
        session.begin().unwrap();
        session
    }

    async fn insert(&self, id: i32, session: &mut Session) -> Result<()> {
        self.docs.insert_one(&doc! {"_id": id}).session(session).await.map(drop)
    }

    /// The answer to the commit of a transaction that inserts as `insert` does.
    async fn run(&self, id: i32, insert: impl AsyncFnOnce(&mut Session)) -> Result<()> {
        let (mut session, mut waiter) = (self.begun(), self.begun());
        let change = |id: i32| self.docs.update_one(doc! {"_id": id}, doc! {"$inc": {"changed": 1}});
        let found = self.docs.find(doc! {"n": 1, "_id": {"$lt": 4}}).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), 3);
        change(4).session(&mut session).await.unwrap();
        // Both locks are of this client: it waits without a command.
        self.rivals.insert_one(&doc! {"_id": -id}).await.unwrap();
        change(-id).session(&mut waiter).await.unwrap();
        let mut waiting = change(4).session(&mut waiter).into_future();
        assert!(future::poll_immediate(&mut waiting).await.is_none());
        insert(&mut session).await;
        let committed = session.commit().await;
        waiting.await.unwrap();
        waiter.commit().await.unwrap();
        assert!(self.client.flush(LIMIT).await);
        committed
    }

    /// Returns true if the insert of `id` was dropped when the message after `before` others was
    /// held. There is nothing but the insert if a connection was begun since the last look.
    async fn is_dropped(&self, id: i32, before: usize, is_late: bool) -> bool {
        self.get_ready(id + 1).await;
        let mut was_held = false;
        let committed = self.run(id, async |session| {
            self.proxy.hold_after(before);
            tokio::select! {
                held = tokio::time::timeout(LIMIT, self.proxy.until_held()) => {
                    assert_eq!(held.unwrap(), if before == 0 { "insert" } else { "find" });
                    was_held = true;
                }
                done = self.insert(id, session) => done.unwrap(),
            }
            self.proxy.hold_nothing();
            if was_held && !is_late {
                self.proxy.deliver().await;
            }
        });
        let committed = committed.await;
        if was_held {
            assert_eq!(committed.unwrap_err().kind(), ErrorKind::Expired, "{before} {is_late}");
            if is_late {
                self.proxy.deliver().await;
            }
        }
        assert_eq!(self.has(id).await, !was_held, "{before} {is_late}");
        was_held
    }

    async fn has(&self, id: i32) -> bool {
        self.rivals.find_one(doc! {"_id": id}).await.unwrap().is_some()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_between_the_question_behind_an_insert_and_the_look_is_seen() {
    let place = Place::new().await;
    let run = place.run(103, async |session| {
        place.proxy.hold_behind("docs", "txs");
        place.insert(103, session).await.unwrap();
    });
    // Without reads behind the insert, the look is that of the commit.
    let meanwhile = async {
        assert_eq!(tokio::time::timeout(LIMIT, place.proxy.until_held()).await.unwrap(), "find", "the look");
        let mut rival = place.rival.session();
        rival.begin().unwrap();
        place.rivals.insert_one(&doc! {"_id": 0, "n": 1}).session(&mut rival).await.unwrap();
        rival.commit().await.unwrap();
        place.proxy.deliver().await;
    };
    let (committed, ()) = tokio::join!(run, meanwhile);
    assert_eq!(committed.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(!place.has(103).await && place.has(0).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insert_that_is_dropped_at_any_of_its_messages_is_rolled_back() {
    let place = Place::new().await;
    for (case, before) in (0..2 * MESSAGES).map(|case| (case as i32, case / 2)) {
        let is_late = case % 2 == 1;
        let mut ids = (0..ATTEMPTS).map(|attempt| 1_000 * (case + 1) + 10 * attempt);
        let dropped = async |id: i32| place.is_dropped(id, before, is_late).await;
        let was_held = loop {
            match ids.next() {
                Some(id) if dropped(id).await => break true,
                Some(_) => {}
                None => break false,
            }
        };
        assert!(was_held, "there was no message after {before}, {ATTEMPTS} times");
    }
    assert!(place.run(300, async |session| place.insert(300, session).await.unwrap()).await.is_ok());
    assert!(place.has(300).await);
}
