//! Users and certificates that are read again while the gateway runs.

use std::{os::unix::fs::PermissionsExt, path::Path};

use bson::doc;
use mongotx_gateway::{Gateway, Limits, Options, Role, StartError, UserName, Users};

use crate::common::{
    commands::{Session, code, is_ok},
    options, soon,
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

async fn started() -> (Gateway, Options, tempfile::TempDir) {
    let server = testkit::shared_standalone().await.unwrap();
    let users = [("ann@admin", "root"), ("bob@admin", "root"), ("carl@admin", "root")];
    let (options, folder) = with_users(options(&server.uri(), Limits::default()), &users);
    (Gateway::start(options.clone()).await.unwrap(), options, folder)
}

#[tokio::test]
async fn what_changed_and_removed_users_have_open_ends() {
    let (gateway, options, _folder) = started().await;
    let file = options.users.clone().unwrap();
    let db = testkit::unique_db("reload");
    let all = [
        User::log_in(&gateway, "ann").await,
        User::log_in(&gateway, "bob").await,
        User::log_in(&gateway, "carl").await,
    ];
    let sessions = [Session::new(), Session::new(), Session::new()];
    for (n, (user, session)) in all.iter().zip(&sessions).enumerate() {
        let insert = doc! {"insert": "c", "documents": [{"_id": n as i32}]};
        assert!(is_ok(&user.run(&db, session.first(insert)).await));
    }
    change(&file, "bob", None);
    change(&file, "carl", Some(vec![Role::Read(db.clone())]));
    assert_eq!(gateway.reload().await.unwrap().users_changed, 2);
    // Their connections are good for nothing any more, whatever they ask.
    let mut codes = Vec::new();
    for (user, session) in all.iter().zip(&sessions) {
        codes.push(code(&user.run("admin", session.commit()).await));
    }
    assert_eq!(codes, [0, 13, 13]);
    let ann = &all[0];
    let stored = ann.run(&db, doc! {"find": "c", "filter": {}}).await;
    let stored = stored.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    assert_eq!(stored, [doc! {"_id": 0}.into()], "what the others had open is rolled back");
    // With the new roles, after another login.
    let carl = User::log_in(&gateway, "carl").await;
    assert!(is_ok(&carl.run(&db, doc! {"find": "c"}).await));
    assert_eq!(code(&carl.run(&db, doc! {"insert": "c", "documents": [{}]}).await), 13);
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
    assert!(is_ok(&ann.run("admin", doc! {"ping": 1}).await));
    with_mode(0o600);
    gateway.reload().await.unwrap();
    assert_eq!(code(&ann.run("admin", doc! {"features": 1}).await), 13);
}
