//! A server's disk: the log in segments, the GC record, the stored items; and what a crash leaves
//! of them.

use std::collections::{BTreeMap, VecDeque};

use rand::{RngExt, rngs::StdRng};

use super::history::{History, Seen};
use crate::core::{
    CheckAnswer, Current, Epoch, GcRecord, Item, Key, KeyRange, Map, Partition, Read, Record, ScanRead, SegmentId,
    SegmentSummary, TranxId, Value, Write,
};

/// Number of records after which a segment is sealed.
const SEGMENT_RECORDS: usize = 12;

/// One segment of the log.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) records: Vec<Record>,
    pub(crate) summary: SegmentSummary,
}

/// The disk of one server.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// The segments, the last one open.
    pub(crate) segments: VecDeque<Segment>,
    /// Number of records that were ever appended, and of those that are durable.
    pub(crate) appended: u64,
    pub(crate) durable: u64,
    /// The last segments that were removed: a crash may bring them back.
    removed: Vec<Segment>,
    pub(crate) gc_record: Option<GcRecord>,
    /// A GC record that is being written.
    pub(crate) gc_writing: Option<GcRecord>,
    /// Items as reads see them.
    pub(crate) items: BTreeMap<Key, Item>,
    persisted: BTreeMap<Key, Item>,
    /// Last writer of each key, of deleted ones too, as reads see it and as it is persisted.
    writers: BTreeMap<Key, TranxId>,
    persisted_writers: BTreeMap<Key, TranxId>,
    /// Writes that were applied since `persisted`, each with the keys that they concern.
    unpersisted: Vec<(TranxId, Vec<Write>, Vec<Key>)>,
    /// Snapshots from the end of this epoch on can be read.
    snapshots_from: Epoch,
    /// For each key what it held before the first write of each epoch.
    replaced: BTreeMap<Key, Vec<(Epoch, Seen)>>,
    /// The map before its first write of each epoch.
    replaced_maps: Vec<(Epoch, Option<Item>)>,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self {
            segments: VecDeque::from([Segment::new(SegmentId(1))]),
            appended: 0,
            durable: 0,
            removed: Vec::new(),
            gc_record: None,
            gc_writing: None,
            items: BTreeMap::new(),
            persisted: BTreeMap::new(),
            writers: BTreeMap::new(),
            persisted_writers: BTreeMap::new(),
            unpersisted: Vec::new(),
            snapshots_from: Epoch(0),
            replaced: BTreeMap::new(),
            replaced_maps: Vec::new(),
        }
    }

    /// Appends a record. Answers the segment that is sealed by it, if one is.
    pub(crate) fn append(&mut self, record: Record) -> Option<(SegmentId, SegmentSummary)> {
        self.appended += 1;
        let open = self.segments.back_mut()?;
        open.summary.note(&record);
        open.records.push(record);
        if open.records.len() < SEGMENT_RECORDS {
            return None;
        }
        let sealed = (open.id, open.summary.clone());
        self.begin_segment();
        Some(sealed)
    }

    /// Begins a segment.
    pub(crate) fn begin_segment(&mut self) {
        let id = self.segments.back().map_or(1, |last| last.id.0 + 1);
        self.segments.push_back(Segment::new(SegmentId(id)));
    }

    /// Removes segments.
    pub(crate) fn remove_through(&mut self, through: SegmentId) {
        let gone = self.segments.iter().take_while(|segment| segment.id <= through).count();
        self.removed = self.segments.drain(..gone).collect();
    }

    /// Applies writes, which concern these keys: those of a move all keys of its range, also those
    /// that are absent.
    pub(crate) fn apply(&mut self, tranx: TranxId, writes: Vec<Write>, concerned: Vec<Key>) {
        write(&mut self.items, &mut self.writers, tranx, &writes, &concerned);
        self.unpersisted.push((tranx, writes, concerned));
    }

    /// The server's map.
    pub(crate) fn map(&self, partition: &Partition) -> Map {
        stored(self.items.get(&Key::of_map()), partition)
    }

    /// The map at the end of an epoch; `None`: it is no longer known.
    pub(crate) fn map_at(&self, epoch: Epoch, partition: &Partition) -> Option<Map> {
        if epoch < self.snapshots_from {
            return None;
        }
        let replaced = self.replaced_maps.iter().find(|(at, _)| *at > epoch);
        Some(replaced.map_or_else(|| self.map(partition), |(_, item)| stored(item.as_ref(), partition)))
    }

    /// Begins a new life: it can be read as of the end of this epoch, and of later ones.
    pub(crate) fn begin_snapshots(&mut self, from: Epoch) {
        self.snapshots_from = from;
        self.replaced.clear();
        self.replaced_maps.clear();
    }

    /// Keeps the items that the writes replace, which concern these keys.
    pub(crate) fn keep(&mut self, epoch: Epoch, writes: &[Write], concerned: &[Key], history: &History) {
        if epoch <= self.snapshots_from {
            return;
        }
        if writes.iter().any(|write| write.key == Key::of_map())
            && self.replaced_maps.last().is_none_or(|(written, _)| *written < epoch)
        {
            self.replaced_maps.push((epoch, self.items.get(&Key::of_map()).cloned()));
        }
        for key in concerned {
            let seen = self.seen(key, history);
            let replaced = self.replaced.entry(key.clone()).or_default();
            if replaced.last().is_none_or(|(written, _)| *written < epoch) {
                replaced.push((epoch, seen));
            }
        }
    }

    /// Item of a key at the end of an epoch; `None`: it is no longer known.
    pub(crate) fn read_at(&self, epoch: Epoch, key: &Key, history: &History) -> Option<Seen> {
        if epoch < self.snapshots_from {
            return None;
        }
        let replaced = self.replaced.get(key).and_then(|replaced| replaced.iter().find(|(at, _)| *at > epoch));
        Some(replaced.map_or_else(|| self.seen(key, history), |(_, seen)| *seen))
    }

    /// Version and number of writes that a read of a key sees now.
    pub(crate) fn seen(&self, key: &Key, history: &History) -> Seen {
        let version = self.items.get(key).map(|item| item.version);
        let writes = self.writers.get(key).map_or(0, |writer| history.writes_through(key, *writer));
        Seen { version, writes }
    }

    /// Number of writes that were applied and not persisted.
    pub(crate) fn unpersisted(&self) -> usize {
        self.unpersisted.len()
    }

    /// Persists the first `count` of the writes that were not persisted.
    pub(crate) fn persist(&mut self, count: usize) {
        for (tranx, writes, concerned) in self.unpersisted.drain(..count.min(self.unpersisted.len())) {
            write(&mut self.persisted, &mut self.persisted_writers, tranx, &writes, &concerned);
        }
    }

    pub(crate) fn check(&self, reads: &[Read], scans: &[ScanRead]) -> CheckAnswer {
        let is_stale = |read: &&Read| self.items.get(&read.key).map(|item| item.version) != read.version;
        let current = |read: &Read| Current { key: read.key.clone(), item: self.items.get(&read.key).cloned() };
        CheckAnswer {
            stale: reads.iter().filter(is_stale).map(current).collect(),
            stale_scans: scans.iter().any(|scan| self.scan(&scan.range) != scan.found),
        }
    }

    /// Every key in the range, with its version.
    pub(crate) fn scan(&self, range: &KeyRange) -> Vec<(Key, TranxId)> {
        let Some(bounds) = range.bounds() else { return Vec::new() };
        self.items.range(bounds).map(|(key, item)| (key.clone(), item.version)).collect()
    }

    /// Every key in the range, with its value.
    pub(crate) fn values(&self, range: &KeyRange) -> Vec<(Key, Value)> {
        let found = self.scan(range).into_iter();
        found.filter_map(|(key, _)| Some((key.clone(), self.items.get(&key)?.value.clone()))).collect()
    }

    /// Takes what a crash takes. It leaves the durable records and some of those after them; some
    /// of what was applied, in any combination; either GC record; perhaps the segments that were
    /// just removed.
    pub(crate) fn crash(&mut self, rng: &mut StdRng) {
        let lost = if self.appended > self.durable { rng.random_range(0..=self.appended - self.durable) } else { 0 };
        for _ in 0..lost {
            while self.segments.back().is_some_and(|last| last.records.is_empty()) {
                self.segments.pop_back();
            }
            if let Some(last) = self.segments.back_mut() {
                last.records.pop();
            }
        }
        self.appended -= lost;
        self.durable = self.appended;
        if let Some(record) = self.gc_writing.take().filter(|_| rng.random()) {
            self.gc_record = Some(record);
        }
        let back = self.removed.split_off(rng.random_range(0..=self.removed.len()));
        for segment in back.into_iter().rev() {
            self.segments.push_front(segment);
        }
        self.removed.clear();
        for (tranx, writes, concerned) in std::mem::take(&mut self.unpersisted) {
            if rng.random() {
                write(&mut self.persisted, &mut self.persisted_writers, tranx, &writes, &concerned);
            }
        }
        self.items = self.persisted.clone();
        self.writers = self.persisted_writers.clone();
        if self.segments.is_empty() {
            self.segments.push_back(Segment::new(SegmentId(1)));
        }
    }
}

impl Segment {
    fn new(id: SegmentId) -> Self {
        Self { id, records: Vec::new(), summary: SegmentSummary::default() }
    }
}

fn stored(item: Option<&Item>, partition: &Partition) -> Map {
    Map::stored(item, partition).expect("the map is as it was written")
}

fn write(
    items: &mut BTreeMap<Key, Item>,
    writers: &mut BTreeMap<Key, TranxId>,
    tranx: TranxId,
    writes: &[Write],
    concerned: &[Key],
) {
    writers.extend(concerned.iter().map(|key| (key.clone(), tranx)));
    for Write { key, value } in writes {
        match value {
            Some(value) => items.insert(key.clone(), Item { value: value.clone(), version: tranx }),
            None => items.remove(key),
        };
    }
}
