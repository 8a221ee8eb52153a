//! Failures that the test suites of drivers order with `configureFailPoint`.

use std::net::SocketAddr;

use crate::common;

use bson::{Document, doc};
use common::{
    commands::{Session, code, is_ok},
    raw::Raw,
    soon,
};
use mongotx_gateway::{Gateway, Limits};

/// A gateway with test commands.
struct Stage {
    gateway: Gateway,
    address: SocketAddr,
    db: String,
}

impl Stage {
    async fn set_up(test: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let options = common::options(&server.uri(), Limits::default());
        let gateway = Gateway::start(mongotx_gateway::GatewayOptions { test_commands: true, ..options }).await.unwrap();
        let address = gateway.address().unwrap();
        Self { gateway, address, db: local_mongod::unique_db(test) }
    }

    /// Sends a command over a connection of its own, and returns the reply. `None`: the connection
    /// was closed instead.
    async fn ask(&self, mut command: Document) -> Option<Document> {
        command.insert("$db", &self.db);
        soon(Raw::connect(self.address).await.ask(command)).await
    }

    async fn arm(&self, point: &str, mode: Document, data: Document) {
        let reply = self.ask(doc! {"configureFailPoint": point, "mode": mode, "data": data}).await.unwrap();
        assert!(is_ok(&reply), "{reply}");
    }

    async fn stored(&self) -> Vec<Document> {
        let found = self.ask(doc! {"find": "c", "sort": {"_id": 1}}).await.unwrap();
        common::commands::documents(&found, "firstBatch")
    }
}

fn insert(id: i32) -> Document {
    doc! {"insert": "c", "documents": [{"_id": id}]}
}

#[tokio::test]
async fn the_answer_of_a_retryable_write_is_lost_and_given_when_it_is_sent_again() {
    let stage = Stage::set_up("gw_points_after").await;
    let session = Session::new();
    stage.arm("onPrimaryTransactionalWrite", doc! {"times": 2}, doc! {}).await;
    assert!(is_ok(&stage.ask(insert(1)).await.unwrap()), "a write without a number is not meant");
    for command in [insert(2), doc! {"findAndModify": "c", "query": {"_id": 2}, "update": {"$set": {"a": 1}}}] {
        assert_eq!(stage.ask(session.write(command.clone())).await, None, "{command}");
        // A write that was made already does not count.
        let again = stage.ask(session.again(command)).await.unwrap();
        assert!(again.contains_key("retriedStmtIds") || again.contains_key("retriedStmtId"), "{again}");
    }
    assert!(is_ok(&stage.ask(session.write(insert(3))).await.unwrap()), "it was to fail twice");
    assert_eq!(stage.stored().await, [doc! {"_id": 1}, doc! {"_id": 2, "a": 1}, doc! {"_id": 3}]);
    stage.gateway.shutdown(common::LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_retryable_write_is_not_made_where_it_is_to_fail_before() {
    let stage = Stage::set_up("gw_points_before").await;
    let session = Session::new();
    stage.arm("onPrimaryTransactionalWrite", doc! {"times": 1}, doc! {"failBeforeCommitExceptionCode": 1}).await;
    assert_eq!(stage.ask(session.write(insert(1))).await, None);
    assert_eq!(stage.stored().await, Vec::<Document>::new());
    let again = stage.ask(session.again(insert(1))).await.unwrap();
    assert_eq!((again.get_i32("n").unwrap(), again.get("retriedStmtIds")), (1, None), "{again}");
    let answered = doc! {"failBeforeCommitExceptionCode": 7, "closeConnection": false};
    stage.arm("onPrimaryTransactionalWrite", doc! {"times": 1}, answered).await;
    assert_eq!(code(&stage.ask(session.write(insert(2))).await.unwrap()), 7);
    assert_eq!(stage.stored().await, [doc! {"_id": 1}]);
    stage.gateway.shutdown(common::LIMIT).await.unwrap();
}

#[tokio::test]
async fn commands_with_a_limit_of_time_are_out_of_it() {
    let stage = Stage::set_up("gw_points_limit").await;
    stage.arm("maxTimeAlwaysTimeOut", doc! {"times": 1}, doc! {}).await;
    assert!(is_ok(&stage.ask(doc! {"find": "c"}).await.unwrap()));
    let limited = doc! {"find": "c", "maxTimeMS": 60_000};
    assert_eq!(code(&stage.ask(limited.clone()).await.unwrap()), 50);
    assert!(is_ok(&stage.ask(limited).await.unwrap()));
    stage.gateway.shutdown(common::LIMIT).await.unwrap();
}
