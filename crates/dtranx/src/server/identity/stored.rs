//! The file `identity.toml`: its fields as they are spelled, behind a first line with a checksum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, Place, Places, Role};
use crate::core::group::{Index, Position, Promised, Term};
use crate::core::{Partition, ServerId, StoreId};
use crate::folders;
use crate::log;
use crate::server::ServerConfig;

pub(super) const FORMAT: u16 = 1;

/// Facts that must not change, as they are spelled in the file; but servers may join behind the
/// others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    cluster: String,
    server: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    member: Option<u8>,
    servers: Vec<u16>,
    partition: Spelled,
    /// Number of members of each server that is a group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    members: BTreeMap<String, usize>,
}

/// The map of keys; keys in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "by", rename_all = "kebab-case")]
pub(super) enum Spelled {
    Hash { over: Vec<u16> },
    Ranges { ranges: Vec<(String, u16)> },
}

/// The file behind its first line, which holds its checksum.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    pub(super) format: u16,
    pub(super) state: State,
    pub(super) store: String,
    pub(super) of: Described,
    /// The others' stores, by server.
    pub(super) known: BTreeMap<String, String>,
    /// Stores that were lost, by server. Most files have none, and are read by older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) given_up: BTreeMap<String, String>,
    /// Lost stores whose place this one takes, or has taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) replaces: Vec<String>,
    /// Bounds of what the lost store can have promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) promised: Option<SpelledPromised>,
    /// Stores whose place others have taken, by member.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) replaced: BTreeMap<String, Vec<String>>,
    /// The members of the group as this store was told when it was empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) told: Option<SpelledTold>,
    /// The folders that count; `None`: the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) folders: Option<Folders>,
}

/// Bounds of what a lost store has promised: a term, and the place of an entry.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpelledPromised {
    term: u64,
    last_term: u64,
    last_index: u64,
}

/// A configuration of the group, and the place of its entry in the log.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpelledTold {
    term: u64,
    index: u64,
    given: u8,
    places: Vec<SpelledPlace>,
}

/// A member of a group that a store was told of. The configuration is settled, so it is final.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpelledPlace {
    number: u8,
    store: String,
    address: SocketAddr,
    votes: bool,
}

/// Names of the folders that count.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Folders {
    pub(super) items: String,
    pub(super) log: String,
}

/// Part that the store takes in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// Not all others have welcomed it.
    New,
    /// It waits to be added to a group.
    Waiting,
    /// It takes a lost one's place, and has no vote yet.
    Rejoining,
    /// It counts; log and items must be there.
    InUse,
}

impl Described {
    pub(super) fn of(config: &ServerConfig) -> Self {
        let Cluster { name, servers, partition, groups } = &config.cluster;
        let members = groups.iter().map(|(server, members)| (server.to_string(), members.len())).collect();
        let servers: Vec<u16> = servers.iter().map(|server| server.id.0).collect();
        let partition = match partition {
            Partition::Hash(over) => Spelled::Hash { over: over.iter().map(|server| server.0).collect() },
            Partition::Ranges(ranges) => {
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Spelled::Ranges { ranges: ranges.iter().map(|(key, at)| (hex(key.as_bytes()), at.0)).collect() }
            }
        };
        let (cluster, server, member) = (name.clone(), config.server.0, config.member);
        Self { cluster, server, member, servers, partition, members }
    }

    /// Number of the member that the data are of.
    pub(super) const fn member(&self) -> Option<u8> {
        self.member
    }

    /// The store has got a place in a group.
    pub(super) fn place(&mut self, number: u8) {
        self.member = Some(number);
    }

    /// Difference from the configuration, in words.
    pub(super) fn difference(&self, configured: &Self) -> Option<String> {
        if self.cluster != configured.cluster {
            Some(format!(
                "cluster: the data are of {:?}, the configuration says {:?}",
                self.cluster, configured.cluster
            ))
        } else if self.server != configured.server {
            Some(format!("server: the data are server {}'s, the configuration says {}", self.server, configured.server))
        } else if self.member != configured.member {
            let spelled =
                |member: Option<u8>| member.map_or("no member".to_owned(), |member| format!("member {member}"));
            let (was, is) = (spelled(self.member), spelled(configured.member));
            Some(format!("member: the data are those of {was}, the configuration says {is}"))
        } else if self.members != configured.members {
            let (was, is) = (&self.members, &configured.members);
            Some(format!("members: the groups have so many members: {was:?}, the configuration says {is:?}"))
        } else if let Some(why) = self.other_servers(configured) {
            let (was, is) = (&self.servers, &configured.servers);
            Some(format!("servers: the cluster has the servers {was:?}, the configuration says {is:?}{why}"))
        } else if self.partition != configured.partition {
            let (was, is) = (&self.partition, &configured.partition);
            Some(format!("partition: the keys are spread {was}, the configuration says {is}"))
        } else {
            None
        }
    }
}

