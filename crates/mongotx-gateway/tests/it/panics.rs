//! A command that panics, which would be a defect, is answered with an error. Its transaction is
//! over; other commands go on.

use crate::common;

use bson::{Document, doc};
use common::{
    commands::{Session, code, is_ok},
    options,
    raw::Raw,
    soon,
};
use mongotx_gateway::{Gateway, GatewayOptions, Limits};

const INTERNAL_ERROR: i32 = 1;

struct Stage {
    gateway: Gateway,
    db: String,
    one: Raw,
    other: Raw,
}

impl Stage {
    async fn set_up(test_commands: bool) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let options = GatewayOptions { test_commands, ..options(&server.uri(), Limits::default()) };
        let gateway = Gateway::start(options).await.unwrap();
        let address = gateway.address().unwrap();
        let (one, other) = (Raw::connect(address).await, Raw::connect(address).await);
        Self { gateway, db: local_mongod::unique_db("gw_panics"), one, other }
    }

    /// Sends a command on the first connection.
    async fn ask(&mut self, mut command: Document) -> Document {
        command.insert("$db", &self.db);
        self.one.ask(command).await.unwrap()
    }

    /// Sends a command on the other connection.
    async fn ask_other(&mut self, mut command: Document) -> Document {
        command.insert("$db", &self.db);
        self.other.ask(command).await.unwrap()
    }

    /// The next command of this name panics when it was carried out.
    async fn arm(&mut self, name: &str) -> Document {
        let data = doc! {"failCommands": [name]};
        let arm = doc! {"configureFailPoint": "panicAfterCommand", "mode": {"times": 1}, "data": data, "$db": "admin"};
        self.other.ask(arm).await.unwrap()
    }
}

#[tokio::test]
async fn one_command_panics_and_is_answered_and_the_rest_goes_on() {
    let mut stage = Stage::set_up(true).await;
    for name in ["insert", "find", "update", "aggregate", "listCollections"] {
        assert!(is_ok(&stage.arm(name).await));
        let command = || match name {
            "insert" => doc! {"insert": "c", "documents": [{"_id": 1}]},
            "find" => doc! {"find": "c"},
            "update" => doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
            "aggregate" => doc! {"aggregate": "c", "pipeline": [], "cursor": {}},
            _ => doc! {"listCollections": 1},
        };
        let refused = stage.ask(command()).await;
        assert_eq!(code(&refused), INTERNAL_ERROR, "{refused}");
        assert!(refused.get_str("errmsg").unwrap().starts_with(name), "{refused}");
        assert!(is_ok(&stage.ask_other(doc! {"find": "c"}).await));
        assert!(is_ok(&stage.ask(command()).await), "{name}: the same connection");
    }
    soon(stage.gateway.shutdown(common::LIMIT)).await.unwrap();
}

#[tokio::test]
async fn a_transaction_with_a_panic_in_it_is_rolled_back() {
    let mut stage = Stage::set_up(true).await;
    let session = Session::new();
    let insert = |id: i32| doc! {"insert": "c", "documents": [{"_id": id}]};
    assert!(is_ok(&stage.ask(session.first(insert(1))).await));
    stage.arm("insert").await;
    assert_eq!(code(&stage.ask(session.next(insert(2))).await), INTERNAL_ERROR);
    let mut commit = session.commit();
    commit.insert("$db", "admin");
    assert_eq!(code(&stage.one.ask(commit).await.unwrap()), 251);
    // Nothing is locked, and nothing there.
    assert!(is_ok(&stage.ask_other(insert(1)).await));
    let count = stage.ask_other(doc! {"count": "c", "query": {"_id": {"$gte": 0}}}).await;
    assert_eq!(count.get_i32("n").unwrap(), 1);
    assert!(is_ok(&stage.ask(session.first(insert(3))).await), "the session's next transaction");
    soon(stage.gateway.shutdown(common::LIMIT)).await.unwrap();
}

#[tokio::test]
async fn a_commit_with_a_panic_after_it_can_be_asked_for_again() {
    let mut stage = Stage::set_up(true).await;
    let session = Session::new();
    assert!(is_ok(&stage.ask(session.first(doc! {"insert": "c", "documents": [{"_id": 1}]})).await));
    stage.arm("commitTransaction").await;
    let mut commit = session.commit();
    commit.insert("$db", "admin");
    let first = stage.one.ask(commit.clone()).await.unwrap();
    assert_eq!(code(&first), INTERNAL_ERROR, "{first}");
    // A driver sends it again, and does not take the transaction for rolled back.
    assert!(first.get_array("errorLabels").unwrap().contains(&"UnknownTransactionCommitResult".into()), "{first}");
    assert!(is_ok(&stage.one.ask(commit).await.unwrap()));
    assert_eq!(stage.ask_other(doc! {"count": "c"}).await.get_i32("n").unwrap(), 1);
}

#[tokio::test]
async fn a_write_that_panicked_before_its_result_was_noted_is_not_made_again() {
    let mut stage = Stage::set_up(true).await;
    let session = Session::new();
    assert!(is_ok(&stage.ask_other(doc! {"insert": "c", "documents": [{"_id": 1, "n": 0}]}).await));
    let one_more = doc! {"$inc": {"n": 1}};
    // A write that goes the short way, and one that goes the long way.
    for filter in [doc! {"_id": 1}, doc! {"n": {"$gte": 0}}] {
        let update = session.write(doc! {"update": "c", "updates": [{"q": filter, "u": one_more.clone()}]});
        assert!(is_ok(&stage.arm("update.statement").await));
        assert_eq!(code(&stage.ask(update.clone()).await), INTERNAL_ERROR);
        let again = stage.ask(update).await;
        assert_eq!(code(&again), 11_601, "{again}");
    }
    let count = stage.ask_other(doc! {"count": "c", "query": {"n": 2}}).await;
    assert_eq!(count.get_i32("n").unwrap(), 1, "{count}");
}

#[tokio::test]
async fn panics_cannot_be_asked_for_without_test_commands() {
    let mut stage = Stage::set_up(false).await;
    assert_eq!(code(&stage.arm("insert").await), 59);
    assert!(is_ok(&stage.ask(doc! {"insert": "c", "documents": [{"_id": 1}]}).await));
}
