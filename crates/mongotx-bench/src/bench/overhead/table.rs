//! The tables of a run's findings: costs of operations by side, and memory of idle connections.

use benchkit::report::table::{Column, Row, Table};

use super::{
    Findings,
    idle::Memory,
    measure::{OperationFigures, SideFigures},
};

const NOTES: &str = "proxy: a process that only forwards messages, which any gateway costs at least. set: directly to a \
replica set of one node, whose answers carry the times that a gateway's carry and a standalone server's do not, so that \
drivers do more with each; its writes wait for no more than a standalone server's. throughput: operations a second \
through the gateway, divided by those without it; of proxy, of set: divided by those through the proxy, and to the \
replica set. added: the latency through the gateway (proxy added: through the proxy) less the direct one, at the same \
part of all. Transactions: directly and through the proxy, the server's own.";

/// Tables of the costs and of the memory.
pub(super) fn tables(findings: &Findings) -> Vec<Table> {
    let mut tables = Vec::new();
    if !findings.lines.is_empty() {
        tables.push(costs(&findings.lines));
    }
    if !findings.memory.is_empty() {
        tables.push(memory(&findings.memory));
    }
    tables
}

fn costs(lines: &[OperationFigures]) -> Table {
    let heads = [
        "connections",
        "direct /s",
        "proxy /s",
        "gateway /s",
        "set /s",
        "throughput",
        "of proxy",
        "of set",
        "direct p50 µs",
        "proxy added p50 µs",
        "added p50 µs",
        "direct p99 µs",
        "added p99 µs",
    ];
    let columns = [Column::text("operation")].into_iter().chain(heads.map(Column::number)).collect();
    Table {
        title: "What the gateway costs".to_owned(),
        columns,
        rows: lines.iter().map(|line| Row::from(cells(line))).collect(),
        notes: NOTES.to_owned(),
    }
}

/// A quantile of the latencies, in microseconds.
pub(super) fn quantile_us(measured: &SideFigures, quantile: f64) -> f64 {
    measured.latencies.quantile_ms(quantile) * 1_000.0
}

fn cells(line: &OperationFigures) -> Vec<String> {
    let OperationFigures { operation, connections, direct, proxy, gateway, set } = line;
    let of_set = |cell: &dyn Fn(&SideFigures) -> String| set.as_ref().map_or_else(|| "-".to_owned(), cell);
    let more = |side, quantile| quantile_us(side, quantile) - quantile_us(direct, quantile);
    vec![
        operation.title().to_owned(),
        connections.to_string(),
        format!("{:.0}", direct.per_second()),
        format!("{:.0}", proxy.per_second()),
        format!("{:.0}", gateway.per_second()),
        of_set(&|set| format!("{:.0}", set.per_second())),
        format!("{:.2}", gateway.per_second() / direct.per_second()),
        format!("{:.2}", gateway.per_second() / proxy.per_second()),
        of_set(&|set| format!("{:.2}", gateway.per_second() / set.per_second())),
        format!("{:.0}", quantile_us(direct, 0.5)),
        format!("{:+.0}", more(proxy, 0.5)),
        format!("{:+.0}", more(gateway, 0.5)),
        format!("{:.0}", quantile_us(direct, 0.99)),
        format!("{:+.0}", more(gateway, 0.99)),
    ]
}

fn memory(measured: &[Memory]) -> Table {
    let row = |memory: &Memory| {
        let mb = memory.bytes as f64 / f64::from(1 << 20);
        Row::from(vec![memory.when.clone(), memory.connections.to_string(), format!("{mb:.1}")])
    };
    Table {
        title: "The gateway's memory".to_owned(),
        columns: vec![Column::text("when"), Column::number("idle connections"), Column::number("resident MB")],
        rows: measured.iter().map(row).collect(),
        notes: String::new(),
    }
}
