//! DTranx under the load generator: three real servers, and counters that add up in the end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn transfers_between_counters_on_three_servers_keep_their_sum() {
    let args =
        "--stores dtranx --servers 3 --shape transfer --keys 50 --in-flight 8 --seconds 1 --warm-up 0 --rounds 1";
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench")).args(args.split(' ')).output().unwrap();
    let (told, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{errors}");
    let row = told.lines().last().unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[1..4], ["dtranx", "3", "transfer, uniform, 8 in flight"], "{told}");
    assert!(cells[4].parse::<f64>().unwrap() > 0.0, "{told}");
}
