//! The log of a member of a group, written step by step, and what has to be read of any beginning
//! of these steps.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dtranx::core::StoreId;
use dtranx::log::{
    LogError, LogOptions, LogReader, Medium, Memory, Opened, Position, SegmentNumber, Sight, State, Surveyed, TranxLog,
    payload, survey,
};

use crate::log::{SERVER, options, segment_file};

pub(crate) const SEGMENT_BYTES: u64 = 4096;

pub(crate) fn at(index: u64, term: u64) -> Position {
    Position { term, index }
}

pub(crate) fn state(term: u64, vote: Option<u64>, committed: u64) -> State {
    State { term, vote, committed }
}

/// Something that a member writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Entry(Position),
    State(State),
}

/// Content of a member's log: its records by their entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) committed: Vec<String>,
    pub(crate) uncommitted: Vec<String>,
    pub(crate) last: Position,
    pub(crate) state: State,
}

impl Content {
    /// Content of a log after these steps. `State`s come in the order in which they count.
    pub(crate) fn after(steps: &[Step]) -> Self {
        let (mut entries, mut state): (Vec<Position>, State) = Default::default();
        for step in steps {
            match *step {
                Step::Entry(entry) => {
                    entries.retain(|earlier| earlier.index < entry.index);
                    entries.push(entry);
                }
                Step::State(newest) => state = newest,
            }
        }
        let last = entries.last().copied().unwrap_or_default();
        let (committed, uncommitted): (Vec<_>, _) =
            entries.into_iter().partition(|entry| entry.term == 0 || entry.index <= state.committed);
        let named = |entries: Vec<Position>| entries.into_iter().map(name).collect();
        Self { committed: named(committed), uncommitted: named(uncommitted), last, state }
    }
}

pub(crate) fn name(entry: Position) -> String {
    format!("{}.{}", entry.index, entry.term)
}

/// The records of an entry: one with its name, which is as long as it is to be, and an empty one.
pub(crate) fn records(entry: Position, bytes: usize) -> Vec<u8> {
    let mut record = name(entry).into_bytes();
    record.resize(bytes.max(record.len()), b' ');
    payload([&record[..], b""])
}

fn named(record: &[u8]) -> String {
    String::from_utf8(record.to_vec()).unwrap().trim_end().to_owned()
}

impl LogReader for Content {
    fn state(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _: SegmentNumber, record: &[u8]) -> Result<(), String> {
        assert!(self.uncommitted.is_empty(), "a committed record comes behind others");
        self.committed.extend(Some(named(record)).filter(|name| !name.is_empty()));
        Ok(())
    }

    fn uncommitted(&mut self, entry: Position, _: SegmentNumber, record: &[u8]) -> Result<(), String> {
        let found = Some(named(record)).filter(|name| !name.is_empty());
        assert!(found.as_ref().is_none_or(|found| *found == name(entry)));
        self.uncommitted.extend(found);
        Ok(())
    }
}

pub(crate) fn member() -> LogOptions {
    LogOptions { is_member: true, ..options(SEGMENT_BYTES) }
}

/// Opens a member's log, and reads it.
pub(crate) fn open(medium: &Memory) -> Result<(Opened, Content), LogError> {
    let mut content = Content::default();
    let opened = TranxLog::read(Arc::new(medium.clone()), &member(), &mut content)?;
    (content.last, content.state) = (opened.log.last(), opened.log.state());
    Ok((opened, content))
}

/// Writes a step; an entry has a record of so many bytes.
pub(crate) fn write(log: &mut TranxLog, step: Step, bytes: usize) -> Result<(), LogError> {
    match step {
        Step::Entry(entry) => log.append_entry(entry, &records(entry, bytes)).map(drop),
        Step::State(state) => log.append_state(state),
    }
}

/// Writes steps, each made durable with the seal behind it.
pub(crate) fn written(steps: &[Step], bytes: usize) -> Memory {
    let medium = Memory::new();
    let mut log = open(&medium).unwrap().0.log;
    for step in steps {
        write(&mut log, *step, bytes).unwrap();
        log.persist().unwrap();
    }
    log.persist().unwrap();
    medium
}

/// Blocks of a segment: offset and bytes of each, seals among them.
pub(crate) fn blocks(segment: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut found = Vec::new();
    let mut at = 64;
    while let Some(header) = segment.get(at..at + 48).filter(|header| header.iter().any(|byte| *byte != 0)) {
        let length = 48 + u32::from_le_bytes(*header.first_chunk().unwrap()) as usize;
        found.push((at, segment[at..at + length].to_vec()));
        at += length.next_multiple_of(64);
    }
    found
}

/// Replaces a file.
pub(crate) fn put(medium: &Memory, file: &str, bytes: &[u8]) {
    Medium::remove(medium, file).unwrap();
    let mut made = medium.create(file, bytes.len() as u64).unwrap();
    made.write(0, bytes).unwrap();
    made.persist().unwrap();
}

/// A copy of a log.
pub(crate) fn copy(medium: &Memory) -> Memory {
    let copy = Memory::new();
    for name in medium.list().unwrap() {
        let bytes = medium.contents(&name).unwrap();
        let mut file = copy.create(&name, bytes.len() as u64).unwrap();
        file.write(0, &bytes).unwrap();
        file.persist().unwrap();
    }
    copy
}

/// Surveys a log, whose files are written into this folder before. Returns the records that are in
/// order, and those that are behind.
pub(crate) fn surveyed(medium: &Memory, folder: &Path) -> (Surveyed, Vec<String>, Vec<String>) {
    for name in medium.list().unwrap() {
        fs::write(folder.join(&name), medium.contents(&name).unwrap()).unwrap();
    }
    let (mut in_order, mut behind) = (Vec::new(), Vec::new());
    let found = survey(folder, SERVER, Some(StoreId::default()), &mut |sight| {
        match sight {
            Sight::InOrder(record) => in_order.extend(Some(named(record)).filter(|name| !name.is_empty())),
            Sight::Behind(record) => behind.extend(Some(named(record)).filter(|name| !name.is_empty())),
            Sight::State(_) => {}
        }
        Ok(())
    });
    (found, in_order, behind)
}

/// The first segment of a log.
pub(crate) fn first(medium: &Memory) -> Vec<u8> {
    medium.contents(&segment_file(1)).unwrap()
}
