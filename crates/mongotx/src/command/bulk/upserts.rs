//! Upserts of a bulk that name their documents by `_id`, or by a key of a unique index: one query
//! finds out which of the documents are there (decision 0063). Those that are there are changed
//! together with the other updates of the bulk ([`super::bulk_write`]), and those that are not are
//! inserted together: by one command of inserts, or among the changes beside them.
//!
//! No correctness rests on the answer. The update of a document that is gone matches nothing, and
//! the insert of one that has come is a duplicate: either ends the command of several there, and
//! that upsert goes alone ([`crate::command::writes::upsert`]), as one that names no `_id` does.
//! Under unique indexes a question stands behind each insert, which ends the command where another
//! document has the key (decision 0074); that insert is taken back, and goes alone, too.

use std::{
    collections::{HashMap, HashSet},
    iter,
};

use bson::{Bson, Document, RawDocumentBuf, doc, oid::ObjectId};
use protocol::TxId;
use sd2v::{
    filter::pinned_ids,
    names::tx_id_to_bson,
    shard::ShardKey,
    statement,
    stored::{check_id, pending_insert},
    update::{Update, rewrite_upsert, upsert_id, upserted_fields},
};

use crate::{
    command::{
        access_paths::fetch_key::{has_all_values, is_values},
        isolation::validation_ahead::send_insert,
        writes::{
            insert::{BATCH_BYTES, check_pending, with_id},
            upsert::replacement_to_insert,
            write_commands::{Operation, UpdateCommand},
        },
    },
    coordinator::{
        Core,
        catalog::Collection,
        locking::{batch::BatchedInsert, unique::key_questions::questions_behind},
        request::{
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
    pub(crate) fn is_there(&self, place: usize) -> Option<bool> {
        self.by_place.get(&place).copied()
    }

    /// The number of upserts from this place on, one behind the other, whose documents are not
    /// there.
    pub(super) fn absent(&self, place: usize) -> usize {
        (place..).take_while(|place| self.is_there(*place) == Some(false)).count()
    }

    /// Notes that the upsert at this place is sent by itself.
    pub(crate) fn leave(&mut self, place: usize) {
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
    pub(crate) async fn ask(
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
        let collection = core.catalog.look_up(ns).await?;
        let (mut named, mut seen) = (Vec::new(), HashSet::new());
        for (place, operation) in (place..).zip(next) {
            let Operation::Update(command) = operation else { continue };
            if let Some(name) = named_alone(core, tx, ns, &collection, command).await?
                && seen.insert(name.clone())
            {
                named.push((place, &command.filter, name));
            }
        }
        if named.len() < 2 {
            return Ok(());
        }
        let found = core.server.collect(&ns.db, find_of(ns, &named), named.len()).await?;
        if let Some(spotter) = tx.seen.spotter(ns, collection.plain_keys()) {
            // Those that are there are changed by `_id`.
            found.iter().filter_map(|one| RawDocumentBuf::try_from(one).ok()).for_each(|one| spotter.saw(&one));
        }
        let ids: HashSet<OwnKey> = found.iter().filter_map(|one| one.get("_id").map(OwnKey::of)).collect();
        let is_there = |filter: &Document, name: &DocumentName| match name {
            DocumentName::Id(id) => ids.contains(id),
            DocumentName::Key(_) => found.iter().any(|one| has_all_values(one, filter)),
        };
        let by_place = named.into_iter().map(|(place, filter, name)| (place, is_there(filter, &name)));
        self.by_place.extend(by_place.collect::<Vec<_>>());
        Ok(())
    }
}

/// Name of the one document that an upsert can match: its `_id`, or a unique key.
#[derive(Clone, PartialEq, Eq, Hash)]
enum DocumentName {
    Id(OwnKey),
    /// A key of a unique index.
    Key(Vec<(String, OwnKey)>),
}

/// The name of the document of an upsert that may go together with others.
async fn named_alone(
    core: &Core,
    tx: &Transaction,
    ns: &Namespace,
    collection: &Collection,
    command: &UpdateCommand,
) -> Result<Option<DocumentName>> {
    let is_plain = command.upsert && !command.multi && command.options.is_plain() && command.options.hint.is_none();
    let is_refused = command.check().is_err() || command.check_upsert().is_err();
    if !is_plain || is_refused || command.needs_selection() || command.array_filters.is_some() {
        return Ok(None);
    }
    if let Some(id) = query::named_id(core, ns, &command.filter, &command.options).await? {
        return Ok(OwnKey::of_simple(&id).filter(|_| tx.is_untouched(ns, &id)).map(DocumentName::Id));
    }
    let key = collection.pinned_key(&command.filter).filter(|_| is_values(&command.filter));
    let simple = |(field, value): (String, Bson)| Some((field, OwnKey::of_simple(&value)?));
    Ok(key.and_then(|key| key.into_iter().map(simple).collect::<Option<_>>()).map(DocumentName::Key))
}

/// The query for the documents with these names.
fn find_of(ns: &Namespace, named: &[(usize, &Document, DocumentName)]) -> Document {
    let by_id = |(_, filter, name): &(usize, &Document, DocumentName)| match name {
        DocumentName::Id(_) => pinned_ids(filter).and_then(|mut ids| ids.pop()),
        DocumentName::Key(_) => None,
    };
    let ids: Vec<Bson> = named.iter().filter_map(by_id).collect();
    let keys: Vec<&Document> = named
        .iter()
        .filter(|(_, _, name)| matches!(name, DocumentName::Key(_)))
        .map(|(_, filter, _)| *filter)
        .collect();
    let fields = keys.iter().flat_map(|filter| filter.keys().map(String::as_str)).chain(["_id"]);
    let shown: Document = fields.map(|field| (field.to_owned(), Bson::Int32(1))).collect();
    let ids = (!ids.is_empty()).then(|| doc! {"_id": {"$in": ids}});
    let filter = match ids {
        Some(ids) if keys.is_empty() => ids,
        ids => doc! {"$or": ids.into_iter().chain(keys.into_iter().cloned()).collect::<Vec<_>>()},
    };
    doc! {"find": &ns.coll, "filter": filter, "projection": shown}
}

/// Documents that one command has inserted.
#[derive(Default)]
pub(super) struct Inserted {
    /// The `_id`s of the first ones.
    pub(crate) ids: Vec<Bson>,
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
    // Words are examined document by document.
    if collection.has_words() || !collection.uniques.is_empty() && core.catalog.shards.are_routed() {
        return Ok(Inserted::default());
    }
    let Batch { at, starts, replacing, statements, .. } = Batch::of_first(upserts, tx, ns, &collection, me);
    if at.len() < 2 {
        return Ok(Inserted::default());
    }
    tx.check_alive()?;
    tx.hold(&core.options, ns, &at, Hold::Insert)?;
    let command = doc! {"update": &ns.coll, "updates": statements, "ordered": true};
    let answer = send_insert(core, tx, ns, command, Vec::new()).await?.answer;
    let (done, is_placed) = inserted(&answer, &starts, ns)?;
    if is_placed {
        // Another document has one of its keys, or had it then. By itself it waits, or is refused.
        core.server.take_back_inserts(tx, ns, &at[done..=done]).await?;
    }
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

/// The insert of the document of this write, an `insert` or an upsert whose document is not there,
/// as one statement among others, and its `_id`. `None`: it goes alone.
pub(crate) async fn inserting(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    operation: &Operation,
) -> Result<Option<(Bson, BatchedInsert)>> {
    core.catalog.check_written(ns, true)?;
    let me = core.lifecycle.ensure_started(tx, ns).await?;
    let collection = core.catalog.admit_writes(ns, me).await?;
    if !collection.uniques.is_empty() && core.catalog.shards.are_routed() {
        return Ok(None);
    }
    let uniques = &collection.uniques;
    let (id, statement, questions, is_replacement) = match operation {
        Operation::Update(command) if !collection.has_words() => {
            let Ok((id, statement)) = statement_of(command, &collection, me) else { return Ok(None) };
            let given = |fields: &[&str]| upserted_fields(&command.filter, &command.update, &id, fields);
            let questions = questions_behind(uniques, given, me);
            (id, statement, questions, command.replaces())
        }
        Operation::Insert(document) => {
            // By itself it is refused where it stands.
            if check_pending(document).is_err() || collection.check_words(document).is_err() {
                return Ok(None);
            }
            let (id, document) = with_id(document.clone());
            let Ok(stored) = pending_insert(me, &document, &ShardKey::default()) else { return Ok(None) };
            (id, statement::insert_pending(&stored), questions_behind(uniques, |_| Some(document.clone()), me), false)
        }
        _ => return Ok(None),
    };
    let is_plain = OwnKey::of_simple(&id).is_some() && check_id(&id).is_ok();
    let Some(questions) = questions.filter(|_| is_plain) else { return Ok(None) };
    let questions = questions.iter().map(RawDocumentBuf::try_from).collect::<std::result::Result<_, _>>()?;
    let statement = RawDocumentBuf::try_from(&statement)?;
    Ok(Some((id, BatchedInsert { statement, questions, is_replacement })))
}

/// Upserts that one command is to insert.
#[derive(Default)]
struct Batch {
    at: Vec<Address>,
    /// The place of the first statement of each.
    starts: Vec<usize>,
    replacing: Vec<bool>,
    statements: Vec<Document>,
    seen: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Batch {
    /// The first of these upserts, as many as one command takes.
    fn of_first(upserts: &[Operation], tx: &Transaction, ns: &Namespace, collection: &Collection, me: TxId) -> Self {
        let mut batch = Batch::default();
        for upsert in upserts {
            let Operation::Update(command) = upsert else { break };
            let Ok((id, statement)) = statement_of(command, collection, me) else { break };
            // Writes of the bulk before this one, since the query, may have made the document. And
            // where the filter cannot match, the update says what the `_id` is.
            if !tx.is_untouched(ns, &id) || !batch.seen.insert(coarse_key(&id)) {
                break;
            }
            let given = |fields: &[&str]| upserted_fields(&command.filter, &command.update, &id, fields);
            let Some(questions) = questions_behind(&collection.uniques, given, me) else { break };
            if !batch.takes(id, command.replaces(), iter::once(statement).chain(questions).collect()) {
                break;
            }
        }
        batch
    }

    /// Returns true if the command has room for this upsert, with the questions behind it.
    fn takes(&mut self, id: Bson, replaces: bool, statements: Vec<Document>) -> bool {
        let bytes = |statement: &Document| statement.to_vec().map_or(BATCH_BYTES, |bytes| bytes.len());
        self.bytes += statements.iter().map(bytes).sum::<usize>();
        if self.bytes > BATCH_BYTES && !self.at.is_empty() {
            return false;
        }
        self.at.push(Address::bare(id));
        self.starts.push(self.statements.len());
        self.replacing.push(replaces);
        self.statements.extend(statements);
        true
    }
}

/// Returns the number of the first documents that were inserted and have the only claim to their
/// keys, and whether the next one was inserted as well, which a question behind it has refused.
/// `starts`: the places of the statements that insert.
fn inserted(answer: &WriteAnswer, starts: &[usize], ns: &Namespace) -> Result<(usize, bool)> {
    let (done, is_placed) = match answer.errors.first() {
        None => (starts.len(), false),
        Some((place, _)) => match starts.binary_search(place) {
            Ok(document) => (document, false),
            Err(next) => (next.saturating_sub(1), true),
        },
    };
    let sent = &starts[..done + usize::from(is_placed)];
    if answer.upserted.iter().map(|(place, _)| place).eq(sent) {
        return Ok((done, is_placed));
    }
    let message = format!("an upsert into {ns} changed a document instead of inserting one");
    Err(Error::new(ErrorKind::Corruption, message))
}

/// The `_id` of the document that an upsert inserts, and the statement that inserts it.
fn statement_of(command: &UpdateCommand, collection: &Collection, me: TxId) -> Result<(Bson, Document)> {
    let id = upsert_id(&command.filter, &command.update)?;
    let (id, replacement) = match &command.update {
        Update::Replacement(replacement) => {
            let (id, document) = replacement_to_insert(id, replacement);
            (id, Some(document))
        }
        _ => (id.unwrap_or_else(|| ObjectId::new().into()), None),
    };
    if pinned_ids(&command.filter).is_none() && !keeps_key(command, collection, &id) {
        let message = "an upsert by a key that its document does not keep cannot go with others";
        return Err(Error::unsupported(message.to_owned()));
    }
    if let Some(document) = replacement {
        check_pending(&document)?;
        let stored = pending_insert(me, &document, &ShardKey::default())?;
        return Ok((id, statement::insert_pending(&stored)));
    }
    let (q, u) = rewrite_upsert(&command.filter, &command.update, &id, &Document::new(), &tx_id_to_bson(me))?;
    Ok((id, doc! {"q": q, "u": u, "upsert": true, "multi": false}))
}

/// Returns true if the document that is inserted has the key by which the filter names it: then the
/// question behind the insert, and the mirrored index, find whatever document the filter matches.
fn keeps_key(command: &UpdateCommand, collection: &Collection, id: &Bson) -> bool {
    let Some(key) = collection.pinned_key(&command.filter) else { return false };
    let fields: Vec<&str> = key.keys().map(String::as_str).collect();
    let given = upserted_fields(&command.filter, &command.update, id, &fields);
    given.is_some_and(|given| has_all_values(&given, &key))
}
