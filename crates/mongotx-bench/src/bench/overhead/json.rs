//! All figures of a run, as a file for other programs.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Findings,
    measure::{OperationFigures, SideFigures},
};
use crate::bench::BenchError;

/// Writes the findings to a file.
pub(super) fn write(findings: &Findings, file: &Path) -> Result<(), BenchError> {
    let lines: Vec<Value> = findings.lines.iter().map(line).collect();
    let memory = findings.memory.iter().map(
        |memory| json!({"when": memory.when, "idleConnections": memory.connections, "residentBytes": memory.bytes}),
    );
    let memory: Vec<Value> = memory.collect();
    let whole = json!({"servers": findings.servers, "lines": lines, "memory": memory});
    std::fs::write(file, format!("{whole:#}\n"))
        .map_err(|error| BenchError::Failed(format!("--json {}: {error}", file.display())))
}

fn line(line: &OperationFigures) -> Value {
    json!({
        "operation": line.operation.title(), "connections": line.connections,
        "direct": side(&line.direct), "proxy": side(&line.proxy), "gateway": side(&line.gateway),
        "replicaSet": line.set.as_ref().map(side),
    })
}

fn side(measured: &SideFigures) -> Value {
    json!({
        "perSecond": measured.per_second(), "seconds": measured.spent.as_secs_f64(), "latenciesNs": measured.latencies,
    })
}
