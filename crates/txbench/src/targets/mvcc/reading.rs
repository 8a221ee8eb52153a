//! Reads: versions are searched, and of what is found the versions that the reader may see are
//! kept.
//!
//! 1. A filter about `_id` alone matches all versions of a document or none, so that what is found
//!    says which is the latest: one command. One key: its two newest versions, which are enough,
//!    since a version that is not committed is the newest.
//! 2. Any other filter is run on all versions, and a second command reads the versions of all
//!    documents found (without their contents): there may be later ones that do not match. Where a
//!    later version was not found, because it does not match or was committed meanwhile, a third
//!    command runs the filter on the right versions; so the answer is in order, too.
//! 3. The status of locks whose transactions are not known is read, all at once. Where one turns
//!    out to be decided, what was read may be what it wrote at first and not what it committed: all
//!    is read again.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    format::{GONE, Key, LOCK, Lock, Version},
    names::{self, ById},
    store::{READ_LIMIT, Store},
    visible::{TransactionState, TransactionStates, Viewer, is_same},
    work::Work,
};
use crate::{
    error::{OpError, OpResult},
    targets::Find,
};

/// Number of times that a read is repeated because transactions were decided meanwhile.
const ROUNDS: usize = 20;
/// Greatest number of keys in one command.
const KEYS: usize = 1_000;

/// The reads of one operation.
pub(super) struct Reader<'a> {
    pub(super) store: &'a Store,
    pub(super) viewer: Viewer<'a>,
}

/// Results of one round of reading.
#[derive(Default)]
struct Round {
    /// Versions that were found, in the order of the query.
    found: Vec<Version>,
    /// All versions of the documents found, without contents; `None` where `found` has them all.
    history: Option<Vec<Version>>,
    /// True if the query may have more results.
    more: bool,
}

impl Round {
    fn all(&self) -> impl Iterator<Item = &Version> {
        self.found.iter().chain(self.history.iter().flatten())
    }

    /// The versions that show which one is the latest.
    fn telling(&self) -> impl Iterator<Item = &Version> {
        self.history.as_ref().unwrap_or(&self.found).iter()
    }
}

/// A search, with filter and order for versions.
struct Search<'f> {
    find: &'f Find,
    filter: Document,
    projection: Document,
    /// Result of analysing the filter, where the order allows to make use of it.
    by_id: Option<ById>,
}

