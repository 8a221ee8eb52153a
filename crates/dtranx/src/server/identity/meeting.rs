//! The stores of other servers and members: whether one that is named can be the one that was met,
//! which took the places of others, and which one clients know a group by.

use std::collections::BTreeMap;

use super::Identity;
use crate::cluster::{PeerId, Places};
use crate::core::{ServerId, StoreId};
use crate::server::ServerError;
use crate::wire::Told;

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
pub(super) const MAX_REPLACED: usize = 64;

impl Identity {
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
            Some(known) if replaces.contains(&known) => Met::Replaced,
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

    /// Notes the stores whose place a member's store takes, which is met, and which of them was the
    /// first one: that is what the store itself says, so that all members say the same. Returns
    /// true if that is news.
    fn note_replaced(&mut self, peer: PeerId, replaces: &[StoreId]) -> bool {
        let before = self.replaced.get(&peer).cloned().unwrap_or_default();
        let first = replaces.first();
        let others = before.iter().chain(replaces).filter(|store| Some(*store) != first);
        let mut replaced: Vec<StoreId> = first.copied().into_iter().collect();
        for store in others {
            if !replaced.contains(store) {
                replaced.push(*store);
            }
        }
        let excess = replaced.len().saturating_sub(MAX_REPLACED);
        replaced.drain(1..=excess);
        let is_news = replaced != before;
        self.replaced.insert(peer, replaced);
        is_news
    }

    /// The first store that was in a member's place, if another one is there now.
    fn first_replaced(&self, peer: PeerId) -> Option<StoreId> {
        self.replaced.get(&peer).and_then(|replaced| replaced.first().copied())
    }

    /// The first store in the place of a member of this group.
    pub(super) fn first_store(&self, number: u8) -> Option<StoreId> {
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
}
