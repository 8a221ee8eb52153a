//! Documents that transactions of *this client* hold. A transaction that wants one of them gets a
//! conflict, or waits in turn, without asking the server; two of them that would wait for each
//! other are found at once.
//!
//! This knowledge is no more than a short cut: a lock is what the server stores. A document that is
//! unknown here may be locked, and one that is known may be free (another client has rolled its
//! holder back): then the wait ends with the caller's patience, as it would in front of the server.
//! This table decides only that a transaction waits, or gets a conflict.
//!
//! 1. Before the first prepared write of a document by its `_id`: [`Siblings::claim`]. One
//!    transaction at a time tries.
//! 2. The server says that it is locked: the claim is kept ([`Claim::keep`]) until the
//!    transaction's documents are finished. It says anything else, or the future is dropped: the
//!    claim goes to the next that waits. A write that names no `_id` claims nothing: its document
//!    becomes known when the server has said which one is locked ([`Claims::took`]).
//! 3. The commit is answered: what it holds goes to the next that wants it ([`Claims::leave`]),
//!    together with the name of the transaction that left it ([`Claim::left`]), whose lock is still
//!    there until it is finished (decision 0012).

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use protocol::TxId;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::{options::Namespace, waiting};

/// How long a caller that is not ready to wait for a rival waits for one that is about to let go,
/// or has not got the document yet: a few answers of the server. After that the server is asked.
const MOMENT: Duration = Duration::from_millis(100);

/// Committed transactions that one statement names, to take over what they have left.
const MOST_LEFT: usize = 16;

/// A document of a collection, by the bytes of its `_id`.
type Key = (Namespace, Vec<u8>);

/// The documents that transactions of one client hold or want.
#[derive(Default)]
pub(crate) struct Siblings {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    places: HashMap<Key, Place>,
    /// The document that a transaction waits for: one at a time, because a session runs one
    /// statement after the other.
    waits: HashMap<TxId, Key>,
    /// Committed transactions that may still be found on documents of a collection, the latest
    /// last.
    left: HashMap<Namespace, Vec<TxId>>,
}

/// A document that a transaction holds, or tries to lock.
struct Place {
    owner: Arc<Owner>,
    state: State,
    /// Committed transaction whose lock may still be found there.
    left: Option<TxId>,
    /// Transactions that wait, in order.
    queue: VecDeque<Next>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The owner is about to lock it.
    Tried,
    /// The server has said that the owner holds it.
    Held,
    /// The owner is committed, and no other transaction has wanted it so far.
    Left,
}

struct Next {
    owner: Arc<Owner>,
    turn: oneshot::Sender<()>,
}

/// A transaction that holds documents.
struct Owner {
    id: TxId,
    /// Whether its documents will be free within moments.
    ending: AtomicBool,
}

/// All that one transaction holds here. When the last copy is dropped, it is free for others: a
/// transaction keeps one, and its job after it.
#[derive(Clone)]
pub(crate) struct Claims(Arc<Kept>);

struct Kept {
    siblings: Arc<Siblings>,
    owner: Arc<Owner>,
    keys: Mutex<Vec<Key>>,
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claims({})", self.0.owner.id)
    }
}

/// Does anybody wait for what a transaction keeps until it is finished?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Unwanted,
    Wanted,
}

/// Result of a claim.
pub(crate) enum Claimed<'a> {
    /// No other transaction of this client tries it now. The flag tells whether others had to be
    /// waited for.
    Alone(Claim<'a>, bool),
    /// This transaction of the same client holds it and is not about to let go; or waits for the
    /// one that asks.
    Rival(TxId),
    /// The wait took too long: ask the server.
    Ask,
}

/// The right to try; given on when dropped.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    key: Option<Key>,
}

impl Siblings {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds this lock; after a panic, the table would at worst make a
        // transaction ask the server.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
    pub(crate) fn new(siblings: &Arc<Siblings>, id: TxId) -> Self {
        let owner = Arc::new(Owner { id, ending: AtomicBool::new(false) });
        Self(Arc::new(Kept { siblings: Arc::clone(siblings), owner, keys: Mutex::default() }))
    }

    /// The transaction will be over within moments.
    pub(crate) fn ending(&self) {
        self.0.owner.ending.store(true, SeqCst);
    }

