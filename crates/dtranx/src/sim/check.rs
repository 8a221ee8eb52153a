//! Checks that a history is possible: nothing by half, nothing lost, and strict serializability.
//!
//! The order of versions of each key is known: that in which they were applied first. The
//! transactions are a graph: who wrote a version before whom, who read whose version, who read a
//! version before whom it was replaced, and who ended before whom began. They are strictly
//! serializable if that has no cycle.
//!
//! A key that was absent has no version; the time of the check decides which absence it was.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Report,
    history::{Attempt, AttemptResult, History},
    workload::keys,
    world::World,
};
use crate::core::{Key, ServerId, TranxId, WorkId};

/// Checks a run that has come to rest.
pub(crate) fn check(world: &World<'_>) -> Result<Report, String> {
    let history = &world.history;
    if let Some(complaint) = history.complaints.first() {
        return Err(complaint.clone());
    }
    let committed = committed(history)?;
    for (tranx, attempt) in &committed {
        is_whole(history, *tranx, attempt)?;
    }
    is_stored(world)?;
    let mut graph = Graph::default();
    add_reads_and_writes(world, &committed, &mut graph)?;
    add_snapshots(history, &mut graph)?;
    add_real_time(history, &committed, &mut graph);
    if let Some(cycle) = graph.cycle() {
        return Err(explain(&cycle, &committed));
    }
    Ok(report(world, &committed))
}

/// Every transaction that is committed: those that clients know, and those that were applied.
fn committed(history: &History) -> Result<BTreeMap<WorkId, &Attempt>, String> {
    let mut committed = BTreeMap::new();
    let mut ids: BTreeMap<usize, WorkId> = BTreeMap::new();
    let acknowledged = history.attempts.iter().enumerate().filter_map(|(index, attempt)| match attempt.outcome {
        AttemptResult::Committed(tranx) => Some((tranx, index)),
        _ => None,
    });
    for (tranx, index) in
        acknowledged.chain(history.attempt_of.iter().map(|(tranx, index)| (WorkId::Tranx(*tranx), *index)))
    {
        let Some(attempt) = history.attempts.get(index) else {
            return Err(format!("{tranx} wrote a value that no client put"));
        };
        if attempt.outcome == AttemptResult::Refused {
            return Err(format!("{tranx} is committed, but the answer to its client was that it is not: {attempt:?}"));
        }
        if *ids.entry(index).or_insert(tranx) != tranx {
            return Err(format!("one transaction is committed as {} and as {tranx}: {attempt:?}", ids[&index]));
        }
        committed.insert(tranx, attempt);
    }
    Ok(committed)
}

/// Checks that all writes of a transaction are there.
fn is_whole(history: &History, work: WorkId, attempt: &Attempt) -> Result<(), String> {
    for write in &attempt.transaction.writes {
        let order = history.writes.get(&write.key);
        if !order.is_some_and(|order| order.iter().any(|(version, _)| WorkId::Tranx(*version) == work)) {
            return Err(format!("{work} is committed, but its write of {:?} is missing: {attempt:?}", write.key));
        }
    }
    Ok(())
}

/// Checks that each key is held by one server, has there what was written last, and is stored
/// nowhere else.
fn is_stored(world: &World<'_>) -> Result<(), String> {
    let mut holders: BTreeMap<Key, BTreeSet<ServerId>> = BTreeMap::new();
    for server in world.servers.values().filter(|server| !server.is_lost()) {
        let stored: BTreeMap<&Key, TranxId> = server.stored().map(|(key, item)| (key, item.version)).collect();
        let map = server.disk.map(&world.partition);
        for key in keys(&world.options) {
            let holds = map.server_of(&key) == server.id();
            let last = world.history.writes.get(&key).and_then(|order| order.last());
            let expected = last.filter(|(_, is_put)| holds && *is_put).map(|(version, _)| *version);
            let found = stored.get(&key).copied();
            holders.entry(key.clone()).or_default().extend(holds.then_some(server.id()));
            if found != expected {
                return Err(format!("{key:?} holds version {found:?} at {}, not {expected:?}", server.place));
            }
        }
    }
    match holders.iter().find(|(_, servers)| servers.len() != 1) {
        Some((key, servers)) => Err(format!("{key:?} is held by the servers {servers:?}")),
        None => Ok(()),
    }
}

/// A point in the graph: a transaction, or an instant of real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Tranx(WorkId),
    Snapshot(usize),
    Time(usize),
}

/// Order of the transactions, each pair with its reason.
#[derive(Default)]
struct Graph {
    edges: BTreeMap<Point, BTreeMap<Point, String>>,
}

