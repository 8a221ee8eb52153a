//! Prepared writes of several documents, each with a change of its own, or to be removed: locked
//! and changed by one command.
//!
//! 1. Claim the documents in their order, so that two transactions of this client never hold what
//!    the other waits for.
//! 2. Send the statements that [`super::one`] would send one by one, all in one `update`: one
//!    for each document where each of them takes its lock if and only if it has changed its
//!    document, and otherwise two, of which the first locks and copies and the second changes the
//!    copy.
//! 3. All have: done. Otherwise those before the first that has not are done; those after it are
//!    given back, because a transaction that waits for one document must not hold what its order
//!    puts after that ([`super::answered_each`]).
//!
//! Of a document that the transaction has read, the short form demands that it is as it was read
//! (decision 0062): then the read needs no validation any more.
//!
//! What needs more than these statements (unique values, words, shard keys, collations) takes the
//! way of single documents.

use std::collections::HashSet;

use bson::RawDocumentBuf;
use protocol::TxId;
use sd2v::{filter::Exact, update::Update};

use super::{
    Locking,
    answered_each::{Done, Way, of_all, of_some},
    change::Change,
    shown::{statement_of, taken_over},
    target::{Target, update_of},
};
use crate::{
    coordinator::{
        asked::{
            address::Address,
            fields::Fields,
            own_key::{OwnKey, coarse_key, id_key},
        },
        catalog::Collection,
        finishing::patience::Patience,
        read_set::as_read::Demanded,
        server::{WriteAnswer, live::Live},
        siblings::Claim,
        transaction::{Hold, Transaction},
    },
    error::Result,
    options::Namespace,
};

/// Documents in one command, and bytes of statements.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// One document and its change.
pub(crate) struct Each<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) change: Change<'a>,
    /// Content that the transaction has read of the document. The short form demands it.
    pub(crate) as_read: Option<Demanded>,
}

/// Number of statements that a change takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As few statements as the changes allow.
    Short,
    /// Two: some of the documents may have what they are to be given already, which one statement
    /// cannot distinguish from a document that it must not change.
    InTwo,
}

/// The statements for one document.
struct Statements {
    way: Way,
    all: Vec<RawDocumentBuf>,
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
        let (mut statements, is_full) = self.eligible(tx, ns, all, me, form).await?;
        if statements.len() < 2 {
            return Ok(Done::default());
        }
        let all = &all[..statements.len()];
        let claims = tx.claims.clone();
        let (mut claimed, patience) = (Vec::new(), Patience::new(tx.options.lock_wait));
        for each in all {
            claimed.push(match claims.as_ref().filter(|_| each.target.is_the_document(tx)) {
                Some(claims) => self.claim(claims, &each.target, &patience).await?,
                None => None,
            });
        }
        let mut left = HashSet::new();
        for ((statements, each), claim) in statements.iter_mut().zip(all).zip(&claimed) {
            left.extend(taken_over_each(statements, each, me, claim.as_ref())?);
        }
        if !left.is_empty() {
            // One wait for all of them, which is bounded.
            self.finisher.unfinished(ns, left.into_iter().collect()).await;
        }
        tx.check_alive()?;
        let at: Vec<Address> = all.iter().map(|each| each.target.at.clone()).collect();
        // All have room, or none takes any.
        tx.hold(&self.options, ns, &at, Hold::Change)?;
        let removed = all.iter().filter(|each| each.is_removal()).map(|each| each.target.at.clone());
        let removed: Vec<Address> = removed.collect();
        if !removed.is_empty() {
            tx.hold(&self.options, ns, &removed, Hold::Remove)?;
        }
        let ways: Vec<Way> = statements.iter().map(|statements| statements.way).collect();
        let command = update_of(ns, statements.into_iter().flat_map(|statements| statements.all));
        let touches = all.iter().map(|each| each.change.touches()).fold(Fields::none(), |some, more| some.and(&more));
        let answer = self.server.send_prepared_raw(tx, ns, command, &touches).await?;
        let done = match self.in_order(tx, ns, &at, &ways, &answer, me).await {
            Ok(done) => done,
            Err(error) => {
                // The change may have been made, or may still be: it must not be made twice.
                tx.sending(ns, &touches);
                return Err(error);
            }
        };
        for (each, way) in all[..done.count].iter().zip(&ways) {
            if let (Some(demanded), Way::Fused) = (&each.as_read, way) {
                tx.reads.settle_as_read(&demanded.as_read);
            }
            tx.note_replacing(each.is_replacement());
            tx.note_locked(ns, std::slice::from_ref(each.target.at), each.is_removal());
        }
        tx.note_replacing(false);
        for (claim, at) in claimed.into_iter().zip(&at[..done.count]) {
            match (claim, &claims) {
                (Some(claim), _) => claim.keep(),
                (None, Some(claims)) => claims.took(ns, id_key(&at.id)),
                (None, None) => {}
            }
        }
        Ok(Done { is_full: is_full && done.count == all.len(), ..done })
    }

    /// The statements of the first ones that can go together, in two for all of them, if one needs
    /// two; and whether there are no more of them because the command is full.
    async fn eligible(
        &self,
        tx: &Transaction,
        ns: &Namespace,
        all: &[Each<'_>],
        me: TxId,
        form: Form,
    ) -> Result<(Vec<Statements>, bool)> {
        let collection = self.catalog.admit_writes(ns, me).await?;
        let (mut count, mut seen) = (0, HashSet::new());
        for each in all.iter().take(BATCH) {
            // If two documents may be the same one, the answer would not show which statement has
            // changed it.
            let id = &each.target.at.id;
            let simple = each.target.terms.is_plain() && tx.is_untouched(ns, id) && seen.insert(coarse_key(id));
            if !simple || !self.is_all_there_is(&collection, each).await? {
                break;
            }
            count += 1;
        }
        let all = &all[..count];
        let short = match form {
            Form::Short => short_statements(all, me)?,
            Form::InTwo => None,
        };
        let mut room = Room::default();
        let statements: Vec<Statements> = match short {
            Some(short) => short,
            None => {
                let in_two = all.iter().map_while(|each| in_two(each, me).ok().flatten());
                in_two.take_while(|statements| room.takes(statements)).collect()
            }
        };
        let is_full = statements.len() < all.len();
        Ok((statements, is_full))
    }

    /// Returns true if nothing has to be examined once this change is made.
    async fn is_all_there_is(&self, collection: &Collection, each: &Each<'_>) -> Result<bool> {
        if let Change::Update { update: Update::Replacement(document), .. } = each.change
            && collection.check_words(document).is_err()
        {
            return Ok(false);
        }
        Ok(self.consequences(collection, &each.target, &each.change).await?.are_none())
    }

    /// Returns the number of the first documents that were changed, none after them being held.
    async fn in_order(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        at: &[Address],
        ways: &[Way],
        answer: &WriteAnswer,
        me: TxId,
    ) -> Result<Done> {
        if let Some(done) = of_all(ways, answer) {
            return Ok(done);
        }
        let mine = self.server.held_among(ns, at, me).await?;
        let held: Vec<bool> = at.iter().map(|at| mine.contains(&OwnKey::of(&at.id))).collect();
        let done = of_some(ways, &held, answer);
        if !done.is_all_that_is_held {
            // Whatever of it is held: a document may be stored under an equal `_id` of another
            // type.
            self.server.give_back(tx, ns, &at[done.count..]).await?;
        }
        // The command was answered: it will not lock them any more.
        at[done.count..].iter().for_each(|at| tx.not_held(ns, at));
        Ok(done)
    }
}

