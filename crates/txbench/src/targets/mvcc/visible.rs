//! The version of a document that a reader sees: its own, or the latest that is committed. Pure:
//! others read the outcomes that it needs.

use std::collections::HashMap;

use bson::oid::ObjectId;

use super::format::{Key, Lock, Version, VersionId};

/// State of a transaction, read before the versions that it is used for: committed
/// versions do not change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionState {
    /// The transaction is committed.
    Committed,
    /// Not decided, and still within its time.
    Pending,
    /// The transaction has no primary any more: a lock of it that is still there is dead.
    Gone,
}

/// States of transactions, by their ids.
pub(super) type TransactionStates = HashMap<ObjectId, TransactionState>;

/// The reader of a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewer<'a> {
    pub(super) collection: &'a str,
    /// The own transaction, where there is one.
    pub(super) own: Option<ObjectId>,
    /// True if the operation writes. If so, the outcome is read even for the lock of a primary,
    /// which tells a reader all it needs: the transaction's time may be up.
    pub(super) writes: bool,
}

impl Viewer<'_> {
    /// The lock of a rival on this version.
    fn rival<'v>(&self, version: &'v Version) -> Option<&'v Lock> {
        version.lock.as_ref().filter(|lock| Some(lock.tx) != self.own)
    }

    /// The lock on this version whose outcome must be read before the version can be judged.
    pub(super) fn unknown<'v>(&self, version: &'v Version, outcomes: &TransactionStates) -> Option<&'v Lock> {
        let lock = self.rival(version)?;
        let is_known = !self.writes && lock.decides(self.collection, &version.id);
        (!is_known && !outcomes.contains_key(&lock.tx)).then_some(lock)
    }

    /// Returns true if the version is one that this viewer may see: its own or a committed one.
    pub(super) fn sees(&self, version: &Version, outcomes: &TransactionStates) -> bool {
        self.rival(version).is_none_or(|lock| outcomes.get(&lock.tx) == Some(&TransactionState::Committed))
    }

    /// Returns true if a rival that is not decided holds the document.
    pub(super) fn is_locked(&self, version: &Version, outcomes: &TransactionStates) -> bool {
        self.rival(version)
            .is_some_and(|lock| outcomes.get(&lock.tx).is_none_or(|outcome| *outcome == TransactionState::Pending))
    }

    /// Returns true if the version belongs to a transaction that was rolled back.
    pub(super) fn is_stale(&self, version: &Version, outcomes: &TransactionStates) -> bool {
        self.rival(version).is_some_and(|lock| outcomes.get(&lock.tx) == Some(&TransactionState::Gone))
    }

    /// The version of each document that this viewer sees, of those that were found.
    pub(super) fn latest<'v>(
        &self,
        versions: impl Iterator<Item = &'v Version>,
        outcomes: &TransactionStates,
    ) -> HashMap<Key, &'v Version> {
        let mut latest: HashMap<Key, &Version> = HashMap::new();
        for version in versions.filter(|version| self.sees(version, outcomes)) {
            let seen = latest.entry(Key::of(&version.id.key)).or_insert(version);
            if seen.id.ver < version.id.ver {
                *seen = version;
            }
        }
        latest
    }
}

/// Returns true if the two ids are the same.
pub(super) fn is_same(one: &VersionId, other: &VersionId) -> bool {
    one.ver == other.ver && Key::of(&one.key) == Key::of(&other.key)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::{super::format::Primary, *};

    fn version(key: i32, ver: i64, tx: Option<(ObjectId, bool)>) -> Version {
        let id = VersionId { key: key.into(), ver };
        let lock = tx.map(|(tx, primary)| {
            let id = if primary { id.clone() } else { VersionId { key: 99.into(), ver: 1 } };
            Lock { tx, primary: Primary { collection: "c".to_owned(), id } }
        });
        Version { id, lock, body: Some(doc! {}) }
    }

    fn seen(viewer: Viewer<'_>, versions: &[Version], outcomes: &TransactionStates) -> Vec<i64> {
        let mut seen: Vec<i64> =
            viewer.latest(versions.iter(), outcomes).values().map(|version| version.id.ver).collect();
        seen.sort_unstable();
        seen
    }

    #[test]
    fn the_latest_committed_or_own_version_is_seen() {
        let (own, rival) = (ObjectId::new(), ObjectId::new());
        let reader = Viewer { collection: "c", own: None, writes: false };
        let writer = Viewer { collection: "c", own: Some(own), writes: true };
        let versions = [version(1, 1, None), version(1, 2, None), version(1, 3, Some((own, true)))];
        assert_eq!(seen(reader, &versions, &TransactionStates::new()), [2]);
        assert_eq!(seen(writer, &versions, &TransactionStates::new()), [3]);
        let versions = [version(1, 2, None), version(1, 3, Some((rival, false)))];
        for (outcome, expected) in
            [(TransactionState::Committed, 3), (TransactionState::Pending, 2), (TransactionState::Gone, 2)]
        {
            assert_eq!(seen(reader, &versions, &TransactionStates::from([(rival, outcome)])), [expected]);
        }
        assert!(seen(reader, &[version(1, 1, Some((rival, true)))], &TransactionStates::new()).is_empty());
    }

    #[test]
    fn a_reader_does_not_ask_after_a_primary_and_a_writer_does() {
        let rival = ObjectId::new();
        let (primary, other) = (version(1, 3, Some((rival, true))), version(2, 3, Some((rival, false))));
        let reader = Viewer { collection: "c", own: None, writes: false };
        let writer = Viewer { collection: "c", own: None, writes: true };
        let none = TransactionStates::new();
        assert!(reader.unknown(&primary, &none).is_none() && reader.unknown(&other, &none).is_some());
        assert!(writer.unknown(&primary, &none).is_some() && writer.unknown(&version(1, 1, None), &none).is_none());
        assert!(writer.unknown(&primary, &TransactionStates::from([(rival, TransactionState::Pending)])).is_none());
        assert!(writer.is_locked(&primary, &TransactionStates::from([(rival, TransactionState::Pending)])));
        assert!(writer.is_stale(&primary, &TransactionStates::from([(rival, TransactionState::Gone)])));
    }
}
