//! The findings of the page in one table: throughput of MongoTx and of its gateway as a multiple of
//! that of MongoDB's own transactions, by workload and number of clients. Pure.

use benchkit::report::table::{Column, Row, Table};

use super::chart::Chart;

/// The column that is summed up.
const RATIO: &str = "x native";
/// Targets that have lines of the summary.
const TARGETS: [&str; 2] = ["mongotx", "gateway"];
/// Numbers of clients that have a column of the summary.
const CLIENTS: [&str; 3] = ["1", "8", "32"];
/// The ratios that the project aims at: beginning of the workload's name, target, ratios.
const AIMS: [(&str, &str, &str); 7] = [
    ("Transfers", "mongotx", "1.25"),
    ("Transfers", "gateway", "1.0"),
    ("TPC-C at", "mongotx", "1.0, 1.2, 1.2"),
    ("TPC-C at", "gateway", "0.9"),
    ("TPC-C with natural keys", "mongotx", "1.0"),
    ("TPC-C with natural keys", "gateway", "0.9"),
    ("YCSB", "mongotx", "1.1"),
];

/// The table of the ratios of these charts; `None`: none of them has any.
pub(super) fn summary<'a>(drawn: impl IntoIterator<Item = (&'a Chart, &'a Table)>) -> Option<Table> {
    let row = |(chart, table): (&Chart, &Table), target: &str| {
        let ranges = CLIENTS.map(|clients| range(&chart.ratios(table, RATIO, target, clients)));
        let is_empty = ranges.iter().all(|range| range == NONE);
        let named = [workload(chart.text), target.to_owned(), aim(chart.text, target).to_owned()];
        (!is_empty).then(|| Row::from([named, ranges].concat()))
    };
    let rows: Vec<Row> =
        drawn.into_iter().flat_map(|one| TARGETS.into_iter().filter_map(move |target| row(one, target))).collect();
    let heads = CLIENTS.map(|clients| Column::number(if clients == "1" { "1 client" } else { clients }));
    let columns = ["workload", "target", "aim"].map(Column::text).into_iter().chain(heads).collect();
    (!rows.is_empty()).then(|| Table { columns, rows, ..Table::default() })
}

const NONE: &str = "-";

/// The aim for a workload: one ratio, or one for each number of clients.
fn aim(text: &str, target: &str) -> &'static str {
    let is_it = |(begin, of, _): &(&str, &str, &str)| text.starts_with(begin) && *of == target;
    AIMS.into_iter().find(is_it).map_or(NONE, |(_, _, aim)| aim)
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
        let expected = ["Transfers", "mongotx", "1.25", "1.13", "0.90 to 1.20", "-"];
        assert_eq!(found.rows, [Row::from(expected.map(str::to_owned).to_vec())]);
        assert!(summary([(chart, &Table::default())]).is_none());
    }

    #[test]
    fn a_workload_is_named_without_what_the_bars_are() {
        assert_eq!(workload("YCSB E, short ranges: transactions per second, by clients"), "YCSB E, short ranges");
        assert_eq!(workload("TPC-C at snapshot, by clients"), "TPC-C at snapshot");
    }
}
