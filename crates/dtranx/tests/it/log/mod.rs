//! Tests of the log on its media: records that come back after crashes, and files that are refused.
mod ahead;
mod configurations;
mod crashes;
mod cuts;
mod damage;
mod failed_sync;
mod fetch;
mod golden;
mod limits;
mod media;
mod member;
mod replaced;
mod stopping;

use std::sync::Arc;

use dtranx::log::{LogError, LogOptions, Medium, Opened, SegmentNumber, TranxLog};

pub(crate) const SERVER: u16 = 7;

pub(crate) fn options(segment_bytes: u64) -> LogOptions {
    LogOptions::new(SERVER, segment_bytes)
}

/// Opens a log and collects its records.
pub(crate) fn open(medium: impl Medium + 'static, segment_bytes: u64) -> Result<(Opened, Vec<Vec<u8>>), LogError> {
    let mut found = Vec::new();
    let opened = TranxLog::open(Arc::new(medium), &options(segment_bytes), |_, record| {
        found.push(record.to_vec());
        Ok(())
    })?;
    Ok((opened, found))
}

/// Makes a record of `bytes` bytes that begins with its number.
pub(crate) fn record(number: u64, bytes: usize) -> Vec<u8> {
    let mut record = number.to_le_bytes().to_vec();
    record.resize(bytes.max(8), number as u8);
    record
}

pub(crate) fn segment_file(number: u64) -> String {
    format!("segment-{:020}.wal", SegmentNumber(number).0)
}

/// Writes `state` to the GC log and removes all segments before `oldest`.
pub(crate) fn reclaim(opened: &mut Opened, oldest: SegmentNumber, state: &[u8]) -> Result<usize, LogError> {
    opened.collector.write(state)?;
    opened.collector.remove_through(SegmentNumber(oldest.0.saturating_sub(1)))
}
