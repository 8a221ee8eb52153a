//! A server's configuration: the cluster's description, which server of it this is, and its folder,
//! media and limits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cluster::{Cluster, ClusterError, Server};
use crate::core::{Key, Partition, ServerId, StoreId};
use crate::stage::Binding;
use crate::wire::Secret;

/// Medium on which the server writes its log, and so what a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogMedium {
    /// A disk: group commit with `fdatasync`.
    #[default]
    Disk,
    /// Persistent memory; emulated where the folder is not on a DAX file system.
    PersistentMemory,
    /// No log on a medium: the server forgets everything when it ends.
    Memory,
}

/// Medium on which the server stores its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageKind {
    /// An LSM tree on a disk.
    #[default]
    Disk,
    /// No storage on a medium: only together with a log in memory.
    Memory,
}

/// The configuration of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The cluster that the server belongs to; all its servers have the same.
    pub cluster: Cluster,
    /// Number of this server in the cluster.
    pub server: ServerId,
    /// Number of this member, if the server is a group: 1 for the first.
    pub member: Option<u8>,
    /// Address of a new store that is to become a member of the group: it waits there on an empty
    /// folder until it is added, and gets its number then (decision 0088).
    pub join: Option<SocketAddr>,
    /// Lost stores whose place this member's new one takes, on an empty folder (decision 0081).
    /// They are not in the file: an operator names them.
    pub replace: Vec<StoreId>,
    /// Folder of the server's data.
    pub folder: PathBuf,
    /// Folder of the log: in `folder`, unless the configuration names another.
    pub log_folder: PathBuf,
    /// Medium on which the log is written.
    pub medium: LogMedium,
    /// Medium on which the items are stored.
    pub storage: StorageKind,
    /// The size of a segment of the log: at least 16 MiB, so that the largest transaction fits.
    pub segment_bytes: u64,
    /// Size from which on transactions that write are refused, in bytes: at least four segments.
    pub log_limit_bytes: u64,
    /// Size of the cache of items, in bytes; 0: there is none.
    pub item_cache_bytes: u64,
    /// Time between two collections of garbage, in milliseconds.
    pub gc_interval_ms: u64,
    /// Time that a request waits for locks, in milliseconds. Its coordinator waits for votes for
    /// two seconds.
    pub lock_wait_ms: u64,
    /// Time that a request with locks elsewhere waits behind an older one while nothing changes
    /// there, in milliseconds.
    pub lock_patience_ms: u64,
    /// Time that locks are kept for the next attempt of a transaction whose reads were stale, in
    /// milliseconds; 0: they are dropped at once.
    pub lock_keep_ms: u64,
    /// Time that acknowledgements wait for others, or for a decision, to be sent along (section
    /// 4.5), in milliseconds; 0 sends them as soon as their stage comes to them.
    pub acknowledgement_delay_ms: u64,
    /// Greatest number of commits that one client may have under way.
    pub client_window: u32,
    /// Greatest number of clients' connections; `None`: what the limit of open files leaves, up to
    /// 4096.
    pub client_connections: Option<u32>,
    /// Bytes that clients may hold together: of requests that are on the way or under way, and of
    /// answers that are not sent.
    pub client_bytes: u64,
    /// Time within which a caller has to say who it is, in milliseconds.
    pub handshake_ms: u64,
    /// Time that a message may take from its first byte to its last, in milliseconds.
    pub frame_ms: u64,
    /// Time without a request after which a client's connection is closed, in milliseconds; 0: for
    /// ever.
    pub client_idle_ms: u64,
    /// Time for which a snapshot can be read, from the first write after it on, in milliseconds.
    pub snapshot_window_ms: u64,
    /// Bytes of replaced items that are kept for snapshots.
    pub snapshot_bytes: u64,
    /// Binding of threads to cores; see [`Binding`].
    pub binding: Binding,
    /// Address on which the server listens, if that is not its address in the cluster: behind a
    /// proxy.
    pub listen: Option<SocketAddr>,
    /// Address of the page with metrics for Prometheus.
    pub metrics: Option<SocketAddr>,
    /// True if addresses may be other than the loopback interface's. Then both secrets are needed;
    /// nothing on the wire is encrypted.
    pub allow_remote: bool,
    /// Secret that clients have to know.
    pub client_secret: Option<Secret>,
    /// Secret that the other servers have to know.
    pub server_secret: Option<Secret>,
}

