//! The outcome of TPC-C's ACID tests as a table: a line for each clause, a column for each target
//! at each level. Pure.

use benchkit::report::table::{Column, Row, Table};
use txbench::acid::{AcidReport, TargetReport, TestResult};

/// The table of a report.
pub(super) fn table(report: &AcidReport) -> Table {
    let mut columns = vec![Column::text("clause"), Column::text("test")];
    columns.extend(report.targets.iter().map(|target| Column::text(title(target))));
    let tests = report.targets.first().map_or(&[][..], |target| &target.tests);
    let row = |(at, test): (usize, &txbench::acid::TestReport)| {
        let mut cells = vec![test.clause.clone(), test.asks.clone()];
        cells.extend(report.targets.iter().map(|target| outcome(target, at).to_owned()));
        Row::from(cells)
    };
    let rows = tests.iter().enumerate().map(row).collect();
    Table { title: String::new(), columns, rows, notes: String::new() }
}

fn title(target: &TargetReport) -> String {
    let level = target.isolation.map_or_else(|| "no transactions".to_owned(), |level| level.to_string());
    format!("{} ({level})", target.target)
}

fn outcome(target: &TargetReport, at: usize) -> &'static str {
    match target.tests.get(at).map(|test| &test.outcome) {
        Some(TestResult::Passed) => "passed",
        Some(TestResult::Failed(_)) => "**failed**",
        Some(TestResult::Refused(_)) => "refused",
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use txbench::{acid::TestReport, targets::Isolation};

    use super::*;

    #[test]
    fn clauses_are_lines_and_targets_are_columns() {
        let test = |clause: &str, outcome| TestReport { clause: clause.to_owned(), asks: "asks".to_owned(), outcome };
        let target = |name: &str, isolation, outcome: TestResult| TargetReport {
            target: name.to_owned(),
            isolation,
            tests: vec![test("3.2.2.1", TestResult::Passed), test("3.2.2.2", outcome)],
        };
        let plain = target("plain", None, TestResult::Failed("half is there".to_owned()));
        let mongotx = target("mongotx", Some(Isolation::Snapshot), TestResult::Passed);
        let table = table(&AcidReport { targets: vec![plain, mongotx] });
        let heads: Vec<&str> = table.columns.iter().map(|column| column.head.as_str()).collect();
        assert_eq!(heads, ["clause", "test", "plain (no transactions)", "mongotx (snapshot)"]);
        assert_eq!(table.rows[1].cells, ["3.2.2.2", "asks", "**failed**", "passed"]);
    }
}