fn add_reads_and_writes(
    world: &World<'_>,
    committed: &BTreeMap<WorkId, &Attempt>,
    graph: &mut Graph,
) -> Result<(), String> {
    for (key, order) in &world.history.writes {
        for pair in order.windows(2) {
            if let [(earlier, _), (later, _)] = pair {
                graph.add((*earlier).into(), (*later).into(), || format!("wrote {key:?} before"));
            }
        }
    }
    for (tranx, attempt) in committed {
        for (key, version) in reads(world, attempt) {
            let order = world.history.writes.get(&key).map_or(&[][..], Vec::as_slice);
            let seen = seen(world, *tranx, attempt, &key, version, order)?;
            if let Some((writer, _)) = seen.checked_sub(1).and_then(|at| order.get(at)) {
                graph.add((*writer).into(), *tranx, || format!("wrote {key:?}, read by"));
            }
            if let Some((next, _)) = order.get(seen) {
                graph.add(*tranx, (*next).into(), || format!("read {key:?} before it was replaced by"));
            }
        }
    }
    Ok(())
}

/// Every key that a transaction read, by key or by scan, with the version.
fn reads(world: &World<'_>, attempt: &Attempt) -> Vec<(Key, Option<TranxId>)> {
    let mut reads: Vec<_> = attempt.transaction.reads.iter().map(|read| (read.key.clone(), read.version)).collect();
    for scan in &attempt.transaction.scans {
        let found: BTreeMap<&Key, TranxId> = scan.found.iter().map(|(key, version)| (key, *version)).collect();
        let within = keys(&world.options).filter(|key| scan.range.contains(key));
        reads.extend(within.map(|key| (key.clone(), found.get(&key).copied())));
    }
    reads
}

/// Number of a key's writes that come before what was read.
fn seen(
    world: &World<'_>,
    tranx: WorkId,
    attempt: &Attempt,
    key: &Key,
    version: Option<TranxId>,
    order: &[(TranxId, bool)],
) -> Result<usize, String> {
    if let Some(version) = version {
        let at = order.iter().position(|(written, _)| *written == version);
        return at.map(|at| at + 1).ok_or_else(|| format!("{tranx} read version {version} of {key:?}, never written"));
    }
    let seen = world.history.seen(tranx, attempt.ended_us, key).unwrap_or(0);
    match seen.checked_sub(1).and_then(|at| order.get(at)) {
        Some((version, true)) => Err(format!("{tranx} read that {key:?} is absent, but it held version {version}")),
        _ => Ok(seen),
    }
}

/// Each end comes before each later beginning.
fn add_real_time(history: &History, committed: &BTreeMap<WorkId, &Attempt>, graph: &mut Graph) {
    let known = |attempt: &Attempt| matches!(attempt.outcome, AttemptResult::Committed(_));
    let mut times: BTreeSet<u64> = committed.values().map(|attempt| attempt.begun_us).collect();
    times.extend(history.snapshots.iter().flat_map(|snapshot| [snapshot.begun_us, snapshot.ended_us]));
    times.extend(committed.values().filter(|attempt| known(attempt)).map(|attempt| attempt.ended_us));
    let index: BTreeMap<u64, usize> = times.into_iter().enumerate().map(|(at, time_us)| (time_us, at)).collect();
    for at in 1..index.len() {
        graph.link(Point::Time(at - 1), Point::Time(at), String::new());
    }
    for (number, snapshot) in history.snapshots.iter().enumerate() {
        if let (Some(begun), Some(ended)) = (index.get(&snapshot.begun_us), index.get(&snapshot.ended_us)) {
            let (point, name) = (Point::Snapshot(number), format!("snapshot {}", snapshot.epoch));
            graph.link(Point::Time(*begun), point, format!("before the beginning of {name}"));
            graph.link(point, Point::Time(ended + 1), format!("{name} had ended"));
        }
    }
    for (tranx, attempt) in committed {
        if let Some(at) = index.get(&attempt.begun_us) {
            graph.link(Point::Time(*at), Point::Tranx(*tranx), format!("before the beginning of {tranx}"));
        }
        // An instant later: what ends and begins at the same time is concurrent.
        if let Some(at) = index.get(&attempt.ended_us).filter(|_| known(attempt)) {
            graph.link(Point::Tranx(*tranx), Point::Time(at + 1), format!("{tranx} had ended"));
        }
    }
}

