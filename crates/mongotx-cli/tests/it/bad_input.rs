//! Commands that cannot be carried out are refused with status 2, in words that name the option;
//! nothing panics or hangs.

use crate::common;

use common::run_mongotx;

fn refused(args: &[&str], words: &[&str]) {
    let (status, said) = run_mongotx(args.iter().copied());
    assert_eq!(status, 2, "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{args:?}: {word:?} in {said}");
    }
}

#[test]
fn malformed_ids_are_refused_with_the_form() {
    let long = "f".repeat(10_000);
    for bad in
        ["", "x", "65a1f0c2b3d4e5f601234567.0", "65a1f0c2b3d4e5f601234567.-1", "é5a1f0c2b3d4e5f60123456.1", &long]
    {
        refused(&["show", bad], &["24 hexadecimal digits"]);
        refused(&["abort", bad], &["24 hexadecimal digits"]);
    }
    refused(&["abort", "65a1f0c2b3d4e5f601234567"], &["24 hexadecimal digits"]);
    refused(&["show", "65a1f0c2b3d4e5f601234567.99999999999999999999"], &["24 hexadecimal digits"]);
}

#[test]
fn servers_that_cannot_be_used_are_named_by_their_option() {
    // Port 1 of this machine refuses at once: no time limit has to be waited for.
    let no_server = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";
    for uri in [no_server, "nonsense", "mongodb://", ""] {
        refused(&["ls", "--uri", uri], &["--uri"]);
        refused(&["doctor", "--uri", uri], &["--uri"]);
        refused(&["show", "65a1f0c2b3d4e5f601234567", "--uri", uri], &["--uri"]);
        refused(&["abort", "65a1f0c2b3d4e5f601234567.1", "--uri", uri], &["--uri"]);
    }
}

#[cfg(not(feature = "testing"))]
#[test]
fn clients_are_not_let_make_commands_fail() {
    refused(&["serve", "--enable-test-commands"], &["unexpected argument '--enable-test-commands'"]);
}

#[test]
fn database_names_that_cannot_be_are_refused() {
    refused(&["ls", "--tx-database", "a.b"], &["--tx-database", "cannot contain"]);
    refused(&["ls", "--tx-database", ""], &["--tx-database"]);
}