/// Reason why a server cannot be configured, with the name of the file and the field.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// Path of the configuration file.
        file: String,
        /// Error that the operating system has reported.
        source: std::io::Error,
    },
    /// The file is no TOML, or has unknown fields or wrong types; the message has line and field.
    #[error("{file}: {message}")]
    Syntax {
        /// Path of the configuration file.
        file: String,
        /// Fault of the text, with its line and field, in words for people.
        message: String,
    },
    /// A field has a value that it cannot have.
    #[error("{field}: {what}")]
    Field {
        /// Name of the field in the configuration.
        field: String,
        /// Fault of the field's value, in words for people.
        what: String,
    },
}

impl From<ClusterError> for ConfigError {
    fn from(error: ClusterError) -> Self {
        let ClusterError::Field { field, what } = error;
        Self::Field { field, what }
    }
}

const MIN_SEGMENT_MIB: u64 = 16;
const MAX_SEGMENT_MIB: u64 = 1024;
/// One in use, one made ahead, and two that wait for their collection.
const MIN_LOG_SEGMENTS: u64 = 4;
/// In a group, beside these: some that are kept for members.
const MIN_LOG_SEGMENTS_OF_MEMBERS: u64 = 8;
/// As long as a transaction may hold locks while it waits for others.
const MAX_LOCK_PATIENCE_MS: u64 = 1000;
/// Half of the time for which a coordinator waits for votes: a request that waits for kept locks
/// may still get them.
const MAX_LOCK_KEEP_MS: u64 = 1000;
const MAX_INTERVAL_MS: u64 = 3_600_000;
const MAX_ITEM_CACHE_MIB: u64 = 1 << 20;
/// Limit in milliseconds: half of the time after which a decision without acknowledgement is sent
/// again.
const MAX_ACKNOWLEDGEMENT_DELAY_MS: u64 = 100;

const MAX_CLIENT_CONNECTIONS: u32 = 65_536;
/// Three eighths, which one client may have under way, are more than the largest message.
const MIN_CLIENT_MIB: u64 = 64;
const MAX_CLIENT_MIB: u64 = 1 << 20;
const MAX_SNAPSHOT_WINDOW_MS: u64 = 24 * 3_600_000;
const MAX_SNAPSHOT_MIB: u64 = 1 << 20;
const MIN_PATIENCE_MS: u64 = 100;
const MIN_IDLE_MS: u64 = 1000;
const MAX_IDLE_MS: u64 = 7 * 24 * 3_600_000;

/// The file, as it is spelled.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: String,
    server: Option<u16>,
    member: Option<u8>,
    join: Option<SocketAddr>,
    folder: Option<PathBuf>,
    log_folder: Option<PathBuf>,
    #[serde(default)]
    medium: LogMedium,
    #[serde(default)]
    storage: StorageKind,
    #[serde(default)]
    allow_remote: bool,
    secret_file: Option<PathBuf>,
    server_secret_file: Option<PathBuf>,
    listen: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    servers: Vec<FileServer>,
    partition: Option<FilePartition>,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    threads: FileThreads,
}

/// A server: with its address, or with those of its members, which are a group.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileServer {
    id: u16,
    address: Option<SocketAddr>,
    members: Option<Vec<SocketAddr>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "by", rename_all = "kebab-case")]
