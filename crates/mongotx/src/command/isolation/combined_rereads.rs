//! Reads that a validation sends again together: in one write or one command for each database
//! ([`crate::command::query::reads_in_order`]).
//!
//! | read | its part | it counts if |
//! | --- | --- | --- |
//! | by `_id`s | the documents as they are stored | their lock fields: no other transaction holds one of them, or, at snapshot, the holder is active after the answer |
//! | fields by one `_id` | those fields, and the unsafe version of the document | its lock, likewise; or its two versions answer the same |
//! | by one `_id` at serializable | the document as it is stored, whole | its lock: no other transaction holds it, or its two versions answer the same |
//! | by a key of a unique index | the documents that have it in any version, as they are stored | no other transaction holds one of them but committed ones of this client; or, at snapshot, the holder is active after the answer |
//! | any other `find` | a probe for pending documents that it might see, then the safe versions that match | the probe finds none |
//! | which document is the first in an order | the same, once for all such reads of a collection, of documents that could come before it | the probe finds none |
//!
//! A part is read when the part before it was answered (of an answer of many documents, the first
//! ones). Parts whose answer does not count, and those with another answer than before, are left to
//! be read by themselves: the result of that decides.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use protocol::{LockState, TxId, TxStatus, Version, lock::visible_version};
use sd2v::{filter::is_only_id, names::WRITER, projection, stored::lock_state};

use crate::{
    command::{
        access_paths::{fetch, fetch_key, one_command},
        query::reads_in_order::{ReadStep, StepAnswers, is_flags},
    },
    coordinator::{
        Core,
        finishing::finisher::ByNow,
        read_set::{Entry, Point, Read, witness::Digest},
        request::{own_key::OwnKey, query::Query},
        server::live::LeadingWrite,
        stamps::change_look::ChangeLook,
        transaction::Transaction,
    },
    document,
    error::Result,
    options::Namespace,
};

/// Limit of reads that one command sends again.
const MOST_REREADS: usize = 64;

/// One or several reads that are sent again by the same stages of a pipeline.
pub(crate) enum RereadPart<'a> {
    /// Documents of a collection, by their `_id`s.
    Points(&'a Namespace, Vec<&'a Point>),
    /// A read of any other kind.
    Entry(&'a Entry),
}

impl<'a> RereadPart<'a> {
    fn ns(&self) -> &'a Namespace {
        match self {
            Self::Points(ns, _) => ns,
            Self::Entry(entry) => &entry.ns,
        }
    }

    fn query(&self) -> Option<&'a Query> {
        match self {
            Self::Entry(Entry { read: Read::Find(query), .. }) => Some(query),
            _ => None,
        }
    }
}

/// Result of reading together: the parts that are left.
pub(crate) struct RemainingParts<'a> {
    pub(crate) parts: Vec<RereadPart<'a>>,
    /// A look that began when the answers were there; nothing was read behind it.
    pub(crate) look: Option<Arc<ChangeLook>>,
}

/// Form in which a part is read.
#[derive(Default)]
struct PartForm {
    /// Condition of pending documents, if these have to be known before.
    pending: Option<Document>,
    /// The documents that matter, if one probe looks for the pending ones among them and among
    /// those of other parts.
    matter: Option<Document>,
    answer: Vec<Document>,
    /// For whatever has a key, or the `_id`, in any version; whole.
    is_by_key: bool,
}

impl PartForm {
    /// Returns true if the documents of the answer show by their locks who holds them.
    fn shows_locks(&self) -> bool {
        self.pending.is_none() && self.matter.is_none()
    }
}

/// Answer of the server to one of the reads, as far as it is known to be current.
#[derive(Default)]
struct Answer {
    /// The documents are as they are stored, so that their locks show which transaction holds them.
    has_locks: bool,
    /// The documents are whole, and of those that others see the ones that have a key, or the
    /// `_id`, are the answer.
    is_by_key: bool,
    /// Another transaction may be changing what it reads, so it has to be read by itself.
    is_open: bool,
    digest: Digest,
    /// Documents that other transactions hold, each with that transaction. The document is as it
    /// was before if that transaction is still active.
    held: Vec<(TxId, RawDocumentBuf)>,
    /// The digests of the documents, where each of them is compared; `None`: the document's visible
    /// version is not known.
    documents: HashMap<OwnKey, Option<Digest>>,
}

