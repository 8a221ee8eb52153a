//! Clients that take all there is, and keep it: they lock no other client out.

use bson::{Bson, Document, doc};
use mongotx_gateway::{Gateway, Limits, SessionLimits};

use crate::common::{
    commands::{Client, Session, code, is_ok},
    http::{metric, with_metrics},
    options,
    raw::Raw,
    soon,
    users::{PASSWORD, User, guarded, logging_in, with_users},
};

fn find() -> Document {
    doc! {"find": "c", "filter": {}}
}

fn insert() -> Document {
    doc! {"insert": "c", "documents": [{}]}
}

async fn with_sessions(test: &str, sessions: usize) -> Client {
    let limits = SessionLimits { sessions, ..SessionLimits::default() };
    Client::with_limits(local_mongod::unique_db(test), limits).await
}

/// A session whose transaction is committed: its client may send the commit again.
async fn committed(client: &Client) -> Session {
    let session = Session::new();
    client.ok(session.first(insert())).await;
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
    session
}

#[tokio::test]
async fn refreshed_sessions_take_no_room() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (gateway, metrics) = with_metrics(&server.uri(), Limits::default()).await;
    let mut client = Raw::connect(gateway.address().unwrap()).await;
    let names: Vec<Bson> = (0..1_000).map(|_| Session::new().lsid.into()).collect();
    assert!(is_ok(&client.ask(doc! {"refreshSessions": names, "$db": "admin"}).await.unwrap()));
    assert_eq!(metric(metrics, "mongotx_gateway_sessions").await, Some(0.0));
    let own = Session::new().plain(doc! {"find": "c", "$db": local_mongod::unique_db("hoard_refresh")});
    assert!(is_ok(&client.ask(own).await.unwrap()));
    assert_eq!(metric(metrics, "mongotx_gateway_sessions").await, Some(1.0));
}

#[tokio::test]
async fn sessions_that_are_left_behind_make_room() {
    let client = with_sessions("hoard_left", 4).await;
    let kept = committed(&client).await;
    for _ in 0..40 {
        client.ok(Session::new().plain(find())).await;
        let session = Session::new();
        client.ok(session.first(find())).await;
        assert!(is_ok(&client.run_on("admin", session.abort()).await));
    }
    assert!(is_ok(&client.run_on("admin", kept.commit()).await));
}

#[tokio::test]
async fn where_no_session_can_make_room_the_limit_is_named_and_killing_works() {
    let client = with_sessions("hoard_full", 3).await;
    let (first, open, last) = (committed(&client).await, Session::new(), committed(&client).await);
    client.ok(open.first(insert())).await;
    let refused = client.run_command(Session::new().plain(find())).await;
    assert!(code(&refused) == 261 && refused.get_str("errmsg").unwrap().contains("--max-sessions"), "{refused}");
    // A commit may have been done at another gateway: its driver must not take it for rolled back.
    let elsewhere = client.run_on("admin", Session::new().commit()).await;
    let labels = elsewhere.get_array("errorLabels").unwrap();
    assert!(code(&elsewhere) == 261 && labels.contains(&"UnknownTransactionCommitResult".into()), "{elsewhere}");
    // Clients that end sessions, or kill them, need no room for their own.
    client.ok(Session::new().plain(doc! {"killAllSessions": []})).await;
    client.ok(Session::new().plain(find())).await;
    // The commit of a committed transaction can be sent again; a transaction that was open is gone,
    // and its error says so.
    assert!(is_ok(&client.run_on("admin", first.commit()).await));
    assert_eq!(code(&client.run_on("admin", open.commit()).await), 251);
    client.ok(Session::new().plain(doc! {"endSessions": [first.lsid.clone(), last.lsid.clone()]})).await;
    committed(&client).await;
}

async fn guarded_with(sessions: SessionLimits) -> (Gateway, tempfile::TempDir) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (mut options, folder) =
        with_users(options(&server.uri(), Limits::default()), &[("ann@admin", "root"), ("bob@admin", "root")]);
    options.sessions = sessions;
    (Gateway::start(options).await.unwrap(), folder)
}

#[tokio::test]
async fn a_user_has_half_of_the_sessions_at_most() {
    let (gateway, _folder) = guarded_with(SessionLimits { sessions: 4, ..SessionLimits::default() }).await;
    let (ann, bob) = (User::log_in(&gateway, "ann").await, User::log_in(&gateway, "bob").await);
    let db = local_mongod::unique_db("hoard_users");
    let (mut sessions, mut codes) = (Vec::new(), Vec::new());
    for user in [&ann, &ann, &ann, &bob, &bob] {
        let session = Session::new();
        codes.push(code(&user.run_command(&db, session.first(find())).await));
        sessions.push(session);
    }
    assert_eq!(codes, [0, 0, 261, 0, 0]);
    // One's own sessions that hold nothing make room.
    assert!(is_ok(&ann.run_command("admin", sessions[0].abort()).await));
    assert_eq!(code(&ann.run_command(&db, Session::new().first(find())).await), 0);
}

