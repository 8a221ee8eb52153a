//! Logging in: the official driver in both mechanisms, and clients that send whatever they like.

use crate::common;

use std::net::SocketAddr;

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use common::{
    raw::Raw,
    soon,
    users::{PASSWORD, guarded, logging_in},
};
use mongodb::error::ErrorKind;

async fn refusal(address: SocketAddr, user: &str, password: &str, source: &str, mechanism: &str) -> String {
    let client = logging_in(address, user, password, source, mechanism).await;
    match soon(client.database("admin").run_command(doc! {"features": 1})).await {
        Ok(_) => String::new(),
        Err(error) => match &*error.kind {
            ErrorKind::Authentication { .. } => format!("{error}"),
            _ => panic!("{error}"),
        },
    }
}

#[tokio::test]
async fn drivers_log_in_by_both_mechanisms_and_without_naming_one() {
    let (_gateway, address, _folder) = guarded(&[("ann@admin", "root"), ("bøb@shop", "")]).await;
    for (user, source) in [("ann", "admin"), ("bøb", "shop")] {
        let password = format!("{user}{PASSWORD}");
        for mechanism in ["", "SCRAM-SHA-1", "SCRAM-SHA-256"] {
            assert_eq!(refusal(address, user, &password, source, mechanism).await, "", "{user} {mechanism}");
        }
    }
}

#[tokio::test]
async fn wrong_passwords_users_and_databases_get_the_same_answer() {
    let (_gateway, address, _folder) = guarded(&[("ann@admin", "root")]).await;
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
        let right = format!("ann{PASSWORD}");
        let wrong = refusal(address, "ann", "wrong", "admin", mechanism).await;
        let unknown = refusal(address, "bob", &right, "admin", mechanism).await;
        let elsewhere = refusal(address, "ann", &right, "test", mechanism).await;
        assert!(wrong.contains("Authentication failed"), "{wrong}");
        assert_eq!([&unknown, &elsewhere], [&wrong, &wrong]);
    }
}

fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or(0)
}

fn start(mechanism: impl Into<Bson>, payload: impl Into<Bson>) -> Document {
    doc! {"saslStart": 1, "mechanism": mechanism.into(), "payload": payload.into(), "$db": "admin"}
}

fn bytes(text: &str) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() }
}

const FIRST: &str = "n,,n=ann,r=abcdefabcdef";

fn proceed(id: i32, payload: &str) -> Document {
    doc! {"saslContinue": 1, "conversationId": id, "payload": bytes(payload), "$db": "admin"}
}

/// Codes as mongod 6.0 answers them.
#[tokio::test]
async fn malformed_logins_are_refused_with_the_servers_codes() {
    let (_gateway, address, _folder) = guarded(&[("ann@admin", "root")]).await;
    let sha = "SCRAM-SHA-256";
    let mut without_mechanism = start(sha, bytes(FIRST));
    without_mechanism.remove("mechanism");
    let mut without_payload = start(sha, bytes(FIRST));
    without_payload.remove("payload");
    for (command, wanted) in [
        (start("PLAIN", bytes(FIRST)), 334),
        (start("x".repeat(50_000), bytes(FIRST)), 334),
        (start(5, bytes(FIRST)), 14),
        (without_mechanism, 40_414),
        (without_payload, 40_414),
        (start(sha, 5), 2),
        (start(sha, "!"), 10_270),
        (start(sha, bytes("")), 18),
        (start(sha, bytes("n,,n=ann")), 18),
        (start(sha, bytes("n,,n=ann,r=")), 18),
        (start(sha, bytes("p=tls-unique,,n=ann,r=x")), 18),
        (start(sha, bytes(&format!("n,,n=ann,r={}", "x".repeat(50_000)))), 18),
        (proceed(1, "x"), 17),
        (doc! {"saslContinue": 1, "payload": bytes(""), "$db": "admin"}, 40_414),
        (doc! {"hello": 1, "saslSupportedMechs": "nodb", "$db": "admin"}, 2),
        (doc! {"hello": 1, "saslSupportedMechs": 5, "$db": "admin"}, 14),
        (doc! {"hello": 1, "speculativeAuthenticate": 5, "$db": "admin"}, 14),
        (doc! {"hello": 1, "speculativeAuthenticate": {"saslStart": 1, "mechanism": "NO"}, "$db": "admin"}, 0),
        (doc! {"authenticate": 1, "mechanism": "MONGODB-X509", "$db": "$external"}, 115),
    ] {
        let mut raw = Raw::connect(address).await;
        let reply = raw.ask(command.clone()).await.unwrap();
        assert_eq!(code(&reply), wanted, "{reply}");
        assert!(!reply.contains_key("speculativeAuthenticate"));
    }
}

