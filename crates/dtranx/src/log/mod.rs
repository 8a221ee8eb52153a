//! The write-ahead log, in the paper's three layers (section 3.3.1).
//!
//! | layer | here | does |
//! | --- | --- | --- |
//! | NVM library | [`Medium`]: [`Disk`], [`PersistentMemory`], [`Memory`] | files of a fixed size: write, persist, read |
//! | LogManager | `LogManager` | segments in the order of their creation, blocks with checksum and sequence |
//! | TranxLog | [`TranxLog`] | records, one append-only log of them, and the fixed-size GC log beside it |
//!
//! The bytes are described in `docs/dtranx-log-format.md`. What a record *means* is not here: this
//! module carries bytes. One thread appends to a log, another may collect garbage and make segments
//! ahead ([`Collector`]).

mod ahead;
mod beginning;
mod collector;
mod configured;
mod counted;
mod disk;
mod entry;
mod error;
mod fetch;
mod folder;
mod format;
mod gc_log;
mod log_reader;
mod manager;
mod mapped;
mod medium;
mod memory;
mod pmem;
mod read_only;
mod reader;
mod segment;
mod survey;
mod terms;
mod tranx_log;

pub(crate) use beginning::Beginning;
pub use collector::{Collector, LogSpace, SegmentInfo};
pub use configured::{CONFIGURATION_LIMIT_BYTES, configuration, configuration_payload};
pub use disk::Disk;
pub use entry::{Configured, Outline, Position, State};
pub use error::LogError;
pub use fetch::{Cursor, Fetched};
pub(crate) use folder::lock_to_read;
pub use format::FORMAT_VERSION;
pub use gc_log::GC_PAYLOAD_LIMIT_BYTES;
pub use log_reader::LogReader;
pub use medium::{Durability, Medium, MediumFile};
pub use memory::Memory;
pub use pmem::PersistentMemory;
pub use read_only::ReadOnly;
pub use segment::SegmentNumber;
pub use survey::{See, Sight, Surveyed, survey};
pub use tranx_log::{LogOptions, Opened, RECORD_LIMIT_BYTES, TranxLog, is_payload, payload, records};

/// Result of the functions of this module.
pub type Result<T, E = LogError> = std::result::Result<T, E>;
