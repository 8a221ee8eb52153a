//! The documents that a transaction holds, or may hold.
//!
//! Every document is noted *before* the command that may lock it is sent. Where only the answer
//! shows which one it is, it is noted that there may be one that is not known
//! ([`Transaction::hold_unknown`]).

use std::collections::{HashMap, HashSet, hash_map::Entry};

use bson::Bson;
use sd2v::{statement::OwnReadLock, stored::check_id};

use super::Transaction;
use crate::{
    coordinator::{
        finishing::finisher::HeldDocuments,
        queries::read_lease::CollectionChanges,
        request::{
            address::Address,
            fields::Fields,
            own_key::{OwnKey, id_key},
        },
        stamps::{changes::stamps_of_changes, tag::Tag},
    },
    error::{Error, Result},
    options::{ClientOptions, Namespace},
};

/// Documents of one collection that the memory of decisions names.
const MOST_REMEMBERED: usize = 16;
/// The longest `_id` that it names, in bytes.
const LONGEST_REMEMBERED: usize = 256;

/// The documents of one collection, by the bytes of their `_id`s.
#[derive(Default)]
pub(super) struct HeldSet {
    written: HashMap<Vec<u8>, Address>,
    /// Documents that the transaction may have read-locked.
    read: HashMap<Vec<u8>, Address>,
    /// Of the written ones, those that are known to be locked and not removed.
    locked: HashSet<Vec<u8>>,
    /// Of the written ones, those that are known to be removed.
    removed: HashSet<Vec<u8>>,
    /// Of the read-locked ones, those of which the server has said so: what is read under these
    /// locks must not change.
    kept: HashSet<Vec<u8>>,
    /// Of the written ones: those that are known to be this transaction's until it ends, each with
    /// the number of those of all collections that became so before it.
    own: HashMap<OwnKey, usize>,
    /// One more than the highest of these numbers; 0 if there are none.
    own_mark: usize,
    /// Of these, those that were replaced as a whole when they became so.
    replaced: HashSet<OwnKey>,
    inserts: bool,
    removes: bool,
    /// A command is under way, or was never answered, that may have locked a document which only
    /// its answer names.
    unknown: bool,
    /// Some of the written ones have `_id`s that equal others of another type, and cannot be
    /// distinguished from them here.
    unsure_ids: bool,
    /// Some of the written ones may have been given other keys of unique indexes.
    rekeyed: bool,
}

impl HeldSet {
    /// The documents to finish, once the transaction is decided.
    pub(super) fn into_held(self) -> HeldDocuments {
        let unknown = self.unknown.then(Address::any_held);
        HeldDocuments {
            own: self.own.len(),
            written: self.written.into_values().chain(unknown).collect(),
            read: self.read.into_values().collect(),
            inserts: self.inserts,
            removes: self.removes,
        }
    }
}

/// Way in which a document is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Insert,
    Change,
    Remove,
    Read,
}

impl Transaction {
    /// Returns true if it has written to this collection.
    pub(crate) fn has_written(&self, ns: &Namespace) -> bool {
        self.held.get(ns).is_some_and(|held| !held.written.is_empty())
    }

    pub(crate) fn may_hold(&self, ns: &Namespace, id: &Bson) -> bool {
        self.held.get(ns).is_some_and(|held| held.written.contains_key(&id_key(id)))
    }

    /// Returns true if it is certain that the transaction has not written to this document, by
    /// whatever number of another type its `_id` was called.
    pub(crate) fn is_untouched(&self, ns: &Namespace, id: &Bson) -> bool {
        self.held.get(ns).is_none_or(|held| {
            held.written.is_empty()
                || !held.unsure_ids
                    && !held.written.contains_key(&id_key(id))
                    && OwnKey::of_simple(id).is_some_and(|key| !held.own.contains_key(&key))
        })
    }

    pub(crate) fn has_read_locks(&self, ns: &Namespace) -> bool {
        self.held.get(ns).is_some_and(|held| !held.read.is_empty())
    }

    pub(crate) fn read_lock(&self, ns: &Namespace, id: &Bson) -> OwnReadLock {
        let Some(held) = self.held.get(ns).filter(|held| !held.read.is_empty()) else { return OwnReadLock::None };
        let key = id_key(id);
        match held.read.contains_key(&key) {
            true if held.kept.contains(&key) => OwnReadLock::Kept,
            false if is_equal_only_to_itself(id) => OwnReadLock::None,
            _ => OwnReadLock::Unsure,
        }
    }

