//! The low-water marks in the log: the garbage collection goes by these, and by no others.
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

use super::record::{GcRecord, Record};

/// The last marks that were appended to the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Marks {
    /// Marks of a record that is not known to be durable, with what was reserved before it.
    appended: Option<GcRecord>,
    /// Marks of the last record that is.
    durable: Option<GcRecord>,
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

    /// Step 2: the record is durable. Returns what the garbage collection goes by from now on.
    pub(crate) fn logged(&mut self) -> Option<GcRecord> {
        let marks = self.appended.take()?;
        self.durable = Some(marks.clone());
        Some(marks)
    }
}