/// Each key of a snapshot was read after what it shows, and before what comes next.
fn add_snapshots(history: &History, graph: &mut Graph) -> Result<(), String> {
    for (at, snapshot) in history.snapshots.iter().enumerate() {
        let name = format!("snapshot {}", snapshot.epoch);
        for (key, seen) in &snapshot.seen {
            let order = history.writes.get(key).map_or(&[][..], Vec::as_slice);
            let before = seen.writes.checked_sub(1).and_then(|at| order.get(at));
            let shown = before.filter(|(_, is_put)| *is_put).map(|(version, _)| *version);
            if shown != seen.version {
                return Err(format!("{name} shows {:?} of {key:?}, not {shown:?}", seen.version));
            }
            if let Some((writer, _)) = before {
                let why = format!("{writer} wrote {key:?}, read by {name}");
                graph.link(Point::Tranx((*writer).into()), Point::Snapshot(at), why);
            }
            if let Some((next, _)) = order.get(seen.writes) {
                let why = format!("{name} read {key:?} before it was replaced by {next}");
                graph.link(Point::Snapshot(at), Point::Tranx((*next).into()), why);
            }
        }
    }
    Ok(())
}

impl Graph {
    fn add(&mut self, from: WorkId, to: WorkId, why: impl FnOnce() -> String) {
        if from != to {
            self.link(Point::Tranx(from), Point::Tranx(to), format!("{from} {} {to}", why()));
        }
    }

    fn link(&mut self, from: Point, to: Point, why: String) {
        self.edges.entry(from).or_default().entry(to).or_insert(why);
    }

    /// The reasons along a cycle, if there is one: what is left when points without predecessors
    /// are taken away again and again, followed backwards until it repeats.
    fn cycle(&self) -> Option<Vec<String>> {
        let mut before: BTreeMap<Point, usize> = BTreeMap::new();
        for to in self.edges.values().flat_map(BTreeMap::keys) {
            *before.entry(*to).or_default() += 1;
        }
        let mut free: Vec<Point> = self.edges.keys().filter(|point| !before.contains_key(point)).copied().collect();
        while let Some(point) = free.pop() {
            for to in self.edges.get(&point).into_iter().flat_map(BTreeMap::keys) {
                let count = before.entry(*to).or_default();
                *count -= 1;
                if *count == 0 {
                    free.push(*to);
                }
            }
        }
        before.retain(|_, count| *count > 0);
        let mut back: BTreeMap<Point, Point> = BTreeMap::new();
        for from in before.keys() {
            for to in self.edges.get(from).into_iter().flat_map(BTreeMap::keys) {
                back.entry(*to).or_insert(*from);
            }
        }
        let mut point = *before.keys().next()?;
        let mut path = vec![point];
        loop {
            point = *back.get(&point)?;
            if let Some(at) = path.iter().position(|earlier| *earlier == point) {
                path.drain(..at);
                break;
            }
            path.push(point);
        }
        path.reverse();
        let next = path.iter().skip(1).chain(path.first());
        let why = path.iter().zip(next).filter_map(|(from, to)| self.edges.get(from)?.get(to).cloned());
        Some(why.filter(|why| !why.is_empty()).collect())
    }
}

fn explain(cycle: &[String], committed: &BTreeMap<WorkId, &Attempt>) -> String {
    let is_named = |tranx: &WorkId| cycle.iter().any(|why| why.split(' ').any(|word| word == tranx.to_string()));
    let named: Vec<String> = committed
        .iter()
        .filter(|(tranx, _)| is_named(tranx))
        .map(|(tranx, attempt)| format!("{tranx}: {attempt:?}"))
        .collect();
    format!("not strictly serializable: {}\n{}", cycle.join("; "), named.join("\n"))
}

fn has_moved(attempt: &Attempt) -> bool {
    attempt.transaction.moving.is_some() && matches!(attempt.outcome, AttemptResult::Committed(_))
}

fn report(world: &World<'_>, committed: &BTreeMap<WorkId, &Attempt>) -> Report {
    let attempts = &world.history.attempts;
    let count =
        |outcome: fn(&AttemptResult) -> bool| attempts.iter().filter(|attempt| outcome(&attempt.outcome)).count();
    let unknown_committed = committed.values().filter(|attempt| attempt.outcome == AttemptResult::Unknown).count();
    Report {
        committed: count(|outcome| matches!(outcome, AttemptResult::Committed(_))),
        refused: count(|outcome| *outcome == AttemptResult::Refused),
        unknown_committed,
        unknown_aborted: count(|outcome| *outcome == AttemptResult::Unknown) - unknown_committed,
        snapshots: world.history.snapshots.len(),
        moved: attempts.iter().filter(|attempt| has_moved(attempt)).count(),
        crashes: world.crashes,
        events: world.events,
        most_segments: world.most_segments,
        told: world.told,
        #[cfg(test)]
        groups: world.groups,
    }
}