    /// The server has said that these documents are read-locked by this transaction.
    pub(crate) fn keep_read_locks<'a>(&mut self, ns: &Namespace, at: impl IntoIterator<Item = &'a Address>) {
        let kept = &mut self.held_in(ns).kept;
        kept.extend(at.into_iter().map(|at| id_key(&at.id)));
    }

    /// The address of a document that the transaction holds already.
    pub(crate) fn address_of(&self, ns: &Namespace, id: &Bson) -> Option<&Address> {
        let (held, key) = (self.held.get(ns)?, id_key(id));
        held.written.get(&key).or_else(|| held.read.get(&key))
    }

    /// Notes documents that the next command may lock, unless they are too many, or no server would
    /// store them.
    pub(crate) fn hold(&mut self, options: &ClientOptions, ns: &Namespace, at: &[Address], what: Hold) -> Result<()> {
        if what == Hold::Insert {
            at.iter().try_for_each(|at| check_id(&at.id))?;
        }
        let held = self.held_in(ns);
        held.unsure_ids |= what != Hold::Read && at.iter().any(|at| OwnKey::of_simple(&at.id).is_none());
        match what {
            Hold::Insert => held.inserts = true,
            Hold::Remove => held.removes = true,
            Hold::Change | Hold::Read => {}
        }
        for at in at {
            let others = [&mut held.written, &mut held.read].into_iter();
            for other in others.filter_map(|set| set.get_mut(&id_key(&at.id))) {
                other.learn(ns, at)?;
            }
        }
        let set = if what == Hold::Read { &mut held.read } else { &mut held.written };
        let mut new: HashMap<Vec<u8>, Address> = HashMap::new();
        for (key, at) in at.iter().map(|at| (id_key(&at.id), at)).filter(|(key, _)| !set.contains_key(key)) {
            match new.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(at.clone())),
                Entry::Occupied(mut other) => other.get_mut().learn(ns, at)?,
            }
        }
        self.check_room(options, new.len())?;
        self.count += new.len();
        let Some(held) = self.held.get_mut(ns) else { return Ok(()) };
        let set = if what == Hold::Read { &mut held.read } else { &mut held.written };
        set.extend(new);
        Ok(())
    }

    /// The one command that might have locked this document, which was not held before, was
    /// answered: it has not.
    pub(crate) fn not_held(&mut self, ns: &Namespace, at: &Address) {
        let Some(held) = self.held.get_mut(ns) else { return };
        if held.written.remove(&id_key(&at.id)).is_some() {
            self.count -= 1;
        }
    }

    /// The next command may lock a document that only its answer names. Until [`Self::hold_found`]
    /// the transaction can only be rolled back, and whatever it holds in this collection is looked
    /// for by its id.
    pub(crate) fn hold_unknown(&mut self, options: &ClientOptions, ns: &Namespace) -> Result<()> {
        self.check_room(options, 1)?;
        self.held_in(ns).unknown = true;
        Ok(())
    }

    /// Notes that the command was answered: it has locked this document, or none.
    pub(crate) fn hold_found(
        &mut self,
        options: &ClientOptions,
        ns: &Namespace,
        found: Option<&Address>,
        what: Hold,
    ) -> Result<()> {
        if let Some(at) = found {
            self.hold(options, ns, std::slice::from_ref(at), what)?;
        }
        self.held_in(ns).unknown = false;
        Ok(())
    }

    fn held_in(&mut self, ns: &Namespace) -> &mut HeldSet {
        self.held.entry(ns.clone()).or_default()
    }

    fn check_room(&self, options: &ClientOptions, more: usize) -> Result<()> {
        if self.count + more <= options.max_documents {
            return Ok(());
        }
        let message = format!("a transaction may hold at most {} documents", options.max_documents);
        Err(Error::too_large(message).for_transaction(self.id()))
    }

    /// Documents of this collection are about to be given other keys of unique indexes.
    pub(crate) fn note_rekeyed(&mut self, ns: &Namespace) {
        self.held_in(ns).rekeyed = true;
    }

    /// Returns true if all that it has written to in this collection is removed.
    pub(crate) fn only_removed(&self, ns: &Namespace) -> bool {
        // A statement that was refused may have left a lock on a document that it has not changed.
        self.held.get(ns).is_none_or(|held| !held.inserts && !held.unknown && held.removed.len() == held.written.len())
    }

    /// Returns true if a document that it has written to may have a key of a unique index that it
    /// had not before.
    pub(crate) fn has_new_keys(&self, ns: &Namespace) -> bool {
        self.held.get(ns).is_some_and(|held| held.inserts || held.rekeyed)
    }

    /// Documents that were held are locked now, to be changed or to be removed.
    pub(crate) fn note_locked(&mut self, ns: &Namespace, at: &[Address], removes: bool) {
        let Some(held) = self.held.get_mut(ns) else { return };
        for key in at.iter().map(|at| id_key(&at.id)) {
            let (to, from) =
                if removes { (&mut held.removed, &mut held.locked) } else { (&mut held.locked, &mut held.removed) };
            from.remove(&key);
            to.insert(key);
        }
        self.note_own(ns, at.iter().map(|at| &at.id));
    }

    /// These documents are this transaction's until it ends: locked, or inserted, by commands that
    /// were answered.
    pub(crate) fn note_own<'a>(&mut self, ns: &Namespace, ids: impl IntoIterator<Item = &'a Bson>) {
        let Some(held) = self.held.get_mut(ns) else { return };
        for key in ids.into_iter().map(OwnKey::of) {
            if self.replacing {
                held.replaced.insert(key.clone());
            }
            if let Entry::Vacant(new) = held.own.entry(key) {
                new.insert(self.count_own);
                self.count_own += 1;
                held.own_mark = self.count_own;
            }
        }
    }

    /// A mark of what is its own of this collection by now; 0 if nothing is.
    pub(crate) fn own_mark(&self, ns: &Namespace) -> usize {
        self.held.get(ns).map_or(0, |held| held.own_mark)
    }

    /// Returns true if this document was its own when the mark was made.
    pub(crate) fn was_own(&self, ns: &Namespace, id: &Bson, mark: usize) -> bool {
        mark > 0 && self.place_of_own(ns, id).is_some_and(|place| place < mark)
    }

    /// Number of documents, of all collections, that became its own before this one. `None`: this
    /// one is not its own.
    pub(crate) fn place_of_own(&self, ns: &Namespace, id: &Bson) -> Option<usize> {
        self.held.get(ns)?.own.get(&OwnKey::of(id)).copied()
    }

    /// Returns true if this document is its own.
    pub(crate) fn is_own(&self, ns: &Namespace, id: &Bson) -> bool {
        self.place_of_own(ns, id).is_some()
    }

    /// Returns true if the document with this key is its own.
    pub(crate) fn has_made_own(&self, ns: &Namespace, document: &OwnKey) -> bool {
        self.held.get(ns).is_some_and(|held| held.own.contains_key(document))
    }

    /// The `_id`s of its own documents of this collection.
    pub(crate) fn own_ids(&self, ns: &Namespace) -> Vec<Bson> {
        let Some(held) = self.held.get(ns) else { return Vec::new() };
        held.written.values().filter(|at| held.own.contains_key(&OwnKey::of(&at.id))).map(|at| at.id.clone()).collect()
    }

    /// Number of documents that it holds, or may hold, in all collections.
    pub(crate) fn count_held(&self) -> usize {
        self.count
    }

    /// The collections that it may have written to.
    pub(crate) fn collections_written(&self) -> impl Iterator<Item = &Namespace> {
        self.held.iter().filter(|(_, held)| !held.written.is_empty()).map(|(ns, _)| ns)
    }

    /// The documents that it may have written to in this collection.
    pub(crate) fn written(&self, ns: &Namespace) -> Vec<Address> {
        self.held.get(ns).map_or_else(Vec::new, |held| held.written.values().cloned().collect())
    }

    /// Returns true if this document was replaced as a whole when it became its own.
    pub(crate) fn is_replaced(&self, ns: &Namespace, id: &Bson) -> bool {
        self.held.get(ns).is_some_and(|held| held.replaced.contains(&OwnKey::of(id)))
    }

    pub(crate) fn has_written_anything(&self) -> bool {
        self.held.values().any(|held| !held.written.is_empty())
    }

    /// The change stamps that its decision sets.
    pub(crate) fn changed(&self) -> Vec<Tag> {
        let stamps = self.held.iter().filter(|(_, held)| !held.written.is_empty()).flat_map(|(ns, held)| {
            let documents: Option<Vec<OwnKey>> = held.written.values().map(|at| OwnKey::of_simple(&at.id)).collect();
            stamps_of_changes(ns, documents.as_deref())
        });
        stamps.collect()
    }

    /// The same stamps, each with the fields that the transaction has changed there.
    pub(crate) fn changed_fields(&self) -> Vec<(Tag, Fields)> {
        let stamps = self.held.iter().filter(|(_, held)| !held.written.is_empty()).flat_map(|(ns, held)| {
            let fields = self.fields_changed(ns, held);
            let documents: Option<Vec<OwnKey>> = held.written.values().map(|at| OwnKey::of_simple(&at.id)).collect();
            stamps_of_changes(ns, documents.as_deref()).into_iter().map(move |tag| (tag, fields.clone()))
        });
        stamps.collect()
    }

    /// The fields that it has changed in a collection.
    fn fields_changed(&self, ns: &Namespace, held: &HeldSet) -> Fields {
        let comes_or_goes = held.inserts || held.removes || held.unknown;
        self.touched.get(ns).filter(|_| !comes_or_goes).cloned().unwrap_or(Fields::All)
    }

    /// Changes of the transaction in each collection that it may have written to, as decisions
    /// remember them.
    pub(crate) fn written_collections(&self) -> Vec<CollectionChanges> {
        let of = |(ns, held): (&Namespace, &HeldSet)| {
            let few = Some(&held.written).filter(|written| !held.unknown && written.len() <= MOST_REMEMBERED);
            let key = |at: &Address| OwnKey::of_simple(&at.id).filter(|key| key.count_bytes() <= LONGEST_REMEMBERED);
            let documents = few.and_then(|few| few.values().map(key).collect::<Option<_>>());
            CollectionChanges { ns: ns.clone(), fields: self.fields_changed(ns, held), documents }
        };
        self.held.iter().filter(|(_, held)| !held.written.is_empty()).map(of).collect()
    }

    /// The collections with documents that must be there.
    pub(crate) fn namespaces_locked(&self) -> Vec<Namespace> {
        let locked = self.held.iter().filter(|(_, held)| !held.locked.is_empty());
        locked.map(|(ns, _)| ns.clone()).collect()
    }

    /// The documents of this collection that must be there.
    pub(crate) fn locked(&self, ns: &Namespace) -> Vec<Address> {
        let Some(held) = self.held.get(ns) else { return Vec::new() };
        held.locked.iter().filter_map(|key| held.written.get(key).cloned()).collect()
    }

    /// Some of what it holds there may have no safe version.
    pub(crate) fn may_insert(&mut self, ns: &Namespace) {
        if let Some(held) = self.held.get_mut(ns) {
            held.inserts = true;
        }
    }
}

