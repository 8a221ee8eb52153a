//! Prepared writes of several documents, each with a change of its own, or to be removed, or to be
//! inserted: locked and changed by one command.
//!
//! 1. Claim the documents in their order, so that two transactions of this client never hold what
//!    the other waits for.
//! 2. Send the statements that [`super::single_write`] would send one by one, all in one `update`:
//!    one for each document where each of them takes its lock if and only if it has changed its
//!    document, and otherwise two, of which the first locks and copies and the second changes the
//!    copy. A document that is to be inserted takes one. Statements that differ in nothing but
//!    constants are one for all documents ([`super::merged_statement`]).
//! 3. All have: done. The one statement has failed: everything is given back, and the caller sends
//!    a statement for each. Otherwise those before the first that has not are done; those after it
//!    are given back, because a transaction that waits for one document must not hold what its
//!    order puts after that ([`super::batch_answer`]).
//!
//! Of a document that the transaction has read, the short form demands that it is as it was read
//! (decision 0062): then the read needs no validation any more.
//!
//! A change that may give its document other keys of unique indexes, and that says which, has
//! questions behind its statements, which fail where another document has one of these keys
//! (decision 0074, [`super::unique`]). If a question has found one, the statements before it have
//! taken effect, and its own document is written by itself.
//!
//! What needs more than these statements (keys that depend on the document, words, shard keys,
//! collations) takes the way of single documents.

mod statements;

use std::collections::HashSet;

use bson::RawDocumentBuf;
use protocol::TxId;
use sd2v::update::{Update, given_fields};

use self::statements::{BatchPlan, KeyQuestions, Statements, mergeable_updates, plan_batch, take_over_batched};
use super::{
    Locking,
    batch_answer::{BatchOutcome, SentStatements, StatementKind, outcome_of_all, outcome_of_some, places_of_inserts},
    change::Change,
    consequences::Consequences,
    merged_statement::one_statement,
    target::{Target, update_of},
    unique::key_questions::questions_behind,
};
use crate::{
    coordinator::{
        catalog::Collection,
        finishing::lock_wait::LockWait,
        read_set::as_read::Demanded,
        request::{
            address::Address,
            fields::Fields,
            own_key::{OwnKey, coarse_key, id_key},
        },
        server::WriteAnswer,
        siblings::{Claim, Claims},
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Limit of the documents in one command.
const BATCH: usize = 500;

/// One write of a batch: the document, and the action on it.
pub(crate) struct BatchedWrite<'a> {
    pub(crate) at: &'a Address,
    pub(crate) action: BatchedAction<'a>,
}

/// Action of one write of a batch.
pub(crate) enum BatchedAction<'a> {
    Change(BatchedChange<'a>),
    Insert(BatchedInsert),
}

/// The change of a document that is there.
pub(crate) struct BatchedChange<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) change: Change<'a>,
    /// Content that the transaction has read of the document. The short form demands it.
    pub(crate) as_read: Option<Demanded>,
}

/// The insert of a document: an upsert that fails where a document has its `_id`.
pub(crate) struct BatchedInsert {
    pub(crate) statement: RawDocumentBuf,
    /// The questions which other document has its keys.
    pub(crate) questions: Vec<RawDocumentBuf>,
    /// True if the application gave the whole document.
    pub(crate) is_replacement: bool,
}

/// Form of the statements of a batch: how many there are for each document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementForm {
    /// As few statements as the changes allow.
    Short,
    /// The same, but no statement of several documents: the server has refused one.
    Apart,
    /// Two: some of the documents may have what they are to be given already, which one statement
    /// cannot distinguish from a document that it must not change.
    InTwo,
}

