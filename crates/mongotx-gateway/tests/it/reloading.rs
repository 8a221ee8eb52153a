//! Users and certificates that are read again while the gateway runs.

use std::{os::unix::fs::PermissionsExt, path::Path};

use bson::doc;
use mongotx_gateway::{Gateway, GatewayOptions, Limits, Role, SessionLimits, StartError, Tuning, UserName, Users};

use crate::common::{
    commands::{Session, code, cursor_id, is_ok},
    http::{metric, with_metrics},
    options,
    raw::Raw,
    soon,
    users::{PASSWORD, User, logging_in, with_users},
};

fn name(name: &str) -> UserName {
    UserName { database: "admin".to_owned(), name: name.to_owned() }
}

fn change(file: &Path, user: &str, roles: Option<Vec<Role>>) {
    Users::change(file, |all| {
        all.remove(&name(user))?;
        roles.map_or(Ok(()), |roles| all.add(name(user), &format!("{user}{PASSWORD}"), roles))
    })
    .unwrap();
}

async fn started() -> (Gateway, GatewayOptions, tempfile::TempDir) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let users = [("ann@admin", "root"), ("bob@admin", "root"), ("carl@admin", "root")];
    let (options, folder) = with_users(options(&server.uri(), Limits::default()), &users);
    (Gateway::start(options.clone()).await.unwrap(), options, folder)
}

#[tokio::test]
async fn what_changed_and_removed_users_have_open_ends() {
    let (gateway, options, _folder) = started().await;
    let file = options.users.clone().unwrap();
    let db = local_mongod::unique_db("reload");
    let all = [
        User::log_in(&gateway, "ann").await,
        User::log_in(&gateway, "bob").await,
        User::log_in(&gateway, "carl").await,
    ];
    let sessions = [Session::new(), Session::new(), Session::new()];
    for (n, (user, session)) in all.iter().zip(&sessions).enumerate() {
        let insert = doc! {"insert": "c", "documents": [{"_id": n as i32}]};
        assert!(is_ok(&user.run_command(&db, session.first(insert)).await));
    }
    assert!(is_ok(&all[0].run_command(&db, doc! {"insert": "d", "documents": [{"_id": 1}]}).await));
    let opened = cursor_id(&all[2].run_command(&db, doc! {"find": "d", "batchSize": 0}).await);
    change(&file, "bob", None);
    change(&file, "carl", Some(vec![Role::Read(db.clone())]));
    assert_eq!(gateway.reload().await.unwrap().users_changed, 2);
    // Their connections refuse every command from now on.
    let mut codes = Vec::new();
    for (user, session) in all.iter().zip(&sessions) {
        codes.push(code(&user.run_command("admin", session.commit()).await));
    }
    assert_eq!(codes, [0, 13, 13]);
    let ann = &all[0];
    let stored = ann.run_command(&db, doc! {"find": "c", "filter": {}}).await;
    let stored = stored.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    assert_eq!(stored, [doc! {"_id": 0}.into()], "what the others had open is rolled back");
    // With the new roles, after another login.
    let carl = User::log_in(&gateway, "carl").await;
    assert_eq!(code(&carl.run_command(&db, doc! {"getMore": opened, "collection": "d"}).await), 43);
    assert!(is_ok(&carl.run_command(&db, doc! {"find": "c"}).await));
    assert_eq!(code(&carl.run_command(&db, doc! {"insert": "c", "documents": [{}]}).await), 13);
}