    /// Waits for its turn, at most until `deadline` if the document is held by a transaction that
    /// goes on. A holder that is ending is urged by `hurry`.
    pub(crate) async fn claim(
        &self,
        ns: &Namespace,
        id: Vec<u8>,
        deadline: Instant,
        hurry: impl Fn(TxId),
    ) -> Claimed<'_> {
        let (key, now) = ((ns.clone(), id), Instant::now());
        let (last_moment, is_ready_to_wait) = (deadline.max(now + MOMENT), deadline >= now + MOMENT / 2);
        let queued = match self.enqueue(&key) {
            Ok(queued) => queued,
            Err(rival) => return Claimed::Rival(rival),
        };
        // From here on, whatever happens to this future, nothing of it stays in the table.
        let claim = Claim { claims: self, key: Some(key.clone()) };
        let Some(mut turn) = queued else { return Claimed::Alone(claim, false) };
        self.ends(&key).into_iter().for_each(hurry);
        let _shown = self.rival_at(&key).map(|rival| waiting::show(ns, rival));
        loop {
            let until = match self.stands_still(&key) {
                Some(rival) if Instant::now() >= deadline => return Claimed::Rival(rival),
                Some(_) => deadline,
                // The document goes from one transaction to the next. A caller that was ready to
                // wait has waited, and the server would say the same.
                None if Instant::now() >= last_moment => match self.rival_at(&key).filter(|_| is_ready_to_wait) {
                    Some(rival) => return Claimed::Rival(rival),
                    None => return Claimed::Ask,
                },
                None => last_moment.min(Instant::now() + MOMENT / 20),
            };
            match timeout_at(until, &mut turn).await {
                Ok(Ok(())) => return Claimed::Alone(claim, true),
                // The table is gone, or this one was left out: cannot be.
                Ok(Err(_)) => return Claimed::Ask,
                Err(_) => {}
            }
        }
    }

    /// Notes that the server has given the transaction a document that it has not claimed. A
    /// transaction that is trying to lock it, or waits to, finds out from the server.
    pub(crate) fn took(&self, ns: &Namespace, id: Vec<u8>) {
        let (owner, key) = (&self.0.owner, (ns.clone(), id));
        let mut table = self.0.siblings.lock();
        match table.places.get_mut(&key) {
            Some(place) if place.state == State::Left => {
                (place.owner, place.state, place.left) = (Arc::clone(owner), State::Held, None);
            }
            Some(_) => return,
            None => {
                let place = Place { owner: Arc::clone(owner), state: State::Held, left: None, queue: VecDeque::new() };
                table.places.insert(key.clone(), place);
            }
        }
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    }

    /// The committed transaction that has left a document, if no other transaction has tried to
    /// lock it since.
    pub(crate) fn left_at(&self, ns: &Namespace, id: Vec<u8>) -> Option<TxId> {
        let table = self.0.siblings.lock();
        table.places.get(&(ns.clone(), id)).filter(|place| place.state == State::Left).map(|place| place.owner.id)
    }

    /// The latest transactions that are committed and may still be what is found on documents of
    /// this collection.
    pub(crate) fn left_in(&self, ns: &Namespace) -> Vec<TxId> {
        let table = self.0.siblings.lock();
        table.left.get(ns).map_or_else(Vec::new, |left| left.iter().rev().take(MOST_LEFT).copied().collect())
    }

    /// `None`: it is this one's turn. An error: waiting would never end.
    fn enqueue(&self, key: &Key) -> Result<Option<oneshot::Receiver<()>>, TxId> {
        let (owner, mut table) = (&self.0.owner, self.0.siblings.lock());
        if table.would_wait_for(key, owner.id) {
            let rival = table.places.get(key).map_or(owner.id, |place| place.owner.id);
            return Err(rival);
        }
        let Some(place) = table.places.get_mut(key) else {
            let place = Place { owner: Arc::clone(owner), state: State::Tried, left: None, queue: VecDeque::new() };
            table.places.insert(key.clone(), place);
            return Ok(None);
        };
        if place.state == State::Left {
            place.left = Some(place.owner.id);
            (place.owner, place.state) = (Arc::clone(owner), State::Tried);
            return Ok(None);
        }
        let (turn, comes) = oneshot::channel();
        place.queue.push_back(Next { owner: Arc::clone(owner), turn });
        table.waits.insert(owner.id, key.clone());
        Ok(Some(comes))
    }

    /// Does another transaction wait for a document that this one holds?
    pub(crate) fn is_wanted(&self) -> bool {
        let keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (me, table) = (self.0.owner.id, self.0.siblings.lock());
        let mut mine = keys.iter().filter_map(|key| table.places.get(key)).filter(|place| place.owner.id == me);
        mine.any(|place| !place.queue.is_empty())
    }

    /// The holder, if it is known and will not let go within moments.
    fn stands_still(&self, key: &Key) -> Option<TxId> {
        let table = self.0.siblings.lock();
        let place = table.places.get(key)?;
        (place.state == State::Held && !place.owner.ending.load(SeqCst)).then_some(place.owner.id)
    }

    /// Number of documents of a collection that it has left, and of those that no transaction has
    /// tried to take over so far.
    pub(crate) fn count(&self, ns: &Namespace) -> (usize, usize) {
        let keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (me, table) = (self.0.owner.id, self.0.siblings.lock());
        let mine = |key: &&Key| table.places.get(key).is_some_and(|place| place.owner.id == me);
        let here = || keys.iter().filter(|(other, _)| other == ns);
        (here().count(), here().filter(mine).count())
    }

    /// Another transaction that holds the document, or tries to lock it.
    fn rival_at(&self, key: &Key) -> Option<TxId> {
        let table = self.0.siblings.lock();
        table.places.get(key).map(|place| place.owner.id).filter(|owner| *owner != self.0.owner.id)
    }

    /// The holder, if it is about to let go.
    fn ends(&self, key: &Key) -> Option<TxId> {
        let table = self.0.siblings.lock();
        let owner = &table.places.get(key)?.owner;
        owner.ending.load(SeqCst).then_some(owner.id)
    }

    /// Notes that the transaction is committed, and that this was reported: its documents may be
    /// taken over, but for the collections that are `kept` until they are finished.
    pub(crate) fn leave(&self, kept: impl Fn(&Namespace) -> bool) -> Left {
        let keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (me, mut table) = (self.0.owner.id, self.0.siblings.lock());
        let mut left = Left::Unwanted;
        for key in &*keys {
            let Some(place) = table.places.get_mut(key).filter(|place| place.owner.id == me) else { continue };
            if kept(&key.0) {
                left = if place.queue.is_empty() { left } else { Left::Wanted };
            } else if place.queue.is_empty() {
                place.state = State::Left;
            } else {
                place.left = Some(me);
                table.hand_on(key);
            }
            let left = table.left.entry(key.0.clone()).or_default();
            if left.last() != Some(&me) && !left.contains(&me) {
                left.push(me);
            }
        }
        left
    }
}