impl Locking {
    /// Locks and changes as many of the first of these as one command can, each a different
    /// document of `ns`. Whether the next one matches is not known.
    #[tracing::instrument(name = "mongotx.prepare_each", level = "debug", skip_all, fields(%ns, documents = all.len()))]
    pub(crate) async fn prepare_batch(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        all: &[BatchedWrite<'_>],
        form: StatementForm,
    ) -> Result<BatchOutcome> {
        if tx.has_read_locks(ns) {
            return Ok(BatchOutcome::default());
        }
        let me = self.lifecycle.ensure_started(tx, ns).await?;
        let mut planned = self.eligible(tx, ns, all, me, form).await?;
        if planned.each.len() < 2 {
            return Ok(BatchOutcome::default());
        }
        let all = &all[..planned.each.len()];
        let claims = tx.claims.clone();
        let claimed = self.claim_each(tx, claims.as_ref(), all).await?;
        self.take_over_or_finish(ns, all, &mut planned, &claimed, me).await?;
        if planned.each.iter().any(|statements| statements.is_rekeyed) {
            tx.note_rekeyed(ns);
        }
        tx.check_alive()?;
        let at: Vec<Address> = all.iter().map(|each| each.at.clone()).collect();
        self.hold_each(tx, ns, all, &at)?;
        let sent: Vec<SentStatements> = planned.each.iter().map(Statements::sent).collect();
        let is_one = planned.one.is_some();
        let of_each = planned.each.into_iter().flat_map(|statements| statements.all);
        let command = update_of(ns, planned.one.into_iter().chain(of_each));
        let touches = all.iter().map(BatchedWrite::touches).fold(Fields::none(), |some, more| some.and(&more));
        let answer = self.server.send_prepared_raw(tx, ns, command, &touches).await?;
        let done = match is_one && !answer.errors.is_empty() {
            true => self.taken_back(tx, ns, &at).await?,
            false => self.in_order(tx, ns, &at, &sent, &answer, me).await?,
        };
        let changed = &all[..done.count];
        note_changed(tx, ns, changed, &sent);
        keep_claims(ns, changed, claimed, claims.as_ref());
        Ok(BatchOutcome { is_full: planned.is_full && done.count == all.len(), ..done })
    }

    /// Step 1: claims the documents among this client's transactions, in their order. `None` for
    /// those that are not claimed.
    async fn claim_each<'c>(
        &self,
        tx: &Transaction,
        claims: Option<&'c Claims>,
        all: &[BatchedWrite<'_>],
    ) -> Result<Vec<Option<Claim<'c>>>> {
        let (mut claimed, lock_wait) = (Vec::new(), LockWait::new(tx.lock_wait()));
        for each in all {
            let wanted = each.changing().map(|one| &one.target).filter(|target| target.is_the_document(tx));
            claimed.push(match claims.zip(wanted) {
                Some((claims, target)) => self.claim(claims, target, &lock_wait).await?,
                None => None,
            });
        }
        Ok(claimed)
    }