impl Each<'_> {
    fn is_removal(&self) -> bool {
        matches!(self.change, Change::Remove)
    }

    fn is_replacement(&self) -> bool {
        matches!(self.change, Change::Update { update: Update::Replacement(_), .. })
    }
}

/// If a committed transaction may have left the document, makes its statement take it over. Returns
/// that transaction if the document has to be finished before.
fn taken_over_each(
    statements: &mut Statements,
    Each { target, change, as_read }: &Each<'_>,
    me: TxId,
    claim: Option<&Claim<'_>>,
) -> Result<Option<TxId>> {
    match (statements.way, statements.all.as_mut_slice()) {
        (Way::Fused | Way::Remove, [statement]) => {
            taken_over(statement, target, change, me, claim, conditions_of(as_read.as_ref()))
        }
        _ => Ok(claim.and_then(Claim::left)),
    }
}

/// One statement for each, as far as one command takes them. `None`: one of them needs two.
fn short_statements(all: &[Each<'_>], me: TxId) -> Result<Option<Vec<Statements>>> {
    let (mut short, mut room) = (Vec::new(), Room::default());
    for each in all {
        if each.change.is_lock() {
            // That the document was modified would say nothing but that it was locked.
            return Ok(None);
        }
        let as_read = conditions_of(each.as_read.as_ref());
        let Some(statement) = statement_of(&each.target, &each.change, me, None, as_read)? else { return Ok(None) };
        let way = if each.is_removal() { Way::Remove } else { Way::Fused };
        let statements = Statements { way, all: vec![statement] };
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

/// The statements that [`super::one`] sends for a document that it has not locked. `None`:
/// what the filter says only an index answers.
fn in_two(Each { target, change, .. }: &Each<'_>, me: TxId) -> Result<Option<Statements>> {
    if target.condition()?.text.is_some() {
        return Ok(None);
    }
    Ok(match change {
        Change::Remove => {
            let removal = statement_of(target, change, me, None, &[])?;
            removal.map(|statement| Statements { way: Way::Remove, all: vec![statement] })
        }
        Change::Update { update, array_filters } => {
            let both = target.locked_and_changed(update, *array_filters, me)?;
            let all = both.iter().map(RawDocumentBuf::try_from).collect::<Result<_, _>>()?;
            Some(Statements { way: Way::InTwo, all })
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