#[tokio::test]
async fn a_conversation_ends_with_the_first_thing_that_is_wrong() {
    let (_gateway, address, _folder) = guarded(&[("ann@admin", "root")]).await;
    let mut raw = Raw::connect(address).await;
    for (wrong, wanted) in [(proceed(7, "x"), 17), (proceed(1, "c=biws,r=abc,p=AAAA"), 18)] {
        let begun = raw.ask(start("SCRAM-SHA-256", bytes(FIRST))).await.unwrap();
        assert_eq!((code(&begun), begun.get_bool("done").ok()), (0, Some(false)), "{begun}");
        assert_eq!(code(&raw.ask(wrong).await.unwrap()), wanted);
        assert_eq!(code(&raw.ask(proceed(1, "x")).await.unwrap()), 17);
        assert_eq!(code(&raw.ask(doc! {"find": "c", "$db": "d"}).await.unwrap()), 13);
    }
}

#[tokio::test]
async fn a_connection_that_fails_too_often_is_closed_after_its_answer() {
    let (_gateway, address, _folder) = guarded(&[("ann@admin", "root")]).await;
    let mut raw = Raw::connect(address).await;
    for _ in 0..5 {
        assert_eq!(code(&raw.ask(start("SCRAM-SHA-1", bytes("n,,"))).await.unwrap()), 18);
    }
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn without_a_login_only_the_way_to_it_is_open() {
    let (gateway, address, _folder) = guarded(&[("ann@admin", "root")]).await;
    let mut raw = Raw::connect(address).await;
    for name in ["hello", "isMaster", "ping", "whatsmyuri", "connectionStatus", "buildInfo", "listCommands"] {
        assert_eq!(code(&raw.ask(doc! {name: 1, "$db": "admin"}).await.unwrap()), 0, "{name}");
    }
    for name in [
        "find",
        "insert",
        "getMore",
        "aggregate",
        "listDatabases",
        "serverStatus",
        "getLog",
        "startSession",
        "endSessions",
        "commitTransaction",
        "killAllSessions",
        "createUser",
        "shutdown",
        "logout",
        "features",
        "configureFailPoint",
    ] {
        assert_eq!(code(&raw.ask(doc! {name: 1, "$db": "admin"}).await.unwrap()), 13, "{name}");
    }
    assert_eq!(code(&raw.ask(doc! {"noSuchThing": 1, "$db": "admin"}).await.unwrap()), 59);
    // Connections of the process itself are no exception.
    let inside = gateway.connect();
    let request = mongotx_gateway::Request::of(&doc! {"find": "c", "$db": "d"}).unwrap();
    assert!(!gateway.run_command(&inside, &request).await.is_ok());
}

#[tokio::test]
async fn logging_out_takes_everything_away() {
    let (_gateway, address, _folder) = guarded(&[("ann@admin", "root")]).await;
    let client = logging_in(address, "ann", &format!("ann{PASSWORD}"), "admin", "SCRAM-SHA-256").await;
    let admin = client.database("admin");
    let status = soon(admin.run_command(doc! {"connectionStatus": 1})).await.unwrap();
    let users = status.get_document("authInfo").unwrap().get_array("authenticatedUsers").unwrap();
    assert_eq!(users, &vec![Bson::from(doc! {"user": "ann", "db": "admin"})]);
    soon(admin.run_command(doc! {"logout": 1})).await.unwrap();
    let refused = soon(admin.run_command(doc! {"features": 1})).await.unwrap_err();
    assert!(refused.to_string().contains("requires authentication"), "{refused}");
}

#[tokio::test]
async fn other_machines_come_in_with_a_password_and_not_in_plain_text_unless_that_is_allowed() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let everywhere = || {
        let mut options = common::options(&server.uri(), mongotx_gateway::Limits::default());
        options.listen = Some("0.0.0.0:0".parse().unwrap());
        options
    };
    let start = async |options| mongotx_gateway::Gateway::start(options).await.err().unwrap().to_string();
    let refused = start(everywhere()).await;
    assert!(refused.contains("0.0.0.0") && refused.contains("--users") && refused.contains("loopback"), "{refused}");
    let (mut options, _folder) = common::users::with_users(everywhere(), &[("ann@admin", "root")]);
    let plain = start(options.clone()).await;
    assert!(plain.contains("--tls-certificate") && plain.contains("--allow-plaintext"), "{plain}");
    options.allow_plaintext = true;
    let gateway = mongotx_gateway::Gateway::start(options).await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], gateway.address().unwrap().port()));
    assert_eq!(refusal(address, "ann", &format!("ann{PASSWORD}"), "admin", "").await, "");
}
