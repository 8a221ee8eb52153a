//! Opening the identity of a folder: it is read, or made in a folder that is new.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::meeting::MAX_REPLACED;
use super::stored::{Described, State, parse};
use super::{Identity, refused};
use crate::cluster::PeerId;
use crate::core::group::Promised;
use crate::core::{ServerId, StoreId};
use crate::damage::Damage;
use crate::files::Files;
use crate::folders;
use crate::server::data_folders::{DataFolders, IDENTITY, is_of_a_log};
use crate::server::{ServerConfig, ServerError, StorageKind};

/// Limit of the length of a file that may be damaged, in bytes; one has some hundred, and some for
/// each server.
const LIMIT_BYTES: u64 = 64 << 20;

/// Result of a look at the identity of a folder that may be damaged.
pub(crate) enum Looked {
    /// The file is as the configuration says, and names this store and these folders. If the store
    /// takes a lost one's place, and may not have all of its data, the last part says so.
    Whole(StoreId, DataFolders, Option<Damage>),
    /// The file is damaged, or missing.
    Damaged(Damage),
}

impl Identity {
    /// Reads the identity of a server's folder, or makes one for a new folder. The log's folder is
    /// locked already: no other process does the same.
    ///
    /// # Errors
    /// What the folder holds is something else than the configuration says; the file is damaged; it
    /// is missing although there are log or items.
    pub(crate) fn open(config: &ServerConfig) -> Result<Self, ServerError> {
        let mut identity = Self::found_or_made(config)?;
        if config.member.is_some() {
            identity.note_servers(config)?;
        }
        for lost in &config.replace {
            identity.take_the_place_of(*lost)?;
        }
        identity.order_replaced(&config.replace)?;
        Ok(identity)
    }

    pub(super) fn found_or_made(config: &ServerConfig) -> Result<Self, ServerError> {
        if config.storage == StorageKind::Memory {
            return Ok(Self::made(config, None));
        }
        let failed = |source| ServerError::Io { action: format!("create {}", config.folder.display()), source };
        folders::make(&config.folder).map_err(failed)?;
        let path = config.folder.join(IDENTITY);
        match fs::read_to_string(&path) {
            Ok(text) => Self::read(config, path, &text),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Some(found) = first_of_a_store(config)? {
                    let what = format!("it is missing, but there is {}", found.display());
                    return Err(refused(&path, what));
                }
                let mut made = Self::made(config, Some((path, Described::of(config))));
                made.write()?;
                Ok(made)
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(refused(&path, "it is damaged: it is no text")),
            Err(source) => Err(ServerError::Io { action: format!("read {}", path.display()), source }),
        }
    }

