//! The tables of a workload's runs, as the page shows them. Levels of isolation that took turns in
//! one run become a table each. Pure.

use std::collections::BTreeMap;

use benchkit::report::{
    result::BenchResult,
    summary::{Figures, Line, Summary},
    table::{Column, Row, Table},
};

/// The level that the others are compared with.
const BASE_LEVEL: &str = "read committed";
const BASELINES: [&str; 2] = ["plain", "native"];

/// A line, its target and level apart.
struct LineOfTarget<'a> {
    line: &'a Line,
    target: &'a str,
    level: &'a str,
}

impl<'a> LineOfTarget<'a> {
    fn of(line: &'a Line) -> Self {
        let (target, level) = line.target.split_once(", ").unwrap_or((&line.target, ""));
        Self { line, target, level }
    }

    /// The key of the line of another target, or of another level, in the same setting.
    fn key(&self, target: &str, level: &str) -> RateKey {
        let setting = &self.line.setting;
        (setting.workload.clone(), setting.clients, target.to_owned(), level.to_owned())
    }
}

/// Workload, clients, target, level.
type RateKey = (String, u32, String, String);

/// The tables of a result; with those by kind of transaction, if they are wanted.
pub(super) fn tables(result: &BenchResult, by_kind: bool) -> Vec<Table> {
    let summary = Summary::of(result);
    let entries: Vec<LineOfTarget<'_>> = summary.lines.iter().map(LineOfTarget::of).collect();
    let mut levels: Vec<&str> = Vec::new();
    entries.iter().for_each(|entry| {
        if !levels.contains(&entry.level) {
            levels.push(entry.level)
        }
    });
    let rates = rates(&entries);
    let mut tables = Vec::new();
    for level in levels {
        let of_level: Vec<&LineOfTarget<'_>> = entries.iter().filter(|entry| entry.level == level).collect();
        tables.push(main_table(&of_level, level, &rates));
        if by_kind {
            tables.push(kinds_table(&of_level, level));
        }
    }
    tables
}

fn rates(entries: &[LineOfTarget<'_>]) -> BTreeMap<RateKey, f64> {
    let rate =
        |entry: &LineOfTarget<'_>| Some((entry.key(entry.target, entry.level), entry.line.figures()?.rate.median));
    entries.iter().filter_map(rate).filter(|(_, rate)| *rate > 0.0).collect()
}

type Cell<'a> = dyn Fn(&LineOfTarget<'_>, &Figures) -> String + 'a;

/// A column, and its cell for a line.
struct FigureColumn<'a> {
    head: String,
    cell: Box<Cell<'a>>,
}

fn part<'a>(head: impl Into<String>, cell: impl Fn(&LineOfTarget<'_>, &Figures) -> String + 'a) -> FigureColumn<'a> {
    FigureColumn { head: head.into(), cell: Box::new(cell) }
}

fn main_table(entries: &[&LineOfTarget<'_>], level: &str, rates: &BTreeMap<RateKey, f64>) -> Table {
    let parts = parts(entries, level, rates);
    let head = LineColumns::of(entries);
    let mut columns = head.columns();
    columns.extend(parts.iter().map(|part| Column::number(part.head.clone())));
    let row = |entry: &&LineOfTarget<'_>| match &entry.line.outcome {
        Err(reason) => Row { cells: head.cells(entry), remark: Some(format!("broken: {reason}")) },
        Ok(figures) => {
            let mut cells = head.cells(entry);
            cells.extend(parts.iter().map(|part| (part.cell)(entry, figures)));
            Row::from(cells)
        }
    };
    Table { title: titled(level), columns, rows: entries.iter().map(row).collect(), notes: String::new() }
}

