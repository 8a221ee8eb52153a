//! The tables of latencies and of plans, by the shape of the query.

use benchkit::report::table::{Column, Row, Table};

use super::{
    measure::{QueryFigures, SideFigures},
    plans::PlanLine,
};

const NOTES: &str = "x median, x mean: MongoTx's divided by the plain driver's. commands/query: everything the driver sent while \
measured, divided by the queries. pending: documents of the collection that an open transaction of another client holds, or, where that is said, \
one of the same client; the plain driver reads them as they are stored.";
const PLAN_NOTES: &str = "Read from the server's profile of one query on each side, and explained by the server: of 20 queries \
the first that sent the most commands (with max_staleness the last). A comma separates commands; + is before the pipeline of a $unionWith; getMore and commands that \
are not queries are left out. Commands on other collections begin with their name.";

/// The table of latencies, by shape.
pub(crate) fn latencies(mut lines: Vec<QueryFigures>) -> Table {
    lines.sort_by_key(|line| (line.shape, line.mirrored, line.pending));
    let head = vec![
        "query",
        "mirrored",
        "pending",
        "plain p50 ms",
        "plain p99 ms",
        "MongoTx p50 ms",
        "MongoTx p99 ms",
        "x median",
        "x mean",
        "plain commands/query",
        "MongoTx commands/query",
    ];
    table(&head, 2, lines.iter().map(cells).collect(), NOTES)
}

fn cells(line: &QueryFigures) -> Vec<String> {
    let QueryFigures { shape, mirrored, pending, plain, mongotx } = line;
    let ms = |measured: &SideFigures, quantile| format!("{:.3}", measured.latencies.quantile_ms(quantile));
    let ratio = |of: &dyn Fn(&SideFigures) -> f64| format!("{:.2}", of(mongotx) / of(plain));
    let commands =
        |measured: &SideFigures| format!("{:.2}", measured.commands as f64 / measured.latencies.count() as f64);
    vec![
        shape.title().to_owned(),
        yes_or_no(*mirrored),
        pending.to_string(),
        ms(plain, 0.5),
        ms(plain, 0.99),
        ms(mongotx, 0.5),
        ms(mongotx, 0.99),
        ratio(&|measured| measured.latencies.quantile_ms(0.5)),
        ratio(&|measured| measured.latencies.mean_ms()),
        commands(plain),
        commands(mongotx),
    ]
}

/// Plans, by shape; one line for both where mirrored indexes make no difference.
pub(crate) fn plans(mut lines: Vec<PlanLine>) -> Table {
    lines.sort_by_key(|line| (line.shape, line.pending, line.mirrored));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in lines {
        let (title, pending) = (line.shape.title().to_owned(), line.pending.to_string());
        let row = vec![title, yes_or_no(line.mirrored), pending, line.plain, line.mongotx];
        match rows.last_mut() {
            Some(last) if last[0] == row[0] && last[2..] == row[2..] => last[1] = "either".to_owned(),
            _ => rows.push(row),
        }
    }
    let head = vec!["query", "mirrored", "pending", "plain driver", "MongoTx"];
    table(&head, 5, rows, PLAN_NOTES)
}

/// A table whose first columns are text, and the others numbers.
fn table(heads: &[&str], texts: usize, rows: Vec<Vec<String>>, notes: &str) -> Table {
    let column = |(at, head): (usize, &&str)| if at < texts { Column::text(*head) } else { Column::number(*head) };
    Table {
        columns: heads.iter().enumerate().map(column).collect(),
        rows: rows.into_iter().map(Row::from).collect(),
        notes: notes.to_owned(),
        ..Table::default()
    }
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            held::{Holder, PendingDocuments},
            shape::Shape,
        },
        *,
    };

    #[test]
    fn equal_plans_with_and_without_mirrored_indexes_are_shown_once() {
        let line = |mirrored, pending, mongotx: &str| PlanLine {
            shape: Shape::Equality,
            mirrored,
            pending: PendingDocuments { count: pending, holder: Holder::Another },
            plain: "IXSCAN".to_owned(),
            mongotx: mongotx.to_owned(),
        };
        let table = plans(vec![line(true, 10, "a"), line(true, 0, "b"), line(false, 10, "c"), line(false, 0, "b")]);
        let shown: Vec<String> = table.rows.iter().map(|row| row.cells[1..].join(" ")).collect();
        assert_eq!(shown, ["either 0 IXSCAN b", "no 10 IXSCAN c", "yes 10 IXSCAN a"]);
    }
}
