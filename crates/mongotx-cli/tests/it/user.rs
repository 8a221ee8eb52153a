//! `mongotx user`, as a process: what it writes is what `mongotx serve --users` reads.

use crate::common;

use std::{io::Write, path::Path, process::Stdio};

use common::{mongotx, run_mongotx, status_and_output};

fn add(users: &Path, name: &str, password: &str, more: &[&str]) -> (i32, String) {
    with_password(&["add", name], users, password, more)
}

fn with_password(action: &[&str], users: &Path, password: &str, more: &[&str]) -> (i32, String) {
    let file = ["--users", users.to_str().unwrap()];
    let mut command = mongotx(["user"].iter().chain(action).chain(&file).chain(more).copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The command may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(password.as_bytes());
    status_and_output(&child.wait_with_output().unwrap())
}

#[test]
fn users_are_added_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.json");
    let path = users.to_str().unwrap();
    assert_eq!(add(&users, "ann", "first line\nsecond\n", &["--roles", "root"]), (0, String::new()));
    let more = ["--database", "shop", "--roles", "readWrite:shop,read:other"];
    assert_eq!(add(&users, "bob", "x", &more), (0, String::new()));
    let list = || run_mongotx(["user", "list", "--users", path]);
    assert_eq!(list(), (0, "ann@admin\troot\nbob@shop\treadWrite:shop,read:other\n".to_owned()));
    let before = std::fs::read_to_string(&users).unwrap();
    assert!(!before.contains("first line"));
    let roles = ["user", "roles", "bob", "--database", "shop", "--users", path, "--roles", "backup"];
    assert_eq!(run_mongotx(roles), (0, String::new()));
    assert_eq!(list().1, "ann@admin\troot\nbob@shop\tbackup\n");
    let roles = ["user", "roles", "bob", "--database", "shop", "--users", path, "--roles", "readWrite:shop,read:other"];
    assert_eq!(run_mongotx(roles), (0, String::new()));
    assert_eq!(std::fs::read_to_string(&users).unwrap(), before, "the password is as it was");
    assert_eq!(with_password(&["password", "ann"], &users, "another", &[]), (0, String::new()));
    assert_ne!(std::fs::read_to_string(&users).unwrap(), before);
    assert_eq!(list().1, "ann@admin\troot\nbob@shop\treadWrite:shop,read:other\n");
    assert_eq!(run_mongotx(["user", "remove", "ann", "--users", path]), (0, String::new()));
    assert_eq!(list().1, "bob@shop\treadWrite:shop,read:other\n");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.json");
    let refused = |(status, said): (i32, String), words: &str| {
        assert!(status == 2 && said.contains(words) && !said.contains("panicked"), "{words}: {said}");
    };
    refused(add(&users, "ann", "", &[]), "password is empty");
    refused(add(&users, "ann", "x", &["--roles", "write:a"]), "--roles");
    refused(add(&users, "ann", "x", &["--database", "a.b"]), "a.b");
    refused(add(&users, "ann", &"x".repeat(5000), &[]), "4096");
    assert!(!users.exists());
    add(&users, "ann", "x", &[]);
    refused(add(&users, "ann", "x", &[]), "ann@admin");
    let path = users.to_str().unwrap();
    refused(run_mongotx(["user", "remove", "bob", "--users", path]), "bob@admin");
    refused(run_mongotx(["user", "roles", "bob", "--users", path, "--roles", "root"]), "bob@admin");
    refused(with_password(&["password", "bob"], &users, "x", &[]), "bob@admin");
    refused(with_password(&["password", "ann"], &users, "", &[]), "password is empty");
    std::fs::write(&users, "{\"secret\": 5}").unwrap();
    refused(run_mongotx(["user", "list", "--users", path]), "line 1");
    refused(run_mongotx(["serve", "--users", path]), "users.json");
    refused(run_mongotx(["serve", "--users", "/nowhere/users.json"]), "/nowhere/users.json");
}
