//! Upserts of a bulk that name their documents by `_id`: one query finds out which of the documents
//! are there (decision 0063). Those that are there are changed together with the other updates of
//! the bulk ([`super::bulk`]), and those that are not are inserted together.
//!
//! No correctness rests on the answer. The update of a document that is gone matches nothing, and
//! the insert of one that has come is a duplicate: either ends the command of several there, and
//! that upsert goes alone ([`super::upsert`]), as one that names no `_id` does.

use std::collections::{HashMap, HashSet};

use bson::{Bson, Document, doc};
use protocol::TxId;
use sd2v::{
    names::tx_id_to_bson,
    shard::ShardKey,
    statement,
    stored::pending_insert,
    update::{Update, rewrite_upsert, upsert_id},
};

use super::{
    ahead::send_insert,
    insert::{BATCH_BYTES, check_pending},
    upsert::replacement_to_insert,
    write_commands::{Operation, UpdateCommand},
};
use crate::{
    coordinator::{
        Core,
        asked::{
            address::Address,
            own_key::{OwnKey, coarse_key},
            query,
        },
        server::WriteAnswer,
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Writes of the bulk whose documents one query looks up.
const ASKED: usize = 500;
/// Commands of several inserts that may end early before the inserts are sent one by one.
const MOST_STOPS: usize = 4;

/// Documents of a bulk's upserts: whether they are there, by the places of the upserts in the bulk.
#[derive(Default)]
pub(super) struct Presence {
    by_place: HashMap<usize, bool>,
    /// Upserts from this place on were not looked up yet.
    asked: usize,
    /// Number of commands of several inserts that have ended early.
    stops: usize,
}

impl Presence {
    /// Returns true if the document of this upsert is there. `None`: that was not looked up, or the
    /// upsert goes alone.
    pub(super) fn is_there(&self, place: usize) -> Option<bool> {
        self.by_place.get(&place).copied()
    }

    /// The number of upserts from this place on, one behind the other, whose documents are not
    /// there.
    pub(super) fn absent(&self, place: usize) -> usize {
        (place..).take_while(|place| self.is_there(*place) == Some(false)).count()
    }

    /// Notes that the upsert at this place is sent by itself.
    pub(super) fn leave(&mut self, place: usize) {
        self.by_place.remove(&place);
    }

    /// Notes that a command of several inserts has ended early. From the fourth one on, the inserts
    /// that were looked up go one by one.
    pub(super) fn note_stop(&mut self) {
        self.stops += 1;
        if self.stops >= MOST_STOPS {
            self.by_place.retain(|_, is_there| *is_there);
        }
    }

    /// Looks up the documents of the upserts among the next writes, the first of which has this
    /// place in the bulk, unless they were looked up before or there are fewer than two.
    pub(super) async fn ask(
        &mut self,
        core: &Core,
        tx: &Transaction,
        ns: &Namespace,
        place: usize,
        next: &[Operation],
    ) -> Result<()> {
        if place < self.asked || !core.catalog.shard_key(ns).await?.is_empty() || tx.has_read_locks(ns) {
            return Ok(());
        }
        let next = &next[..next.len().min(ASKED)];
        self.asked = place + next.len();
        let (mut named, mut seen) = (Vec::new(), HashSet::new());
        for (place, operation) in (place..).zip(next) {
            let Operation::Update(command) = operation else { continue };
            if let Some((id, key)) = named_alone(core, tx, ns, command).await?
                && seen.insert(key.clone())
            {
                named.push((place, id, key));
            }
        }
        if named.len() < 2 {
            return Ok(());
        }
        let ids: Vec<Bson> = named.iter().map(|(_, id, _)| id.clone()).collect();
        let find = doc! {"find": &ns.coll, "filter": {"_id": {"$in": ids}}, "projection": {"_id": 1}};
        let found = core.server.collect(&ns.db, find, named.len()).await?;
        let there: HashSet<OwnKey> = found.iter().filter_map(|one| one.get("_id").map(OwnKey::of)).collect();
        self.by_place.extend(named.into_iter().map(|(place, _, key)| (place, there.contains(&key))));
        Ok(())
    }
}

/// The `_id` of an upsert that may go together with others.
async fn named_alone(
    core: &Core,
    tx: &Transaction,
    ns: &Namespace,
    command: &UpdateCommand,
) -> Result<Option<(Bson, OwnKey)>> {
    let is_plain = command.upsert && !command.multi && command.terms.is_plain() && command.terms.hint.is_none();
    let is_refused = command.check().is_err() || command.check_upsert().is_err();
    if !is_plain || is_refused || command.needs_selection() || command.array_filters.is_some() {
        return Ok(None);
    }
    let Some(id) = query::named_id(core, ns, &command.filter, &command.terms).await? else { return Ok(None) };
    let key = OwnKey::of_simple(&id).filter(|_| tx.is_untouched(ns, &id));
    Ok(key.map(|key| (id, key)))
}

/// Documents that one command has inserted.
#[derive(Default)]
pub(super) struct Inserted {
    /// The `_id`s of the first ones.
    pub(super) ids: Vec<Bson>,
    /// The next one was sent as well, and refused.
    pub(super) is_next_refused: bool,
}

/// Inserts the documents of the first of these upserts, as many as one command takes. It inserts
/// none if the first goes alone.
pub(super) async fn insert_together(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    upserts: &[Operation],
) -> Result<Inserted> {
    core.catalog.check_written(ns, true)?;
    let me = core.lifecycle.ensure_started(tx, ns).await?;
    let collection = core.catalog.admit_writes(ns, me).await?;
    // Unique values and words are examined document by document.
    if !collection.uniques.is_empty() || collection.has_words() {
        return Ok(Inserted::default());
    }
    let (mut at, mut statements, mut replacing, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut seen = HashSet::new();
    for upsert in upserts {
        let Operation::Update(command) = upsert else { break };
        let Ok((id, statement)) = statement_of(command, me) else { break };
        // Writes of the bulk before this one, since the query, may have made the document. And
        // where the filter cannot match, the update says what the `_id` is.
        if !tx.is_untouched(ns, &id) || !seen.insert(coarse_key(&id)) {
            break;
        }
        bytes += statement.to_vec().map_or(BATCH_BYTES, |bytes| bytes.len());
        if bytes > BATCH_BYTES && !statements.is_empty() {
            break;
        }
        at.push(Address::bare(id));
        statements.push(statement);
        replacing.push(command.replaces());
    }
    if at.len() < 2 {
        return Ok(Inserted::default());
    }
    tx.check_alive()?;
    tx.hold(&core.options, ns, &at, Hold::Insert)?;
    let command = doc! {"update": &ns.coll, "updates": statements, "ordered": true};
    let answer = send_insert(core, tx, ns, command).await?;
    let done = inserted(&answer, &at, ns)?;
    // The command was answered: it has not inserted the others.
    at[done..].iter().for_each(|at| tx.not_held(ns, at));
    for (at, is_replacement) in at[..done].iter().zip(replacing) {
        tx.note_replacing(is_replacement);
        tx.note_own(ns, [&at.id]);
    }
    tx.note_replacing(false);
    let is_next_refused = done < at.len();
    Ok(Inserted { ids: at.into_iter().take(done).map(|at| at.id).collect(), is_next_refused })
}

/// Returns the number of the first documents that were inserted.
fn inserted(answer: &WriteAnswer, at: &[Address], ns: &Namespace) -> Result<usize> {
    let done = answer.errors.first().map_or(at.len(), |(place, _)| *place);
    let is_in_order = answer.upserted.iter().map(|(place, _)| *place).eq(0..done);
    if is_in_order {
        return Ok(done);
    }
    let message = format!("an upsert into {ns} changed a document instead of inserting one");
    Err(Error::new(ErrorKind::Corruption, message))
}

/// The `_id` of the document that an upsert inserts, and the statement that inserts it.
fn statement_of(command: &UpdateCommand, me: TxId) -> Result<(Bson, Document)> {
    let id = upsert_id(&command.filter, &command.update)?;
    if let Update::Replacement(replacement) = &command.update {
        let (id, document) = replacement_to_insert(id, replacement);
        check_pending(&document)?;
        let stored = pending_insert(me, &document, &ShardKey::default())?;
        return Ok((id, statement::insert_pending(&stored)));
    }
    let id = id.ok_or_else(|| Error::unsupported("an upsert without an _id cannot go with others".to_owned()))?;
    let (q, u) = rewrite_upsert(&command.filter, &command.update, &id, &Document::new(), &tx_id_to_bson(me))?;
    Ok((id, doc! {"q": q, "u": u, "upsert": true, "multi": false}))
}
