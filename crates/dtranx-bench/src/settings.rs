//! Settings of DTranx's servers and clients in a measurement, made of the options. The rivals have
//! one way to be durable, and no settings.

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

/// Settings of DTranx's servers and clients. The other stores have one way to be durable.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Medium on which the servers keep their logs.
    pub(crate) medium: Medium,
    /// Folder of the logs, if not with the data.
    pub(crate) log_folder: Option<PathBuf>,
    /// Size of a segment of the log, in MiB.
    pub(crate) segment_mib: u32,
    /// Time between two collections of garbage, in milliseconds.
    pub(crate) gc_interval_ms: u32,
    /// True if each thread is bound to a core.
    pub(crate) is_pinned: bool,
    /// Size of a server's cache of items, in MiB; 0: none.
    pub(crate) item_cache_mib: u32,
    /// Time that acknowledgements wait for others to be sent along, in milliseconds.
    pub(crate) acknowledgement_delay_ms: u32,
    /// Number of clients that share the transactions, each with a cache of its own.
    pub(crate) clients: usize,
    /// Number of items in a client's cache; 0: none.
    pub(crate) cache_items: usize,
    /// True if an attempt after a refusal takes what the refusal brought along (values, and locks
    /// that were kept), and says how long it has tried, as the client's own retries do. Otherwise
    /// it is made as if it were the first.
    pub(crate) uses_current_items: bool,
    /// True if the servers are the members of a group, which keep one log together; otherwise each
    /// has a part of the keys.
    pub(crate) is_group: bool,
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
            uses_current_items: true,
            is_group: false,
        }
    }
}
