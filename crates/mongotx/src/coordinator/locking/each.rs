//! Prepared writes of several documents, each with a change of its own, or to be removed, or to be
//! inserted: locked and changed by one command.
//!
//! 1. Claim the documents in their order, so that two transactions of this client never hold what
//!    the other waits for.
//! 2. Send the statements that [`super::one`] would send one by one, all in one `update`: one
//!    for each document where each of them takes its lock if and only if it has changed its
//!    document, and otherwise two, of which the first locks and copies and the second changes the
//!    copy. A document that is to be inserted takes one. Statements that differ in nothing but
//!    constants are one for all documents ([`super::one_shape`]).
//! 3. All have: done. The one statement has failed: everything is given back, and the caller sends
//!    a statement for each. Otherwise those before the first that has not are done; those after it
//!    are given back, because a transaction that waits for one document must not hold what its
//!    order puts after that ([`super::answered_each`]).
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

use std::collections::HashSet;

use bson::RawDocumentBuf;
use protocol::TxId;
use sd2v::{
    filter::Exact,
    update::{Update, given_fields},
};

use super::{
    Locking,
    answered_each::{Done, Sent, Way, of_all, of_some, places_of_inserts},
    change::Change,
    consequences::Consequences,
    one_shape::{OneOf, one_statement},
    shown::{statement_of, taken_over},
    target::{Target, update_of},
    unique::questions_behind,
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
        server::{WriteAnswer, live::Live},
        siblings::{Claim, Claims},
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Documents in one command, and bytes of statements.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// One document, and what is to be done to it.
pub(crate) struct Each<'a> {
    pub(crate) at: &'a Address,
    pub(crate) act: Act<'a>,
}

/// One of the writes of a command.
pub(crate) enum Act<'a> {
    Change(Changing<'a>),
    Insert(Inserting),
}

/// The change of a document that is there.
pub(crate) struct Changing<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) change: Change<'a>,
    /// Content that the transaction has read of the document. The short form demands it.
    pub(crate) as_read: Option<Demanded>,
}

/// The insert of a document: an upsert that fails where a document has its `_id`.
pub(crate) struct Inserting {
    pub(crate) statement: RawDocumentBuf,
    /// The questions which other document has its keys.
    pub(crate) questions: Vec<RawDocumentBuf>,
    /// True if the application gave the whole document.
    pub(crate) is_replacement: bool,
}

/// How a change is made of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As few statements as the changes allow.
    Short,
    /// The same, but no statement of several documents: the server has refused one.
    Apart,
    /// Two: some of the documents may have what they are to be given already, which one statement
    /// cannot distinguish from a document that it must not change.
    InTwo,
}

/// Questions behind the statements of a change, in the same command.
#[derive(Clone, Default)]
struct Behind {
    /// The change may give the document other keys of unique indexes.
    is_rekeyed: bool,
    /// The questions which other document has these keys.
    questions: Vec<RawDocumentBuf>,
}

impl Behind {
    fn is_nothing(&self) -> bool {
        !self.is_rekeyed && self.questions.is_empty()
    }
}

/// The statements for one document.
struct Statements {
    way: Way,
    is_rekeyed: bool,
    questions: usize,
    all: Vec<RawDocumentBuf>,
}

impl Statements {
    fn new(way: Way, mut all: Vec<RawDocumentBuf>, behind: &Behind) -> Self {
        all.extend(behind.questions.iter().cloned());
        Self { way, is_rekeyed: behind.is_rekeyed, questions: behind.questions.len(), all }
    }

    /// No statements: the one statement of all documents names this one.
    fn in_one() -> Self {
        Self { way: Way::Fused, is_rekeyed: false, questions: 0, all: Vec::new() }
    }

    fn sent(&self) -> Sent {
        Sent { way: self.way, questions: self.questions }
    }
}

/// The statements that lock and change the documents.
struct Planned {
    /// Statements of each document; none, where the one statement stands for them.
    each: Vec<Statements>,
    /// The one statement that names all documents, if there is one.
    one: Option<RawDocumentBuf>,
    /// There are no more of them because the command is full.
    is_full: bool,
}

