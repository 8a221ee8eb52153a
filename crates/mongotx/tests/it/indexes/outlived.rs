//! The server's own expiry against a transaction that holds an expired document: made to happen by
//! the server's fail points.
//!
//! The monitor has found the document while it was free, meets a conflict when it removes it, and
//! stands still until the fail point lets it look again.

use std::time::Duration;

use bson::{DateTime, Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel, Session, Step};

use crate::quiet::Gate;

/// The longest that the server is waited for.
const LIMIT_MS: i32 = 120_000;

/// A server whose monitor stands still between finding an expired document and removing it.
struct Place {
    _server: local_mongod::Server,
    client: Client,
    coll: Collection<Document>,
    plain: mongodb::Collection<Document>,
    admin: mongodb::Database,
    gate: std::sync::Arc<Gate>,
}

fn past() -> DateTime {
    DateTime::from_millis(0)
}

fn later() -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000)
}

impl Place {
    async fn new() -> Self {
        let parameters = [
            "enableTestCommands=1",
            "ttlMonitorSleepSecs=1",
            // Nothing stands still for another reason than a conflict.
            "internalQueryExecYieldIterations=1000000",
            "internalQueryExecYieldPeriodMS=1000000",
        ];
        let options = local_mongod::ServerOptions::standalone();
        let server = parameters.into_iter().fold(options, |options, one| options.arg("--setParameter").arg(one));
        let server = server.start().await.unwrap();
        let gate = Gate::before(&[Step::BeforeFinish]);
        let options = ClientOptions { hook: Some(gate.clone()), ..crate::quiet::options() };
        let client = Client::connect_with(&server.uri(), options).await.unwrap();
        let driver = server.client().await.unwrap();
        let (coll, plain) = (client.database("expiry").collection("c"), driver.database("expiry").collection("c"));
        let admin = driver.database("admin");
        coll.create_index(IndexModel::new(doc! {"at": 1}).expire_after(Duration::ZERO)).await.unwrap();
        // So that nothing is left to be made when the monitor stands still.
        coll.insert_one(&doc! {"_id": "other", "n": 0}).await.unwrap();
        let mut session = client.session();
        session.begin().unwrap();
        coll.update_one(doc! {"_id": "other"}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert!(client.flush(Duration::from_secs(60)).await);
        Self { _server: server, client, coll, plain, admin, gate }
    }

    async fn fail_point(&self, name: &str, command: Document) -> i32 {
        let mut configure = doc! {"configureFailPoint": name};
        configure.extend(command);
        let answer = self.admin.run_command(configure).await.unwrap();
        answer.get_i32("count").or_else(|_| answer.get_i64("count").map(|count| count as i32)).unwrap()
    }

    async fn wait_for(&self, name: &str, times: i32) {
        let wait = doc! {"waitForFailPoint": name, "timesEntered": times, "maxTimeMS": LIMIT_MS};
        self.admin.run_command(wait).await.unwrap();
    }

    /// The monitor has found this expired document, and is about to look at it again.
    async fn found_by_the_monitor(&self, document: Document) {
        let on = doc! {"mode": "alwaysOn"};
        let passes = self.fail_point("hangTTLMonitorBetweenPasses", on.clone()).await;
        self.wait_for("hangTTLMonitorBetweenPasses", passes + 1).await;
        self.plain.insert_one(document).await.unwrap();
        let hang = doc! {"mode": "alwaysOn", "data": {"namespace": "expiry.c"}};
        let yields = self.fail_point("setYieldAllLocksHang", hang).await;
        self.fail_point("WTWriteConflictException", doc! {"mode": {"times": 1}}).await;
        self.fail_point("hangTTLMonitorBetweenPasses", doc! {"mode": "off"}).await;
        self.wait_for("setYieldAllLocksHang", yields + 1).await;
        // One is found: it looks no further until this one is done with.
        self.fail_point("hangTTLMonitorBetweenPasses", on).await;
    }

    /// The monitor goes on, to the end of its pass.
    async fn let_the_monitor_go_on(&self) {
        let passes = self.fail_point("hangTTLMonitorBetweenPasses", doc! {"mode": "alwaysOn"}).await;
        self.fail_point("setYieldAllLocksHang", doc! {"mode": "off"}).await;
        self.wait_for("hangTTLMonitorBetweenPasses", passes + 1).await;
        self.fail_point("hangTTLMonitorBetweenPasses", doc! {"mode": "off"}).await;
    }

    /// A transaction that prolongs the document and changes another.
    async fn prolonging(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        let prolong = doc! {"$set": {"at": later(), "n": 2}};
        let done = self.coll.update_one(doc! {"_id": "held"}, prolong).session(&mut session).await.unwrap();
        assert_eq!(done.modified_count, 1);
        self.coll.update_one(doc! {"_id": "other"}, doc! {"$set": {"n": 2}}).session(&mut session).await.unwrap();
        session
    }

    async fn stored(&self, id: &str) -> Option<Document> {
        self.plain.find_one(doc! {"_id": id}).await.unwrap()
    }

    async fn number(&self, id: &str) -> Option<i32> {
        self.coll.find_one(doc! {"_id": id}).await.unwrap().map(|found| found.get_i32("n").unwrap())
    }
}

#[tokio::test]
async fn document_that_expires_under_a_transaction_is_noticed_before_anything_is_decided() {
    let place = Place::new().await;
    place.found_by_the_monitor(doc! {"_id": "held", "at": past(), "n": 1}).await;
    let mut session = place.prolonging().await;
    place.let_the_monitor_go_on().await;
    assert_eq!(place.stored("held").await, None, "the server has not removed it: this test shows nothing");
    let error = session.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("held") && error.to_string().contains("had expired"), "{error}");
    assert!(place.client.flush(Duration::from_secs(60)).await);
    assert_eq!((place.number("held").await, place.number("other").await), (None, Some(1)));
    assert_eq!(place.stored("other").await.unwrap().len(), 2);
}

