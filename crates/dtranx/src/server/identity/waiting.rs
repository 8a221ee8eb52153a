//! The identity of a new store that waits to be added to a group (decision 0088, C10): it has no
//! number before a member of the group tells it.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use super::stored::{SpelledTold, State, parse};
use super::{IDENTITY, Identity, refused};
use crate::cluster::PeerId;
use crate::server::{ServerConfig, ServerError};
use crate::wire::Told;

impl ServerConfig {
    /// The same configuration, with the number of the member that the data in the folder are of, if
    /// that is one which has joined its group.
    ///
    /// # Errors
    /// The folder's `identity.toml` cannot be read, or is damaged; the member has another address.
    pub fn with_number(mut self) -> Result<Self, ServerError> {
        let (Some(join), None) = (self.join, self.member) else { return Ok(self) };
        let path = self.folder.join(IDENTITY);
        let Some((number, told)) = number_and_address(&path)? else { return Ok(self) };
        let listed = || self.cluster.addresses(self.server).get(usize::from(number).wrapping_sub(1)).copied();
        if let Some(address) = told.or_else(listed).filter(|address| *address != join) {
            let what = format!(
                "join: the store is member {number}, which is at {address} for the others: for another address, it is \
                 removed, and a new one added"
            );
            return Err(refused(&path, what));
        }
        self.member = Some(number);
        Ok(self)
    }
}

/// The number of the member that the data in a folder are of, if the folder has some, and they are
/// of one; and its address, if the store was told it.
fn number_and_address(path: &Path) -> Result<Option<(u8, Option<SocketAddr>)>, ServerError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ServerError::Io { action: format!("read {}", path.display()), source }),
    };
    let stored = parse(&text).map_err(|what| refused(path, what))?;
    let Some(number) = stored.of.member() else { return Ok(None) };
    let told = stored.told.and_then(SpelledTold::read);
    Ok(Some((number, told.and_then(|(_, places)| places.get(number).map(|place| place.address)))))
}

impl Identity {
    /// Reads the identity of a store that waits, or makes one for a new folder.
    ///
    /// # Errors
    /// As for [`Identity::open`]; the store is none that waits.
    pub(crate) fn open_waiting(config: &ServerConfig) -> Result<Self, ServerError> {
        let mut identity = Self::found_or_made(config)?;
        if identity.state == State::New {
            identity.state = State::Waiting;
            identity.write()?;
        }
        Ok(identity)
    }

    /// Notes the place that this store has got, the configuration by which it has, and the stores
    /// that are in the other places. It counts from now on.
    ///
    /// # Errors
    /// The configuration does not name this store; the file cannot be written.
    pub(crate) fn placed(&mut self, told: &Told) -> Result<u8, ServerError> {
        let found = told.places.places.iter().find(|place| place.store == self.store);
        let path = self.file.as_ref().map(|(path, _)| path.clone()).unwrap_or_default();
        let number = found.ok_or_else(|| refused(&path, "the group has no place for this store"))?.number;
        let server = self.me.server;
        let first = told.places.places.iter().map(|place| (place.number, place.store));
        for (number, store) in first.chain(told.stores.iter().copied()) {
            let peer = PeerId::member(server, number);
            if let Some(first) = self.known.insert(peer, store).filter(|first| *first != store) {
                self.replaced.insert(peer, vec![first]);
            }
        }
        self.me = PeerId::member(server, number);
        self.known.remove(&self.me);
        if let Some((_, of)) = &mut self.file {
            of.place(number);
        }
        (self.told, self.state) = (Some((told.at, told.places.clone())), State::InUse);
        self.write()?;
        Ok(number)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::{Cluster, Places};
    use crate::core::{ServerId, StoreId};
    use crate::log::Position;

    fn at(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    /// A store for a group of three, in this folder, that joins at this address.
    fn joining(folder: &Path, join: SocketAddr) -> ServerConfig {
        let cluster = Cluster::of_group("test", ServerId(1), [1, 2, 3].map(at).to_vec());
        ServerConfig { join: Some(join), ..ServerConfig::new(cluster, ServerId(1), folder) }
    }

    #[test]
    fn store_that_waited_has_the_number_that_it_was_told_at_the_address_that_the_others_know() {
        let folder = tempfile::tempdir().unwrap();
        let config = joining(folder.path(), at(4));
        assert_eq!(config.clone().with_number().unwrap().member, None, "it is new");
        let mut identity = Identity::open_waiting(&config).unwrap();
        assert_eq!(config.clone().with_number().unwrap().member, None, "it waits");
        assert!(identity.members().is_none());
        let mut stores: BTreeMap<_, _> = (1..=3).map(|number| (number, StoreId([number; 16]))).collect();
        let tell = |stores: &BTreeMap<u8, StoreId>| Told {
            at: Position { term: 2, index: 9 },
            is_settled: true,
            places: Places::first(stores, &[1, 2, 3, 4].map(at)),
            stores: stores.clone().into_iter().collect(),
        };
        assert!(identity.placed(&tell(&stores)).is_err(), "the group does not have it");
        stores.insert(4, identity.store);
        assert_eq!(identity.placed(&tell(&stores)).unwrap(), 4);
        let placed = config.with_number().unwrap();
        assert_eq!(placed.member, Some(4));
        let opened = Identity::open(&placed).unwrap();
        assert_eq!(opened.before(&[1, 2, 3].map(at)).unwrap(), (tell(&stores).at, tell(&stores).places));
        assert_eq!(opened.members().unwrap(), stores);
        let moved = joining(folder.path(), at(5)).with_number().unwrap_err().to_string();
        assert!(moved.contains("the store is member 4, which is at 127.0.0.1:4 for the others"), "{moved}");
        let of_the_list = ServerConfig { member: Some(4), join: None, ..joining(folder.path(), at(4)) };
        let refused = of_the_list.validate().unwrap_err().to_string();
        assert!(refused.contains("one that was added is started with `join`"), "{refused}");
    }
}
