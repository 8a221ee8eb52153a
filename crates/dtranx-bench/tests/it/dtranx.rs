//! DTranx under the load generator: three real servers, and counters that add up in the end.

use std::process::Command;

/// Transfers between counters on three servers, whose sum is checked in the end.
fn transfer(more: &[&str]) {
    let args = "compare --stores dtranx --servers 3 --shape transfer --keys 50 --in-flight 8 --seconds 3 --warm-up 0 --rounds 1";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx-bench"));
    let output = command.args(args.split(' ')).args(more).arg("--json").arg(&file).output().unwrap();
    let (printed, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{errors}");
    let row = printed.lines().last().unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[1..6], ["dtranx", "3", "transfer", "uniform", "8"], "{printed}");
    assert!(cells[6].parse::<f64>().unwrap() > 0.0, "{printed}");
    let result = benchkit::report::read(&file).unwrap();
    let [run] = &result.runs[..] else { panic!("{result:?}") };
    assert_eq!((run.target.as_str(), run.clients, run.round), ("dtranx", 8, 1));
    assert_eq!(run.counts.kinds.keys().collect::<Vec<_>>(), ["transfer"]);
    assert_eq!(format!("{:.0}", run.rate()), cells[6], "the table is made of the result");
}

#[test]
fn transfers_between_counters_on_three_servers_keep_their_sum() {
    transfer(&[]);
}

#[test]
fn transfers_between_counters_in_a_group_keep_their_sum() {
    transfer(&["--group"]);
}

/// The numbers of a second, of which there are four.
fn second(at: usize, row: &str) -> [f64; 4] {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!((cells[1], cells.len()), ((at + 1).to_string().as_str(), 7), "{row}");
    let numbers: Vec<f64> = cells[2..6].iter().map(|cell| cell.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn tables_are_made_over_time_or_the_machine_is_refused_by_its_missing_tmpfs() {
    let args = "tables --only c --seconds 1 --warm-up 0 --rounds 1 --keys 1000 --in-flight 8";
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench")).args(args.split(' ')).output().unwrap();
    let (printed, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    if !output.status.success() {
        return assert!(errors.contains("--log-folder: /dev/shm "), "{errors}");
    }
    assert!(printed.contains("cores") && printed.contains("## (c)"), "{printed}");
    let over_time = printed.split_once("| second | collected: tx/s |").unwrap().1;
    let rows: Vec<[f64; 4]> = over_time.lines().skip(2).take(4).enumerate().map(|(at, row)| second(at, row)).collect();
    assert_eq!(rows.len(), 4, "{printed}");
    // In one second, on a slow machine, there may be no commit.
    let committed = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>();
    assert!(committed(0) > 0.0 && committed(2) > 0.0, "both commit: {printed}");
    assert!(rows.iter().all(|row| row[1] >= 16.0 && row[3] >= 16.0), "a log has a segment at least: {printed}");
}
