//! What is complete, in the log: the low-water marks, by which the garbage collection goes, and by
//! no others; and what is complete above them.
//!
//! 1. The marks as they are now are appended, unless the last record says the same.
//! 2. Once that record is durable, the garbage collection gets them.
//!
//! Everything that the marks call complete has its records before them in the log, because a
//! participant acknowledges a commit only when its own record is durable. So who has applied the
//! log up to a `Marks` record needs no record of what these call complete any more. A server that
//! runs alone would know that without a record. A member of a group that follows knows it by the
//! record alone: marks that come by another way may be ahead of what it has applied (G11 of
//! decision 0075).
//!
//! One commit that a server does not acknowledge holds a mark, and a recovery that knew the marks
//! alone would remember all later ones. So what is complete above a mark is logged, too, but
//! seldom: the record names all that is not complete, and has about as many bytes as what was
//! complete since the last one has records (decision 0091).

use std::collections::BTreeMap;

use super::{
    complete::Complete,
    config::NodeConfig,
    flaw::Flaw,
    id::ServerId,
    record::{GcRecord, Record},
};

/// The last marks that were appended to the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Marks {
    /// Marks of a record that is not known to be durable, with what was reserved before it.
    appended: Option<GcRecord>,
    /// Marks of the last record that is.
    durable: Option<GcRecord>,
    /// The last number of each server that a `Complete` record says something about.
    noted: BTreeMap<ServerId, u64>,
}

/// Step to take when the server looks for garbage.
pub(crate) enum Look {
    /// The marks have risen since the last record: append this one.
    Log(Record),
    /// The last record says what is known now: collect by it. Segments may have been sealed since.
    Collect(GcRecord),
    /// The last record is not durable.
    Wait,
}

impl Marks {
    /// Step 1, with the marks as they are now and what is reserved by now. A record that would say
    /// what the last one has said is not appended: a log to which nothing else comes would never be
    /// at rest.
    pub(crate) fn look(&mut self, now: GcRecord) -> Look {
        if self.durable.as_ref() == Some(&now) {
            Look::Collect(now)
        } else if self.appended.is_some() {
            Look::Wait
        } else {
            let low_water = now.low_water.clone();
            self.appended = Some(now);
            Look::Log(Record::Marks { low_water })
        }
    }

    /// The record to append of what is complete of a server, if a recovery would have much to
    /// remember without it.
    pub(crate) fn note(&mut self, config: &NodeConfig, server: ServerId, complete: &Complete) -> Option<Record> {
        let noted = self.noted.get(&server).copied().unwrap_or(0).max(complete.low_water());
        let exceptions = complete.exceptions() as u64;
        let block = config.complete_block.max(2 * exceptions);
        if exceptions == 0 || complete.last().saturating_sub(noted) < block {
            return None;
        }
        let unnamed = Complete::through(complete.last());
        let record = if config.has(Flaw::ExceptionsNotLogged) { &unnamed } else { complete }.record(server);
        if let Record::Complete { through, .. } = &record {
            self.noted.insert(server, *through);
        }
        Some(record)
    }

    /// Step 2: the record is durable. Returns what the garbage collection goes by from now on.
    pub(crate) fn logged(&mut self) -> Option<GcRecord> {
        let marks = self.appended.take()?;
        self.durable = Some(marks.clone());
        Some(marks)
    }
}
