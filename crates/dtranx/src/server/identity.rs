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
//! taken the place of the first ones (`transfer`).
//!
//! `opening` reads a folder's identity or makes one, `meeting` judges and notes the stores of
//! others, `waiting` is about a new store that waits to be added to a group, and `stored` is how
//! all of this is spelled. Here is the state of this store.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

mod meeting;
mod opening;
mod stored;
mod waiting;

pub(crate) use self::meeting::Met;
pub(crate) use self::opening::Looked;

use self::stored::{Described, FORMAT, Folders, SpelledPromised, SpelledTold, State, Stored};
use super::ServerError;
use super::data_folders::{DataFolders, IDENTITY};
use crate::cluster::{PeerId, Places};
use crate::core::group::{Promised, Rejoin};
use crate::core::{ServerId, StoreId};
use crate::log::Position;
use crate::wire::Told;

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

impl Identity {
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

fn refused(path: &Path, what: impl Into<String>) -> ServerError {
    ServerError::Identity { file: path.display().to_string(), what: what.into() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