    /// Lets statements take over what committed transactions of this client have left, or waits
    /// until it is finished: once for all of them, for a limited time.
    async fn take_over_or_finish(
        &self,
        ns: &Namespace,
        all: &[BatchedWrite<'_>],
        planned: &mut BatchPlan,
        claimed: &[Option<Claim<'_>>],
        me: TxId,
    ) -> Result<()> {
        let mut left = HashSet::new();
        if planned.one.is_some() {
            left.extend(claimed.iter().flatten().filter_map(Claim::left));
            if !left.is_empty() {
                let left = Vec::from_iter(left);
                match one_statement(&mergeable_updates(all), me, &left) {
                    Some(taking_over) => planned.one = Some(taking_over),
                    None => drop(self.finisher.unfinished(ns, left).await),
                }
            }
            return Ok(());
        }
        for ((statements, each), claim) in planned.each.iter_mut().zip(all).zip(claimed) {
            if let Some(changing) = each.changing() {
                left.extend(take_over_batched(statements, changing, me, claim.as_ref())?);
            }
        }
        if !left.is_empty() {
            self.finisher.unfinished(ns, left.into_iter().collect()).await;
        }
        Ok(())
    }

    /// Notes the documents as held before the command is sent. All have room, or none takes any.
    /// `at`: their addresses.
    fn hold_each(&self, tx: &mut Transaction, ns: &Namespace, all: &[BatchedWrite<'_>], at: &[Address]) -> Result<()> {
        tx.hold(&self.options, ns, at, Hold::Change)?;
        let some = |is_one: &dyn Fn(&BatchedWrite<'_>) -> bool| -> Vec<Address> {
            all.iter().filter(|each| is_one(each)).map(|each| each.at.clone()).collect()
        };
        for (hold, some) in
            [(Hold::Insert, some(&|each| each.is_insert())), (Hold::Remove, some(&|each| each.is_removal()))]
        {
            if !some.is_empty() {
                tx.hold(&self.options, ns, &some, hold)?;
            }
        }
        Ok(())
    }

    /// The statements of the first ones that can go together: one for all of them, one for each, or
    /// two for each, if one needs two.
    async fn eligible(
        &self,
        tx: &Transaction,
        ns: &Namespace,
        all: &[BatchedWrite<'_>],
        me: TxId,
        form: StatementForm,
    ) -> Result<BatchPlan> {
        let collection = self.catalog.admit_writes(ns, me).await?;
        let behind = self.behind_first_ones(tx, ns, all, &collection, me).await?;
        let all = &all[..behind.len()];
        // Of a clustered collection the server would scan everything between the `_id`s.
        let is_found_by_index = !self.catalog.shards.are_routed() && !collection.is_clustered;
        let may_be_one = form == StatementForm::Short && is_found_by_index;
        plan_batch(all, &behind, me, form, may_be_one)
    }

    /// The questions behind each of the first writes that can go together: writes of documents that
    /// are surely different, and whose consequences a question can examine.
    async fn behind_first_ones(
        &self,
        tx: &Transaction,
        ns: &Namespace,
        all: &[BatchedWrite<'_>],
        collection: &Collection,
        me: TxId,
    ) -> Result<Vec<KeyQuestions>> {
        let (mut behind, mut seen) = (Vec::new(), HashSet::new());
        for each in all.iter().take(BATCH) {
            // If two documents may be the same one, the answer would not show which statement has
            // changed it.
            let id = &each.at.id;
            if !tx.is_untouched(ns, id) || !seen.insert(coarse_key(id)) {
                break;
            }
            let one = match &each.action {
                BatchedAction::Insert(inserting) => {
                    Some(KeyQuestions { is_rekeyed: false, questions: inserting.questions.clone() })
                }
                BatchedAction::Change(changing) if changing.target.options.is_plain() => {
                    self.behind(collection, changing, me).await?
                }
                BatchedAction::Change(_) => None,
            };
            let Some(one) = one else { break };
            behind.push(one);
        }
        Ok(behind)
    }

    /// The questions that have to stand behind the statements of this change. `None`: once it is
    /// made, more has to be examined than a question can.
    async fn behind(
        &self,
        collection: &Collection,
        each: &BatchedChange<'_>,
        me: TxId,
    ) -> Result<Option<KeyQuestions>> {
        if let Change::Update { update: Update::Replacement(document), .. } = each.change
            && collection.check_words(document).is_err()
        {
            return Ok(None);
        }
        let consequences = self.consequences(collection, &each.target, &each.change).await?;
        if consequences.are_none() {
            return Ok(Some(KeyQuestions::default()));
        }
        let Consequences { touched, may_move: false, worded: false, .. } = consequences else { return Ok(None) };
        let Change::Update { update, .. } = each.change else { return Ok(None) };
        if self.catalog.shards.are_routed() {
            return Ok(None);
        }
        let id = &each.target.at.id;
        let asked = questions_behind(&touched, |fields| given_fields(update, id, fields), me);
        let Some(asked) = asked else { return Ok(None) };
        let questions = asked.iter().map(RawDocumentBuf::try_from).collect::<Result<_, _>>()?;
        Ok(Some(KeyQuestions { is_rekeyed: true, questions }))
    }

    /// The one statement of several documents has failed: how many it has locked before that is not
    /// among the totals of the answer. All of it is given back, whatever it is.
    async fn taken_back(&self, tx: &mut Transaction, ns: &Namespace, at: &[Address]) -> Result<BatchOutcome> {
        self.server.give_back(tx, ns, at).await?;
        at.iter().for_each(|at| tx.not_held(ns, at));
        Ok(BatchOutcome { is_refused_as_one: true, is_all_that_is_held: true, ..BatchOutcome::default() })
    }

    /// Returns the number of the first documents that were changed, none after them being held.
    async fn in_order(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        at: &[Address],
        sent: &[SentStatements],
        answer: &WriteAnswer,
        me: TxId,
    ) -> Result<BatchOutcome> {
        if let Some(done) = outcome_of_all(sent, answer) {
            return Ok(done);
        }
        refuse_changed_instead(sent, answer, ns)?;
        let mine = self.server.held_among(ns, at, me).await?;
        let held: Vec<bool> = at.iter().map(|at| mine.contains(&OwnKey::of(&at.id))).collect();
        let done = outcome_of_some(sent, &held, answer);
        if !done.is_all_that_is_held {
            // Whatever of it is held: a document may be stored under an equal `_id` of another
            // type.
            let behind = |is_insert: bool| -> Vec<Address> {
                let some = sent
                    .iter()
                    .zip(at)
                    .skip(done.count)
                    .filter(|(one, _)| (one.kind == StatementKind::Insert) == is_insert);
                some.map(|(_, at)| at.clone()).collect()
            };
            let (inserted, changed) = (behind(true), behind(false));
            if !changed.is_empty() {
                self.server.give_back(tx, ns, &changed).await?;
            }
            self.server.take_back_inserts(tx, ns, &inserted).await?;
        }
        // The command was answered: it will not lock them any more.
        at[done.count..].iter().for_each(|at| tx.not_held(ns, at));
        Ok(done)
    }
}

impl<'a> BatchedWrite<'a> {
    fn changing(&self) -> Option<&BatchedChange<'a>> {
        match &self.action {
            BatchedAction::Change(changing) => Some(changing),
            BatchedAction::Insert(_) => None,
        }
    }

    fn is_insert(&self) -> bool {
        self.changing().is_none()
    }

    fn is_removal(&self) -> bool {
        self.changing().is_some_and(BatchedChange::is_removal)
    }

    fn is_replacement(&self) -> bool {
        match &self.action {
            BatchedAction::Change(one) => matches!(one.change, Change::Update { update: Update::Replacement(_), .. }),
            BatchedAction::Insert(inserting) => inserting.is_replacement,
        }
    }

    fn touches(&self) -> Fields {
        self.changing().map_or(Fields::All, |one| one.change.touches())
    }
}

impl BatchedChange<'_> {
    fn is_removal(&self) -> bool {
        matches!(self.change, Change::Remove)
    }
}

/// Notes documents that were changed, and what was read of those that are as they were read.
fn note_changed(tx: &mut Transaction, ns: &Namespace, changed: &[BatchedWrite<'_>], sent: &[SentStatements]) {
    for (each, sent) in changed.iter().zip(sent) {
        tx.note_replacing(each.is_replacement());
        let BatchedAction::Change(changing) = &each.action else {
            tx.note_own(ns, [&each.at.id]);
            continue;
        };
        if let (Some(demanded), StatementKind::Fused) = (&changing.as_read, sent.kind) {
            tx.reads.settle_as_read(&demanded.as_read);
        }
        tx.note_locked(ns, std::slice::from_ref(each.at), each.is_removal());
    }
    tx.note_replacing(false);
}

/// Notes among the client's transactions that this one has the documents that it has changed.
fn keep_claims(ns: &Namespace, changed: &[BatchedWrite<'_>], claimed: Vec<Option<Claim<'_>>>, claims: Option<&Claims>) {
    for (claim, each) in claimed.into_iter().zip(changed).filter(|(_, each)| !each.is_insert()) {
        match (claim, claims) {
            (Some(claim), _) => claim.keep(),
            (None, Some(claims)) => claims.took(ns, id_key(&each.at.id)),
            (None, None) => {}
        }
    }
}

/// An insert that was carried out and has inserted nothing has changed a document: its statement
/// could match only one of the same transaction, which has touched none of these before.
fn refuse_changed_instead(sent: &[SentStatements], answer: &WriteAnswer, ns: &Namespace) -> Result<()> {
    let end = answer.errors.first().map_or(usize::MAX, |(place, _)| *place);
    let carried_out = places_of_inserts(sent).filter(|place| *place < end);
    if answer.upserted.iter().map(|(place, _)| *place).eq(carried_out) {
        return Ok(());
    }
    let message = format!("an upsert into {ns} changed a document instead of inserting one");
    Err(Error::new(ErrorKind::Corruption, message))
}
