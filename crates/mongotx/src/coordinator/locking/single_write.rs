//! Prepared writes: locking one document and changing its unsafe version, in one command.
//!
//! 0. Another transaction of this client may hold it: wait in turn, or fail, without a command
//!    ([`crate::coordinator::siblings`]). One that is committed may have left it: take it over if
//!    one statement does everything, otherwise wait until it is finished.
//! 1. Note the document as held, then send one `update` command with two statements: lock and copy
//!    what is clean and matches the filter; apply the user's change to what this transaction has
//!    locked and matches it. (Where one statement can provably do both, it does.)
//! 2. Nothing matched: look at the document's locks. None in the way and no match: that is the
//!    answer. A rival's: repair what is decided and go to 1; wait for, or fail on, what is not.
//!
//! The command is sent once, and the transaction is in doubt meanwhile
//! ([`crate::coordinator::server::live`]).

use bson::{Document, RawDocumentBuf, doc};
use protocol::TxId;
use sd2v::{
    filter::{LockCondition, guard_filter, plain_demands, rewrite_filter, sees_lock_fields},
    names::{INSERT, READERS, WRITER, tx_id_to_bson},
    shard::ShardKey,
    statement::{self, OwnReadLock},
    stored,
    update::{Update, rewrite_update},
};

use super::{
    Locking,
    change::{Change, nothing},
    consequences::Consequences,
    target::{Target, update_of},
    unique::{PlacedDocument, PriorState},
};
use crate::{
    coordinator::{
        catalog::Collection,
        finishing::lock_wait::{Attempts, LockWait},
        request::{fields::Fields, own_key::id_key},
        siblings::{Claim, Claims},
        stored::lock_fields::locks_only,
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
};

/// Attempts on one document that is free whenever it is looked at.
const ATTEMPTS: usize = 256;

/// Result of a prepared write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) matched: bool,
    pub(crate) modified: bool,
    /// The document was locked by this very attempt.
    locked: bool,
}

impl Applied {
    /// Result of two statements, of which the first locks and the second makes the change. `n` and
    /// `modified` are of both together. `None`: nothing matched.
    fn by_two_statements(n: i64, modified: i64, removed: bool) -> Option<Self> {
        match n {
            0 => None,
            // Locked before, by this transaction.
            1 => Some(Self { matched: true, modified: removed || modified > 0, locked: false }),
            // Locked and changed.
            _ => Some(Self { matched: true, modified: modified > 1, locked: true }),
        }
    }
}

/// Reason why a document could not be locked, as its locks show.
enum LockObstacle {
    NoMatch,
    TryAgain,
    Rival(TxId),
}

/// A prepared write of one document, as all its attempts have it.
#[derive(Clone, Copy)]
struct PreparedWrite<'a> {
    me: TxId,
    target: &'a Target<'a>,
    change: &'a Change<'a>,
    collection: &'a Collection,
    consequences: &'a Consequences,
    /// State of the document before the write.
    before: &'a PriorState,
}

/// Turn of a transaction to lock a document, among the transactions of its client.
struct DocumentTurn<'c> {
    claims: Option<&'c Claims>,
    claim: Option<Claim<'c>>,
    /// The committed transaction that may have left the document.
    left: Option<TxId>,
}

impl DocumentTurn<'_> {
    /// Notes among the client's transactions that this one has the document.
    fn keep(&mut self, target: &Target<'_>, applied: Applied) {
        match (self.claim.take(), self.claims) {
            (Some(claim), _) => claim.keep(),
            // Tried before without the lock, perhaps: others are to know who holds it by now.
            (None, Some(claims)) if applied.locked => claims.took(target.ns, id_key(&target.at.id)),
            (None, _) => {}
        }
    }
}

