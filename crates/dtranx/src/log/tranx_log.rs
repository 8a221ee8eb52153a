//! TranxLog: one append-only log of records, and the GC log beside it. The upper layer.
//!
//! Records are gathered into blocks. [`TranxLog::persist`] makes all records before it durable at
//! once: that is the group commit of a disk, and the one fence of persistent memory.

use std::sync::Arc;

use super::collector::{Collector, LogSpace, SegmentInfo};
use super::configured::configuration;
use super::entry::{Outline, Position, State};
use super::fetch::{self, Cursor, Fetched};
use super::format::{self, BLOCK_HEADER_BYTES, HEADER_BYTES, Owner, SEAL_BYTES, STATE_BYTES};
use super::gc_log::GcLog;
use super::log_reader::LogReader;
use super::manager::LogManager;
use super::medium::Medium;
use super::reader::Reads;
use super::segment::{SEGMENT_MAX_BYTES, SegmentNumber};
use super::{LogError, Result};
use crate::core::StoreId;

/// The longest record; a segment may be too small even for that.
pub const RECORD_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// Size at which a block is written, even if nothing waits for it.
const BLOCK_TARGET_BYTES: usize = 64 * 1024;

const SEGMENT_MIN_BYTES: u64 = 4096;

/// Options of a log: its owner and the size of its segments.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The server whose log it is; written into every file.
    pub server: u16,
    /// The store that it belongs to; written into every file.
    pub store: StoreId,
    /// The size of a segment: 4 KiB to 1 GiB, a multiple of 64. A record must fit into one.
    pub segment_bytes: u64,
    /// True if the log must be there. Otherwise a log that is missing, or whose making was
    /// interrupted, is made.
    pub must_exist: bool,
    /// True if the log is that of a member of a group. Otherwise such a log is refused: its last
    /// entries may not be committed.
    pub is_member: bool,
}

impl LogOptions {
    /// Options of a log that may be new, of a store without an id.
    pub fn new(server: u16, segment_bytes: u64) -> Self {
        Self { server, store: StoreId::default(), segment_bytes, must_exist: false, is_member: false }
    }

    fn reads(&self) -> Reads {
        Reads { owner: self.owner(), is_member: self.is_member }
    }

    pub(super) fn owner(&self) -> Owner {
        Owner { server: self.server, store: self.store }
    }
}

/// Visitor that reads the records only.
struct Records<F>(F);

impl<F: FnMut(SegmentNumber, &[u8]) -> Result<(), String>> LogReader for Records<F> {
    fn state(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, segment: SegmentNumber, record: &[u8]) -> Result<(), String> {
        (self.0)(segment, record)
    }
}

/// A log that is open, and its content.
#[derive(Debug)]
pub struct Opened {
    /// The log, ready for records.
    pub log: TranxLog,
    /// The side that reclaims its room.
    pub collector: Collector,
    /// The segments that were found and kept, oldest first: also those that have no whole record.
    pub segments: Vec<SegmentInfo>,
    /// Number of records that were replayed: those that are committed.
    pub records: u64,
    /// Number of entries that later ones have made void.
    pub void: u64,
    /// Payload of the GC log; empty in a new one.
    pub gc_payload: Vec<u8>,
}

/// The log of one server.
pub struct TranxLog {
    manager: LogManager,
    /// The block that is being gathered, after room for its header.
    block: Vec<u8>,
    record_limit_bytes: usize,
}

impl std::fmt::Debug for TranxLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TranxLog").field("space", &self.space()).finish_non_exhaustive()
    }
}

impl TranxLog {
    /// Opens a log and gives `reader` what the GC log holds, then every record that is not void, in
    /// the order of the entries. The log goes on in a new segment. Everything replayed is durable.
    ///
    /// # Errors
    /// An option is out of range; a file is damaged, missing, foreign or of another version; the
    /// log is a member's, and was not to be; the medium refuses or is full; `reader` refuses a
    /// record.
    pub fn read(medium: Arc<dyn Medium>, options: &LogOptions, reader: &mut dyn LogReader) -> Result<Opened> {
        check(options)?;
        let gc_log = open_gc_log(&*medium, options, options.must_exist, reader)?;
        let mut counting = Counting { reader, records: 0 };
        let reads = options.reads();
        let opened = LogManager::open(medium.clone(), reads, options.segment_bytes, gc_log.kept(), &mut counting)?;
        let (manager, void) = opened;
        let records = counting.records;
        let taken = HEADER_BYTES + BLOCK_HEADER_BYTES + format::record_bytes(0) + SEAL_BYTES as usize;
        let room = options.segment_bytes as usize - taken;
        let record_limit_bytes = room.min(RECORD_LIMIT_BYTES);
        let gc_payload = gc_log.payload().to_vec();
        let shared = manager.shared().clone();
        let segments = shared.complete.all();
        let collector = Collector { medium, gc_log, shared };
        let log = Self { manager, block: vec![0; BLOCK_HEADER_BYTES], record_limit_bytes };
        Ok(Opened { log, collector, segments, records, void, gc_payload })
    }