/// Sends reads again together. It has the whole client, because the commands that the reads were
/// made with decide how they are sent, and these take it.
pub(super) struct CombinedRereads<'a> {
    core: &'a Core,
}

impl<'c> CombinedRereads<'c> {
    pub(crate) fn of(core: &'c Core) -> Self {
        Self { core }
    }

    /// Reads again what can be read together. The parts that are left have to be read by
    /// themselves.
    ///
    /// `looks`: a look at the change stamps is wanted behind all of it. `leading`: this write goes
    /// before all of it; nothing is read where that cannot be.
    pub(crate) async fn ask_together<'a>(
        &self,
        tx: &Transaction,
        parts: Vec<RereadPart<'a>>,
        looks: bool,
        mut leading: Option<&mut LeadingWrite<'_>>,
    ) -> Result<RemainingParts<'a>> {
        let (mut left, mut look) = (Vec::new(), None);
        let mut by_database: BTreeMap<&str, Vec<(RereadPart<'a>, PartForm)>> = BTreeMap::new();
        for part in parts {
            match self.asked(tx, &part).await? {
                Some(asked) => by_database.entry(&part.ns().db).or_default().push((part, asked)),
                None => left.push(part),
            }
        }
        let is_one = by_database.len() == 1 && by_database.values().all(|asked| asked.len() <= MOST_REREADS);
        let looks = looks && left.is_empty() && is_one;
        if leading.is_some() && !looks {
            left.extend(by_database.into_values().flatten().map(|(part, _)| part));
            return Ok(RemainingParts { parts: left, look: None });
        }
        for (db, mut asked) in by_database {
            while !asked.is_empty() {
                let rest = asked.split_off(asked.len().min(MOST_REREADS));
                let some = self.ask_some(tx, db, asked, looks, leading.as_deref_mut()).await;
                left.extend(some.parts);
                look = some.look;
                asked = rest;
            }
        }
        // Parts that are read by themselves are read later than the look.
        let look = look.filter(|_| looks && left.is_empty());
        Ok(RemainingParts { parts: left, look })
    }

    async fn ask_some<'a>(
        &self,
        tx: &Transaction,
        db: &str,
        asked: Vec<(RereadPart<'a>, PartForm)>,
        looks: bool,
        leading: Option<&mut LeadingWrite<'_>>,
    ) -> RemainingParts<'a> {
        let (parts, asked): (Vec<RereadPart<'a>>, Vec<PartForm>) = asked.into_iter().unzip();
        // One alone has a shorter way, behind which no look is sent, and which would ask what has
        // become of the transaction itself.
        let meets_own = |part: &RereadPart<'_>, asked: &PartForm| !asked.shows_locks() && tx.has_written(part.ns());
        if parts.len() < 2 && !looks && !parts.iter().zip(&asked).any(|(part, asked)| meets_own(part, asked)) {
            return RemainingParts { parts, look: None };
        }
        let (answers, look) = match self.answers(tx, db, &parts, asked, looks, leading).await {
            Ok(answers) => answers,
            Err(error) => {
                // By itself each part has its own way to an answer, or to an error that names it.
                tracing::debug!(%error, "what was read could not be asked together");
                return RemainingParts { parts, look: None };
            }
        };
        let undecided = |(part, answer): (RereadPart<'a>, Answer)| answer.left_of(part);
        RemainingParts { parts: parts.into_iter().zip(answers).filter_map(undecided).collect(), look }
    }

    /// Form of a part's read. `None`: it has to be read by itself.
    async fn asked(&self, tx: &Transaction, part: &RereadPart<'_>) -> Result<Option<PartForm>> {
        if self.core.catalog.look_up(part.ns()).await?.has_collation {
            return Ok(None);
        }
        let (Some(query), RereadPart::Entry(entry)) = (part.query(), part) else {
            let RereadPart::Points(_, points) = part else { return Ok(None) };
            let ids: Vec<Bson> = points.iter().map(|point| point.id.clone()).collect();
            let answer = vec![doc! {"$match": {"_id": {"$in": ids}}}];
            return Ok(Some(PartForm { answer, ..PartForm::default() }));
        };
        if !entry.witness.digest().complete || !query.options.is_plain() || query.options.hint.is_some() {
            return Ok(None);
        }
        if entry.witness.digest().documents > 0 && is_only_id(&query.filter) {
            let project = both_versions(query).map(|shown| doc! {"$project": shown});
            if project.is_some() || tx.is_serializable() && fetch_key::is_answered_here(query) {
                let answer = [doc! {"$match": query.filter.clone()}].into_iter().chain(project).collect();
                return Ok(Some(PartForm { answer, is_by_key: true, ..PartForm::default() }));
            }
        }
        if let Some(answer) = self.fetched(&entry.ns, query).await? {
            return Ok(Some(PartForm { answer, ..PartForm::default() }));
        }
        // That there was no document takes two reads.
        if entry.witness.digest().documents > 0 && fetch_key::is_for_this_way(self.core, &entry.ns, query).await? {
            let answer = vec![doc! {"$match": fetch_key::in_any_version(&query.filter)}];
            return Ok(Some(PartForm { answer, is_by_key: true, ..PartForm::default() }));
        }
        let Some(answer) = one_command::answer_stages(self.core, &entry.ns, query).await? else { return Ok(None) };
        if let Some(ahead) = &entry.ahead {
            let matter = doc! {"$and": [query.filter.clone(), ahead.clone()]};
            return Ok(Some(PartForm { matter: Some(matter), answer, ..PartForm::default() }));
        }
        let pending = self.core.pending.pending_filter(&entry.ns, &query.filter, tx.id()).await?;
        Ok(Some(PartForm { pending: Some(pending), answer, ..PartForm::default() }))
    }

    /// Sends one probe for everything that is pending and matters to one of several parts, before
    /// the first of them. Returns, by the place of that one, the places of those parts.
    async fn share_pending(
        &self,
        tx: &Transaction,
        parts: &[RereadPart<'_>],
        asked: &mut [PartForm],
    ) -> Result<HashMap<usize, Vec<usize>>> {
        let mut by_collection: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, (part, _)) in parts.iter().zip(&*asked).enumerate().filter(|(_, (_, asked))| asked.matter.is_some())
        {
            by_collection.entry(&part.ns().coll).or_default().push(place);
        }
        let mut shared = HashMap::new();
        for places in by_collection.into_values() {
            let matter: Vec<Document> = places.iter().filter_map(|place| asked.get(*place)?.matter.clone()).collect();
            let Some((first, part)) = places.first().and_then(|first| Some((*first, parts.get(*first)?))) else {
                continue;
            };
            let pending = self.core.pending.pending_filter(part.ns(), &doc! {"$or": matter}, tx.id()).await?;
            asked.get_mut(first).into_iter().for_each(|asked| asked.pending = Some(pending.clone()));
            shared.insert(first, places);
        }
        Ok(shared)
    }

    /// The stages that fetch the documents in question, locked or not.
    async fn fetched(&self, ns: &Namespace, query: &Query) -> Result<Option<Vec<Document>>> {
        let filter = match fetch::by_id_filter(self.core, None, ns, query).await? {
            Some(filter) => Some(filter),
            None => fetch::by_ids_filter(self.core, ns, query).await?,
        };
        let shown = query.projection.as_ref().filter(|projection| !projection.is_empty());
        if shown.is_some_and(|projection| !is_flags(projection)) {
            return Ok(None);
        }
        Ok(filter.map(|filter| {
            let project = shown.map(|shown| doc! {"$project": projection::with_lock_fields(shown)});
            [doc! {"$match": filter}].into_iter().chain(project).collect()
        }))
    }

    async fn answers(
        &self,
        tx: &Transaction,
        db: &str,
        parts: &[RereadPart<'_>],
        mut asked: Vec<PartForm>,
        looks: bool,
        leading: Option<&mut LeadingWrite<'_>>,
    ) -> Result<(Vec<Answer>, Option<Arc<ChangeLook>>)> {
        let shared = self.share_pending(tx, parts, &mut asked).await?;
        let empty = |asked: &PartForm| Answer {
            has_locks: asked.shows_locks(),
            is_by_key: asked.is_by_key,
            ..Answer::default()
        };
        let mut answers: Vec<Answer> = asked.iter().map(empty).collect();
        let by_now = self.core.finisher.by_now();
        self.core.server.counters.add(&self.core.server.counters.validation_questions, 1);
        let (mut found, look) = StepAnswers::ask(self.core, db, steps(parts, asked), looks, leading).await?;
        while let Some((place, document)) = found.next().await? {
            let Some(document) = document else {
                let open = shared.get(&place).cloned().unwrap_or_else(|| vec![place]);
                open.into_iter()
                    .for_each(|place| answers.get_mut(place).into_iter().for_each(|part| part.is_open = true));
                continue;
            };
            if let (Some(part), Some(answer)) = (parts.get(place), answers.get_mut(place)) {
                answer.add(tx, part, &document)?;
            }
        }
        let has_asked = self.settle_held(tx, parts, &mut answers, by_now).await?;
        for answer in &mut answers {
            answer.digest.complete = true;
            // A document that moves between its versions meanwhile may be missed in both.
            answer.is_open |= answer.is_by_key && answer.digest.documents == 0;
        }
        // A look that is older than the reading of statuses proves less than the model knows.
        Ok((answers, look.filter(|_| !has_asked)))
    }

    /// Looks up the holders of the documents that were found held. A holder that is active after
    /// the fetch was active before: others see the document as if it were not held; at serializable
    /// it is a rival in the way. A holder that was committed before the fetch has left the document
    /// as it is. The holder's status does not matter where both versions answer the same. Returns
    /// true if a status was read.
    async fn settle_held(
        &self,
        tx: &Transaction,
        parts: &[RereadPart<'_>],
        answers: &mut [Answer],
        by_now: ByNow,
    ) -> Result<bool> {
        let (mut open, mut asked) = (Vec::new(), HashSet::new());
        for (place, (part, answer)) in parts.iter().zip(&mut *answers).enumerate() {
            let is_whole = answer.is_by_key || matches!(part, RereadPart::Points(..));
            for (holder, stored) in std::mem::take(&mut answer.held) {
                let lock = lock_state(&document::locks(&stored)?)?;
                let is_known = self.core.finisher.was_committed(holder, by_now);
                if !is_known && is_whole && answer.take_either(part, &stored, &lock)? {
                    continue;
                }
                // At serializable every holder is in the way, active or not.
                if is_known || !tx.is_serializable() {
                    asked.insert(holder);
                }
                open.push((place, holder, is_known, stored, lock));
            }
        }
        let has_asked = !asked.is_empty();
        let holders = self.core.holders.of(asked, by_now).await?;
        for (place, holder, was_known, stored, lock) in open {
            let (Some(part), Some(answer)) = (parts.get(place), answers.get_mut(place)) else { continue };
            let is_whole = answer.is_by_key || matches!(part, RereadPart::Points(..));
            let status = holders.get(&holder).filter(|holder| !holder.is_news()).map(|holder| holder.status);
            let status = status.filter(|status| match status {
                TxStatus::Active => true,
                TxStatus::Committed => is_whole,
                TxStatus::RolledBack | TxStatus::Finished => false,
            });
            // Holders whose commit was not known have failed this check already.
            if status.is_none() && is_whole && was_known && answer.take_either(part, &stored, &lock)? {
                continue;
            }
            let visible = status.and_then(|status| visible_version(&lock, None, |_| status));
            answer.take(part, &stored, visible)?;
        }
        Ok(has_asked)
    }
}

/// The steps that read all parts, in their order.
fn steps(parts: &[RereadPart<'_>], asked: Vec<PartForm>) -> Vec<ReadStep> {
    let mut steps = Vec::new();
    for (place, (part, asked)) in parts.iter().zip(asked).enumerate() {
        let coll = &part.ns().coll;
        steps.extend(asked.pending.map(|pending| ReadStep::probe(place, coll, pending)));
        steps.push(ReadStep::answer(place, coll, asked.answer));
    }
    steps
}

/// Projection for a document that is read by its `_id`: the fields in question, the unsafe version,
/// the lock and the `_id`. `None`: the whole document has to be fetched.
fn both_versions(query: &Query) -> Option<Document> {
    let shown = query.projection.as_ref().filter(|_| fetch_key::is_answered_here(query))?;
    let is_shown = |value: &Bson| !matches!(value, Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0));
    if shown.is_empty() || !is_flags(shown) || !shown.values().all(is_shown) {
        return None;
    }
    Some(projection::with_both_versions(shown))
}

impl Answer {
    /// A document of the answer, as it is stored.
    fn add(&mut self, tx: &Transaction, part: &RereadPart<'_>, stored: &RawDocument) -> Result<()> {
        let locks = document::locks(stored)?;
        let id = locks.get("_id").unwrap_or(&Bson::Null);
        if let RereadPart::Entry(entry) = part
            && entry.own > 0
            && tx.was_own(&entry.ns, id, entry.own)
        {
            return Ok(());
        }
        if !self.has_locks || !locks.contains_key(WRITER) {
            return self.take(part, stored, Some(Version::Safe));
        }
        let matches = self.is_by_key || part.query().is_none_or(|query| is_only_id(&query.filter));
        match lock_state(&locks)?.writer.filter(|_| matches) {
            Some(writer) if Some(writer) == tx.id() => self.take(part, stored, undecided_version(&locks)?),
            Some(writer) => {
                self.held.push((writer, stored.to_owned()));
                Ok(())
            }
            None => self.take(part, stored, None),
        }
    }

    /// Takes a document that a transaction holds, if the read is answered the same whether or not
    /// the holder commits: then it is not in the way. (What the holder writes later, it writes
    /// after this.) False: the answers differ.
    fn take_either(&mut self, part: &RereadPart<'_>, stored: &RawDocument, lock: &LockState) -> Result<bool> {
        let Some(pending) = document::unsafe_version(stored).filter(|_| !lock.insert && !lock.remove) else {
            return Ok(false);
        };
        let safe = document::stripped(stored.to_owned())?;
        let is_same = match part {
            RereadPart::Points(..) => Digest::of([&*safe]) == Digest::of([&*pending]),
            RereadPart::Entry(Entry { read: Read::Find(query), .. }) if self.is_by_key => {
                let safe = fetch_key::answered(query, safe)?;
                safe.is_some() && safe == fetch_key::answered(query, pending)?
            }
            RereadPart::Entry(_) => false,
        };
        if is_same {
            self.take(part, stored, Some(Version::Safe))?;
        }
        Ok(is_same)
    }

    /// Takes the version of a document that others see; `None`: that version is not known.
    fn take(&mut self, part: &RereadPart<'_>, stored: &RawDocument, visible: Option<Version>) -> Result<()> {
        let shown = match visible {
            Some(Version::Absent) => return Ok(()),
            Some(Version::Safe) => Some(document::stripped(stored.to_owned())?),
            Some(Version::Unsafe) => document::unsafe_version(stored),
            None => None,
        };
        match (part, shown) {
            (RereadPart::Points(..), shown) => {
                let id = stored.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
                self.documents.insert(OwnKey::of(&id), shown.map(|shown| Digest::of([&*shown])));
            }
            (RereadPart::Entry(Entry { read: Read::Find(query), .. }), Some(shown)) if self.is_by_key => {
                match fetch_key::answered(query, shown)? {
                    Some(shown) => shown.iter().for_each(|shown| self.digest.add(shown)),
                    None => self.is_open = true,
                }
            }
            (RereadPart::Entry(_), Some(shown)) => self.digest.add(&shown),
            (RereadPart::Entry(_), None) => self.is_open = true,
        }
        Ok(())
    }

    /// Rest of the part, for which this does not answer.
    fn left_of<'a>(&self, part: RereadPart<'a>) -> Option<RereadPart<'a>> {
        match part {
            RereadPart::Points(ns, points) => {
                let nothing = Some(Digest::of([]));
                let found = |point: &Point| *self.documents.get(&OwnKey::of(&point.id)).unwrap_or(&nothing);
                let left: Vec<&Point> = points.into_iter().filter(|point| found(point) != Some(point.digest)).collect();
                (!left.is_empty()).then_some(RereadPart::Points(ns, left))
            }
            RereadPart::Entry(entry) => (self.is_open || self.digest != entry.witness.digest()).then_some(part),
        }
    }
}

/// The version that others see of a document whose holder is not decided.
fn undecided_version(locks: &Document) -> Result<Option<Version>> {
    Ok(visible_version(&lock_state(locks)?, None, |_| TxStatus::Active))
}