fn parts<'a>(
    entries: &[&LineOfTarget<'_>],
    level: &'a str,
    rates: &'a BTreeMap<RateKey, f64>,
) -> Vec<FigureColumn<'a>> {
    let mut parts = vec![part("tx/s", |_, figures| short(figures.rate.median))];
    if entries.iter().any(|entry| entry.line.rounds > 1) {
        let range = |figures: &Figures| format!("[{}-{}]", short(figures.rate.least), short(figures.rate.most));
        parts.push(part("[min-max]", move |_, figures| range(figures)));
    }
    if entries.iter().any(|entry| entry.line.figures().is_some_and(|figures| figures.tpmc.is_some())) {
        parts.push(part("tpmC", |_, figures| known(figures.tpmc.map(|tpmc| tpmc.median))));
    }
    parts.extend([
        part("p50 ms", |_, figures| format!("{:.2}", figures.p50_ms)),
        part("p99 ms", |_, figures| format!("{:.2}", figures.p99_ms)),
        part("conflicts", |_, figures| format!("{:.2} %", figures.conflicts_percent)),
        part("server CPU", |_, figures| known(figures.server_cpu_ms_per_tx)),
        part("client CPU", |_, figures| known(figures.client_cpu_ms_per_tx)),
    ]);
    for baseline in BASELINES {
        parts.extend(compared(entries, rates, baseline, move |entry| entry.key(baseline, level)));
    }
    if level != BASE_LEVEL {
        parts.extend(compared(entries, rates, BASE_LEVEL, |entry| entry.key(entry.target, BASE_LEVEL)));
    }
    parts.push(part("commands/tx", |_, figures| format!("{:.2}", figures.commands_in_all_per_tx())));
    parts
}

/// The column of ratios to other lines, where any of these has one.
fn compared<'a>(
    entries: &[&LineOfTarget<'_>],
    rates: &'a BTreeMap<RateKey, f64>,
    name: &str,
    other: impl Fn(&LineOfTarget<'_>) -> RateKey + 'a,
) -> Option<FigureColumn<'a>> {
    if !entries.iter().any(|entry| rates.contains_key(&other(entry))) {
        return None;
    }
    let ratio = move |entry: &LineOfTarget<'_>, figures: &Figures| {
        rates.get(&other(entry)).map_or_else(|| "-".to_owned(), |rate| format!("{:.2}", figures.rate.median / rate))
    };
    Some(part(format!("x {name}"), ratio))
}