impl Reader<'_> {
    /// The documents that match, as versions that this reader sees.
    pub(super) async fn find(&self, find: &Find) -> OpResult<Vec<Version>> {
        let search = Search::new(find)?;
        if let Some(ById::Keys(keys)) = &search.by_id {
            let mut latest = self.latest(keys, &search.projection).await?;
            let found = keys.iter().filter_map(|key| latest.remove(&Key::of(key)));
            let mut found: Vec<Version> = found.filter(|version| version.body.is_some()).collect();
            limit(&mut found, find.limit);
            return Ok(found);
        }
        let mut most = if find.limit == 0 { 0 } else { i64::from(find.limit) * 2 + 4 };
        loop {
            let (round, outcomes) = self.settle(|| self.search(&search, most)).await?;
            let more = round.more;
            let mut found = self.decide(&search, round, &outcomes).await?;
            if !more || found.len() >= find.limit as usize {
                limit(&mut found, find.limit);
                return Ok(found);
            }
            most *= 4;
        }
    }

    /// The latest version of each of these documents that has one, deletions too.
    ///
    /// # Errors
    /// A conflict for a writer, where a rival holds one of them.
    pub(super) async fn latest(&self, keys: &[Bson], projection: &Document) -> OpResult<HashMap<Key, Version>> {
        let (round, outcomes) = self.settle(|| self.of_keys(keys, projection)).await?;
        if self.viewer.writes && round.found.iter().any(|version| self.viewer.is_locked(version, &outcomes)) {
            return Err(OpError::Conflict("locked"));
        }
        let latest = self.viewer.latest(round.found.iter(), &outcomes);
        Ok(latest.into_iter().map(|(key, version)| (key, version.clone())).collect())
    }

    // Step 3.
    async fn settle<F: Future<Output = OpResult<Round>>>(
        &self,
        read: impl Fn() -> F,
    ) -> OpResult<(Round, TransactionStates)> {
        let mut outcomes = TransactionStates::new();
        for _ in 0..ROUNDS {
            self.store.add_committed(&mut outcomes);
            let mine: HashSet<ObjectId> = outcomes.keys().copied().collect();
            let round = read().await?;
            let mut unknown: HashMap<ObjectId, Lock> = HashMap::new();
            for lock in round.all().filter_map(|version| self.viewer.unknown(version, &outcomes)) {
                unknown.insert(lock.tx, lock.clone());
            }
            let asked: Vec<Lock> = unknown.into_values().collect();
            if !asked.is_empty() {
                self.store.ask(&asked, &mut outcomes).await?;
            }
            if asked.iter().all(|lock| outcomes.get(&lock.tx) == Some(&TransactionState::Pending)) {
                self.clean(&round, &outcomes).await?;
                return Ok((round, outcomes));
            }
            self.help(&round, &outcomes, &mine).await;
            // A rival that is at work may be done when the next round comes.
            outcomes.retain(|_, outcome| *outcome != TransactionState::Pending);
        }
        Err(OpError::Conflict("locked"))
    }

    /// Hands the locks of transactions that others have committed to the finisher: their own
    /// clients may be dead.
    async fn help(&self, round: &Round, outcomes: &TransactionStates, mine: &HashSet<ObjectId>) {
        for version in &round.found {
            let Some(lock) = &version.lock else { continue };
            if outcomes.get(&lock.tx) == Some(&TransactionState::Committed) && !mine.contains(&lock.tx) {
                self.store.finish(Work::Met((self.viewer.collection.to_owned(), version.id.clone()))).await;
            }
        }
    }

    /// Removes what transactions that were rolled back have left.
    async fn clean(&self, round: &Round, outcomes: &TransactionStates) -> OpResult<()> {
        for version in round.all().filter(|version| self.viewer.is_stale(version, outcomes)) {
            self.store.remove_stale(self.viewer.collection, version).await?;
        }
        Ok(())
    }

    async fn of_keys(&self, keys: &[Bson], projection: &Document) -> OpResult<Round> {
        let collection = self.store.collection(self.viewer.collection);
        let mut round = Round::default();
        if let [key] = keys {
            let find = collection.find(doc! {"_id.key": key.clone()}).sort(doc! {"_id.ver": -1}).limit(2);
            round.found = self.store.versions(find.projection(projection.clone()).max_time(READ_LIMIT)).await?;
            return Ok(round);
        }
        for keys in keys.chunks(KEYS) {
            let find = collection.find(doc! {"_id.key": {"$in": keys}}).projection(projection.clone());
            round.found.extend(self.store.versions(find.max_time(READ_LIMIT)).await?);
        }
        Ok(round)
    }

    // Steps 1 and 2.
    async fn search(&self, search: &Search<'_>, most: i64) -> OpResult<Round> {
        let collection = self.store.collection(self.viewer.collection);
        let find = collection.find(search.filter.clone()).projection(search.projection.clone()).limit(most);
        let found = self.store.versions(find.sort(search.order(most))).await?;
        let more = most > 0 && found.len() as i64 >= most;
        let mut round = Round { found, history: None, more };
        if search.by_id.is_some() {
            // Of the last document there may be more versions than were read.
            if let Some(last) = round.found.last().map(|version| Key::of(&version.id.key)).filter(|_| more) {
                round.found.retain(|version| Key::of(&version.id.key) != last);
            }
            return Ok(round);
        }
        let keys: HashMap<Key, &Bson> =
            round.found.iter().map(|version| (Key::of(&version.id.key), &version.id.key)).collect();
        let keys: Vec<&Bson> = keys.into_values().collect();
        let mut history = Vec::new();
        for keys in keys.chunks(KEYS) {
            let find = collection.find(doc! {"_id.key": {"$in": keys}}).projection(doc! {LOCK: 1, GONE: 1});
            history.extend(self.store.versions(find).await?);
        }
        round.history = Some(history);
        Ok(round)
    }

    /// Keeps the versions that this reader sees, and looks at those that it would see and were not
    /// found.
    async fn decide(
        &self,
        search: &Search<'_>,
        mut round: Round,
        outcomes: &TransactionStates,
    ) -> OpResult<Vec<Version>> {
        let found = mem::take(&mut round.found);
        if round.history.is_none() {
            round.found = found.clone();
        }
        let latest = self.viewer.latest(round.telling(), outcomes);
        let mut owed: HashMap<Key, Bson> = HashMap::new();
        let mut seen: Vec<Version> = Vec::new();
        for version in found {
            let key = Key::of(&version.id.key);
            match latest.get(&key) {
                Some(latest) if is_same(&latest.id, &version.id) && self.viewer.sees(&version, outcomes) => {
                    seen.push(version);
                }
                Some(latest) => drop(owed.insert(key, latest.id.bson())),
                None => {}
            }
        }
        seen.retain(|version| {
            owed.remove(&Key::of(&version.id.key));
            version.body.is_some()
        });
        owed.retain(|key, _| latest.get(key).is_some_and(|latest| latest.body.is_some()));
        if owed.is_empty() || round.history.is_none() {
            return Ok(seen);
        }
        let owed: Vec<Bson> = owed.into_values().collect();
        self.catch_up(search, seen, owed).await
    }

    /// Runs the filter on versions that were not found by it.
    async fn catch_up(&self, search: &Search<'_>, mut seen: Vec<Version>, owed: Vec<Bson>) -> OpResult<Vec<Version>> {
        let collection = self.store.collection(self.viewer.collection);
        let mut ids = owed;
        if search.is_ordered() {
            ids.extend(mem::take(&mut seen).into_iter().map(|version| version.id.bson()));
        }
        let mut filter = search.filter.clone();
        filter.insert("_id", doc! {"$in": ids});
        let find = collection.find(filter).projection(search.projection.clone()).sort(search.order(0));
        seen.extend(self.store.versions(find).await?);
        Ok(seen)
    }
}

