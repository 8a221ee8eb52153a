//! Ranges that move from one server to another: where clients find keys then, and how they move
//! them.

use std::collections::VecDeque;

use super::{place::Place, server::Server, world::World};
use crate::core::{Epoch, Key, KeyRange, Map, Moving, ServerId};

/// Place of a key at the moment of a snapshot.
pub(super) enum HolderAt {
    Place(Place),
    /// A server that may have held it is down.
    Unknown,
    /// A server that may have held it keeps the snapshot no longer.
    TooOld,
}

impl World<'_> {
    /// A place that serves a key now, by the server's own map; `None` while there is none.
    pub(super) fn holder_of(&mut self, key: &Key) -> Option<Place> {
        if self.options.moves == 0 {
            let place = self.reach(self.partition.server_of(key));
            return Some(place).filter(|place| self.serves(*place));
        }
        let reached = self.reach_all();
        let holds = |place: &Place| self.serves(*place) && self.map_of(*place).server_of(key) == place.server;
        let holders: Vec<Place> = reached.into_iter().filter(holds).collect();
        // Between the moments at which two servers apply a move there may be none, or two.
        if holders.is_empty() { None } else { Some(self.pick(&holders)) }
    }

    /// A place that serves a part of a range now, if its server holds all of that.
    pub(super) fn holder_of_range(&mut self, server: ServerId, range: &KeyRange) -> Option<Place> {
        let place = self.reach(server);
        let holds = self.options.moves == 0 || self.map_of(place).holds(server, range);
        Some(place).filter(|place| holds && self.serves(*place))
    }

    /// A place that can be read for a key as of a snapshot.
    pub(super) fn holder_at(&mut self, epoch: Epoch, key: &Key) -> HolderAt {
        if self.options.moves == 0 {
            let place = self.reach(self.partition.server_of(key));
            return if self.serves(place) { HolderAt::Place(place) } else { HolderAt::Unknown };
        }
        let (mut found, mut missing) = (Vec::new(), None);
        for place in self.reach_all() {
            let Some(server) = self.servers.get(&place).filter(|server| server.node.is_some()) else {
                missing = Some(HolderAt::Unknown);
                continue;
            };
            match server.disk.map_at(epoch, &self.partition) {
                Some(map) if map.server_of(key) == place.server => found.push(place),
                Some(_) => {}
                None => missing = Some(missing.unwrap_or(HolderAt::TooOld)),
            }
        }
        match (&found[..], missing) {
            ([place], _) => HolderAt::Place(*place),
            ([], Some(missing)) => missing,
            _ => {
                self.history.complaints.push(format!("{key:?} was held by {found:?} as of epoch {epoch}"));
                HolderAt::TooOld
            }
        }
    }

    fn serves(&self, place: Place) -> bool {
        self.servers.get(&place).is_some_and(|server| server.node.is_some())
    }

    /// For each server a place that a message to it reaches.
    fn reach_all(&mut self) -> Vec<Place> {
        let mut ids: Vec<ServerId> = self.servers.keys().map(|place| place.server).collect();
        ids.dedup();
        ids.into_iter().map(|id| self.reach(id)).collect()
    }

    /// The map among the items at a place.
    fn map_of(&self, place: Place) -> Map {
        let map = self.servers.get(&place).map(|server: &Server| server.disk.map(&self.partition));
        map.unwrap_or_else(|| Map::from(&self.partition))
    }

    /// Map of the keys by what the maps of all servers say together.
    fn known_map(&self) -> Map {
        let mut known = Map::from(&self.partition);
        self.servers.values().for_each(|server| known.learn_all(&server.disk.map(&self.partition)));
        known
    }

    /// The parts of a range that a client scans, each with its server.
    pub(super) fn parts_of(&self, range: &KeyRange) -> VecDeque<(KeyRange, ServerId)> {
        if self.options.moves == 0 {
            return self.partition.servers_of(range).into_iter().map(|server| (range.clone(), server)).collect();
        }
        self.known_map().pieces(range).into()
    }

    /// Plans what a client scans; of a client that moves a range, the first part of it that moves.
    pub(super) fn plan_scans(&mut self, index: usize) {
        let map = self.known_map();
        let client = &mut self.clients[index];
        client.moving = None;
        if let Some((range, to)) = client.plan.moving.clone() {
            let part = map.pieces(&range).into_iter().find(|(_, holder)| *holder != to);
            client.plan.scan = part.as_ref().map(|(part, _)| part.clone());
            let moving = |(part, from)| Moving { moves: map.moves_of(&part) + 1, range: part, from, to };
            client.moving = part.map(moving);
        }
        let scan = client.plan.scan.clone();
        let parts = scan.map(|range| self.parts_of(&range)).unwrap_or_default();
        self.clients[index].scans = parts;
    }
}
