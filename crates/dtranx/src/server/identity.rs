//! Identity of the data in a folder: the cluster with its servers and its map of keys, the server,
//! the store. It is in a file of its own, `identity.toml`, and the store's id also in every file of
//! the log and in the items, so that none of them is ever used with others.
//!
//! 1. A folder without any of these is new. The file is written first, as *new*; then log and items
//!    are made.
//! 2. A new store takes no requests until every other server of the cluster has welcomed it: one of
//!    them may know that there was another store in its place, whose data are lost, or may not have
//!    it in its list. When all have, each notes it. Then it joins (`core::joining`), and the file
//!    says *in use*. A member of a group is noted at once.
//! 3. From then on log and items must be there, and everything must be as the file says. What
//!    differs is refused by name.
//!
//! Servers may join the cluster behind the others of the list (decision 0087). Each of the others
//! writes the longer list into its file when it notes the new server's store, and a member when it
//! is first started with it. It refuses the shorter one from then on.
//!
//! Each server remembers the stores of the others, too, from their first meeting on. A store that
//! an operator has given up as lost (`resolve`) is refused: transactions were decided without it.
//!
//! The members of a group do the same among themselves. A member is its store: only those that met
//! while the group was new have votes, and a member with another store is refused (decision 0075,
//! G10). An operator may say that an empty one is to take a lost one's place: each of the others
//! then notes it, and it has no vote before it has all that the lost one can have promised
//! (decision 0081).
//!
//! A member's file also says in which folders its items and its log are, once a leader's items have
//! taken the place of the first ones (`transfer`). How all of this is spelled is in `stored`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

mod stored;
mod waiting;

use self::stored::{Described, FORMAT, Folders, SpelledPromised, SpelledTold, State, Stored, parse};
use super::data_folders::{DataFolders, IDENTITY, is_of_a_log};
use super::{ServerConfig, ServerError, StorageKind};
use crate::cluster::{PeerId, Places};
use crate::core::group::{Promised, Rejoin};
use crate::core::{ServerId, StoreId};
use crate::damage::Damage;
use crate::files::Files;
use crate::folders;
use crate::log::Position;
use crate::wire::Told;

/// Limit of the length of a file that may be damaged, in bytes; one has some hundred, and some for
/// each server.
const LIMIT_BYTES: u64 = 64 << 20;

/// Id of this store, and the stores that it has met.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    state: State,
    /// Lost stores whose place this one takes, or has taken.
    replaces: Vec<StoreId>,
    /// Bounds of what the lost store can have promised, once all others have said so.
    promised: Option<Promised>,
    /// This server, or which member of it this is.
    me: PeerId,
    others: Vec<PeerId>,
    known: BTreeMap<PeerId, StoreId>,
    /// Stores that are given up: an operator has decided without them.
    given_up: BTreeMap<ServerId, StoreId>,
    /// Stores of members whose place others have taken: the first one of the place, and the latest
    /// ones, the last of all last.
    replaced: BTreeMap<PeerId, Vec<StoreId>>,
    /// Servers that have confirmed this store as the one that they know, or that know none.
    welcomed_by: BTreeSet<PeerId>,
    /// Those of them that have noted it.
    noted_by: BTreeSet<PeerId>,
    /// Servers of the configuration, in its order.
    listed: Vec<ServerId>,
    /// The members of the group, and the place of that configuration in the log, as this store was
    /// told when it was empty.
    told: Option<(Position, Places)>,
    /// Folders in which the items and the log of this store are.
    folders: DataFolders,
    /// File in which the identity is kept; `None`: it is not kept.
    file: Option<(PathBuf, Described)>,
}

/// Result of meeting the store that another server or member names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// It is the one that it had.
    Known,
    /// No store of that server was known before.
    First,
    /// It has taken the place of the one that it had, which is refused from now on.
    Replaced,
    /// It cannot be that one, for this reason.
    Refused(String),
}

