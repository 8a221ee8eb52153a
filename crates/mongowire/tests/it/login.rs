//! Logging in to a server that demands a login of every client.

use std::sync::Arc;

use bson::{doc, rawdoc};
use local_mongod::ServerOptions;
use mongowire::{Connection, Failure, Refusal};

use crate::{LIMIT, settings};

/// A server with a user for each mechanism, and one for both. `localhost exception`: any client may
/// make the first user.
async fn server() -> local_mongod::Server {
    let server = ServerOptions::standalone().start().await.unwrap();
    let admin = server.client().await.unwrap().database("admin");
    for (user, mechanisms) in
        [("one", vec!["SCRAM-SHA-1"]), ("two", vec!["SCRAM-SHA-256"]), ("b=o,th", vec!["SCRAM-SHA-1", "SCRAM-SHA-256"])]
    {
        let create = doc! {"createUser": user, "pwd": "p\u{ad}ä%", "roles": ["root"], "mechanisms": mechanisms};
        admin.run_command(create).await.unwrap();
    }
    server
}

async fn opened(server: &local_mongod::Server, user: &str, password: &str, more: &str) -> Result<Connection, Failure> {
    let uri = format!("mongodb://{user}:{password}@127.0.0.1:{}/?directConnection=true{more}", server.port());
    Connection::open(Arc::new(settings(&uri).await), 1).await
}

/// The right password is let in by every mechanism that the user has, and no other.
#[tokio::test]
async fn users_log_in_by_the_mechanisms_that_they_have() {
    let server = server().await;
    let right = "p%C2%AD%C3%A4%25";
    for (user, more) in [
        ("one", ""),
        ("one", "&authMechanism=SCRAM-SHA-1"),
        ("two", ""),
        ("two", "&authMechanism=SCRAM-SHA-256&authSource=admin"),
        ("b%3Do%2Cth", ""),
        ("b%3Do%2Cth", "&authMechanism=SCRAM-SHA-1"),
        ("b%3Do%2Cth", "&authMechanism=SCRAM-SHA-256"),
    ] {
        let mut connection = opened(&server, user, right, more).await.unwrap();
        let status = connection.run_command(Some("admin"), &rawdoc! {"connectionStatus": 1}, &[], LIMIT).await.unwrap();
        assert_eq!(Refusal::of(&status), None);
        let users = status.get_document("authInfo").unwrap().get_array("authenticatedUsers").unwrap();
        assert_eq!(users.into_iter().count(), 1, "{user} {more}");
    }
    for (user, password, more) in [
        ("one", "wrong", ""),
        ("two", "wrong", ""),
        ("nobody", right, ""),
        ("one", right, "&authMechanism=SCRAM-SHA-256"),
        ("two", right, "&authMechanism=SCRAM-SHA-1"),
        ("two", right, "&authSource=other"),
    ] {
        let failure = opened(&server, user, password, more).await.err().unwrap();
        assert!(matches!(failure, Failure::Login { .. }) && !failure.is_maybe_done(), "{user} {more}: {failure}");
    }
}