impl<'f> Search<'f> {
    fn new(find: &'f Find) -> OpResult<Self> {
        let refused = |what| OpError::unsupported("mvcc", what);
        let by_id = names::by_id(&find.filter).filter(|by_id| match by_id {
            ById::Keys(keys) => find.sort.is_empty() || keys.len() == 1,
            ById::Condition => names::id_order(&find.sort).is_some(),
        });
        let mut filter = names::filter(&find.filter).map_err(refused)?;
        if by_id.is_none() {
            filter.insert(GONE, doc! {"$exists": false});
        }
        let projection = names::projection(&find.projection).map_err(refused)?;
        Ok(Self { find, filter, projection, by_id })
    }

    /// The order in which versions are read. By `_id` it is the order of the index, versions of a
    /// document together.
    fn order(&self, most: i64) -> Document {
        match (&self.by_id, names::id_order(&self.find.sort)) {
            (Some(_), Some(_)) if most == 0 && self.find.sort.is_empty() => Document::new(),
            (Some(_), Some(direction)) => doc! {"_id.key": direction, "_id.ver": -direction},
            _ => names::fields(&self.find.sort),
        }
    }

    fn is_ordered(&self) -> bool {
        let near = |value: &Bson| {
            value.as_document().is_some_and(|value| value.contains_key("$near") || value.contains_key("$nearSphere"))
        };
        !self.find.sort.is_empty() || self.filter.values().any(near)
    }
}

fn limit(versions: &mut Vec<Version>, limit: u32) {
    if limit > 0 {
        versions.truncate(limit as usize);
    }
}