    /// Reads a log that will not be written to. Returns the numbers of its segments and records.
    /// What is read is durable then; if the medium is [`super::ReadOnly`], it may not be, and
    /// nothing is changed.
    ///
    /// # Errors
    /// As for [`TranxLog::read`]; it is not there.
    pub fn inspect(medium: Arc<dyn Medium>, options: &LogOptions, reader: &mut dyn LogReader) -> Result<(usize, u64)> {
        let gc_log = open_gc_log(&*medium, options, true, reader)?;
        let mut counting = Counting { reader, records: 0 };
        let found = super::reader::read(&*medium, options.reads(), gc_log.kept(), &mut counting)?;
        if !medium.is_read_only() {
            found.unproven.rewrite(&*medium)?;
        }
        Ok((found.complete.len() + found.unused.len(), counting.records))
    }

    /// Opens a log like [`TranxLog::read`], for callers that need not know the GC log's payload
    /// before the records.
    ///
    /// # Errors
    /// As for [`TranxLog::read`].
    pub fn open(
        medium: Arc<dyn Medium>,
        options: &LogOptions,
        replay: impl FnMut(SegmentNumber, &[u8]) -> Result<(), String>,
    ) -> Result<Opened> {
        Self::read(medium, options, &mut Records(replay))
    }

    /// The longest record that this log takes.
    pub fn record_limit_bytes(&self) -> usize {
        self.record_limit_bytes
    }

    /// Appends a record of a server that runs alone, and says which segment it is in. It is durable
    /// after the next [`TranxLog::persist`]. The records that are gathered into one block are the
    /// next entry, of term 0.
    ///
    /// # Errors
    /// The record is too large (nothing was written then), or the medium refuses or is full.
    pub fn append(&mut self, record: &[u8]) -> Result<SegmentNumber> {
        if record.len() > self.record_limit_bytes {
            return Err(LogError::RecordTooLarge { bytes: record.len(), limit_bytes: self.record_limit_bytes });
        }
        let room = format::record_bytes(record.len());
        let gathered = self.block.len() - BLOCK_HEADER_BYTES;
        if gathered > 0 && (gathered + room > BLOCK_TARGET_BYTES || !self.manager.fits(gathered + room)) {
            self.write()?;
        }
        if !self.manager.fits(self.block.len() - BLOCK_HEADER_BYTES + room) {
            self.manager.roll()?;
        }
        format::push_record(&mut self.block, record);
        Ok(self.manager.current())
    }

    /// Appends an entry of a group, and says which segment it is in. It is durable after the next
    /// [`TranxLog::persist`], and so is it then that all earlier entries of its index and above are
    /// void. `payload` is a row of records, as [`payload`] makes it, or a configuration, as
    /// [`configuration_payload`](super::configuration_payload) makes it.
    ///
    /// # Errors
    /// The payload is neither, or is too large; the entry would make a committed one void, or
    /// does not follow (nothing was written then); or the medium refuses or is full.
    pub fn append_entry(&mut self, entry: Position, payload: &[u8]) -> Result<SegmentNumber> {
        let (bytes, limit_bytes) = (payload.len(), format::record_bytes(self.record_limit_bytes));
        if bytes > limit_bytes {
            return Err(LogError::RecordTooLarge { bytes, limit_bytes });
        }
        if !is_payload(payload) {
            let file = self.manager.current().file_name();
            return Err(LogError::Unreadable { file, what: format!("a record of {entry} is cut off") });
        }
        self.write()?;
        self.manager.check_entry(entry)?;
        if !self.manager.fits(bytes) {
            self.manager.roll()?;
        }
        self.block.extend_from_slice(payload);
        self.manager.write_entry(entry, &mut self.block)?;
        Ok(self.manager.current())
    }

    /// Appends the state of a member of a group; durable after the next [`TranxLog::persist`].
    ///
    /// # Errors
    /// The medium refuses or is full.
    pub fn append_state(&mut self, state: State) -> Result<()> {
        self.write()?;
        if !self.manager.fits(STATE_BYTES) {
            self.manager.roll()?;
        }
        self.manager.write_state(state)
    }

