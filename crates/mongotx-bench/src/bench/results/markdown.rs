//! Reads the Markdown that the benchmarks write: conditions, tables with titles, notes. Pure.

use benchkit::report::table::{Column, Row, Table};

/// Conditions and tables of a report, and its lines about missing measurements.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReportContent {
    /// Conditions, which stand before the first table.
    pub(super) facts: Vec<String>,
    pub(super) tables: Vec<Table>,
    /// Measurements that could not be made, with the reason.
    pub(super) missing: Vec<String>,
}

/// Beginning of a line about a missing measurement.
pub(super) const MISSING: &str = "Not measured: ";

/// Reads a report. A line that is no table's and comes after one is a note of that table. An empty
/// line ends a table: another one may follow without a title.
pub(super) fn read(text: &str) -> ReportContent {
    let (mut read, mut title, mut is_in_table) = (ReportContent::default(), String::new(), false);
    for line in text.lines().map(str::trim) {
        if line.is_empty() {
            is_in_table = false;
            continue;
        }
        if let Some(cells) = cells(line) {
            if !is_in_table {
                let columns = cells.iter().map(|head| Column::text(head.clone())).collect();
                read.tables.push(Table { title: std::mem::take(&mut title), columns, ..Table::default() });
            } else if let Some(table) = read.tables.last_mut() {
                add(table, cells);
            }
            is_in_table = true;
            continue;
        }
        is_in_table = false;
        let fact = line.trim_start_matches("- ");
        if let Some(heading) = line.strip_prefix('#') {
            heading.trim_start_matches('#').trim().clone_into(&mut title);
        } else if let Some(what) = fact.strip_prefix(MISSING) {
            read.missing.push(what.to_owned());
        } else if let Some(table) = read.tables.last_mut() {
            let between = if table.notes.is_empty() { "" } else { " " };
            table.notes = format!("{}{between}{line}", table.notes);
        } else {
            read.facts.push(fact.to_owned());
        }
    }
    read
}

/// Adds a row; the rule below the heading says which columns are numbers.
fn add(table: &mut Table, cells: Vec<String>) {
    let is_rule = cells.iter().all(|cell| cell.trim_matches(':').starts_with("---"));
    if is_rule && table.rows.is_empty() {
        for (column, rule) in table.columns.iter_mut().zip(&cells) {
            column.number = rule.ends_with(':');
        }
    } else {
        table.rows.push(Row::from(cells));
    }
}

/// The cells of a line of a table. `\|` is a character of a cell.
fn cells(line: &str) -> Option<Vec<String>> {
    const BAR: &str = "\u{0}";
    let line = line.replace("\\|", BAR);
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().replace(BAR, "|")).collect())
}

#[cfg(test)]
mod tests {
    use benchkit::report::table::Report;

    use super::*;

    fn table(title: &str) -> Table {
        let columns = vec![Column::text("query"), Column::number("p50 ms")];
        let rows = [["a | b", "0.2"], ["c", "1.4"]].map(|row| Row::from(row.map(str::to_owned).to_vec()));
        Table { title: title.to_owned(), columns, rows: rows.to_vec(), notes: "x: what x is.".to_owned() }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = Report { facts: vec!["Machine: one.".to_owned()], tables: vec![table(""), table("Memory")] };
        let expected =
            ReportContent { facts: report.facts.clone(), tables: report.tables.clone(), missing: Vec::new() };
        assert_eq!(read(&report.to_markdown()), expected);
    }

    #[test]
    fn a_column_may_have_no_heading_and_what_is_missing_is_no_note() {
        let text =
            "2 cores\n\n## (d) Beside\n\n| | tx/s |\n| --- | ---: |\n| etcd | 7 |\n\nNot measured: redis: none.\n";
        let found = read(text);
        assert_eq!((found.facts, found.missing), (vec!["2 cores".to_owned()], vec!["redis: none.".to_owned()]));
        let [table] = &found.tables[..] else { panic!("{:?}", found.tables) };
        assert_eq!((table.title.as_str(), table.columns[0].head.as_str()), ("(d) Beside", ""));
        assert!(table.columns[1].number && !table.columns[0].number && table.notes.is_empty());
        assert_eq!(table.rows, [Row::from(vec!["etcd".to_owned(), "7".to_owned()])]);
    }

    #[test]
    fn tables_with_nothing_but_an_empty_line_between_them_are_two() {
        let found = read("## Twice\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n\n| second |\n| ---: |\n| 1 |\n| 2 |\n");
        let shape = |table: &Table| (table.title.clone(), table.columns.len(), table.rows.len());
        assert_eq!(
            found.tables.iter().map(shape).collect::<Vec<_>>(),
            [("Twice".to_owned(), 2, 1), (String::new(), 1, 2)]
        );
    }
}
