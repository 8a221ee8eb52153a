//! Anomalies of single reads and writes: P0, P1, G1a, G1b, stale reads, missed own writes, lost
//! writes.

use super::{
    Anomaly, Report, items,
    versions::{Look, Versions, looks, writes},
};
use crate::{
    history::{History, Tx, Value},
    plan::Item,
};

pub(super) fn judge(history: &History, report: &mut Report) {
    for item in items(history) {
        let versions = Versions::of(history, item);
        for value in &versions.lost {
            report.note(Anomaly::LostWrite, || format!("{} of {item} was committed and is gone", value.0));
        }
        dirty_writes(history, item, report);
        for look in looks(history, item) {
            dirty_reads(history, &look, report);
            intermediate_reads(history, &look, report);
            stale_reads(history, &versions, &look, report);
            missed_own_writes(history, &look, report);
        }
        last_look(history, item, report);
    }
}

fn dirty_writes(history: &History, item: Item, report: &mut Report) {
    for (tx, at, _) in writes(history, item) {
        let under = writes(history, item)
            .find(|(rival, before, _)| *rival != tx && *before < at && history.ended_at(*rival) > at);
        if let Some((rival, _, _)) = under {
            report.note(Anomaly::DirtyWrite, || format!("{tx} wrote {item} while {rival} had written it"));
        }
    }
}

/// Reports P1 if the version was not committed when it was read, and G1a too if it never was.
fn dirty_reads(history: &History, look: &Look<'_>, report: &mut Report) {
    let Look { tx, at, item, .. } = *look;
    for writer in dirty_writers(history, look) {
        if history.committed_at(writer).is_none_or(|committed| committed > at) {
            report.note(Anomaly::DirtyRead, || format!("{tx} read what {writer} had written to {item}"));
        }
        if !history.is_committed(writer) {
            report.note(Anomaly::G1a, || format!("{tx} read {item} of {writer}, which did not commit"));
        }
    }
}

/// The other transactions whose writes, or whose deletion, the read shows.
fn dirty_writers(history: &History, look: &Look<'_>) -> Vec<Tx> {
    if let Some(log) = look.found {
        return log.iter().filter_map(|value| value.writer()).filter(|writer| *writer != look.tx).collect();
    }
    let deletions = || writes(history, look.item).filter(|(_, at, value)| value.is_none() && *at < look.at);
    let explained = !history.initial.contains(&look.item)
        || deletions().any(|(tx, _, _)| tx == look.tx || history.committed_at(tx).is_some_and(|at| at < look.at));
    if explained { Vec::new() } else { deletions().map(|(tx, _, _)| tx).collect() }
}

fn intermediate_reads(history: &History, look: &Look<'_>, report: &mut Report) {
    let Some(log) = look.found else { return };
    for writer in log.iter().filter_map(|value| value.writer()) {
        let of_writer: Vec<Value> =
            writes(history, look.item).filter(|(tx, _, _)| *tx == writer).filter_map(|(_, _, value)| value).collect();
        if writer != look.tx && of_writer.last().is_some_and(|last| !log.contains(last)) {
            report.note(Anomaly::G1b, || format!("{} read {} in the middle of {writer}", look.tx, look.item));
        }
    }
}

fn stale_reads(history: &History, versions: &Versions, look: &Look<'_>, report: &mut Report) {
    let latest = versions.latest_before(history, look.at);
    if versions.seen_by(history, look).is_some_and(|seen| seen < latest) {
        report.note(Anomaly::StaleRead, || format!("{} read {} before its latest version", look.tx, look.item));
    }
}

fn missed_own_writes(history: &History, look: &Look<'_>, report: &mut Report) {
    let Some((_, _, own)) = writes(history, look.item).filter(|(tx, at, _)| *tx == look.tx && *at < look.at).last()
    else {
        return;
    };
    let right = match (own, look.found) {
        (None, found) => found.is_none(),
        (Some(value), found) => found.is_some_and(|log| log.contains(&value)),
    };
    if !right {
        report.note(Anomaly::MissedOwnWrite, || format!("{} did not see its own write of {}", look.tx, look.item));
    }
}

/// The last read is one of committed data only; so is an item that is gone.
fn last_look(history: &History, item: Item, report: &mut Report) {
    match history.last.get(&item) {
        Some(log) => {
            let of_aborted = |value: &&Value| value.writer().is_some_and(|writer| !history.is_committed(writer));
            if let Some(value) = log.iter().find(of_aborted) {
                report.note(Anomaly::G1a, || format!("{} of {item} was not committed and is there", value.0));
            }
            if let Some((tx, _, _)) =
                writes(history, item).find(|(tx, _, value)| value.is_none() && history.is_committed(*tx))
            {
                report.note(Anomaly::LostWrite, || format!("{tx} deleted {item}, which is there"));
            }
        }
        None if history.initial.contains(&item) => {
            let deleted = writes(history, item).any(|(tx, _, value)| value.is_none() && history.is_committed(tx));
            if !deleted {
                report.note(Anomaly::LostWrite, || format!("{item} is gone and no committed transaction deleted it"));
            }
        }
        None => {}
    }
}
