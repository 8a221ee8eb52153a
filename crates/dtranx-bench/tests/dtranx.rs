//! DTranx under the load generator: three real servers, and counters that add up in the end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn transfers_between_counters_on_three_servers_keep_their_sum() {
    let args = "compare --stores dtranx --servers 3 --shape transfer --keys 50 --in-flight 8 --seconds 1 --warm-up 0 --rounds 1";
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench")).args(args.split(' ')).output().unwrap();
    let (told, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{errors}");
    let row = told.lines().last().unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[1..6], ["dtranx", "3", "transfer", "uniform", "8"], "{told}");
    assert!(cells[6].parse::<f64>().unwrap() > 0.0, "{told}");
}

#[test]
fn tables_are_made_over_time_or_the_machine_is_refused_by_its_missing_tmpfs() {
    let args = "tables --only c --seconds 1 --warm-up 0 --rounds 1 --keys 1000 --in-flight 8";
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench")).args(args.split(' ')).output().unwrap();
    let (told, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    if !output.status.success() {
        return assert!(errors.contains("--log-folder: /dev/shm "), "{errors}");
    }
    assert!(told.contains("cores") && told.contains("## (c)"), "{told}");
    let over_time = told.split_once("| second | collected: tx/s |").unwrap().1;
    let cells: Vec<&str> = over_time.lines().nth(2).unwrap().split('|').map(str::trim).collect();
    assert_eq!((cells[1], cells.len()), ("1", 7), "{told}");
    let numbers: Vec<f64> = cells[2..6].iter().map(|cell| cell.parse().unwrap()).collect();
    assert!(numbers[0] > 0.0 && numbers[2] > 0.0, "both commit: {told}");
    assert!(numbers[1] >= 16.0 && numbers[3] >= 16.0, "a log has a segment at least: {told}");
}
