//! What a survey of a log reports.

use crate::core::StoreId;
use crate::damage::{Damage, Damages};
use crate::log::entry::State;

/// One thing that a survey of the log reports to its caller.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// The state in the GC log; comes first, if it can be read.
    State(&'a [u8]),
    /// A committed record before which nothing is missing.
    InOrder(&'a [u8]),
    /// A record behind a gap: it is whole, but records before it are missing, or it is not known to
    /// be committed, or a record before it is not.
    Behind(&'a [u8]),
}

/// Facts that a survey has found out about a log, beside its records.
#[derive(Clone, Debug, Default)]
pub struct Surveyed {
    /// Everything that is not as it was written.
    pub damages: Damages,
    /// Number of segment files that were found.
    pub segments: usize,
    /// Number of records that are in order.
    pub in_order: u64,
    /// Number of whole records that are behind a gap.
    pub behind: u64,
    /// Number of entries before the first gap that later ones have made void.
    pub void: u64,
    /// The newest state of a member of a group.
    pub state: State,
    /// True if records may be missing before the first one that was found.
    pub begins_late: bool,
    /// The first place at which something is missing, or is not known to be committed.
    pub gap: Option<Damage>,
    /// The store that the log belongs to, according to the first file that names one.
    pub store: Option<StoreId>,
}

/// Receives what a survey sees. An error is the reason why a record makes no sense: the record
/// counts as damaged then.
pub type See<'a> = dyn FnMut(Sight<'_>) -> Result<(), String> + 'a;