enum FilePartition {
    Hash,
    Ranges { ranges: Vec<FileRange> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRange {
    first_key: String,
    server: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileLimits {
    segment_mib: u64,
    log_mib: u64,
    item_cache_mib: u64,
    gc_interval_ms: u64,
    lock_wait_ms: u64,
    lock_patience_ms: u64,
    lock_keep_ms: u64,
    acknowledgement_delay_ms: u64,
    client_window: u32,
    client_connections: Option<u32>,
    client_mib: u64,
    handshake_ms: u64,
    frame_ms: u64,
    client_idle_ms: u64,
    snapshot_window_ms: u64,
    snapshot_mib: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            segment_mib: 64,
            log_mib: 16 << 10,
            item_cache_mib: 64,
            gc_interval_ms: 1000,
            lock_wait_ms: 1000,
            lock_patience_ms: 10,
            lock_keep_ms: 100,
            acknowledgement_delay_ms: 5,
            client_window: 1024,
            client_connections: None,
            client_mib: 256,
            handshake_ms: 5000,
            frame_ms: 60_000,
            client_idle_ms: 600_000,
            snapshot_window_ms: 300_000,
            snapshot_mib: 256,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileThreads {
    /// `false`: the scheduler moves them.
    pinned: Option<bool>,
    /// Cores that are chosen by hand.
    cores: Option<Vec<usize>>,
}

impl ServerConfig {
    /// The usual settings for a server of a cluster, with its data in `folder`.
    pub fn new(cluster: Cluster, server: ServerId, folder: &Path) -> Self {
        let limits = FileLimits::default();
        Self {
            cluster,
            server,
            member: None,
            join: None,
            replace: Vec::new(),
            folder: folder.to_owned(),
            log_folder: folder.join("log"),
            medium: LogMedium::default(),
            storage: StorageKind::default(),
            segment_bytes: limits.segment_mib << 20,
            log_limit_bytes: limits.log_mib << 20,
            item_cache_bytes: limits.item_cache_mib << 20,
            gc_interval_ms: limits.gc_interval_ms,
            lock_wait_ms: limits.lock_wait_ms,
            lock_patience_ms: limits.lock_patience_ms,
            lock_keep_ms: limits.lock_keep_ms,
            acknowledgement_delay_ms: limits.acknowledgement_delay_ms,
            client_window: limits.client_window,
            client_connections: limits.client_connections,
            client_bytes: limits.client_mib << 20,
            handshake_ms: limits.handshake_ms,
            frame_ms: limits.frame_ms,
            client_idle_ms: limits.client_idle_ms,
            snapshot_window_ms: limits.snapshot_window_ms,
            snapshot_bytes: limits.snapshot_mib << 20,
            binding: Binding::default(),
            listen: None,
            metrics: None,
            allow_remote: false,
            client_secret: None,
            server_secret: None,
        }
    }

    /// Reads a file. `server`, if it is given, stands for the file's own.
    ///
    /// # Errors
    /// An error in the file, with the field's name.
    pub fn read(file: &Path, server: Option<u16>) -> Result<Self, ConfigError> {
        Self::read_member(file, server, None)
    }

    /// Reads a file. `server` and `member`, if they are given, stand for the file's own.
    ///
    /// # Errors
    /// An error in the file, with the field's name.
    pub fn read_member(file: &Path, server: Option<u16>, member: Option<u8>) -> Result<Self, ConfigError> {
        Self::read_file(file, server, member, None)
    }

    /// Reads the file of a group for a new store that joins it, and waits at this address until it
    /// is added. `server`, if it is given, stands for the file's own.
    ///
    /// # Errors
    /// An error in the file, with the field's name.
    pub fn read_joining(file: &Path, server: Option<u16>, join: SocketAddr) -> Result<Self, ConfigError> {
        Self::read_file(file, server, None, Some(join))
    }

    fn read_file(
        file: &Path,
        server: Option<u16>,
        member: Option<u8>,
        join: Option<SocketAddr>,
    ) -> Result<Self, ConfigError> {
        let shown = file.display().to_string();
        let text =
            std::fs::read_to_string(file).map_err(|source| ConfigError::Unreadable { file: shown.clone(), source })?;
        Self::parse(&text, server, member, join).map_err(|error| match error {
            ConfigError::Syntax { message, .. } => ConfigError::Syntax { file: shown, message },
            ConfigError::Field { field, what } => ConfigError::Field { field: format!("{shown}: {field}"), what },
            other => other,
        })
    }

    /// Reads a configuration from its text.
    ///
    /// # Errors
    /// An error in the text, with the field's name.
    pub fn from_toml(text: &str, server: Option<u16>) -> Result<Self, ConfigError> {
        Self::parse(text, server, None, None)
    }

    fn parse(
        text: &str,
        server: Option<u16>,
        member: Option<u8>,
        join: Option<SocketAddr>,
    ) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text)
            .map_err(|error| ConfigError::Syntax { file: "configuration".to_owned(), message: error.to_string() })?;
        let Some(server) = server.or(file.server) else {
            return field("server", "it says which of the servers this is; it is missing");
        };
        let Some(folder) = file.folder else {
            return field("folder", "it says where the server's data are; it is missing");
        };
        let (servers, groups) = servers(file.servers)?;
        let partition = partition(file.partition, &servers)?;
        let cluster = Cluster { name: file.cluster, servers, partition, groups };
        let mut config = Self::new(cluster, ServerId(server), &folder);
        // What is given stands for both of the file's.
        let is_given = member.is_some() || join.is_some();
        config.join = join.or(file.join.filter(|_| !is_given));
        config.member = member.or(file.member.filter(|_| !is_given));
        if config.join.is_some() && config.member.is_some() {
            return field("join", "a store that joins a group gets its number when it is added: it has no `member`");
        }
        config.log_folder = file.log_folder.unwrap_or(config.log_folder);
        config.medium = file.medium;
        config.storage = file.storage;
        config.allow_remote = file.allow_remote;
        config.client_secret = secret("secret_file", file.secret_file)?;
        config.server_secret = secret("server_secret_file", file.server_secret_file)?.or(config.client_secret.clone());
        config.listen = file.listen;
        config.metrics = file.metrics;
        config.segment_bytes = file.limits.segment_mib.saturating_mul(1 << 20);
        config.log_limit_bytes = file.limits.log_mib.saturating_mul(1 << 20);
        config.item_cache_bytes = file.limits.item_cache_mib.saturating_mul(1 << 20);
        config.gc_interval_ms = file.limits.gc_interval_ms;
        config.lock_wait_ms = file.limits.lock_wait_ms;
        config.lock_patience_ms = file.limits.lock_patience_ms;
        config.lock_keep_ms = file.limits.lock_keep_ms;
        config.acknowledgement_delay_ms = file.limits.acknowledgement_delay_ms;
        config.client_window = file.limits.client_window;
        config.client_connections = file.limits.client_connections;
        config.client_bytes = file.limits.client_mib.saturating_mul(1 << 20);
        config.handshake_ms = file.limits.handshake_ms;
        config.frame_ms = file.limits.frame_ms;
        config.client_idle_ms = file.limits.client_idle_ms;
        config.snapshot_window_ms = file.limits.snapshot_window_ms;
        config.snapshot_bytes = file.limits.snapshot_mib.saturating_mul(1 << 20);
        config.binding = match (file.threads.pinned, file.threads.cores) {
            (Some(false), Some(_)) => return field("threads.cores", "threads are not bound if `pinned` is false"),
            (Some(false), None) => Binding::Unpinned,
            (_, Some(cores)) => Binding::Cores(cores),
            (_, None) => Binding::Auto,
        };
        config.validate()?;
        Ok(config)
    }

    /// Checks that the configuration is usable.
    ///
    /// # Errors
    /// The wrong value, with the field's name.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.cluster.validate(self.allow_remote)?;
        self.validate_secrets()?;
        if self.cluster.address(self.server).is_none() {
            return field("server", format!("server {} is not among the servers", self.server));
        }
        self.validate_member()?;
        self.validate_media()?;
        self.validate_log()?;
        self.validate_locks()?;
        self.validate_items()?;
        self.validate_connections()?;
        self.validate_own_addresses()
    }

    fn validate_media(&self) -> Result<(), ConfigError> {
        if self.storage == StorageKind::Memory && self.medium != LogMedium::Memory {
            return field(
                "storage",
                "items in memory would be lost once the log is collected: the medium must be memory",
            );
        }
        if self.storage == StorageKind::Disk && self.medium == LogMedium::Memory {
            return field("medium", "a log in memory would be lost with what the items on disk do not have yet");
        }
        Ok(())
    }

    fn validate_log(&self) -> Result<(), ConfigError> {
        let segment_mib = self.segment_bytes >> 20;
        if !(MIN_SEGMENT_MIB..=MAX_SEGMENT_MIB).contains(&segment_mib) {
            return field("limits.segment_mib", format!("{segment_mib}: {MIN_SEGMENT_MIB} to {MAX_SEGMENT_MIB}"));
        }
        let least = if self.member.is_some() { MIN_LOG_SEGMENTS_OF_MEMBERS } else { MIN_LOG_SEGMENTS };
        if self.log_limit_bytes / least < self.segment_bytes {
            let (log_mib, least_mib) = (self.log_limit_bytes >> 20, least * segment_mib);
            return field("limits.log_mib", format!("{log_mib}: at least {least} segments, {least_mib}"));
        }
        if !(1..=MAX_INTERVAL_MS).contains(&self.gc_interval_ms) {
            return field("limits.gc_interval_ms", format!("{}: 1 to {MAX_INTERVAL_MS}", self.gc_interval_ms));
        }
        Ok(())
    }

    fn validate_locks(&self) -> Result<(), ConfigError> {
        if self.lock_wait_ms > MAX_INTERVAL_MS {
            return field("limits.lock_wait_ms", format!("{}: 0 to {MAX_INTERVAL_MS}", self.lock_wait_ms));
        }
        if !(1..=MAX_LOCK_PATIENCE_MS).contains(&self.lock_patience_ms) {
            return field("limits.lock_patience_ms", format!("{}: 1 to {MAX_LOCK_PATIENCE_MS}", self.lock_patience_ms));
        }
        if self.lock_keep_ms > MAX_LOCK_KEEP_MS {
            let what = format!("{}: 0 (not at all) to {MAX_LOCK_KEEP_MS}", self.lock_keep_ms);
            return field("limits.lock_keep_ms", what);
        }
        Ok(())
    }

    /// Checks the limits of items in memory and of those that are kept for snapshots.
    fn validate_items(&self) -> Result<(), ConfigError> {
        if self.item_cache_bytes >> 20 > MAX_ITEM_CACHE_MIB {
            let item_cache_mib = self.item_cache_bytes >> 20;
            return field("limits.item_cache_mib", format!("{item_cache_mib}: 0 (none) to {MAX_ITEM_CACHE_MIB}"));
        }
        if !(MIN_PATIENCE_MS..=MAX_SNAPSHOT_WINDOW_MS).contains(&self.snapshot_window_ms) {
            let what = format!("{}: {MIN_PATIENCE_MS} to {MAX_SNAPSHOT_WINDOW_MS}", self.snapshot_window_ms);
            return field("limits.snapshot_window_ms", what);
        }
        if self.snapshot_bytes >> 20 > MAX_SNAPSHOT_MIB {
            let snapshot_mib = self.snapshot_bytes >> 20;
            return field("limits.snapshot_mib", format!("{snapshot_mib}: 0 to {MAX_SNAPSHOT_MIB}"));
        }
        Ok(())
    }
}

/// Settings of a server that may be a member of a group.
impl ServerConfig {
    /// Address of this server, or of this member, in the cluster.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let at = self.member.map_or(0, |member| usize::from(member).saturating_sub(1));
        self.join.or_else(|| self.cluster.addresses(self.server).get(at).copied())
    }

