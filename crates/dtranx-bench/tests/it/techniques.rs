//! The tables of single techniques, made small with real servers; a machine without tmpfs is
//! refused by name.

use std::process::Command;

/// The lines of a table's rows, cell by cell; `None` where the machine has no tmpfs.
fn rows(options: &str) -> Option<Vec<Vec<String>>> {
    let args = format!("tables --seconds 1 --warm-up 0 --rounds 1 --keys 1000 {options}");
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench")).args(args.split(' ')).output().unwrap();
    let (printed, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    if !output.status.success() {
        assert!(errors.contains("--log-folder: /dev/shm "), "{errors}");
        return None;
    }
    let lines = printed.lines().filter(|line| line.starts_with("| ")).skip(2);
    Some(lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect())
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap()
}

#[test]
fn caches_save_requests_to_read() {
    let Some(rows) = rows("--only f --in-flight 8") else { return };
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let clients = ["no client cache", "client cache"].repeat(2);
    let servers = ["no server cache", "server cache"].repeat(2);
    assert_eq!(names, [clients, vec!["read anew", "brought along", "client cache"], servers].concat());
    let reads: Vec<f64> = rows.iter().map(|row| number(&row[11])).collect();
    assert!(reads[1] < reads[0], "reads come from the client's cache: {reads:?}");
    assert!(reads[5] < reads[4], "what was brought along is not read: {reads:?}");
    assert!(reads[8] > 0.9 && reads[7] > 0.9, "the server's cache is not the client's: {reads:?}");
}

#[test]
fn restarts_answer_with_what_was_acknowledged_and_a_collected_log_is_short() {
    let Some(rows) = rows("--only g --log-mib 24,0") else { return };
    let titles: Vec<(&str, &str)> = rows.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(titles, [("collected", "0"), ("not collected", "0"), ("collected", "24"), ("not collected", "24")]);
    assert!(rows.iter().all(|row| number(&row[3]) > 0.0), "{rows:?}");
    let log_mib: Vec<f64> = rows.iter().map(|row| number(&row[2])).collect();
    assert!(log_mib[2] < log_mib[3], "{log_mib:?}");
}

#[test]
fn acknowledgements_sent_at_once_cost_more_messages() {
    let Some(rows) = rows("--only h --in-flight 4") else { return };
    let titles: Vec<(&str, &str)> = rows.iter().map(|row| (row[0].as_str(), row[4].as_str())).collect();
    let of = |in_flight| ["at once", "after 5 ms", "after 50 ms"].map(|name| (name, in_flight));
    assert_eq!(titles, [of("1"), of("4")].concat());
    let messages: Vec<f64> = rows.iter().map(|row| number(&row[11])).collect();
    assert!(messages[2] < messages[0], "one transaction at a time: {messages:?}");
}

#[test]
fn group_goes_on_after_each_kill_of_a_member() {
    let rows = rows("--only j --log-folder /nowhere").unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["the leader", "a follower"]);
    assert!(rows.iter().all(|row| row[1] == "3" && number(&row[2]) >= 0.0), "{rows:?}");
    assert!(number(&rows[0][2]) > 0.0, "there is an election: {rows:?}");
}

#[test]
fn events_pass_through_a_queue_wherever_they_lie() {
    let rows = rows("--only i --log-folder /nowhere").unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["in the slots", "allocated", "pooled"], "no tmpfs is needed");
    assert!(rows.iter().all(|row| number(&row[1]) > 0.0), "{rows:?}");
}