    /// The last entry that was written, or the place before the first.
    pub fn last(&self) -> Position {
        self.manager.last()
    }

    /// Places of the entries that are not void.
    pub fn outline(&self) -> Outline {
        self.manager.terms().outline()
    }

    /// Reads entries of a group again that are not void, in the order of their indices, as long as
    /// their payloads have no more than `limit_bytes` together; at least one, or none if the first
    /// one was removed. `cursor` is where the last call ended.
    ///
    /// # Errors
    /// An entry is not there, or damaged; the medium refuses.
    pub fn fetch(
        &self,
        cursor: &mut Cursor,
        wanted: impl IntoIterator<Item = Position>,
        limit_bytes: usize,
    ) -> Result<Fetched> {
        fetch::fetch(&self.manager, cursor, wanted, limit_bytes)
    }

    /// The newest state that was written or found.
    pub fn state(&self) -> State {
        self.manager.state()
    }

    /// Writes what was gathered, so that it survives the end of this process on a file system.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn write(&mut self) -> Result<()> {
        if self.block.len() == BLOCK_HEADER_BYTES {
            return Ok(());
        }
        let next = Position { term: 0, index: self.manager.last().index + 1 };
        self.manager.write_entry(next, &mut self.block)
    }

    /// Makes every record appended so far durable. The seal behind them is durable after the next
    /// call, which has nothing else to do if nothing was appended in between.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn persist(&mut self) -> Result<()> {
        self.write()?;
        self.manager.persist()
    }

    /// Ends the current segment, so that it can be reclaimed, unless nothing is in it.
    ///
    /// # Errors
    /// The medium refuses or is full.
    pub fn roll(&mut self) -> Result<()> {
        self.write()?;
        if self.manager.is_fresh() { Ok(()) } else { self.manager.roll() }
    }

    /// The segment that records go to now.
    pub fn current(&self) -> SegmentNumber {
        self.manager.current()
    }

    /// The room that the segments take.
    pub fn space(&self) -> LogSpace {
        self.manager.shared().space()
    }
}

/// Makes a row of records, each after its length: the payload of an entry.
pub fn payload<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    records.into_iter().for_each(|record| format::push_record(&mut payload, record));
    payload
}

/// Returns true if this is a row of records, each after its length, or a configuration.
pub fn is_payload(bytes: &[u8]) -> bool {
    configuration(bytes).is_some() || format::records(bytes).all(|record| record.is_some())
}

/// The records of a payload of an entry, as [`payload`] makes it; nothing from the first place on
/// that is no record. A configuration has none.
pub fn records(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    format::records(payload).flatten()
}

/// Opens the GC log, and shows what it holds.
fn open_gc_log(
    medium: &dyn Medium,
    options: &LogOptions,
    must_exist: bool,
    reader: &mut dyn LogReader,
) -> Result<GcLog> {
    let gc_log = GcLog::open(medium, options.owner(), must_exist, options.is_member)?;
    let unreadable = |what| LogError::Unreadable { file: super::gc_log::NAME.to_owned(), what };
    reader.state(gc_log.payload()).map_err(unreadable)?;
    Ok(gc_log)
}

/// Counts the records that are handed on.
struct Counting<'a> {
    reader: &'a mut dyn LogReader,
    records: u64,
}

impl LogReader for Counting<'_> {
    fn state(&mut self, state: &[u8]) -> Result<(), String> {
        self.reader.state(state)
    }

    fn record(&mut self, segment: SegmentNumber, record: &[u8]) -> Result<(), String> {
        self.records += 1;
        self.reader.record(segment, record)
    }

    fn uncommitted(&mut self, entry: Position, segment: SegmentNumber, record: &[u8]) -> Result<(), String> {
        self.reader.uncommitted(entry, segment, record)
    }
}

fn check(options: &LogOptions) -> Result<()> {
    let bytes = options.segment_bytes;
    if !(SEGMENT_MIN_BYTES..=SEGMENT_MAX_BYTES).contains(&bytes) || !bytes.is_multiple_of(format::ALIGN_BYTES as u64) {
        let what = format!("{SEGMENT_MIN_BYTES} to {SEGMENT_MAX_BYTES} bytes, a multiple of {}", format::ALIGN_BYTES);
        return Err(LogError::Option { option: "segment_bytes", value: bytes, what });
    }
    Ok(())
}