impl Locking {
    /// Locks and changes one document inside a transaction, if it matches.
    #[tracing::instrument(name = "mongotx.prepare", level = "debug", skip_all, fields(ns = %target.ns, id = %target.at))]
    pub(crate) async fn prepare(
        &self,
        tx: &mut Transaction,
        target: &Target<'_>,
        change: &Change<'_>,
    ) -> Result<Applied> {
        let me = self.lifecycle.ensure_started(tx, target.ns).await?;
        let collection = self.catalog.admit_writes(target.ns, me).await?;
        if let Change::Update { update: Update::Replacement(document), .. } = change {
            collection.check_words(document)?;
        }
        let consequences = self.consequences(&collection, target, change).await?;
        let mut lock_wait = LockWait::new(tx.lock_wait());
        let claims = tx.claims.clone();
        let mut turn = self.turn(tx, claims.as_ref(), target, &consequences, &lock_wait).await?;
        let before = match consequences.are_none() {
            true => PriorState::Safe,
            false => {
                self.finished(target.ns, turn.left.take()).await;
                Box::pin(self.uniqueness.before(tx, target.ns, target.at)).await?
            }
        };
        if !consequences.touched.is_empty() {
            tx.note_rekeyed(target.ns);
        }
        let write =
            PreparedWrite { me, target, change, collection: &collection, consequences: &consequences, before: &before };
        self.try_until_locked(tx, write, turn, &mut lock_wait).await
    }

