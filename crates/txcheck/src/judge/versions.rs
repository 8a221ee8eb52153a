//! The order of an item's committed versions, and the version that each read has seen.
//!
//! The last read shows the order. Of an item that is gone in the end it is the longest log that any
//! read has seen, then the committed writes that no read has seen, then the deletion.

use crate::{
    history::{Event, History, Log, Tx, Value},
    plan::Item,
};

/// The version of an item that a committed transaction left; several writes in a row are one
/// version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Transaction that wrote it; `None` for the first one.
    pub(super) writer: Option<Tx>,
    /// True if the item exists in this version.
    pub(super) present: bool,
    values: Log,
}

/// All versions of one item, in order.
pub(super) struct Versions {
    pub(super) item: Item,
    pub(super) list: Vec<Version>,
    /// Committed writes that are in no version.
    pub(super) lost: Vec<Value>,
}

/// One read of one item.
pub(super) struct Look<'a> {
    pub(super) tx: Tx,
    /// The place of the event.
    pub(super) at: usize,
    pub(super) item: Item,
    pub(super) found: Option<&'a Log>,
}

/// All reads of an item, a predicate read being one of every item.
pub(super) fn looks(history: &History, item: Item) -> impl Iterator<Item = Look<'_>> {
    history.events.iter().enumerate().filter_map(move |(at, (tx, event))| {
        let found = match event {
            Event::Read(read, log) if *read == item => log.as_ref(),
            Event::Scan(found) => found.get(&item),
            _ => return None,
        };
        Some(Look { tx: *tx, at, item, found })
    })
}

/// The writes of an item: transaction, place in the history, and value; `None` is a deletion.
pub(super) fn writes(history: &History, item: Item) -> impl Iterator<Item = (Tx, usize, Option<Value>)> {
    history.events.iter().enumerate().filter_map(move |(at, (tx, event))| match event {
        Event::Wrote(written, value) | Event::Inserted(written, value) if *written == item => {
            Some((*tx, at, Some(*value)))
        }
        Event::Deleted(written) if *written == item => Some((*tx, at, None)),
        _ => None,
    })
}

impl Versions {
    pub(super) fn of(history: &History, item: Item) -> Self {
        let committed = |value: &Value| value.writer().is_none_or(|writer| history.is_committed(writer));
        let deleter =
            writes(history, item).filter(|(tx, _, value)| value.is_none() && history.is_committed(*tx)).last();
        let mut log: Log = match history.last.get(&item) {
            Some(log) => log.clone(),
            None => longest_seen(history, item),
        };
        log.retain(committed);
        let unseen: Log = writes(history, item)
            .filter_map(|(_, _, value)| value)
            .filter(|v| committed(v) && !log.contains(v))
            .collect();
        let gone = deleter.filter(|_| !history.last.contains_key(&item));
        let lost = if gone.is_some() {
            log.extend(unseen);
            Vec::new()
        } else {
            unseen
        };
        let mut versions = Self { item, list: Vec::new(), lost };
        let present = history.initial.contains(&item);
        versions.list.push(Version { writer: None, present, values: vec![Value::INITIAL] });
        for value in log.into_iter().filter(|value| *value != Value::INITIAL) {
            versions.push(value.writer(), true, Some(value));
        }
        if let Some((tx, _, _)) = gone {
            versions.push(Some(tx), false, None);
        }
        versions
    }

    fn push(&mut self, writer: Option<Tx>, present: bool, value: Option<Value>) {
        match self.list.last_mut() {
            Some(last) if last.writer == writer => {
                last.present = present;
                last.values.extend(value);
            }
            _ => self.list.push(Version { writer, present, values: value.into_iter().collect() }),
        }
    }

    /// The committed version of another transaction that a read saw. `None`: its reader's own, or
    /// not a committed one, or unknown.
    pub(super) fn seen_by(&self, history: &History, look: &Look<'_>) -> Option<usize> {
        if writes(history, self.item).any(|(tx, at, _)| tx == look.tx && at < look.at) {
            return None;
        }
        match look.found {
            Some(log) => {
                let value = log.last()?;
                self.list.iter().position(|version| version.present && version.values.contains(value))
            }
            None => {
                let mut absent = self.list.iter().enumerate().filter(|(_, version)| !version.present);
                let (at, _) = absent.next()?;
                absent.next().is_none().then_some(at)
            }
        }
    }

    /// The latest version that was committed before the event at `at`.
    pub(super) fn latest_before(&self, history: &History, at: usize) -> usize {
        let is_before = |writer: Option<Tx>| {
            writer.is_none_or(|writer| history.committed_at(writer).is_some_and(|committed| committed < at))
        };
        self.list.iter().rposition(|version| is_before(version.writer)).unwrap_or(0)
    }
}

fn longest_seen(history: &History, item: Item) -> Log {
    let seen = looks(history, item).filter_map(|look| look.found);
    seen.max_by_key(|log| log.len()).cloned().unwrap_or_default()
}