/// What the identity of a folder notes of servers that join its cluster.
impl Described {
    /// Notes the configured servers up to this one, unless it is there.
    pub(super) fn note_server(&mut self, configured: &[ServerId], server: ServerId) {
        let through = configured.iter().position(|listed| *listed == server);
        if let Some(through) = through.filter(|_| !self.servers.contains(&server.0)) {
            self.servers = configured[..=through].iter().map(|server| server.0).collect();
        }
    }

    /// The rest of a sentence that says why the configured servers are other ones; `None`: they are
    /// the same, or some have joined behind these (decision 0087).
    fn other_servers(&self, configured: &Self) -> Option<&'static str> {
        let in_order = |servers: &[u16]| {
            let mut servers = servers.to_vec();
            servers.sort_unstable();
            servers
        };
        let (was, is) = (in_order(&self.servers), &configured.servers);
        let is_in = |servers: &[u16], server: &u16| servers.contains(server);
        if was == in_order(is) {
            None
        } else if is.iter().all(|server| is_in(&was, server)) {
            Some("; a server that has joined stays in the list")
        } else if !was.iter().all(|server| is_in(is, server)) {
            Some("")
        } else if matches!(self.partition, Spelled::Hash { .. }) {
            Some("; none joins where keys are spread by hash")
        } else if was == in_order(&is[..was.len()]) {
            None
        } else {
            Some("; a server joins behind all others")
        }
    }
}

impl From<SpelledPromised> for Promised {
    fn from(spelled: SpelledPromised) -> Self {
        let last = Position { term: Term::new(spelled.last_term), index: Index::new(spelled.last_index) };
        Self { term: Term::new(spelled.term), last }
    }
}

impl From<Promised> for SpelledPromised {
    fn from(Promised { term, last }: Promised) -> Self {
        Self { term: term.get(), last_term: last.term.get(), last_index: last.index.get() }
    }
}

impl SpelledTold {
    /// The configuration, and its place; `None` if no group has such members.
    pub(super) fn read(self) -> Option<(log::Position, Places)> {
        let place = |place: SpelledPlace| {
            let SpelledPlace { number, store, address, votes } = place;
            let role = if votes { Role::Votes } else { Role::Learns };
            Some(Place { number, store: StoreId::parse(&store)?, address, role })
        };
        let places = self.places.into_iter().map(place).collect::<Option<Vec<_>>>()?;
        let places = Some(Places { given: self.given, places }).filter(Places::is_possible)?;
        Some((log::Position { term: self.term, index: self.index }, places))
    }
}

impl From<&(log::Position, Places)> for SpelledTold {
    fn from((at, places): &(log::Position, Places)) -> Self {
        let place = |place: &Place| {
            let Place { number, store, address, role } = *place;
            SpelledPlace { number, store: store.to_string(), address, votes: role == Role::Votes }
        };
        let log::Position { term, index } = *at;
        Self { term, index, given: places.given, places: places.places.iter().map(place).collect() }
    }
}

impl std::fmt::Display for Spelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hash { over } => write!(f, "by hash over the servers {over:?} in this order"),
            Self::Ranges { ranges } => write!(f, "by ranges, from these keys (in hexadecimal) on: {ranges:?}"),
        }
    }
}

fn checksum_line(text: &str) -> String {
    format!(
        "# The store in this folder. Not to be edited. CRC-32C of what follows: {:08x}\n",
        crc32c::crc32c(text.as_bytes())
    )
}

pub(super) fn parse(text: &str) -> Result<Stored, String> {
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    if !text.starts_with(&checksum_line(rest)) {
        return Err("it is damaged: its checksum is wrong".to_owned());
    }
    let stored: Stored = toml::from_str(rest).map_err(|error| format!("it cannot be read: {error}"))?;
    if stored.format != FORMAT {
        return Err(format!("it has format version {}; this version reads {FORMAT}", stored.format));
    }
    Ok(stored)
}

/// Writes the file beside, syncs it, gives it the name, and syncs the folder: a crash leaves the
/// old one or the new one.
pub(super) fn write(path: &Path, stored: &Stored) -> std::io::Result<()> {
    let text = toml::to_string(stored).map_err(std::io::Error::other)?;
    let text = format!("{}{text}", checksum_line(&text));
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    folders::sync_above(path)
}
