//! Tests of the tables, of a realistic result: their rows, columns and widths.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::report::fake;

#[test]
fn every_line_fits_a_wide_terminal() {
    for line in report(&fake::realistic()).to_text().lines() {
        assert!(line.chars().count() <= 160, "{} characters: {line}", line.chars().count());
    }
}

#[test]
fn table_has_a_row_for_every_line_and_as_many_cells_as_columns() {
    let summary = Summary::of(&fake::realistic());
    let tables = of_workload(&summary, "ycsb a");
    assert_eq!(tables.len(), 3, "figures, kinds, commands");
    assert_eq!([tables[0].rows.len(), tables[2].rows.len()], [12, 12]);
    for table in &tables {
        for row in &table.rows {
            let full = if row.remark.is_some() { 2 } else { table.columns.len() };
            assert_eq!(row.cells.len(), full, "{row:?}");
        }
    }
}

#[test]
fn broken_line_says_so_in_place_of_figures() {
    let text = report(&fake::realistic()).to_text();
    let broken: Vec<&str> = text.lines().filter(|line| line.contains("BROKEN")).collect();
    assert_eq!(broken.len(), 3, "once in each table of the workload: {broken:?}");
    assert!(broken[0].contains("plain") && broken[0].contains("1000 accounts hold 9993"), "{}", broken[0]);
}

#[test]
fn figures_stand_under_their_headings() {
    let summary = Summary::of(&fake::realistic());
    let table = &of_workload(&summary, "ycsb a")[0];
    let cell = |head: &str| {
        let at = table.columns.iter().position(|column| column.head == head).unwrap_or_else(|| panic!("no {head}"));
        table.rows[1].cells[at].parse::<f64>().unwrap()
    };
    let figures = summary.lines[1].figures().unwrap();
    assert!((cell("tx/s") - figures.rate.median).abs() <= 0.5);
    assert!((cell("op/s") - figures.operations_rate.median).abs() <= 0.5);
    assert!((cell("p95") - figures.p95_ms).abs() <= 0.005);
    assert!((cell("x plain") - figures.against["plain"]).abs() <= 0.005);
}

#[test]
fn columns_that_would_say_nothing_are_left_out() {
    let mut result = fake::realistic();
    result.runs.retain(|run| run.target == "mongotx" && run.workload == "ycsb c" && run.round == 1);
    result.runs.iter_mut().for_each(|run| run.counts.operations = run.counts.committed());
    let table = &of_workload(&Summary::of(&result), "ycsb c")[0];
    for absent in ["[min-max]", "tpmC", "op/s", "given up", "x plain", "x native", "processes", "asked tx/s"] {
        assert!(table.columns.iter().all(|column| column.head != absent), "{absent}");
    }
    result.runs.iter_mut().for_each(|run| (run.processes, run.rate) = (2, Some(500.0)));
    let table = &of_workload(&Summary::of(&result), "ycsb c")[0];
    let heads: Vec<&str> = table.columns.iter().map(|column| column.head.as_str()).collect();
    assert_eq!(heads[..4], ["target", "clients", "processes", "asked tx/s"]);
}

#[test]
fn rare_commands_are_listed_together() {
    let mut run = fake::empty("w", "plain", 1, 1, 1.0);
    run.counts.kinds.entry("k".to_owned()).or_default().latencies.note(std::time::Duration::from_millis(1));
    run.commands = (0..12).map(|n| (format!("command{n}"), 100 - n)).collect();
    let table = &of_workload(&Summary::of(&fake::result("w", vec![run])), "w")[1];
    assert_eq!(table.columns.last().unwrap().head, "others");
    assert_eq!(table.rows[0].cells.last().unwrap(), "362.00", "92 + 91 + 90 + 89");
}

#[test]
fn no_rare_commands_are_none_and_not_less() {
    let run = |target: &str, commands: u64| {
        let mut run = fake::empty("w", target, 1, 1, 1.0);
        run.counts.kinds.entry("k".to_owned()).or_default().latencies.note(std::time::Duration::from_millis(1));
        run.commands = (0..commands).map(|n| (format!("command{n}"), 100 - n)).collect();
        run
    };
    let runs = vec![run("plain", 3), run("native", 12)];
    let table = &of_workload(&Summary::of(&fake::result("w", runs)), "w")[1];
    assert_eq!(table.rows[0].cells.last().unwrap(), "0.00");
}