#[tokio::test]
async fn a_user_has_half_of_the_cursors_at_most() {
    let (gateway, _folder) = guarded_with(SessionLimits { cursors: 4, ..SessionLimits::default() }).await;
    let (ann, bob) = (User::log_in(&gateway, "ann").await, User::log_in(&gateway, "bob").await);
    let db = local_mongod::unique_db("hoard_cursors");
    assert!(is_ok(&ann.run_command(&db, doc! {"insert": "c", "documents": [{}, {}, {}]}).await));
    let mut refused = Vec::new();
    for user in [&ann, &ann, &ann, &bob, &bob] {
        let read = user.run_command(&db, doc! {"find": "c", "batchSize": 1, "noCursorTimeout": true}).await;
        refused.push(!is_ok(&read));
        if !is_ok(&read) {
            assert!(read.get_str("errmsg").unwrap().contains("--max-cursors"), "{read}");
        }
    }
    assert_eq!(refused, [false, false, true, false, false]);
}

#[tokio::test]
async fn connections_that_do_not_log_in_make_room_for_those_that_do() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let limits = Limits { connections: 6, ..Limits::default() };
    let (options, _folder) = with_users(options(&server.uri(), limits), &[("ann@admin", "root")]);
    let gateway = Gateway::start(options).await.unwrap();
    let address = gateway.address().unwrap();
    let mut silent = Vec::new();
    for _ in 0..6 {
        let mut raw = Raw::connect(address).await;
        raw.ask(doc! {"hello": 1, "$db": "admin"}).await.unwrap();
        silent.push(raw);
    }
    let ann = logging_in(address, "ann", &format!("ann{PASSWORD}"), "admin", "").await;
    soon(ann.database("admin").run_command(doc! {"ping": 1})).await.unwrap();
    // More silent ones disturb only each other.
    for _ in 0..20 {
        silent.push(Raw::connect(address).await);
    }
    soon(ann.database("admin").run_command(doc! {"ping": 1})).await.unwrap();
    assert!(silent[0].is_closed().await);
}

#[tokio::test]
async fn who_does_not_log_in_and_says_nothing_loses_the_connection() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let limits = Limits { login: Some(std::time::Duration::from_millis(50)), ..Limits::default() };
    let (with_login, _folder) = with_users(options(&server.uri(), limits.clone()), &[("ann@admin", "root")]);
    let gateway = Gateway::start(with_login).await.unwrap();
    let mut silent = Raw::connect(gateway.address().unwrap()).await;
    silent.ask(doc! {"hello": 1, "$db": "admin"}).await.unwrap();
    assert!(silent.is_closed().await);
    // A client that has logged in may be silent.
    let ann = User::log_in(&gateway, "ann").await;
    assert!(is_ok(&ann.run_command("admin", doc! {"ping": 1}).await));
}

#[tokio::test]
async fn an_address_has_as_many_connections_as_it_may() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let limits = Limits { connections_per_address: Some(1), ..Limits::default() };
    let (gateway, metrics) = with_metrics(&server.uri(), limits).await;
    let address = gateway.address().unwrap();
    let mut one = Raw::connect(address).await;
    one.ask(doc! {"ping": 1, "$db": "admin"}).await.unwrap();
    assert!(Raw::connect(address).await.is_closed().await);
    one.ask(doc! {"ping": 1, "$db": "admin"}).await.unwrap();
    let limit = "mongotx_gateway_limit{option=\"max-connections-per-address\"}";
    assert_eq!(metric(metrics, limit).await, Some(1.0));
    assert_eq!(metric(metrics, "mongotx_gateway_connections_refused_total").await, Some(1.0));
}

/// A user without any role.
#[tokio::test]
async fn who_may_do_nothing_fills_no_table() {
    let (gateway, _address, _folder) = guarded(&[("ann@admin", "root"), ("eve@admin", "")]).await;
    let eve = User::log_in(&gateway, "eve").await;
    for _ in 0..20 {
        let names: Vec<Bson> = (0..1_000).map(|_| Session::new().lsid.into()).collect();
        eve.run_command("admin", doc! {"refreshSessions": names}).await;
        eve.run_command("admin", Session::new().first(find())).await;
    }
    let ann = User::log_in(&gateway, "ann").await;
    assert_eq!(code(&ann.run_command("admin", Session::new().plain(doc! {"ping": 1})).await), 0);
}