impl Table {
    /// Forgets what the finished transaction `gone` had left in `ns`.
    fn forget_left(&mut self, ns: &Namespace, gone: TxId) {
        if let Some(left) = self.left.get_mut(ns) {
            left.retain(|id| *id != gone);
            if left.is_empty() {
                self.left.remove(ns);
            }
        }
    }

    /// Does the owner of this document, or whom it waits for, and so on, wait for `me`?
    fn would_wait_for(&self, key: &Key, me: TxId) -> bool {
        let mut next = self.places.get(key);
        // No longer than there are transactions that wait.
        for _ in 0..=self.waits.len() {
            let Some(place) = next else { return false };
            if place.owner.id == me {
                return true;
            }
            next = self.waits.get(&place.owner.id).and_then(|key| self.places.get(key));
        }
        false
    }

    /// Gives the free document to the next transaction in its queue.
    fn hand_on(&mut self, key: &Key) {
        let Some(place) = self.places.get_mut(key) else { return };
        while let Some(Next { owner, turn }) = place.queue.pop_front() {
            self.waits.remove(&owner.id);
            (place.owner, place.state) = (owner, State::Tried);
            if turn.send(()).is_ok() {
                return;
            }
        }
        self.places.remove(key);
    }
}

impl Claim<'_> {
    /// The committed transaction that may still be what others find there.
    pub(crate) fn left(&self) -> Option<TxId> {
        self.claims.0.siblings.lock().places.get(self.key.as_ref()?)?.left
    }

    /// The server says that the transaction holds it.
    pub(crate) fn keep(mut self) {
        let Some(key) = self.key.take() else { return };
        let Kept { siblings, keys, .. } = &*self.claims.0;
        if let Some(place) = siblings.lock().places.get_mut(&key) {
            (place.state, place.left) = (State::Held, None);
        }
        keys.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let (me, mut table) = (self.claims.0.owner.id, self.claims.0.siblings.lock());
        table.waits.remove(&me);
        let Some(place) = table.places.get_mut(&key) else { return };
        if place.owner.id == me {
            table.hand_on(&key);
        } else {
            place.queue.retain(|next| next.owner.id != me);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let keys = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
        let mut table = self.siblings.lock();
        for key in &keys {
            table.forget_left(&key.0, self.owner.id);
            let Some(place) = table.places.get_mut(key) else { continue };
            place.left = place.left.filter(|left| *left != self.owner.id);
            if place.owner.id == self.owner.id {
                table.hand_on(key);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use protocol::ClientId;

    use super::*;

    fn transactions<const N: usize>() -> (Arc<Siblings>, [Claims; N]) {
        let siblings = Arc::<Siblings>::default();
        let claims = |at| Claims::new(&siblings, TxId { client: ClientId([1; 12]), seq: at as u64 });
        let all = std::array::from_fn(claims);
        (siblings, all)
    }

    fn ns() -> Namespace {
        Namespace::parse_namespace("db.c").unwrap()
    }

    async fn claim<'a>(claims: &'a Claims, id: u8, wait: Duration) -> Claimed<'a> {
        claims.claim(&ns(), vec![id], Instant::now() + wait, |_| {}).await
    }

    const NO: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3_600);

    async fn hold(claims: &Claims, id: u8) {
        let Claimed::Alone(claim, false) = claim(claims, id, NO).await else { panic!("{id} is not free") };
        claim.keep();
    }

    fn is_rival(claimed: &Claimed<'_>, seq: u64) -> bool {
        matches!(claimed, Claimed::Rival(rival) if rival.seq == seq)
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_document_is_a_conflict_at_once_for_who_does_not_wait() {
        let (_, [a, b]) = transactions();
        hold(&a, 1).await;
        let start = Instant::now();
        assert!(is_rival(&claim(&b, 1, NO).await, 0));
        assert_eq!(start.elapsed(), Duration::ZERO);
        hold(&b, 2).await;
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_get_it_in_turn() {
        let (siblings, [a, b, c]) = transactions();
        hold(&a, 1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let wait = |who: Claims, order: Arc<Mutex<Vec<u64>>>| async move {
            let Claimed::Alone(claim, true) = claim(&who, 1, LONG).await else { panic!("not its turn") };
            claim.keep();
            order.lock().unwrap().push(who.0.owner.id.seq);
        };
        assert!(!a.is_wanted());
        let second = tokio::spawn(wait(b.clone(), Arc::clone(&order)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(a.is_wanted() && !b.is_wanted());
        drop(b);
        let third = tokio::spawn(wait(c, Arc::clone(&order)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(a);
        second.await.unwrap();
        third.await.unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 2]);
        assert!(siblings.lock().places.is_empty() && siblings.lock().waits.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn two_that_would_wait_for_each_other_are_found_at_once() {
        let (_, [a, b, c]) = transactions();
        hold(&a, 1).await;
        hold(&b, 2).await;
        hold(&c, 3).await;
        let (first, second) = (a.clone(), b.clone());
        tokio::spawn(async move { drop(claim(&first, 2, LONG).await) });
        tokio::spawn(async move { drop(claim(&second, 3, LONG).await) });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        assert!(is_rival(&claim(&c, 1, LONG).await, 0), "c waits for a, which waits for b, which waits for c");
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_not_locked_after_all_is_handed_on() {
        let (_, [a, b]) = transactions();
        let Claimed::Alone(trying, _) = claim(&a, 1, NO).await else { panic!("not free") };
        let other = b.clone();
        let waiting = tokio::spawn(async move { matches!(claim(&other, 1, NO).await, Claimed::Alone(_, true)) });
        tokio::time::sleep(MOMENT / 2).await;
        drop(trying);
        assert!(waiting.await.unwrap(), "it waits a moment while nobody knows");
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_that_ends_is_waited_for_a_moment_and_no_longer() {
        let (_, [a, b]) = transactions();
        hold(&a, 1).await;
        a.ending();
        let start = Instant::now();
        assert!(matches!(claim(&b, 1, NO).await, Claimed::Ask), "the server is asked");
        assert!(start.elapsed() >= MOMENT && start.elapsed() < 2 * MOMENT, "{:?}", start.elapsed());
        drop(a);
        hold(&b, 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_taken_over_at_once_and_by_name() {
        let (siblings, [a, b, c]) = transactions();
        hold(&a, 1).await;
        hold(&a, 2).await;
        a.leave(|_| false);
        let Claimed::Alone(claim, false) = claim(&b, 1, NO).await else { panic!("it is left") };
        assert_eq!(claim.left().map(|left| left.seq), Some(0));
        claim.keep();
        assert!(is_rival(&self::claim(&c, 1, NO).await, 1), "it has a new holder");
        drop(a);
        assert!(is_rival(&self::claim(&c, 1, NO).await, 1), "and keeps it when the first is finished");
        assert!(!siblings.lock().places.contains_key(&(ns(), vec![2])), "what nobody wanted is free");
        drop(b);
        assert!(siblings.lock().places.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_what_is_left() {
        let (_, [a, b]) = transactions();
        hold(&a, 1).await;
        let other = b.clone();
        let waiting = tokio::spawn(async move {
            let Claimed::Alone(claim, true) = claim(&other, 1, LONG).await else { panic!("not its turn") };
            claim.left().map(|left| left.seq)
        });
        tokio::time::sleep(MOMENT).await;
        a.leave(|_| false);
        assert_eq!(waiting.await.unwrap(), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_finished_is_not_named_any_more() {
        let (_, [a, b]) = transactions();
        hold(&a, 1).await;
        a.leave(|_| false);
        let Claimed::Alone(claim, _) = claim(&b, 1, NO).await else { panic!("it is left") };
        drop(a);
        assert_eq!(claim.left(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_without_a_claim_is_held_and_left_like_any_other() {
        let (siblings, [a, b, c]) = transactions();
        a.took(&ns(), vec![1]);
        assert!(is_rival(&claim(&b, 1, NO).await, 0));
        a.leave(|_| false);
        assert_eq!(b.left_in(&ns()), [a.0.owner.id]);
        b.took(&ns(), vec![1]);
        assert!(is_rival(&claim(&c, 1, NO).await, 1));
        drop(a);
        assert!(b.left_in(&ns()).is_empty(), "it is finished");
        assert!(is_rival(&claim(&c, 1, NO).await, 1));
        drop(b);
        assert!(siblings.lock().places.is_empty() && siblings.lock().left.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_tries_to_lock_is_not_taken_from_it() {
        let (siblings, [a, b]) = transactions();
        let Claimed::Alone(trying, _) = claim(&a, 1, NO).await else { panic!("not free") };
        b.took(&ns(), vec![1]);
        drop(trying);
        assert!(siblings.lock().places.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_until_it_is_finished_is_not_left() {
        let (_, [a, b]) = transactions();
        hold(&a, 1).await;
        a.ending();
        a.leave(|_| true);
        assert!(matches!(claim(&b, 1, NO).await, Claimed::Ask));
        drop(a);
        hold(&b, 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_leaves_nothing() {
        let (siblings, [a, b]) = transactions();
        hold(&a, 1).await;
        assert!(is_rival(&claim(&b, 1, Duration::from_secs(1)).await, 0));
        let dropped = tokio::time::timeout(Duration::from_secs(1), claim(&b, 1, LONG)).await;
        assert!(dropped.is_err());
        assert!(siblings.lock().waits.is_empty() && siblings.lock().places[&(ns(), vec![1])].queue.is_empty());
        drop(a);
        assert!(siblings.lock().places.is_empty());
    }

    /// The document is never held for long, and always by another transaction.
    #[tokio::test(start_paused = true)]
    async fn who_was_ready_to_wait_and_has_waited_is_told_of_a_conflict() {
        let (_, [a, b, c]) = transactions();
        let Claimed::Alone(_tried, false) = claim(&a, 1, NO).await else { panic!("it is free") };
        let start = Instant::now();
        assert!(is_rival(&claim(&b, 1, MOMENT * 3).await, 0));
        assert_eq!(start.elapsed(), MOMENT * 3);
        assert!(
            matches!(claim(&c, 1, NO).await, Claimed::Ask),
            "who is not ready to wait asks the server after a moment"
        );
        assert_eq!(start.elapsed(), MOMENT * 4);
    }
}