    fn validate_join(&self, join: SocketAddr) -> Result<(), ConfigError> {
        if !self.cluster.is_group(self.server) {
            return field("join", format!("server {} is no group: it takes no members", self.server));
        }
        if self.cluster.servers.len() > 1 {
            return field("join", "the cluster has other servers: members of a group in it do not change yet");
        }
        if !self.replace.is_empty() {
            return field("join", "a store that takes a lost one's place has that one's number: it does not join");
        }
        if self.medium == LogMedium::Memory {
            return field("medium", "a member of a group keeps its log: disk or persistent-memory");
        }
        if !self.allow_remote && !join.ip().is_loopback() {
            return field("join", format!("{join} is not of the loopback interface; allow_remote permits it"));
        }
        Ok(())
    }

    fn validate_member(&self) -> Result<(), ConfigError> {
        let members = self.cluster.groups.get(&self.server).map(Vec::len);
        if let Some(join) = self.join {
            return self.validate_join(join);
        }
        match (members, self.member) {
            (None, None) => Ok(()),
            (None, Some(_)) => field("member", format!("server {} is no group: it has no members", self.server)),
            (Some(members), None) => field("member", format!("it says which of the {members} members this is")),
            (Some(members), Some(member)) if !(1..=members).contains(&usize::from(member)) => {
                let listed = format!("{member}: server {} has the members 1 to {members}", self.server);
                field("member", format!("{listed}; one that was added is started with `join`"))
            }
            (Some(_), Some(_)) if self.medium == LogMedium::Memory => {
                field("medium", "a member of a group keeps its log: disk or persistent-memory")
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }
}

/// Settings of connections.
impl ServerConfig {
    /// Checks that servers and clients have secrets, if others than those of this machine reach the
    /// server.
    fn validate_secrets(&self) -> Result<(), ConfigError> {
        let addresses = self.cluster.servers.iter().flat_map(|server| self.cluster.addresses(server.id));
        let addresses = addresses.chain(self.listen);
        let is_secret = self.client_secret.is_some() && self.server_secret.is_some();
        if let Some(address) = addresses.into_iter().find(|address| !address.ip().is_loopback()).filter(|_| !is_secret)
            && self.allow_remote
        {
            let what = format!("{address} is not of the loopback interface: servers and clients need a secret");
            return field("secret_file", what);
        }
        Ok(())
    }

    /// Checks the addresses that are this server's own, beside those of the cluster.
    fn validate_own_addresses(&self) -> Result<(), ConfigError> {
        for (name, address) in [("listen", self.listen), ("metrics", self.metrics)] {
            if let Some(address) = address.filter(|address| !self.allow_remote && !address.ip().is_loopback()) {
                return field(name, format!("{address} is not of the loopback interface; allow_remote permits it"));
            }
        }
        Ok(())
    }

    fn validate_connections(&self) -> Result<(), ConfigError> {
        if !(1..=65_536).contains(&self.client_window) {
            return field("limits.client_window", format!("{}: 1 to 65536", self.client_window));
        }
        if self.acknowledgement_delay_ms > MAX_ACKNOWLEDGEMENT_DELAY_MS {
            let what = format!("{}: 0 to {MAX_ACKNOWLEDGEMENT_DELAY_MS}", self.acknowledgement_delay_ms);
            return field("limits.acknowledgement_delay_ms", what);
        }
        if let Some(number) = self.client_connections.filter(|number| !(1..=MAX_CLIENT_CONNECTIONS).contains(number)) {
            return field("limits.client_connections", format!("{number}: 1 to {MAX_CLIENT_CONNECTIONS}"));
        }
        let client_mib = self.client_bytes >> 20;
        if !(MIN_CLIENT_MIB..=MAX_CLIENT_MIB).contains(&client_mib) {
            return field("limits.client_mib", format!("{client_mib}: {MIN_CLIENT_MIB} to {MAX_CLIENT_MIB}"));
        }
        for (name, ms) in [("handshake_ms", self.handshake_ms), ("frame_ms", self.frame_ms)] {
            if !(MIN_PATIENCE_MS..=MAX_INTERVAL_MS).contains(&ms) {
                return field(format!("limits.{name}"), format!("{ms}: {MIN_PATIENCE_MS} to {MAX_INTERVAL_MS}"));
            }
        }
        let idle_ms = self.client_idle_ms;
        if idle_ms != 0 && !(MIN_IDLE_MS..=MAX_IDLE_MS).contains(&idle_ms) {
            let what = format!("{idle_ms}: {MIN_IDLE_MS} to {MAX_IDLE_MS}, or 0 (for ever)");
            return field("limits.client_idle_ms", what);
        }
        Ok(())
    }
}

fn secret(name: &str, file: Option<PathBuf>) -> Result<Option<Secret>, ConfigError> {
    file.map(|file| Secret::read(&file)).transpose().or_else(|what| field(name, what))
}

/// Addresses of the members of servers that are groups.
type Groups = BTreeMap<ServerId, Vec<SocketAddr>>;

/// The servers, and the members of those that are groups.
fn servers(file: Vec<FileServer>) -> Result<(Vec<Server>, Groups), ConfigError> {
    let (mut servers, mut groups) = (Vec::new(), BTreeMap::new());
    for (at, FileServer { id, address, members }) in file.into_iter().enumerate() {
        let id = ServerId(id);
        let address = match (address, members) {
            (Some(address), None) => address,
            (None, Some(members)) => {
                let Some(first) = members.first().copied() else {
                    return field(format!("servers[{at}].members"), "a group has 3, 5 or 7 members, this one 0");
                };
                groups.insert(id, members);
                first
            }
            (Some(_), Some(_)) => {
                return field(format!("servers[{at}]"), "it has an address, or members: not both");
            }
            (None, None) => return field(format!("servers[{at}].address"), "it is missing"),
        };
        servers.push(Server { id, address });
    }
    Ok((servers, groups))
}

fn partition(file: Option<FilePartition>, servers: &[Server]) -> Result<Partition, ConfigError> {
    let Some(FilePartition::Ranges { ranges }) = file else {
        return Ok(Partition::Hash(servers.iter().map(|server| server.id).collect()));
    };
    let mut firsts = Vec::new();
    for (at, range) in ranges.into_iter().enumerate() {
        match Key::new(range.first_key.into_bytes()) {
            Ok(key) => firsts.push((key, ServerId(range.server))),
            Err(error) => return field(format!("partition.ranges[{at}].first_key"), error.to_string()),
        }
    }
    Ok(Cluster::ranges(firsts))
}

fn field<T>(field: impl Into<String>, what: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Field { field: field.into(), what: what.into() })
}
