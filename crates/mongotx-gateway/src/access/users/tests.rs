//! The file of users: what is written, what is read again, and what is refused.

use super::*;

fn name(name: &str) -> UserName {
    UserName { database: "admin".to_owned(), name: name.to_owned() }
}

fn file(users: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.json");
    for user in users {
        Users::change(&path, |all| all.add(name(user), "secret words", vec![Role::Read("a".to_owned())])).unwrap();
    }
    (folder, path)
}

#[test]
fn users_are_read_as_they_were_written_and_passwords_are_not_there() {
    let (_folder, path) = file(&["ann", "bob"]);
    let users = Users::read(&path).unwrap();
    let listed: Vec<_> = users.list().map(|(name, roles)| format!("{name} {}", roles[0])).collect();
    assert_eq!(listed, ["ann@admin read:a", "bob@admin read:a"]);
    assert!(!std::fs::read_to_string(&path).unwrap().contains("secret words"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    Users::change(&path, |all| all.remove(&name("ann"))).unwrap();
    assert_eq!(Users::read(&path).unwrap().list().count(), 1);
}

#[test]
fn changes_that_cannot_be_made_leave_the_file_as_it_was() {
    let (_folder, path) = file(&["ann"]);
    let before = std::fs::read_to_string(&path).unwrap();
    let add = |name: UserName, password: &str| {
        Users::change(&path, |all| all.add(name.clone(), password, Vec::new())).unwrap_err().to_string()
    };
    assert!(add(name("ann"), "x").contains("already"));
    assert!(add(name("bob"), "").contains("empty"));
    assert!(add(name("bob"), "\u{7}").contains("password"));
    assert!(add(name(""), "x").contains("1 to 128 bytes"));
    assert!(add(UserName { database: "a.b".to_owned(), name: "x".to_owned() }, "x").contains("a.b"));
    assert!(Users::change(&path, |all| all.remove(&name("carl"))).unwrap_err().to_string().contains("carl@admin"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    // Two at the same time.
    std::fs::write(path.with_extension("json.new"), "").unwrap();
    assert!(add(name("bob"), "x").contains("another process"));
}

#[test]
fn files_with_something_wrong_are_refused_with_what_it_is() {
    let (_folder, path) = file(&["ann"]);
    let good = std::fs::read_to_string(&path).unwrap();
    let credential = serde_json::from_str::<serde_json::Value>(&good).unwrap()["users"][0]["SCRAM-SHA-1"].clone();
    let salt = credential["salt"].as_str().unwrap();
    for (from, to, words) in [
        ("\"iterations\": 15000", "\"iterations\": 2000000000", "SCRAM-SHA-256.iterations"),
        ("\"iterations\": 15000", "\"iterations\": 99999999999999", "line"),
        ("\"iterations\": 10000", "\"iterations\": 1", "4096..=1000000"),
        ("\"iterations\": 10000", "\"iterations\": -1", "line"),
        (salt, "AAAA", "SCRAM-SHA-1.salt: 3 bytes"),
        (salt, "!", "line"),
        ("read:a", "reads:a", "ann@admin"),
        ("\"name\"", "\"names\"", "names"),
        ("\"secret\": \"", "\"secret\": \"AAAA", "secret"),
        ("{", "", "line"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        let reason = Users::parse(&bad).err().unwrap();
        assert!(reason.contains(words), "{to}: {reason}");
    }
    let twice = good.replace(
        "\"users\": [",
        &format!("\"users\": [{},", {
            let all: serde_json::Value = serde_json::from_str(&good).unwrap();
            all["users"][0].to_string()
        }),
    );
    assert!(Users::parse(&twice).err().unwrap().contains("twice"));
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let (_folder, path) = file(&["ann"]);
    for (mode, is_refused) in [(0o600, false), (0o640, true), (0o604, true), (0o400, false)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let read = Users::read(&path).err().map(|error| error.to_string());
        assert_eq!(read.is_some(), is_refused, "{mode:o}");
        assert!(read.is_none_or(|words| words.contains(&format!("(mode {mode:o})"))));
    }
}

#[test]
fn who_is_the_same_stays_the_same() {
    let (_folder, path) = file(&["ann", "bob", "carl"]);
    let before = Users::read(&path).unwrap();
    let add = |user: &str| Users::change(&path, |all| all.add(name(user), "secret words", Vec::new())).unwrap();
    for user in ["bob", "carl"] {
        Users::change(&path, |all| all.remove(&name(user))).unwrap();
    }
    add("bob");
    add("dora");
    let (now, changed) = Users::read(&path).unwrap().instead_of(&before);
    assert_eq!(changed, [name("bob").digest(), name("carl").digest()]);
    let is_same = |user: &str| {
        let found = [&before, &now].map(|users| users.get(&name(user)));
        matches!(found, [Some(one), Some(other)] if Arc::ptr_eq(one, other))
    };
    assert_eq!(["ann", "bob", "carl", "dora"].map(is_same), [true, false, false, false]);
}

#[test]
fn unknown_users_have_salt_and_work_as_known_ones_do() {
    let (_folder, path) = file(&["ann"]);
    let users = Users::read(&path).unwrap();
    for mechanism in Mechanism::ALL {
        let (ann, real) = users.find(mechanism, &name("ann"));
        let (unknown, fake) = users.find(mechanism, &name("nobody"));
        assert!(ann.is_some() && unknown.is_none());
        assert_eq!((real.salt.len(), real.iterations), (fake.salt.len(), fake.iterations));
        let again = Users::read(&path).unwrap().find(mechanism, &name("nobody")).1;
        assert!(again == fake);
        assert!(users.find(mechanism, &name("other")).1.salt != fake.salt);
    }
}

#[test]
fn a_changed_file_keeps_its_owner_its_group_and_its_mode() {
    let (_folder, path) = file(&["ann"]);
    let who = |path: &Path| {
        let file = std::fs::metadata(path).unwrap();
        (file.uid(), file.gid(), file.permissions().mode() & 0o777)
    };
    let (mut uid, mut gid, _) = who(&path);
    // Only root can give a file away.
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        (uid, gid) = (12_345, 54_321);
        std::os::unix::fs::chown(&path, Some(uid), Some(gid)).unwrap();
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    Users::change(&path, |all| all.add(name("bob"), "secret words", Vec::new())).unwrap();
    assert_eq!(who(&path), (uid, gid, 0o400));
    assert_eq!(Users::read(&path).unwrap().list().count(), 2);
}