    /// Reads the identity of a folder that must have one.
    ///
    /// # Errors
    /// As for [`Identity::open`]; it is missing.
    pub(crate) fn existing(config: &ServerConfig) -> Result<Self, ServerError> {
        let path = config.folder.join(IDENTITY);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => refused(&path, "it is damaged: it is no text"),
            _ => refused(&path, format!("it cannot be read: {error}")),
        })?;
        Self::read(config, path, &text)
    }

    /// Reads which store and server the data in a folder belong to, which may be damaged.
    ///
    /// # Errors
    /// They are the data of something else than the configuration says.
    pub(crate) fn look(config: &ServerConfig) -> Result<Looked, ServerError> {
        let path = config.folder.join(IDENTITY);
        let damaged = |what: String| Ok(Looked::Damaged(Damage::of(path.display(), what)));
        let text = match Files::new(&config.folder).read(&path, LIMIT_BYTES).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => return damaged("it is no text".to_owned()),
            Err(error) => return damaged(format!("it cannot be read: {error}")),
        };
        match parse(&text) {
            Ok(_) => {
                let identity = Self::read(config, path.clone(), &text)?;
                let lacks = identity.lacks_data().map(|what| Damage::of(path.display(), what));
                Ok(Looked::Whole(identity.store, identity.folders, lacks))
            }
            Err(what) => damaged(what),
        }
    }

    fn made(config: &ServerConfig, file: Option<(PathBuf, Described)>) -> Self {
        let store = StoreId(rand::random());
        let others = others(config);
        let is_new = !others.is_empty() || file.is_some();
        Self {
            store,
            state: if is_new { State::New } else { State::InUse },
            replaces: Vec::new(),
            promised: None,
            replaced: BTreeMap::new(),
            me: me(config),
            others,
            known: BTreeMap::new(),
            given_up: BTreeMap::new(),
            welcomed_by: BTreeSet::new(),
            noted_by: BTreeSet::new(),
            listed: listed(config),
            told: None,
            folders: DataFolders::FIRST,
            file,
        }
    }

    fn read(config: &ServerConfig, path: PathBuf, text: &str) -> Result<Self, ServerError> {
        let stored = parse(text).map_err(|what| refused(&path, what))?;
        let described = Described::of(config);
        if let Some(what) = stored.of.difference(&described) {
            return Err(refused(&path, what));
        }
        let id = |text: &str| StoreId::parse(text).ok_or_else(|| refused(&path, format!("{text:?} is no store")));
        let stores = |field: &str, spelled: &BTreeMap<String, String>| {
            let store = |(peer, store): (&String, &String)| {
                let found = PeerId::parse(peer);
                let peer = found.ok_or_else(|| refused(&path, format!("{field}: {peer:?} is no server")))?;
                Ok((peer, id(store)?))
            };
            spelled.iter().map(store).collect::<Result<BTreeMap<_, _>, ServerError>>()
        };
        let known = stores("known", &stored.known)?;
        let given_up = stores("given_up", &stored.given_up)?;
        let given_up = given_up.into_iter().map(|(peer, store)| (peer.server, store)).collect();
        let folders = stored.folders.map_or(Some(DataFolders::FIRST), |of| DataFolders::parse(&of.items, &of.log));
        let folders = folders.ok_or_else(|| refused(&path, "folders: no store has such folders"))?;
        let replaced = stored.replaced.iter().map(|(peer, stores)| {
            let named =
                PeerId::parse(peer).ok_or_else(|| refused(&path, format!("replaced: {peer:?} is no server")))?;
            Ok((named, stores.iter().map(|store| id(store)).collect::<Result<Vec<_>, ServerError>>()?))
        });
        let replaced = replaced.collect::<Result<BTreeMap<_, _>, ServerError>>()?;
        let (store, state) = (id(&stored.store)?, stored.state);
        let replaces = stored.replaces.iter().map(|store| id(store)).collect::<Result<Vec<_>, ServerError>>()?;
        let promised = stored.promised.map(Promised::from);
        let told = stored.told.map(|told| told.read().ok_or_else(|| refused(&path, "told: no group has such members")));
        let told = told.transpose()?;
        let (me, others, file) = (me(config), others(config), Some((path, stored.of)));
        let (welcomed_by, noted_by, listed) = (BTreeSet::new(), BTreeSet::new(), listed(config));
        Ok(Self {
            store,
            state,
            replaces,
            promised,
            me,
            others,
            known,
            given_up,
            replaced,
            welcomed_by,
            noted_by,
            listed,
            told,
            folders,
            file,
        })
    }

    /// Notes in a member's file all servers of the configuration: from now on one that lacks them
    /// is refused (0087, J2).
    fn note_servers(&mut self, config: &ServerConfig) -> Result<(), ServerError> {
        let described = Described::of(config);
        match &mut self.file {
            Some((_, of)) if *of != described => *of = described,
            _ => return Ok(()),
        }
        self.write()
    }

    /// Puts the lost stores in the order in which they are given now, as long as this store has no
    /// vote: the first one is what clients know the group by.
    fn order_replaced(&mut self, given: &[StoreId]) -> Result<(), ServerError> {
        let others = self.replaces.iter().filter(|store| !given.contains(store));
        let ordered: Vec<StoreId> = given.iter().chain(others).copied().collect();
        if self.state != State::Rejoining || ordered == self.replaces {
            return Ok(());
        }
        self.replaces = ordered;
        self.write()
    }

    /// Takes the place of a store that is lost: without a vote at first if this one is new. One
    /// that has a vote only says so from now on, to those that have not met a store in between.
    fn take_the_place_of(&mut self, lost: StoreId) -> Result<(), ServerError> {
        let refused = |what: String| Err(ServerError::Replace { lost, what });
        if self.me.member.is_none() {
            return refused(format!("server {} is no group: what its store had is lost with it", self.me));
        }
        // A store that was named as lost before stays so, whichever were met since: the others
        // judge it.
        if self.replaces.contains(&lost) {
            return Ok(());
        }
        if lost == self.store || self.known.values().any(|store| *store == lost) {
            return refused("that store is in use by a member of this cluster".to_owned());
        }
        if self.replaces.len() >= MAX_REPLACED {
            return refused(format!("this store takes the place of {MAX_REPLACED} others already"));
        }
        self.replaces.push(lost);
        if self.state == State::New {
            self.state = State::Rejoining;
        }
        self.write()
    }
}

fn me(config: &ServerConfig) -> PeerId {
    PeerId { server: config.server, member: config.member }
}

fn listed(config: &ServerConfig) -> Vec<ServerId> {
    config.cluster.servers.iter().map(|server| server.id).collect()
}

fn others(config: &ServerConfig) -> Vec<PeerId> {
    let others = config.cluster.peers().into_iter().map(|(peer, _)| peer);
    others.filter(|peer| *peer != me(config)).collect()
}

/// Path that shows that there was a store: a file in the items' folder or the log's.
fn first_of_a_store(config: &ServerConfig) -> Result<Option<PathBuf>, ServerError> {
    for folder in [config.folder.join("items"), config.log_folder.clone()] {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(source) => return Err(ServerError::Io { action: format!("list {}", folder.display()), source }),
        };
        let mut names = entries.flatten().map(|entry| entry.path());
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            folder != config.log_folder || is_of_a_log(name)
        };
        if let Some(found) = names.find(is_ours) {
            return Ok(Some(found));
        }
    }
    let failed = |source| ServerError::Io { action: format!("list {}", config.folder.display()), source };
    DataFolders::first_later(config).map_err(failed)
}