impl Locking {
    /// Locks and changes as many of the first of these as one command can, each a different
    /// document of `ns`. Whether the next one matches is not known.
    #[tracing::instrument(name = "mongotx.prepare_each", level = "debug", skip_all, fields(%ns, documents = all.len()))]
    pub(crate) async fn prepare_each(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        all: &[Each<'_>],
        form: Form,
    ) -> Result<Done> {
        if tx.has_read_locks(ns) {
            return Ok(Done::default());
        }
        let me = self.lifecycle.ensure_started(tx, ns).await?;
        let mut planned = self.eligible(tx, ns, all, me, form).await?;
        if planned.each.len() < 2 {
            return Ok(Done::default());
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
        let sent: Vec<Sent> = planned.each.iter().map(Statements::sent).collect();
        let is_one = planned.one.is_some();
        let of_each = planned.each.into_iter().flat_map(|statements| statements.all);
        let command = update_of(ns, planned.one.into_iter().chain(of_each));
        let touches = all.iter().map(Each::touches).fold(Fields::none(), |some, more| some.and(&more));
        let answer = self.server.send_prepared_raw(tx, ns, command, &touches).await?;
        let done = match is_one && !answer.errors.is_empty() {
            true => self.taken_back(tx, ns, &at).await,
            false => self.in_order(tx, ns, &at, &sent, &answer, me).await,
        };
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                // The change may have been made, or may still be: it must not be made twice.
                tx.sending(ns, &touches);
                return Err(error);
            }
        };
        let changed = &all[..done.count];
        note_changed(tx, ns, changed, &sent);
        keep_claims(ns, changed, claimed, claims.as_ref());
        Ok(Done { is_full: planned.is_full && done.count == all.len(), ..done })
    }