    /// Step 0: claims the document among this client's transactions.
    async fn turn<'c>(
        &self,
        tx: &Transaction,
        claims: Option<&'c Claims>,
        target: &Target<'_>,
        consequences: &Consequences,
        lock_wait: &LockWait,
    ) -> Result<DocumentTurn<'c>> {
        let claim = match claims.filter(|_| target.is_the_document(tx)) {
            Some(claims) => self.claim(claims, target, lock_wait).await?,
            None => None,
        };
        let left = match &claim {
            Some(claim) => claim.left(),
            // The server checks whether the document matches, so this transaction does not wait for
            // its turn.
            None => {
                claims.filter(|_| consequences.are_none()).and_then(|all| all.left_at(target.ns, id_key(&target.at.id)))
            }
        };
        Ok(DocumentTurn { claims, claim, left })
    }

    /// Steps 1 and 2, until the document is locked, or is known not to match.
    async fn try_until_locked(
        &self,
        tx: &mut Transaction,
        write: PreparedWrite<'_>,
        mut turn: DocumentTurn<'_>,
        lock_wait: &mut LockWait,
    ) -> Result<Applied> {
        let PreparedWrite { me, target, change, collection, .. } = write;
        let mut owned = tx.may_hold(target.ns, &target.at.id);
        // An attempt that matches nothing has not locked it.
        let was_held = owned;
        // A statement may have locked it without being the one that is answered with it: earlier,
        // before it was refused, or to ask the copy (`attempt_blindly`).
        let mut may_be_locked = owned || tx.has_read_locks(target.ns);
        tx.check_alive()?;
        let mut attempts = Attempts::new(ATTEMPTS);
        while attempts.go_on(lock_wait) {
            let attempted = self.attempt(tx, me, target, change, turn.left.take(), was_held).await;
            // The transaction held the document, and its lock is gone: the document was free, or a
            // rival has it now.
            if std::mem::take(&mut owned)
                && attempted.as_ref().is_ok_and(|done| done.is_none_or(|applied| applied.locked))
            {
                self.standings.vouch_for_lock(tx).await?;
            }
            match attempted {
                Ok(Some(applied)) => {
                    turn.keep(target, applied);
                    self.note_applied(tx, write, applied, lock_wait).await?;
                    return Ok(applied);
                }
                Ok(None) => {}
                Err(refused) if refused.is_pending_duplicate() => {
                    may_be_locked = true;
                    let (ns, uniques) = (target.ns, &collection.uniques);
                    Box::pin(self.uniqueness.meet_pending_duplicate(ns, uniques, refused, me, lock_wait)).await?;
                    tx.check_alive()?;
                    continue;
                }
                Err(refused) => return Err(refused),
            }
            if !Box::pin(self.may_match(tx, target, me, lock_wait)).await? {
                if !may_be_locked {
                    tx.not_held(target.ns, target.at);
                }
                return Ok(Applied::default());
            }
            tx.check_alive()?;
        }
        Err(changed_hands(target).for_transaction(Some(me)))
    }

    /// Notes that the document is locked and changed, once the consequences of that stand.
    async fn note_applied(
        &self,
        tx: &mut Transaction,
        write: PreparedWrite<'_>,
        applied: Applied,
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        if applied.modified && !write.consequences.are_none() {
            Box::pin(self.examine(tx, write, lock_wait)).await?;
        }
        let PreparedWrite { target, change, .. } = write;
        tx.note_locked(target.ns, std::slice::from_ref(target.at), matches!(change, Change::Remove));
        Ok(())
    }

    /// Examines the consequences of a change that was made, and takes it back if they do not stand.
    async fn examine(&self, tx: &mut Transaction, write: PreparedWrite<'_>, lock_wait: &mut LockWait) -> Result<()> {
        let PreparedWrite { me, target, collection, before, .. } = write;
        let Consequences { touched, may_move, worded, key } = write.consequences;
        let placed = PlacedDocument { ns: target.ns, at: target.at, uniques: touched, before, inserted: None };
        if *may_move {
            self.refuse_move(tx, &placed, key, me, lock_wait).await?;
        }
        if *worded {
            self.refuse_words(tx, &placed, collection, me, lock_wait).await?;
        }
        if !touched.is_empty() {
            self.uniqueness.check_placed(tx, &placed, me, lock_wait).await?;
        }
        Ok(())
    }

    /// Step 1. `None`: nothing matched. `was_held`: an earlier write may have locked the document.
    async fn attempt(
        &self,
        tx: &mut Transaction,
        me: TxId,
        target: &Target<'_>,
        change: &Change<'_>,
        left: Option<TxId>,
        was_held: bool,
    ) -> Result<Option<Applied>> {
        let own_lock = tx.read_lock(target.ns, &target.at.id);
        let read_locked = own_lock > OwnReadLock::None;
        let owned = tx.may_hold(target.ns, &target.at.id);
        if plain_demands(target.filter).is_none() {
            // A filter that cannot be evaluated on unsafe versions is refused before the document
            // counts as held.
            rewrite_filter(&target.condition()?.rest)?;
        }
        let hold = if matches!(change, Change::Remove) { Hold::Remove } else { Hold::Change };
        tx.hold(&self.options, target.ns, std::slice::from_ref(target.at), hold)?;
        if let Change::Update { update, array_filters: None } = change
            && !owned
            && !read_locked
            && target.options.is_plain()
            && let Some(statement) = target.fused(update, me, left, &[])?
            && let Some(applied) = self.attempt_fused(tx, target, statement, &change.touches()).await?
        {
            return Ok(Some(applied));
        }
        let condition = target.condition()?;
        let (safe, mine) = (target.safe(&condition), target.narrowed(rewrite_filter(&condition.rest)?));
        self.finished(target.ns, left).await;
        if read_locked && sees_lock_fields(&condition.rest) {
            let any = target.safe(&LockCondition { rest: Document::new(), text: condition.text });
            return Box::pin(self.attempt_blindly(tx, me, target, any, mine, change)).await;
        }
        let (statements, filters) = match change {
            Change::Remove => {
                // A document that this transaction may hold already is marked by the second
                // statement: the number of documents changed then shows which it was. (Any other is
                // not copied: a large one could not be stored twice.)
                let lock = if was_held { statement::lock_copy } else { statement::lock_remove };
                (vec![lock(safe, me, own_lock, false), statement::mark_removed(mine, me, false)], None)
            }
            Change::Update { update, array_filters } => {
                let changed = statement::change_unsafe(mine, me, rewrite_update(update)?, false);
                (vec![statement::lock_copy(safe, me, own_lock, false), changed], *array_filters)
            }
        };
        let command = target.command(statements, filters);
        let answer = self.server.send_prepared(tx, target.ns, command, &change.touches()).await?;
        // Before the second statement of an update is refused, the first one has locked the
        // document, and no more.
        let is_removed = matches!(change, Change::Remove) && answer.modified > 0;
        let answer = answer.ok().map_err(|refused| if is_removed { refused.ending() } else { refused })?;
        Ok(Applied::by_two_statements(answer.n, answer.modified, matches!(change, Change::Remove)))
    }

    /// With a filter that would see this transaction's own read lock on the stored document: lock
    /// whatever the document is, and ask the copy. One that does not match stays locked, and
    /// unchanged.
    async fn attempt_blindly(
        &self,
        tx: &mut Transaction,
        me: TxId,
        target: &Target<'_>,
        any: Document,
        mine: Document,
        change: &Change<'_>,
    ) -> Result<Option<Applied>> {
        let lock = statement::lock_copy(any, me, tx.read_lock(target.ns, &target.at.id), false);
        let lock = target.command(vec![lock], None);
        let locked = self.server.send_prepared(tx, target.ns, lock, &Fields::none()).await?.ok()?.n > 0;
        let (statement, filters) = match change {
            Change::Remove => (statement::mark_removed(mine, me, false), None),
            Change::Update { update, array_filters } => {
                (statement::change_unsafe(mine, me, rewrite_update(update)?, false), *array_filters)
            }
        };
        let command = target.command(vec![statement], filters);
        let answer = self.server.send_prepared(tx, target.ns, command, &change.touches()).await?.ok()?;
        Ok((answer.n > 0).then_some(Applied { matched: true, modified: answer.modified > 0, locked }))
    }

    /// Sends the statement that locks, copies and changes. `None`: it has not.
    async fn attempt_fused(
        &self,
        tx: &mut Transaction,
        target: &Target<'_>,
        statement: RawDocumentBuf,
        touches: &Fields,
    ) -> Result<Option<Applied>> {
        let answer = self.server.send_prepared_raw(tx, target.ns, update_of(target.ns, [statement]), touches).await?;
        // Whatever the server has against it, the two-statement form says it in the user's terms.
        Ok((answer.errors.is_empty() && answer.modified == 1).then_some(Applied {
            matched: true,
            modified: true,
            locked: true,
        }))
    }

    /// Step 2, and the wait for a rival that is in the way. Returns false if the document does not
    /// match.
    async fn may_match(
        &self,
        tx: &Transaction,
        target: &Target<'_>,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<bool> {
        match self.find_obstacle(tx, target, me).await? {
            LockObstacle::NoMatch => return Ok(false),
            LockObstacle::TryAgain => {}
            LockObstacle::Rival(rival) => lock_wait.wait_for(&self.server, target.ns, &target.at.id, rival).await?,
        }
        Ok(true)
    }

    /// Step 2: finds out why nothing was locked. That a document does not match counts only if no
    /// other transaction could change it since it was read.
    async fn find_obstacle(&self, tx: &Transaction, target: &Target<'_>, me: TxId) -> Result<LockObstacle> {
        self.read_locks.check_read_locks(tx, target.ns, std::slice::from_ref(target.at), me).await?;
        let condition = target.condition()?;
        let rest = guard_filter(&condition.rest);
        // A read lock of this transaction alone is not in the way.
        let read_locked = doc! {"$exists": true, "$ne": [tx_id_to_bson(me)]};
        let locked = doc! {"$or": [rest.clone(), {WRITER: {"$exists": true}}, {READERS: read_locked}]};
        let filter = target.narrowed(if rest.is_empty() { rest.clone() } else { locked });
        let mut find = doc! {"find": &target.ns.coll, "filter": filter, "projection": locks_only(&ShardKey::default())};
        target.options.add_to(&mut find);
        let Some(found) = self.server.find_first(target.ns, find).await? else { return Ok(LockObstacle::NoMatch) };
        let lock = stored::lock_state(&found)?;
        if lock.writer == Some(me) {
            return Ok(LockObstacle::NoMatch);
        }
        let Some(rival) = self.repairs.clear_locks(target.ns, target.at, &lock, Some(me)).await? else {
            // The look did not ask for words, which stand beside no other locks' conditions.
            let gone = condition.text.is_some() && !self.safe_matches(target, target.safe(&condition)).await?;
            return Ok(if gone { LockObstacle::NoMatch } else { LockObstacle::TryAgain });
        };
        // An active rival is in the way only of a transaction that would change the document as it
        // stands.
        let matches =
            !lock.insert && (rest.is_empty() || sees_lock_fields(&rest) || self.safe_matches(target, rest).await?);
        Ok(if matches { LockObstacle::Rival(rival) } else { LockObstacle::NoMatch })
    }

    async fn safe_matches(&self, target: &Target<'_>, rest: Document) -> Result<bool> {
        let filter = target.narrowed(doc! {"$and": [rest, {INSERT: {"$exists": false}}]});
        let mut find = doc! {"find": &target.ns.coll, "filter": filter, "projection": {"_id": 1}};
        target.options.add_to(&mut find);
        Ok(self.server.find_first(target.ns, find).await?.is_some())
    }

    /// Locks one document, if it matches, and changes nothing: so that it can be shown before it is
    /// changed.
    pub(crate) async fn lock(&self, tx: &mut Transaction, target: &Target<'_>) -> Result<bool> {
        let same = Update::Pipeline(vec![nothing()]);
        let change = Change::Update { update: &same, array_filters: None };
        Ok(self.prepare(tx, target, &change).await?.matched)
    }
}

fn changed_hands(target: &Target<'_>) -> Error {
    let message = format!(
        "the document {{_id: {}}} of {} changed hands {ATTEMPTS} times while it was to be locked",
        target.at, target.ns
    );
    Error::new(ErrorKind::Conflict, message)
}