/// Number of stores that are remembered as replaced, for each member, and whose place one store
/// takes. Beside the first one the latest are; another one is refused all the same, because another
/// one is known.
const MAX_REPLACED: usize = 64;

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
        Ok(identity)
    }

    fn found_or_made(config: &ServerConfig) -> Result<Self, ServerError> {
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

    /// The lost stores whose place this one takes, or has taken.
    pub(crate) fn replaces(&self) -> &[StoreId] {
        &self.replaces
    }

    /// State of this store if it takes a lost one's place, and has no vote yet.
    pub(crate) fn rejoins(&self) -> Option<Rejoin> {
        (self.state == State::Rejoining).then(|| self.promised.map_or(Rejoin::Asking, Rejoin::Following))
    }

    /// Says that not all data of the lost store are here, as far as is known.
    pub(crate) fn lacks_data(&self) -> Option<String> {
        let what = match self.state {
            State::Rejoining => "its store takes a lost one's place, and may not have all of its data yet",
            State::Waiting => "its store waits to be added to a group, and has no data",
            State::New | State::InUse => return None,
        };
        Some(what.to_owned())
    }

    /// The other members of the group that a store which takes a lost one's place has not met.
    pub(crate) fn unmet(&self) -> Vec<u8> {
        let of_group = self.of_group().into_iter().filter(|_| self.rejoins().is_some());
        of_group.filter(|peer| !self.known.contains_key(peer)).filter_map(|peer| peer.member).collect()
    }

    /// The other members of the group: those that this store was told of when it was empty, or else
    /// those of the configuration.
    fn of_group(&self) -> Vec<PeerId> {
        let numbered = |places: &Places| -> Vec<PeerId> {
            let numbers = places.places.iter().map(|place| place.number);
            numbers.map(|number| PeerId::member(self.me.server, number)).filter(|peer| *peer != self.me).collect()
        };
        let configured = || self.others.iter().copied().filter(|peer| peer.server == self.me.server).collect();
        self.told.as_ref().map_or_else(configured, |(_, places)| numbered(places))
    }

    /// Notes what the lost store can have promised.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn follow(&mut self, promised: Promised) -> Result<(), ServerError> {
        self.promised = Some(promised);
        self.write()
    }

    /// Notes that this store has all that the one can have promised whose place it has taken.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn rejoined(&mut self) -> Result<(), ServerError> {
        (self.state, self.promised) = (State::InUse, None);
        self.write()
    }

    /// Returns true if this store is new: some others may not know it, or it has not joined.
    pub(crate) fn is_new(&self) -> bool {
        self.state == State::New
    }

    /// Returns true if this store is one that counts.
    pub(crate) fn is_in_use(&self) -> bool {
        self.state == State::InUse
    }

    /// Returns true if log and items must be there: the store may have acknowledged something.
    pub(crate) fn has_data(&self) -> bool {
        self.is_in_use() || self.promised.is_some()
    }

    /// The servers and members that a new store waits for, if there are any: those that have not
    /// welcomed it, or, once all have, that have not noted it.
    pub(crate) fn waits_for(&self) -> Vec<PeerId> {
        let heard = if self.is_tentative() { &self.welcomed_by } else { &self.noted_by };
        let is_unmet = |peer: &&PeerId| self.state == State::New && !heard.contains(peer);
        self.others.iter().filter(is_unmet).copied().collect()
    }

    /// Returns true if no other server is to note this store yet, because some of them do not have
    /// its server in their lists, or have not been met: until then another store may come in its
    /// place, and the lists may be changed (0087, J2).
    pub(crate) fn is_tentative(&self) -> bool {
        let is_unmet = |peer: &PeerId| !self.welcomed_by.contains(peer);
        self.state == State::New && self.me.member.is_none() && self.others.iter().any(is_unmet)
    }

    /// The stores of the group that this one is a member of, by the members' numbers; `None` as
    /// long as this store is new, or takes a lost one's place and has not met all others. Only
    /// these have votes.
    pub(crate) fn members(&self) -> Option<BTreeMap<u8, StoreId>> {
        let own = self.me.member.map(|member| (member, self.store)).filter(|_| self.state != State::New)?;
        if self.state == State::Waiting || !self.unmet().is_empty() {
            return None;
        }
        let of_group = self.known.iter().filter(|(peer, _)| peer.server == self.me.server);
        let others = of_group.filter_map(|(peer, store)| peer.member.map(|member| (member, *store)));
        Some(others.chain([own]).collect())
    }

    /// The members of the group before the first entry of the log, as far as this file says: those
    /// that this store was told of when it was empty, or else those that met while the group was
    /// new. Addresses are those of the configuration, in the order of the numbers.
    pub(crate) fn before(&self, addresses: &[SocketAddr]) -> Option<(Position, Places)> {
        let mut stores = self.members()?;
        stores.retain(|number, _| usize::from(*number) <= addresses.len());
        for (number, store) in &mut stores {
            *store = self.first_store(*number).unwrap_or(*store);
        }
        let first = || (Position::default(), Places::first(&stores, addresses));
        Some(self.told.clone().unwrap_or_else(first))
    }

    /// Takes the configuration that another member tells to this store, which takes a lost one's
    /// place and has not begun to follow. Returns true if it is a later one than it had (0088,
    /// C11).
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn tell(&mut self, told: &Told) -> Result<bool, ServerError> {
        let had = self.told.as_ref().map_or(0, |(at, _)| at.index);
        let is_empty = self.rejoins() == Some(Rejoin::Asking);
        if !is_empty || !told.is_settled || told.at.index <= had || !told.is_possible() {
            return Ok(false);
        }
        self.told = Some((told.at, told.places.clone()));
        let server = self.me.server;
        for (number, store) in told.stores.iter().filter(|(number, _)| told.places.get(*number).is_none()) {
            self.learn(PeerId::member(server, *number), *store);
        }
        self.write()?;
        Ok(true)
    }

    /// Returns true if what another member tells is of the same group: it has a store in a place in
    /// which this one has it, too. Groups of two clusters have none in common.
    pub(crate) fn is_of_the_same(&self, told: &Told) -> bool {
        let is_known = |(number, store): &(u8, StoreId)| {
            let peer = PeerId::member(self.me.server, *number);
            let is_own = peer == self.me && (*store == self.store || self.replaces.contains(store));
            is_own || self.known.get(&peer) == Some(store)
        };
        let places = told.places.places.iter().map(|place| (place.number, place.store));
        places.chain(told.stores.iter().copied()).any(|place| is_known(&place))
    }

    /// Notes which store the first one in a place of the group was, unless one is known there.
    /// Returns true if none was.
    pub(crate) fn learn(&mut self, peer: PeerId, first: StoreId) -> bool {
        let is_new = peer != self.me && !self.known.contains_key(&peer);
        if is_new {
            self.known.insert(peer, first);
        }
        is_new
    }

    /// Notes the stores of a settled configuration, durably: when their members are removed, their
    /// stores are known still.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn learn_settled(&mut self, places: &Places) -> Result<(), ServerError> {
        let server = self.me.server;
        let mut is_new = false;
        for place in &places.places {
            is_new |= self.learn(PeerId::member(server, place.number), place.store);
        }
        if is_new { self.write() } else { Ok(()) }
    }

    /// Log and items are made, and the server has joined. A store that waits for no other server is
    /// in use from now on.
    pub(crate) fn settle(&mut self) -> Result<(), ServerError> {
        if self.state == State::New && self.waits_for().is_empty() {
            self.state = State::InUse;
            self.write()?;
        }
        Ok(())
    }

    /// Notes that another server, which knows the stores that it has noted, has welcomed this one,
    /// and perhaps noted it. A member of a group that all have welcomed is in use; another server
    /// has to join first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn welcomed(&mut self, by: PeerId, is_noted: bool) -> Result<(), ServerError> {
        self.welcomed_by.insert(by);
        if is_noted {
            self.noted_by.insert(by);
        }
        if self.me.member.is_some() { self.settle() } else { Ok(()) }
    }

    /// Judges the store that another server, or member, names. A member may say that it takes the
    /// place of a lost one (0081, R1).
    pub(crate) fn judge(&self, peer: PeerId, store: StoreId, replaces: &[StoreId]) -> Met {
        if self.given_up.get(&peer.server) == Some(&store) {
            return Met::Refused(format!(
                "the store {store} of server {peer} was given up as lost, and transactions were decided without it"
            ));
        }
        if self.replaced.get(&peer).is_some_and(|replaced| replaced.contains(&store)) {
            return Met::Refused(format!(
                "the store {store} of server {peer} was replaced as lost: its member needs an empty folder"
            ));
        }
        let known = || self.known.iter().map(|(other, store)| (*other, *store)).chain([(self.me, self.store)]);
        if let Some((other, _)) = known().find(|(other, known)| *other != peer && *known == store) {
            return Met::Refused(format!("server {peer} has the store {store}, which is that of server {other}"));
        }
        match self.known.get(&peer).copied() {
            Some(known) if known == store => Met::Known,
            Some(known) if replaces.contains(&known) && self.names_first(peer, replaces) => Met::Replaced,
            Some(known) => {
                let hint = match (peer.member, self.first_replaced(peer)) {
                    (Some(_), Some(first)) => format!(
                        "; if they are lost, start it with `--replace {first} --replace {known}` on an empty folder"
                    ),
                    (Some(_), None) => {
                        format!("; if they are lost, start it with `--replace {known}` on an empty folder")
                    }
                    (None, _) => String::new(),
                };
                Met::Refused(format!(
                    "server {peer} has the store {store}, and had the store {known}: its data were lost or \
                     replaced{hint}"
                ))
            }
            None => Met::First,
        }
    }

    /// Notes the store that another server, or member, names, with the servers of the list up to
    /// that one: from now on another store in its place is refused, and a list that lacks it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn meet(&mut self, peer: PeerId, store: StoreId, replaces: &[StoreId]) -> Result<Met, ServerError> {
        let met = self.judge(peer, store, replaces);
        let mut is_news = matches!(met, Met::Replaced | Met::First);
        if !matches!(met, Met::Refused(_)) && !replaces.is_empty() {
            is_news |= self.note_replaced(peer, replaces);
        }
        if is_news {
            self.known.insert(peer, store);
            if let Some((_, of)) = &mut self.file {
                of.note_server(&self.listed, peer.server);
            }
            self.write()?;
        }
        Ok(met)
    }

    /// Notes the stores whose place a member's store takes, which is met. Returns true if none were
    /// known, or the one in its place was another one.
    fn note_replaced(&mut self, peer: PeerId, replaces: &[StoreId]) -> bool {
        let known = self.known.get(&peer).copied().filter(|known| replaces.contains(known));
        let replaced = self.replaced.entry(peer).or_default();
        if replaced.is_empty() {
            replaced.extend(replaces);
            return true;
        }
        replaced.extend(known.filter(|known| !replaced.contains(known)));
        let excess = replaced.len().saturating_sub(MAX_REPLACED);
        replaced.drain(1..=excess);
        known.is_some()
    }

    /// The first store that was in a member's place, if another one is there now.
    fn first_replaced(&self, peer: PeerId) -> Option<StoreId> {
        self.replaced.get(&peer).and_then(|replaced| replaced.first().copied())
    }

    /// Returns true if a store that takes a place in this group names the first store there, too:
    /// clients know the group by that, whichever member they ask.
    fn names_first(&self, peer: PeerId, replaces: &[StoreId]) -> bool {
        let is_of_the_same = peer.server == self.me.server && self.me.member.is_some();
        let first = self.first_replaced(peer).filter(|_| is_of_the_same);
        peer.member.is_some() && first.is_none_or(|first| replaces.first() == Some(&first))
    }

    /// The first store in the place of a member of this group.
    fn first_store(&self, number: u8) -> Option<StoreId> {
        let peer = PeerId::member(self.me.server, number);
        if peer == self.me {
            return Some(self.replaces.first().copied().unwrap_or(self.store));
        }
        self.first_replaced(peer).or_else(|| self.known.get(&peer).copied())
    }

    /// The number of the first member that the group has had.
    fn first_member(&self) -> Option<u8> {
        let own = self.me.member?;
        let of_group = self.known.keys().filter(|peer| peer.server == self.me.server);
        of_group.filter_map(|peer| peer.member).chain([own]).min()
    }

    /// The store that clients know this server by: that of a server that runs alone, and of a group
    /// the first one of its first member. It stays the same when members change, are replaced, or
    /// lead: a cluster that is made anew has another one.
    pub(crate) fn client_store(&self) -> StoreId {
        self.first_member().and_then(|number| self.first_store(number)).unwrap_or(self.store)
    }

    /// Completes what is told to other members: of a first member that is removed, they are to know
    /// the first store.
    pub(crate) fn complete_told(&self, mut told: Told) -> Told {
        let removed = self.first_member().filter(|number| told.places.get(*number).is_none());
        for (_, store) in told.stores.iter_mut().filter(|(number, _)| removed == Some(*number)) {
            *store = self.client_store();
        }
        told
    }

    /// Store of another server, if they have met.
    pub(crate) fn known(&self, server: ServerId) -> Option<StoreId> {
        self.known.get(&server.into()).copied()
    }

    /// Refuses these servers' stores from now on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn give_up(&mut self, stores: &BTreeMap<ServerId, StoreId>) -> Result<(), ServerError> {
        self.given_up.extend(stores);
        self.write()
    }

    /// The folders of items and log that count.
    pub(crate) const fn folders(&self) -> DataFolders {
        self.folders
    }

    /// Lets other folders count from now on, which are whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn move_to(&mut self, folders: DataFolders) -> Result<(), ServerError> {
        self.folders = folders;
        self.write()
    }

    /// Replaces the file: a crash leaves the old one or the new one.
    fn write(&mut self) -> Result<(), ServerError> {
        let Some((path, of)) = &self.file else { return Ok(()) };
        let known = self.known.iter().map(|(peer, store)| (peer.to_string(), store.to_string())).collect();
        let given_up = self.given_up.iter().map(|(server, store)| (server.to_string(), store.to_string())).collect();
        let replaced = self.replaced.iter();
        let replaced =
            replaced.map(|(peer, stores)| (peer.to_string(), stores.iter().map(StoreId::to_string).collect()));
        let (state, replaced) = (self.state, replaced.collect());
        let replaces = self.replaces.iter().map(StoreId::to_string).collect();
        let promised = self.promised.map(SpelledPromised::from);
        let folders = self.folders.names().map(|(items, log)| Folders { items, log });
        let (store, of) = (self.store.to_string(), of.clone());
        let told = self.told.as_ref().map(SpelledTold::from);
        let stored =
            Stored { format: FORMAT, state, store, of, known, given_up, replaces, promised, replaced, told, folders };
        let failed = |source| ServerError::Io { action: format!("write {}", path.display()), source };
        stored::write(path, &stored).map_err(failed)
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

fn refused(path: &Path, what: impl Into<String>) -> ServerError {
    ServerError::Identity { file: path.display().to_string(), what: what.into() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
