//! The findings of the page in one table: throughput of MongoTx and of its gateway as a multiple of
//! that of MongoDB's own transactions, by workload and number of clients. Pure.

use benchkit::report::table::{Column, Row, Table};

use super::chart::Chart;

/// The column that is summed up.
const RATIO: &str = "x native";
/// Targets that have columns of the summary: one for each of [`CLIENTS`].
const TARGETS: [&str; 2] = ["mongotx", "gateway"];
/// Numbers of clients that the workloads are measured with.
const CLIENTS: [&str; 3] = ["1", "8", "32"];

/// The table of the ratios of these charts; `None`: none of them has any.
pub(super) fn summary<'a>(drawn: impl IntoIterator<Item = (&'a Chart, &'a Table)>) -> Option<Table> {
    let row = |(chart, table): (&Chart, &Table)| {
        let ranges = figures().map(|(target, clients)| range(&chart.ratios(table, RATIO, target, clients)));
        let ranges: Vec<String> = ranges.collect();
        let is_empty = ranges.iter().all(|range| range == NONE);
        (!is_empty).then(|| Row::from([vec![workload(chart.text)], ranges].concat()))
    };
    let rows: Vec<Row> = drawn.into_iter().filter_map(row).collect();
    let heads = figures().map(|(target, clients)| Column::number(format!("{target}, {clients}")));
    let columns = std::iter::once(Column::text("workload")).chain(heads).collect();
    (!rows.is_empty()).then(|| Table { columns, rows, ..Table::default() })
}

const NONE: &str = "-";

/// The target and the number of clients of each column.
fn figures() -> impl Iterator<Item = (&'static str, &'static str)> {
    TARGETS.into_iter().flat_map(|target| CLIENTS.map(|clients| (target, clients)))
}

/// The least and the greatest of the ratios.
fn range(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().reduce(f64::min);
    let greatest = ratios.iter().copied().reduce(f64::max);
    match (least, greatest) {
        (Some(least), Some(greatest)) if least < greatest => format!("{least:.2} to {greatest:.2}"),
        (Some(one), _) => format!("{one:.2}"),
        (None, _) => NONE.to_owned(),
    }
}

/// The workload that a chart is about: its text up to what the bars are.
fn workload(text: &str) -> String {
    let end = [": transactions", ", by "].iter().filter_map(|mark| text.find(mark)).min();
    text[..end.unwrap_or(text.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::{super::plan::SECTIONS, *};

    #[test]
    fn each_target_has_a_ratio_for_each_number_of_clients() {
        let chart = &SECTIONS.iter().find(|section| section.id == "transfers").unwrap().measurements[0].charts[0];
        let columns = ["target", "clients", RATIO].map(Column::text).to_vec();
        let rows =
            [["native", "1", "1.00"], ["mongotx", "1", "1.13"], ["mongotx", "8", "0.9"], ["mongotx", "8", "1.2"]];
        let rows = rows.map(|row| Row::from(row.map(str::to_owned).to_vec())).to_vec();
        let table = Table { columns, rows, ..Table::default() };
        let found = summary([(chart, &table)]).unwrap();
        assert_eq!(
            found.rows,
            [Row::from(["Transfers", "1.13", "0.90 to 1.20", "-", "-", "-", "-"].map(str::to_owned).to_vec())]
        );
        assert!(summary([(chart, &Table::default())]).is_none());
    }

    #[test]
    fn a_workload_is_named_without_what_the_bars_are() {
        assert_eq!(workload("YCSB E, short ranges: transactions per second, by clients"), "YCSB E, short ranges");
        assert_eq!(workload("TPC-C at snapshot, by clients"), "TPC-C at snapshot");
    }
}