fn kinds_table(entries: &[&LineOfTarget<'_>], level: &str) -> Table {
    let head = LineColumns::of(entries);
    let mut columns = head.columns();
    columns.push(Column::text("kind"));
    columns.extend(["tx/s", "p50 ms", "p99 ms", "conflicts"].map(Column::number));
    let mut rows = Vec::new();
    for entry in entries {
        for kind in entry.line.figures().iter().flat_map(|figures| &figures.kinds) {
            let mut cells = head.cells(entry);
            cells.extend([kind.kind.clone(), short(kind.rate.median)]);
            cells.extend([kind.p50_ms, kind.p99_ms].map(|ms| format!("{ms:.2}")));
            cells.push(format!("{:.2} %", kind.conflicts_percent));
            rows.push(Row::from(cells));
        }
    }
    let by_kind = "by kind of transaction";
    let title = if level.is_empty() { by_kind.to_owned() } else { format!("{}, {by_kind}", titled(level)) };
    Table { title, columns, rows, notes: String::new() }
}

/// The columns that identify a line: the workload is one of them where there are several.
struct LineColumns {
    has_work: bool,
}

impl LineColumns {
    fn of(entries: &[&LineOfTarget<'_>]) -> Self {
        let mut works = entries.iter().map(|entry| &entry.line.setting.workload);
        let first = works.next();
        Self { has_work: works.any(|work| Some(work) != first) }
    }

    fn columns(&self) -> Vec<Column> {
        let work = self.has_work.then(|| Column::text("work"));
        work.into_iter().chain([Column::text("target"), Column::number("clients")]).collect()
    }

    fn cells(&self, entry: &LineOfTarget<'_>) -> Vec<String> {
        let work = self.has_work.then(|| entry.line.setting.workload.clone());
        work.into_iter().chain([entry.target.to_owned(), entry.line.setting.clients.to_string()]).collect()
    }
}

/// A level as a title.
fn titled(level: &str) -> String {
    let mut letters = level.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

/// A number with about three digits that count.
fn short(n: f64) -> String {
    let digits = match n.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{n:.digits$}")
}

fn known(n: Option<f64>) -> String {
    n.map_or_else(|| "-".to_owned(), short)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use benchkit::{
        measure::Counts,
        report::result::{FORMAT, RunResult, Used},
    };

    use super::*;

    /// A run of ten seconds with so many transactions a second.
    fn run_result(target: &str, clients: u32, round: u32, rate: u64) -> RunResult {
        let mut counts = Counts::default();
        let kind = counts.kinds.entry("transfer".to_owned()).or_default();
        (0..rate * 10).for_each(|_| kind.latencies.note(Duration::from_millis(2)));
        RunResult {
            target: target.to_owned(),
            workload: "w".to_owned(),
            clients,
            processes: 1,
            round,
            rate: None,
            seconds: 10.0,
            counts,
            commands: [("update".to_owned(), rate * 30)].into(),
            used: Used::default(),
            broken: None,
        }
    }

    fn result(runs: Vec<RunResult>) -> BenchResult {
        let (title, command) = ("w".to_owned(), "mongotx-bench w".to_owned());
        BenchResult { format: FORMAT, title, command, facts: Vec::new(), runs }
    }

    fn cell<'a>(table: &'a Table, row: usize, head: &str) -> &'a str {
        let at = table.columns.iter().position(|column| column.head == head).unwrap_or_else(|| panic!("no {head}"));
        &table.rows[row].cells[at]
    }

    fn has(table: &Table, head: &str) -> bool {
        table.columns.iter().any(|column| column.head == head)
    }

    #[test]
    fn medians_ranges_and_ratios_of_the_rounds() {
        let rounds = [(1, 10), (2, 30), (3, 20)];
        let of = |target, factor: u64| rounds.map(|(round, rate)| run_result(target, 8, round, rate * factor));
        let tables = tables(&result([of("plain", 4), of("native", 1), of("mongotx", 2)].concat()), false);
        let [table] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!((table.title.as_str(), table.rows.len()), ("", 3));
        assert_eq!((cell(table, 2, "tx/s"), cell(table, 2, "[min-max]")), ("40.0", "[20.0-60.0]"));
        assert_eq!((cell(table, 2, "x plain"), cell(table, 2, "x native")), ("0.50", "2.00"));
        assert_eq!((cell(table, 2, "commands/tx"), cell(table, 2, "server CPU")), ("3.00", "-"));
        assert!(!has(table, "tpmC") && !has(table, "x read committed") && !has(table, "work"));
    }

    #[test]
    fn levels_are_a_table_each_and_compared_at_the_same_level() {
        let names = ["native, read committed", "native, snapshot", "mongotx, read committed"];
        let mut runs = names.map(|name| run_result(name, 1, 1, 20)).to_vec();
        runs.extend([run_result("mongotx, snapshot", 1, 1, 10), run_result("mongotx, serializable", 1, 1, 5)]);
        let tables = tables(&result(runs), false);
        let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(titles, ["Read committed", "Snapshot", "Serializable"]);
        assert_eq!((cell(&tables[0], 1, "target"), cell(&tables[0], 1, "x native")), ("mongotx", "1.00"));
        assert_eq!((cell(&tables[1], 1, "x native"), cell(&tables[1], 1, "x read committed")), ("0.50", "0.50"));
        assert_eq!(cell(&tables[2], 0, "x read committed"), "0.25");
        assert!(!has(&tables[2], "x native"), "native is not serializable");
        assert!(!has(&tables[0], "[min-max]"), "one round has no range");
    }

    #[test]
    fn a_broken_line_says_why_and_is_no_baseline() {
        let broken = RunResult { broken: Some("the sum is wrong".to_owned()), ..run_result("plain", 8, 1, 10) };
        let tables = tables(&result(vec![broken, run_result("mongotx", 8, 1, 10)]), false);
        assert_eq!(tables[0].rows[0].remark.as_deref(), Some("broken: the sum is wrong"));
        assert!(!has(&tables[0], "x plain"));
    }

    #[test]
    fn kinds_and_works_have_their_own_columns() {
        let other = RunResult { workload: "v".to_owned(), ..run_result("mongotx", 8, 1, 10) };
        let tables = tables(&result(vec![run_result("mongotx", 8, 1, 10), other]), true);
        assert_eq!((cell(&tables[0], 1, "work"), tables[1].title.as_str()), ("v", "by kind of transaction"));
        assert_eq!((cell(&tables[1], 0, "kind"), cell(&tables[1], 0, "tx/s")), ("transfer", "10.0"));
    }
}