/// Returns true if no other `_id` names the same document. A number equals numbers of other types,
/// a string those that a collation makes equal.
fn is_equal_only_to_itself(id: &Bson) -> bool {
    matches!(id, Bson::ObjectId(_) | Bson::Binary(_) | Bson::Boolean(_) | Bson::DateTime(_) | Bson::Timestamp(_))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::{
        coordinator::stamps::retry_history::RetryHistory,
        error::ErrorKind,
        options::{Isolation, TransactionOptions},
    };

    #[test]
    fn one_call_holds_no_two_documents_of_one_id() {
        let ns = Namespace { db: "d".to_owned(), coll: "c".to_owned() };
        let at = |id: i32, key: &str| Address::new(id.into(), doc! {"k": key});
        let held = |what, all: &[Address]| {
            let (isolation, options) = (Isolation::ReadCommitted, TransactionOptions::default());
            let mut tx = Transaction::new(isolation, None, options, RetryHistory::default());
            tx.hold(&ClientOptions::default(), &ns, all, what).map(|()| tx.count)
        };
        for what in [Hold::Insert, Hold::Change, Hold::Remove, Hold::Read] {
            let refused = held(what, &[at(1, "a"), at(2, "a"), at(1, "b")]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            assert!(refused.to_string().contains("two documents of d.c with the _id 1"), "{refused}");
            assert_eq!(held(what, &[at(1, "a"), at(2, "a"), at(1, "a")]).unwrap(), 2);
        }
    }
}
