//! Tests of the table: its rows together, and the privileges and read concerns that they give
//! commands.

mod needs;
mod pipelines;
mod read_concerns;

use super::*;
use crate::command::{parts::read_concern::ReadLevel, registry::InTransactions};

fn names(is_meant: impl Fn(&Command) -> bool) -> Vec<&'static str> {
    ROWS.iter().filter(|command| is_meant(command)).flat_map(|command| command.names).copied().collect()
}

#[test]
fn every_name_has_one_row() {
    assert_eq!(COMMANDS.len(), names(|_| true).len());
}

#[test]
fn names_are_spelled_as_they_are() {
    assert_eq!(look_up("findandmodify").map(|known| known.name), Some("findandmodify"));
    assert!(look_up("find").is_some_and(|known| known.command.is_transactional()));
    assert!(look_up("Find").is_none());
    assert!(look_up("").is_none());
}

#[test]
fn commands_are_listed_by_their_usual_names_unless_they_are_refused() {
    let listed: Vec<(&str, bool)> = listed().map(|listed| (listed.name, listed.requires_auth)).collect();
    for one in [("find", true), ("getMore", true), ("findAndModify", true), ("buildInfo", false)] {
        assert!(listed.contains(&one), "{one:?}");
    }
    for name in ["findandmodify", "buildinfo", "shutdown", "authenticate"] {
        assert!(listed.iter().all(|(listed, _)| *listed != name), "{name}");
    }
}

/// A change of a row that lets more or fewer users run its command has to be repeated here.
#[test]
fn what_is_open_to_everybody_and_what_only_to_root_is_known() {
    let is_answered = |command: &Command| !matches!(command.route, Route::Refused(..));
    let open = [
        "hello",
        "isMaster",
        "ismaster",
        "ping",
        "whatsmyuri",
        "connectionStatus",
        "listCommands",
        "getnonce",
        "saslStart",
        "saslContinue",
        "buildInfo",
        "buildinfo",
        "authenticate",
    ];
    assert_eq!(names(|command| command.access == Open), open);
    let root =
        ["killAllSessions", "killAllSessionsByPattern", "configureFailPoint", "fsync", "fsyncUnlock", "logRotate"];
    assert_eq!(names(|command| command.access == On(Root) && is_answered(command)), root);
    let monitor = [
        "serverStatus",
        "getCmdLineOpts",
        "hostInfo",
        "getParameter",
        "getLog",
        "top",
        "lockInfo",
        "connPoolStats",
        "getDefaultRWConcern",
    ];
    assert_eq!(names(|command| command.access == On(Monitor)), monitor);
    let refused_to_others = |command: &Command| !is_answered(command) && ![Open, On(Root)].contains(&command.access);
    assert_eq!(names(refused_to_others), [""; 0]);
}

/// What is written goes on without its client.
#[test]
fn commands_that_change_nothing_end_with_their_client() {
    use bson::doc;
    let none = doc! {};
    let (inline, into) = (doc! {"out": {"inline": 1}}, doc! {"out": {"replace": "r"}});
    let (shown, written) = (doc! {"pipeline": [{"$match": {}}]}, doc! {"pipeline": [{"$out": "r"}]});
    for (name, body, ends) in [
        ("find", &none, true),
        ("getMore", &none, true),
        ("currentOp", &none, true),
        ("explain", &none, true),
        ("listIndexes", &none, true),
        ("serverStatus", &none, true),
        ("mapReduce", &inline, true),
        ("mapReduce", &into, false),
        ("aggregate", &shown, true),
        ("aggregate", &written, false),
        ("insert", &none, false),
        ("drop", &none, false),
        ("killCursors", &none, false),
        ("commitTransaction", &none, false),
    ] {
        let found = look_up(name).map(|known| known.command.ends_with_client(body));
        assert_eq!(found, Some(ends), "{name} {body}");
    }
}

#[test]
fn what_the_errors_of_read_concerns_name_is_in_the_table() {
    for level in [ReadLevel::Snapshot, ReadLevel::Linearizable] {
        let mut takers = names(|command| command.reads.promise(level));
        let mut named: Vec<&str> = level.takers().into_iter().flat_map(|takers| takers.split(", ")).collect();
        takers.sort_unstable();
        named.sort_unstable();
        assert_eq!(takers, named);
    }
}

#[test]
fn only_transactional_commands_are_parts_of_transactions() {
    let is_part =
        |command: &Command| !matches!(command.in_transactions, InTransactions::Never | InTransactions::NeverBecause(_));
    assert_eq!(names(|command| is_part(command) && !command.is_transactional()), [""; 0]);
}
