//! Settings of DTranx's servers and clients in a measurement.

use std::path::PathBuf;

use clap::ValueEnum;

/// Medium on which DTranx's servers keep their logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Medium {
    /// Synced before a commit is answered, as the rivals' are
    #[default]
    Disk,
    /// Mapped; emulated unless --log-folder is on such a device: not as durable as the rivals
    PersistentMemory,
}

impl Medium {
    /// Name in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::PersistentMemory => "persistent-memory",
        }
    }
}

/// How DTranx's servers and clients are set up. Others have one way to be durable.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Medium on which the servers keep their logs.
    pub(crate) medium: Medium,
    /// Folder of the logs, if not with the data.
    pub(crate) log_folder: Option<PathBuf>,
    /// The size of a segment of the log.
    pub(crate) segment_mib: u32,
    /// Time between two collections of garbage, in milliseconds.
    pub(crate) gc_interval_ms: u32,
    /// Are threads bound to cores?
    pub(crate) is_pinned: bool,
    /// A server's cache of items; 0: none.
    pub(crate) item_cache_mib: u32,
    /// How long acknowledgements wait for others to be sent along.
    pub(crate) acknowledgement_delay_ms: u32,
    /// How many clients share the transactions, each with a cache of its own.
    pub(crate) clients: usize,
    /// The items of a client's cache; 0: none.
    pub(crate) cache_items: usize,
    /// Does an attempt after a refusal take what the refusal brought along (values, and locks that
    /// were kept), and say how long it has tried, as the client's own retries do? Otherwise it is
    /// as if it were the first.
    pub(crate) is_brought_used: bool,
}

impl Default for Settings {
    fn default() -> Self {
        // Servers and clients share the machine's cores: none may claim them.
        Self {
            medium: Medium::Disk,
            log_folder: None,
            segment_mib: 64,
            gc_interval_ms: 1000,
            is_pinned: false,
            item_cache_mib: 64,
            acknowledgement_delay_ms: 5,
            clients: 1,
            cache_items: 0,
            is_brought_used: true,
        }
    }
}
