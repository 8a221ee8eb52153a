//! Anomalies of values that change under a transaction: non-repeatable reads, phantoms, lost
//! updates.

use super::{
    Anomaly, Report, items,
    versions::{Versions, looks, writes},
};
use crate::{
    history::{History, Tx, Value},
    plan::Item,
};

pub(super) fn judge(history: &History, report: &mut Report) {
    let mut readers: Vec<Tx> = history.events.iter().map(|(tx, _)| *tx).collect();
    readers.sort_unstable();
    readers.dedup();
    for item in items(history) {
        let versions = Versions::of(history, item);
        for tx in &readers {
            changed_reads(history, item, *tx, report);
            lost_updates(history, &versions, *tx, report);
        }
    }
}

/// Two looks at what others wrote. What is not there was not read: when it is there later, that is
/// a phantom.
fn changed_reads(history: &History, item: Item, tx: Tx, report: &mut Report) {
    let own = writes(history, item).find(|(writer, _, _)| *writer == tx).map_or(usize::MAX, |(_, at, _)| at);
    let seen: Vec<Option<Value>> = looks(history, item)
        .filter(|look| look.tx == tx && look.at < own)
        .map(|look| look.found.and_then(|log| log.last().copied()))
        .collect();
    for pair in seen.windows(2) {
        match (pair[0], pair[1]) {
            (before, after) if before == after => {}
            (None, _) => report.note(Anomaly::Phantom, || format!("{item} appeared to {tx}")),
            (Some(_), _) => report.note(Anomaly::NonRepeatableRead, || format!("{item} changed under {tx}")),
        }
    }
}

/// An item that was read, written over by another transaction, and then written by its reader
/// nevertheless.
fn lost_updates(history: &History, versions: &Versions, tx: Tx, report: &mut Report) {
    let Some(own) = versions.list.iter().position(|version| version.writer == Some(tx)) else { return };
    let reads = looks(history, versions.item).filter(|look| look.tx == tx && look.found.is_some());
    for look in reads {
        if versions.seen_by(history, &look).is_some_and(|seen| seen + 1 < own) {
            report.note(Anomaly::LostUpdate, || format!("{tx} wrote {} over what it had not read", versions.item));
        }
    }
}