    /// Step 1: claims the documents among this client's transactions, in their order. `None` for
    /// those that are not claimed.
    async fn claim_each<'c>(
        &self,
        tx: &Transaction,
        claims: Option<&'c Claims>,
        all: &[Each<'_>],
    ) -> Result<Vec<Option<Claim<'c>>>> {
        let (mut claimed, lock_wait) = (Vec::new(), LockWait::new(tx.options.lock_wait));
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
        all: &[Each<'_>],
        planned: &mut Planned,
        claimed: &[Option<Claim<'_>>],
        me: TxId,
    ) -> Result<()> {
        let mut left = HashSet::new();
        if planned.one.is_some() {
            left.extend(claimed.iter().flatten().filter_map(Claim::left));
            if !left.is_empty() {
                let left = Vec::from_iter(left);
                match one_statement(&alike(all), me, &left) {
                    Some(taking_over) => planned.one = Some(taking_over),
                    None => drop(self.finisher.unfinished(ns, left).await),
                }
            }
            return Ok(());
        }
        for ((statements, each), claim) in planned.each.iter_mut().zip(all).zip(claimed) {
            if let Some(changing) = each.changing() {
                left.extend(taken_over_each(statements, changing, me, claim.as_ref())?);
            }
        }
        if !left.is_empty() {
            self.finisher.unfinished(ns, left.into_iter().collect()).await;
        }
        Ok(())
    }

    /// Notes the documents as held before the command is sent. All have room, or none takes any.
    /// `at`: their addresses.
    fn hold_each(&self, tx: &mut Transaction, ns: &Namespace, all: &[Each<'_>], at: &[Address]) -> Result<()> {
        tx.hold(&self.options, ns, at, Hold::Change)?;
        let some = |is_one: &dyn Fn(&Each<'_>) -> bool| -> Vec<Address> {
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
        all: &[Each<'_>],
        me: TxId,
        form: Form,
    ) -> Result<Planned> {
        let collection = self.catalog.admit_writes(ns, me).await?;
        let behind = self.behind_first_ones(tx, ns, all, &collection, me).await?;
        let all = &all[..behind.len()];
        // Of a clustered collection the server would scan everything between the `_id`s.
        let is_found_by_index = !self.catalog.shards.are_routed() && !collection.is_clustered;
        let may_be_one = form == Form::Short && is_found_by_index;
        if may_be_one
            && behind.iter().all(Behind::is_nothing)
            && let Some(one) = one_statement(&alike(all), me, &[])
        {
            let each = all.iter().map(|_| Statements::in_one()).collect();
            return Ok(Planned { each, one: Some(one), is_full: false });
        }
        let short = match form {
            Form::Short | Form::Apart => short_statements(all, &behind, me)?,
            Form::InTwo => None,
        };
        let mut room = Room::default();
        let statements: Vec<Statements> = match short {
            Some(short) => short,
            None => {
                let in_two =
                    all.iter().zip(&behind).map_while(|(each, behind)| in_two(each, behind, me).ok().flatten());
                in_two.take_while(|statements| room.takes(statements)).collect()
            }
        };
        Ok(Planned { is_full: statements.len() < all.len(), each: statements, one: None })
    }

    /// What has to stand behind each of the first ones that can go together: documents that are
    /// surely different, of changes whose consequences a question can examine.
    async fn behind_first_ones(
        &self,
        tx: &Transaction,
        ns: &Namespace,
        all: &[Each<'_>],
        collection: &Collection,
        me: TxId,
    ) -> Result<Vec<Behind>> {
        let (mut behind, mut seen) = (Vec::new(), HashSet::new());
        for each in all.iter().take(BATCH) {
            // If two documents may be the same one, the answer would not show which statement has
            // changed it.
            let id = &each.at.id;
            if !tx.is_untouched(ns, id) || !seen.insert(coarse_key(id)) {
                break;
            }
            let one = match &each.act {
                Act::Insert(inserting) => Some(Behind { is_rekeyed: false, questions: inserting.questions.clone() }),
                Act::Change(changing) if changing.target.terms.is_plain() => {
                    self.behind(collection, changing, me).await?
                }
                Act::Change(_) => None,
            };
            let Some(one) = one else { break };
            behind.push(one);
        }
        Ok(behind)
    }

    /// The questions that have to stand behind the statements of this change. `None`: once it is
    /// made, more has to be examined than a question can.
    async fn behind(&self, collection: &Collection, each: &Changing<'_>, me: TxId) -> Result<Option<Behind>> {
        if let Change::Update { update: Update::Replacement(document), .. } = each.change
            && collection.check_words(document).is_err()
        {
            return Ok(None);
        }
        let consequences = self.consequences(collection, &each.target, &each.change).await?;
        if consequences.are_none() {
            return Ok(Some(Behind::default()));
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
        Ok(Some(Behind { is_rekeyed: true, questions }))
    }

    /// The one statement of several documents has failed: how many it has locked before that is not
    /// among the totals of the answer. All of it is given back, whatever it is.
    async fn taken_back(&self, tx: &mut Transaction, ns: &Namespace, at: &[Address]) -> Result<Done> {
        self.server.give_back(tx, ns, at).await?;
        at.iter().for_each(|at| tx.not_held(ns, at));
        Ok(Done { is_refused_as_one: true, is_all_that_is_held: true, ..Done::default() })
    }

    /// Returns the number of the first documents that were changed, none after them being held.
    async fn in_order(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        at: &[Address],
        sent: &[Sent],
        answer: &WriteAnswer,
        me: TxId,
    ) -> Result<Done> {
        if let Some(done) = of_all(sent, answer) {
            return Ok(done);
        }
        refuse_changed_instead(sent, answer, ns)?;
        let mine = self.server.held_among(ns, at, me).await?;
        let held: Vec<bool> = at.iter().map(|at| mine.contains(&OwnKey::of(&at.id))).collect();
        let done = of_some(sent, &held, answer);
        if !done.is_all_that_is_held {
            // Whatever of it is held: a document may be stored under an equal `_id` of another
            // type.
            let behind = |is_insert: bool| -> Vec<Address> {
                let some =
                    sent.iter().zip(at).skip(done.count).filter(|(one, _)| (one.way == Way::Insert) == is_insert);
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

impl<'a> Each<'a> {
    fn changing(&self) -> Option<&Changing<'a>> {
        match &self.act {
            Act::Change(changing) => Some(changing),
            Act::Insert(_) => None,
        }
    }

    fn is_insert(&self) -> bool {
        self.changing().is_none()
    }

    fn is_removal(&self) -> bool {
        self.changing().is_some_and(Changing::is_removal)
    }

    fn is_replacement(&self) -> bool {
        match &self.act {
            Act::Change(one) => matches!(one.change, Change::Update { update: Update::Replacement(_), .. }),
            Act::Insert(inserting) => inserting.is_replacement,
        }
    }

    fn touches(&self) -> Fields {
        self.changing().map_or(Fields::All, |one| one.change.touches())
    }
}

impl Changing<'_> {
    fn is_removal(&self) -> bool {
        matches!(self.change, Change::Remove)
    }
}

/// Notes documents that were changed, and what was read of those that are as they were read.
fn note_changed(tx: &mut Transaction, ns: &Namespace, changed: &[Each<'_>], sent: &[Sent]) {
    for (each, sent) in changed.iter().zip(sent) {
        tx.note_replacing(each.is_replacement());
        let Act::Change(changing) = &each.act else {
            tx.note_own(ns, [&each.at.id]);
            continue;
        };
        if let (Some(demanded), Way::Fused) = (&changing.as_read, sent.way) {
            tx.reads.settle_as_read(&demanded.as_read);
        }
        tx.note_locked(ns, std::slice::from_ref(each.at), each.is_removal());
    }
    tx.note_replacing(false);
}

/// Notes among the client's transactions that this one has the documents that it has changed.
fn keep_claims(ns: &Namespace, changed: &[Each<'_>], claimed: Vec<Option<Claim<'_>>>, claims: Option<&Claims>) {
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
fn refuse_changed_instead(sent: &[Sent], answer: &WriteAnswer, ns: &Namespace) -> Result<()> {
    let end = answer.errors.first().map_or(usize::MAX, |(place, _)| *place);
    let carried_out = places_of_inserts(sent).filter(|place| *place < end);
    if answer.upserted.iter().map(|(place, _)| *place).eq(carried_out) {
        return Ok(());
    }
    let message = format!("an upsert into {ns} changed a document instead of inserting one");
    Err(Error::new(ErrorKind::Corruption, message))
}

/// If a committed transaction may have left the document, makes its statement take it over. Returns
/// that transaction if the document has to be finished before.
fn taken_over_each(
    statements: &mut Statements,
    Changing { target, change, as_read }: &Changing<'_>,
    me: TxId,
    claim: Option<&Claim<'_>>,
) -> Result<Option<TxId>> {
    // What it takes over becomes the safe version, with other keys perhaps: of those the server has
    // to be asked apart.
    match (statements.way, statements.all.as_mut_slice()) {
        (Way::Fused | Way::Remove, [statement]) if !statements.is_rekeyed => {
            taken_over(statement, target, change, me, claim, conditions_of(as_read.as_ref()))
        }
        _ => Ok(claim.and_then(Claim::left)),
    }
}

/// The updates, if all of them are updates that a statement of several documents may make.
fn alike<'a>(all: &'a [Each<'_>]) -> Vec<OneOf<'a>> {
    let one = |each: &'a Each<'_>| {
        let Act::Change(Changing { target, change: Change::Update { update, array_filters: None }, as_read }) =
            &each.act
        else {
            return None;
        };
        Some(OneOf { target, update, as_read: conditions_of(as_read.as_ref()) })
    };
    all.iter().map(one).collect::<Option<_>>().unwrap_or_default()
}

/// One statement for each, and its questions, as far as one command takes them. `None`: one of them
/// needs two.
fn short_statements(all: &[Each<'_>], behind: &[Behind], me: TxId) -> Result<Option<Vec<Statements>>> {
    let (mut short, mut room) = (Vec::new(), Room::default());
    for (each, behind) in all.iter().zip(behind) {
        let (way, statement) = match &each.act {
            Act::Insert(inserting) => (Way::Insert, inserting.statement.clone()),
            // That the document was modified would say nothing but that it was locked.
            Act::Change(one) if one.change.is_lock() => return Ok(None),
            Act::Change(one) => {
                let as_read = conditions_of(one.as_read.as_ref());
                let way = if one.is_removal() { Way::Remove } else { Way::Fused };
                match statement_of(&one.target, &one.change, me, None, as_read)? {
                    Some(statement) => (way, statement),
                    None => return Ok(None),
                }
            }
        };
        let statements = Statements::new(way, vec![statement], behind);
        if !room.takes(&statements) {
            break;
        }
        short.push(statements);
    }
    Ok(Some(short))
}

/// The conditions under which the document is as it was read.
fn conditions_of(as_read: Option<&Demanded>) -> &[Exact] {
    as_read.map_or(&[], |demanded| &demanded.conditions)
}

/// The statements that [`super::one`] sends for a document that it has not locked, and the
/// questions behind them. `None`: what the filter says only an index answers.
fn in_two(each: &Each<'_>, behind: &Behind, me: TxId) -> Result<Option<Statements>> {
    let Changing { target, change, .. } = match &each.act {
        Act::Change(changing) => changing,
        Act::Insert(inserting) => {
            return Ok(Some(Statements::new(Way::Insert, vec![inserting.statement.clone()], behind)));
        }
    };
    if target.condition()?.text.is_some() {
        return Ok(None);
    }
    Ok(match change {
        Change::Remove => {
            let removal = statement_of(target, change, me, None, &[])?;
            removal.map(|statement| Statements::new(Way::Remove, vec![statement], behind))
        }
        Change::Update { update, array_filters } => {
            let both = target.locked_and_changed(update, *array_filters, me)?;
            let all = both.iter().map(RawDocumentBuf::try_from).collect::<Result<_, _>>()?;
            Some(Statements::new(Way::InTwo, all, behind))
        }
    })
}

/// Room in one command: the bytes of it that are taken.
#[derive(Default)]
struct Room {
    bytes: usize,
}

impl Room {
    /// Returns true if the command has room for these statements as well.
    fn takes(&mut self, statements: &Statements) -> bool {
        self.bytes += statements.all.iter().map(|one| one.as_bytes().len()).sum::<usize>();
        self.bytes <= BATCH_BYTES
    }
}
