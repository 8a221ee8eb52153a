//! Configurations of a group in its log: entries of a kind of their own (decision 0088, C1). What
//! is in one is the caller's; here it is bytes, and a place in the log.

use super::entry::{Configured, Position};

/// First bytes of the payload of a configuration: no record has the length that they would be.
const MARK: [u8; 4] = [0xff; 4];

/// Greatest size of a configuration, in bytes.
pub const CONFIGURATION_LIMIT_BYTES: usize = 1024;

/// Makes the payload of an entry that is a configuration.
pub fn configuration_payload(configuration: &[u8]) -> Vec<u8> {
    [&MARK, configuration].concat()
}

/// The configuration in the payload of an entry, if it is one.
pub fn configuration(payload: &[u8]) -> Option<&[u8]> {
    payload.strip_prefix(&MARK).filter(|configuration| configuration.len() <= CONFIGURATION_LIMIT_BYTES)
}

/// The configurations of a log that are not void, in the order of their indices. The first may be
/// the one that was in force before the first entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Configurations {
    all: Vec<Configured>,
}

impl Configurations {
    /// Those of a log before its first entry.
    pub(super) fn before(configured: Option<Configured>) -> Self {
        Self { all: configured.into_iter().collect() }
    }

    pub(super) fn all(&self) -> Vec<Configured> {
        self.all.clone()
    }

    /// An entry is written, which makes all of its index and above void.
    pub(super) fn written(&mut self, at: Position, configuration: Option<&[u8]>) {
        self.all.retain(|configured| configured.at.index < at.index);
        self.all.extend(configuration.map(|bytes| Configured { at, bytes: bytes.to_vec() }));
    }

    /// Entries up to this index are removed: the last of their configurations stays. Returns it.
    pub(super) fn removed(&mut self, through: u64) -> Option<Configured> {
        let gone = self.all.iter().take_while(|configured| configured.at.index <= through).count();
        self.all.drain(..gone.saturating_sub(1));
        self.all.first().filter(|configured| configured.at.index <= through).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::records;

    fn at(index: u64) -> Position {
        Position { term: 1, index }
    }

    fn configured(index: u64) -> Configured {
        Configured { at: at(index), bytes: vec![index as u8] }
    }

    #[test]
    fn configuration_is_no_row_of_records_and_no_longer_than_it_may_be() {
        let payload = configuration_payload(b"members");
        assert_eq!(configuration(&payload), Some(&b"members"[..]));
        assert_eq!(records(&payload).flatten().count(), 0);
        assert_eq!([configuration(&[]), configuration(&[1, 0, 0, 0, 7])], [None; 2]);
        assert!(configuration(&configuration_payload(&[7; CONFIGURATION_LIMIT_BYTES])).is_some());
        assert_eq!(configuration(&configuration_payload(&[7; CONFIGURATION_LIMIT_BYTES + 1])), None);
    }

    #[test]
    fn configurations_become_void_with_their_entries() {
        let mut found = Configurations::before(Some(configured(2)));
        found.written(at(5), Some(&[5]));
        found.written(at(7), Some(&[7]));
        found.written(at(8), None);
        assert_eq!(found.all(), [2, 5, 7].map(configured));
        found.written(at(6), None);
        assert_eq!(found.all(), [2, 5].map(configured));
        found.written(at(5), Some(&[5]));
        assert_eq!(found.all(), [2, 5].map(configured));
    }

    #[test]
    fn last_configuration_of_what_is_removed_stays() {
        let mut found = Configurations::default();
        assert_eq!(found.removed(9), None);
        [3, 5, 8].into_iter().for_each(|index| found.written(at(index), Some(&[index as u8])));
        assert_eq!(found.removed(2), None);
        assert_eq!((found.removed(4), found.all()), (Some(configured(3)), [3, 5, 8].map(configured).to_vec()));
        assert_eq!((found.removed(7), found.all()), (Some(configured(5)), [5, 8].map(configured).to_vec()));
        assert_eq!((found.removed(7), found.removed(9)), (Some(configured(5)), Some(configured(8))));
    }
}
