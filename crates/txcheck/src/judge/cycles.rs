//! The direct serialization graph of the committed transactions, and its cycles: G0, G1c, G-single,
//! G2-item, G2.
//!
//! | edge | from | to |
//! | --- | --- | --- |
//! | write | the writer of a version | the writer of the next version of the same item |
//! | read | the writer of a version | the reader of it |
//! | anti | the reader of a version | the writer of the next version |
//!
//! An anti-dependency of an item that was not there when it was looked for is one on a predicate.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Anomaly, Report, items,
    versions::{Versions, looks},
};
use crate::history::{History, Tx};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Write,
    Read,
    AntiItem,
    AntiPredicate,
}

type Graph = BTreeMap<(Tx, Tx), BTreeSet<Edge>>;

pub(super) fn judge(history: &History, report: &mut Report) {
    let graph = build_graph(history);
    let nodes: BTreeSet<Tx> = graph.keys().map(|(from, _)| *from).collect();
    for start in &nodes {
        walk(&graph, &mut vec![*start], report);
    }
}

fn build_graph(history: &History) -> Graph {
    let mut graph = Graph::new();
    let mut add = |from: Option<Tx>, to: Option<Tx>, edge: Edge| {
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            graph.entry((from, to)).or_default().insert(edge);
        }
    };
    for item in items(history) {
        let versions = Versions::of(history, item);
        for pair in versions.list.windows(2) {
            add(pair[0].writer, pair[1].writer, Edge::Write);
        }
        for look in looks(history, item).filter(|look| history.is_committed(look.tx)) {
            let Some(at) = versions.seen_by(history, &look) else { continue };
            let version = &versions.list[at];
            add(version.writer, Some(look.tx), Edge::Read);
            let anti = if version.present { Edge::AntiItem } else { Edge::AntiPredicate };
            add(Some(look.tx), versions.list.get(at + 1).and_then(|next| next.writer), anti);
        }
    }
    graph
}

/// Goes on along `path` to every transaction that is not on it yet; a cycle is judged where it
/// starts: at its first.
fn walk(graph: &Graph, path: &mut Vec<Tx>, report: &mut Report) {
    let (Some(first), Some(last)) = (path.first().copied(), path.last().copied()) else { return };
    for (from, to) in graph.keys() {
        if *from != last {
            continue;
        }
        if *to == first {
            judge_cycle(graph, path, report);
        } else if *to > first && !path.contains(to) {
            path.push(*to);
            walk(graph, path, report);
            path.pop();
        }
    }
}

fn judge_cycle(graph: &Graph, path: &[Tx], report: &mut Report) {
    let hops = path.iter().zip(path.iter().cycle().skip(1));
    // The least of each hop's edges: what the cycle cannot do without.
    let needed: Vec<Edge> = hops.filter_map(|(from, to)| graph.get(&(*from, *to))?.first().copied()).collect();
    let anti = needed.iter().filter(|edge| **edge >= Edge::AntiItem).count();
    let anomaly = match anti {
        _ if needed.contains(&Edge::AntiPredicate) => Anomaly::G2,
        0 if needed.contains(&Edge::Read) => Anomaly::G1c,
        0 => Anomaly::G0,
        1 => Anomaly::GSingle,
        _ => Anomaly::G2Item,
    };
    report.note(anomaly, || {
        let names: Vec<String> = path.iter().zip(&needed).map(|(tx, edge)| format!("{tx} -{edge:?}->")).collect();
        format!("{} {}", names.join(" "), path[0])
    });
}