#[tokio::test]
async fn drivers_lose_the_connections_of_a_removed_user_and_cannot_log_in_again() {
    let (gateway, options, _folder) = started().await;
    let address = gateway.address().unwrap();
    let driver = logging_in(address, "bob", &format!("bob{PASSWORD}"), "admin", "").await;
    soon(driver.database("admin").run_command(doc! {"ping": 1})).await.unwrap();
    change(&options.users.clone().unwrap(), "bob", None);
    gateway.reload().await.unwrap();
    let refused = soon(driver.database("admin").run_command(doc! {"features": 1})).await.unwrap_err();
    let again = soon(driver.database("admin").run_command(doc! {"features": 1})).await.unwrap_err();
    assert!(again.to_string().contains("Authentication failed"), "{refused}, {again}");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_changes_nothing() {
    let (gateway, options, _folder) = started().await;
    let file = options.users.unwrap();
    let ann = User::log_in(&gateway, "ann").await;
    change(&file, "ann", None);
    let with_mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    with_mode(0o644);
    let refused = gateway.reload().await.unwrap_err();
    assert!(matches!(&refused, StartError::Users(_)) && refused.to_string().contains("mode 644"), "{refused}");
    assert!(is_ok(&ann.run_command("admin", doc! {"ping": 1}).await));
    with_mode(0o600);
    gateway.reload().await.unwrap();
    assert_eq!(code(&ann.run_command("admin", doc! {"features": 1}).await), 13);
}

#[tokio::test]
async fn passwords_are_changed_and_old_ones_are_good_for_nothing() {
    let (gateway, options, _folder) = started().await;
    let ann = User::log_in(&gateway, "ann").await;
    Users::change(&options.users.unwrap(), |all| all.set_password(&name("ann"), "another one")).unwrap();
    assert_eq!(gateway.reload().await.unwrap().users_changed, 1);
    assert_eq!(code(&ann.run_command("admin", doc! {"features": 1}).await), 13);
    let address = gateway.address().unwrap();
    let ping = async |password: &str| {
        let driver = logging_in(address, "ann", password, "admin", "").await;
        soon(driver.database("admin").run_command(doc! {"features": 1})).await
    };
    assert!(ping(&format!("ann{PASSWORD}")).await.is_err());
    ping("another one").await.unwrap();
}

#[tokio::test]
async fn limits_are_changed_while_the_gateway_runs() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (gateway, metrics) = with_metrics(&server.uri(), Limits::default()).await;
    let address = gateway.address().unwrap();
    let mut first = Raw::connect(address).await;
    assert!(is_ok(&first.ask(doc! {"ping": 1, "$db": "admin"}).await.unwrap()));
    let session_timeout = std::time::Duration::from_secs(300);
    let sessions = SessionLimits { cursors: 1, session_timeout, ..SessionLimits::default() };
    let limits = Limits { connections: 1, ..Limits::default() };
    let GatewayOptions { slow, lock_wait, .. } = GatewayOptions::default();
    gateway.tune(Tuning { limits, sessions, slow, lock_wait });
    let limit = async |option: &str| metric(metrics, &format!("mongotx_gateway_limit{{option=\"{option}\"}}")).await;
    assert_eq!((limit("max-connections").await, limit("max-cursors").await), (Some(1.0), Some(1.0)));
    let hello = first.ask(doc! {"hello": 1, "$db": "admin"}).await.unwrap();
    assert_eq!(hello.get_i32("logicalSessionTimeoutMinutes").unwrap(), 5);
    let started = first.ask(doc! {"startSession": 1, "$db": "admin"}).await.unwrap();
    assert_eq!(started.get_i32("timeoutMinutes").unwrap(), 5);
    // Connections that are there stay; no further one comes in.
    let mut second = Raw::connect(address).await;
    assert!(second.is_closed().await);
    let db = local_mongod::unique_db("tuned");
    let documents: Vec<_> = (0..10).map(|id| doc! {"_id": id}).collect();
    assert!(is_ok(&first.ask(doc! {"insert": "c", "documents": documents, "$db": &db}).await.unwrap()));
    let find = doc! {"find": "c", "batchSize": 2, "$db": &db};
    assert!(is_ok(&first.ask(find.clone()).await.unwrap()));
    let refused = first.ask(find).await.unwrap();
    assert!(refused.get_str("errmsg").unwrap().contains("(--max-cursors)"), "{refused}");
    gateway.tune(GatewayOptions::default().tuning());
    let mut third = Raw::connect(address).await;
    assert!(is_ok(&third.ask(doc! {"ping": 1, "$db": "admin"}).await.unwrap()));
}

/// A transaction that was open for too long: which option says so.
#[tokio::test]
async fn limits_that_end_a_transaction_are_named() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut options = options(&server.uri(), Limits::default());
    options.client.max_documents = 2;
    let gateway = Gateway::start(options).await.unwrap();
    let mut client = Raw::connect(gateway.address().unwrap()).await;
    let db = local_mongod::unique_db("named_limits");
    let message = |reply: bson::Document| reply.to_string();
    let mut insert = Session::new().first(doc! {"insert": "c", "documents": [{}, {}, {}]});
    insert.insert("$db", &db);
    let refused = message(client.ask(insert).await.unwrap());
    assert!(refused.contains("--max-transaction-documents"), "{refused}");
    let sessions =
        SessionLimits { transaction_lifetime: std::time::Duration::from_millis(1), ..SessionLimits::default() };
    gateway.tune(Tuning { sessions, ..GatewayOptions::default().tuning() });
    let session = Session::new();
    let mut find = session.first(doc! {"find": "c"});
    find.insert("$db", &db);
    let begun = client.ask(find).await.unwrap();
    // In the error of the statement itself, or of the next one when the gateway has rolled it back.
    let refused = if is_ok(&begun) {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let mut next = session.next(doc! {"find": "c"});
        next.insert("$db", &db);
        client.ask(next).await.unwrap()
    } else {
        begun
    };
    let refused = message(refused);
    assert!(refused.contains("--transaction-lifetime"), "{refused}");
}