#[tokio::test]
async fn document_that_was_prolonged_is_not_removed_any_more() {
    let place = Place::new().await;
    place.found_by_the_monitor(doc! {"_id": "held", "at": past(), "n": 1}).await;
    let mut session = place.prolonging().await;
    place.gate.shut();
    session.commit().await.unwrap();
    place.let_the_monitor_go_on().await;
    assert!(place.stored("held").await.is_some(), "what was acknowledged is gone");
    place.gate.open();
    assert!(place.client.flush(Duration::from_secs(60)).await);
    assert_eq!((place.number("held").await, place.number("other").await), (Some(2), Some(2)));
    let stored = place.stored("held").await.unwrap();
    assert_eq!(stored.keys().collect::<Vec<_>>(), ["_id", "at", "n"]);
}

/// Expired documents are removed with the transaction that is rolled back after that; everything
/// else stays as it was.
#[tokio::test]
async fn commit_that_fails_leaves_expired_documents_to_their_end() {
    let place = Place::new().await;
    place.fail_point("hangTTLMonitorBetweenPasses", doc! {"mode": "alwaysOn"}).await;
    place.wait_for("hangTTLMonitorBetweenPasses", 1).await;
    let several = [
        doc! {"_id": "held", "at": past(), "n": 1},
        doc! {"_id": "array", "at": [later(), past()], "n": 1},
        doc! {"_id": "alive", "at": later(), "n": 1},
        doc! {"_id": "no date", "at": 5, "n": 1},
    ];
    place.plain.insert_many(several.clone()).await.unwrap();
    let mut session = place.prolonging().await;
    let all = doc! {"_id": {"$in": ["array", "alive", "no date"]}};
    place.coll.update_many(all, doc! {"$set": {"n": 2}}).session(&mut session).await.unwrap();
    // Deleted by a program that does not know of locks: nothing is decided.
    place.plain.delete_one(doc! {"_id": "other"}).await.unwrap();
    let error = session.commit().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("other"), "{error}");
    assert!(place.client.flush(Duration::from_secs(60)).await);
    assert_eq!((place.stored("held").await, place.stored("array").await), (None, None));
    assert_eq!(place.stored("alive").await.as_ref(), Some(&several[2]));
    assert_eq!(place.stored("no date").await.as_ref(), Some(&several[3]));
}

/// No index removes documents there: a locked document that is deleted is gone, and the others are
/// whole.
#[tokio::test]
async fn locked_document_that_vanishes_does_not_hide_the_others() {
    let client = crate::quiet::connect(crate::quiet::options()).await;
    let coll = crate::quiet::collection(&client, 3).await;
    let plain = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let plain = plain.database(&coll.namespace().db).collection::<Document>(&coll.namespace().coll);
    for ends in ["commit", "roll back"] {
        let mut session = client.session();
        session.begin().unwrap();
        coll.update_many(doc! {}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        plain.delete_one(doc! {"_id": if ends == "commit" { 1 } else { 2 }}).await.unwrap();
        match ends {
            "commit" => session.commit().await.unwrap(),
            _ => session.rollback().await.unwrap(),
        }
        assert!(client.flush(Duration::from_secs(60)).await, "{ends}");
    }
    let mut left = plain.find(doc! {}).await.unwrap();
    assert!(left.advance().await.unwrap());
    assert_eq!(left.deserialize_current().unwrap(), doc! {"_id": 3, "n": 2});
    assert!(!left.advance().await.unwrap());
}
