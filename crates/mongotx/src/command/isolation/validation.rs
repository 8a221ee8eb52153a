//! Validation: at the commit, with all write locks held, what was read is read again.
//!
//! 1. Look at the change stamps of the collections that were read. (A look that is remembered will
//!    do: [`crate::coordinator::validating::looks`].)
//! 2. Read everything again that is not the transaction's own, as a transaction would that has
//!    written nothing ([`super::combined_rereads`]). An answer differs: a conflict.
//! 3. Look again. The same stamps: between the two looks no transaction was decided that has
//!    written there, so the answers are those of one moment, which is after the last lock was
//!    taken. One document by its `_id` may have been disturbed: the moment is that at which it was
//!    read again (at serializable only if nothing else was read). Other stamps: again from 2. Where
//!    others of this client wait for the transaction, and 2 is one command, this look is sent
//!    behind it, in the same write.
//!
//! If nothing is left but what the transaction holds and one document beside it, reading these once
//! *is* one moment. (In quiet it looks all the same: see below.) That it is the latest moment is
//! shown by the evidence of a commit that holds locks. At serializable, a transaction that holds
//! none looks all the same where several servers keep the data: a primary that was cut off does not
//! know what the others have, and answers no look.
//!
//! At serializable, besides: no rival that is not decided may hold a document that matters to a
//! read, because it is about to change it. A transaction without locks waits for it, one with locks
//! only if it is the older one, so that no two wait for each other; both for a bounded time. In
//! quiet ([`crate::coordinator::stamps::quiet`]) it passes rivals by, if the second look shows that
//! they will be validated again before they are decided.
//!
//! [`rounds`] repeats steps 2 and 3; here is what they consist of.

mod rounds;

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bson::{Bson, RawDocumentBuf, doc};
use futures_util::future::try_join_all;
use protocol::{TxId, TxStatus, Version, lock::visible_version};
use sd2v::{names::REMOVE, stored::whole_lock_state};

use super::{
    combined_rereads::{CombinedRereads, RereadPart},
    committed,
};
use crate::{
    command::{
        access_paths::{own_view, plan::Plan},
        query::documents::Documents,
    },
    coordinator::{
        Core,
        finishing::holders::Holder,
        read_set::{Entry, Point, Read, changed, witness::Digest},
        request::{fields::Fields, own_key::OwnKey, query_options::QueryOptions},
        server::live::LeadingWrite,
        stamps::{
            change_look::ChangeLook,
            tag::{Tag, Tags},
        },
        transaction::{Transaction, ValidationAhead},
        validating::unchanged::{Footprint, LookBehind, ReadBaseline},
    },
    document,
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Commands that one validation has under way at a time.
const AT_A_TIME: usize = 8;
/// Documents that one command fetches.
const MOST_POINTS: usize = 500;
/// Times that a document is fetched again because its writer finished between two commands.
const FETCHES: usize = 64;

/// Everything that the transaction has read, divided into what is read again and what is taken for
/// unchanged.
struct DividedReads<'a> {
    /// Reads that are sent again.
    parts: Vec<RereadPart<'a>>,
    /// Change stamps of those reads.
    asked: Tags,
    /// Stamps and fields on which the reads rest that are taken for unchanged.
    unasked: Footprint,
}

impl<'a> DividedReads<'a> {
    /// `baseline`: for what may be unchanged. `seems_unchanged`: whether what rests on this is, as
    /// far as can be said now.
    fn of(tx: &'a Transaction, baseline: Option<&ReadBaseline>, seems_unchanged: impl Fn(&Footprint) -> bool) -> Self {
        let (mut parts, mut asked_stamps, mut unasked) = (Vec::new(), Tags::new(), Footprint::new());
        let mut is_asked = |may_be_unchanged: bool, stamps: Vec<Tag>, fields: Fields| {
            let footprint: Footprint = stamps.into_iter().map(|tag| (tag, fields.clone())).collect();
            let is_unchanged = may_be_unchanged && seems_unchanged(&footprint);
            match is_unchanged {
                true => unasked.extend(footprint),
                false => asked_stamps.extend(footprint.into_iter().map(|(tag, _)| tag)),
            }
            !is_unchanged
        };
        for (ns, points) in tx.reads.points() {
            let may_be = baseline.is_some_and(|baseline| baseline.traces(ns));
            let mut is_asked = |key: &OwnKey| is_asked(may_be, Transaction::stamps_of_point(ns, key), Fields::All);
            let asked: Vec<&Point> = points.iter().filter(|(key, _)| is_asked(key)).map(|(_, point)| point).collect();
            parts.extend(asked.chunks(MOST_POINTS).map(|some| RereadPart::Points(ns, some.to_vec())));
        }
        let fields_of = |entry: &Entry| baseline.map_or(Fields::All, |baseline| baseline.fields_of(entry));
        let may_be = |entry: &Entry| baseline.is_some_and(|baseline| baseline.traces_all_of(entry));
        let entries = tx.reads.entries().iter();
        let asked =
            entries.filter(|entry| is_asked(may_be(entry), Transaction::stamps_of_entry(entry), fields_of(entry)));
        parts.extend(asked.map(RereadPart::Entry));
        Self { parts, asked: asked_stamps, unasked }
    }
}

/// Longest time between a validation ahead and the commit for which it counts. What others commit
/// in between comes behind the transaction: an application expects that of commits that overlap.
const LONGEST_AHEAD: Duration = Duration::from_secs(1);

/// At serializable, the rivals that are not decided and hold what was read.
type Rivals = BTreeSet<TxId>;

/// Result of reading again, if it was not a conflict.
struct Reread {
    rivals: Rivals,
    /// A look that began when all of it was read.
    look: Option<Arc<ChangeLook>>,
}

/// Validates what transactions have read. It has the whole client, because the commands that have
/// read something read it again, and these take it.
pub(crate) struct Validation<'a> {
    core: &'a Core,
}

impl<'c> Validation<'c> {
    pub(crate) fn of(core: &'c Core) -> Self {
        Self { core }
    }

    /// Makes sure that what the transaction has read is so at one moment after its last write.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: it is not, or a rival is about to change it.
    #[tracing::instrument(name = "mongotx.validate", level = "debug", skip_all)]
    pub(crate) async fn validate(&self, tx: &mut Transaction) -> Result<()> {
        if !tx.validates() {
            tx.attempts.won();
            return Ok(());
        }
        tx.reads.fix();
        if tx.reads.is_empty() || (!tx.is_serializable() && tx.only_read_one_document()) {
            tx.attempts.won();
            return Ok(());
        }
        self.core.server.at(Step::BeforeValidation).await;
        let valid = self.until_valid(tx).await;
        self.core.server.at(Step::AfterValidation).await;
        match &valid {
            Ok(()) => tx.attempts.won(),
            Err(lost) if lost.kind() == ErrorKind::Conflict => {
                tx.attempts.lost(tx.stamps_of_all_reads(), tx.quiet.as_ref())
            }
            Err(_) => {}
        }
        valid
    }

    /// The conflict of a transaction whose reads are not so any more; `None`: they are, or that
    /// cannot be found out now. It looks at single documents, too, for which no commit would be
    /// refused.
    pub(crate) async fn stale(&self, tx: &mut Transaction) -> Option<Error> {
        tx.reads.fix();
        if !tx.validates() || tx.reads.is_empty() {
            return None;
        }
        let stale = self.until_valid(tx).await.err().filter(|error| error.kind() == ErrorKind::Conflict)?;
        tx.attempts.lost(tx.stamps_of_all_reads(), tx.quiet.as_ref());
        Some(stale)
    }

    /// The same at the commit, for which a validation ahead of it counts.
    pub(crate) async fn validate_at_commit(&self, tx: &mut Transaction) -> Result<()> {
        if !self.is_validated_ahead(tx) {
            return self.validate(tx).await;
        }
        self.core.server.counters.add(&self.core.server.counters.validated_ahead, 1);
        tx.attempts.won();
        Ok(())
    }

    /// Returns true if the validation ahead has shown that all that the transaction has read was so
    /// at one moment, and if that moment is still behind everything that it has done.
    fn is_validated_ahead(&self, tx: &mut Transaction) -> bool {
        let is_soon = |ahead: &ValidationAhead| ahead.asked.elapsed() < LONGEST_AHEAD;
        let ahead = tx.ahead.take().filter(|ahead| ahead.reads == tx.reads.changes() && is_soon(ahead));
        ahead.is_some() && self.core.server.is_bound()
    }

    /// For what may be unchanged of what the transaction has read.
    pub(crate) async fn read_baseline(&self, tx: &Transaction) -> Option<ReadBaseline> {
        match &tx.begin_point {
            Some(begin_point) => Some(self.core.unchanged.baseline(begin_point.clone(), &tx.reads).await),
            None => None,
        }
    }

    /// Divides what has to be read again, as far as that is known now, from what seems unchanged.
    fn divide_reads<'a>(&self, tx: &'a Transaction, baseline: Option<&ReadBaseline>) -> DividedReads<'a> {
        let (last, known) = (self.core.looks.last(), RefCell::<HashMap<(Tag, Fields), bool>>::default());
        let seems_one = |baseline: &ReadBaseline, one: &(Tag, Fields), last: &ChangeLook| {
            let compare = || self.core.unchanged.is_unchanged(baseline, &Footprint::from([one.clone()]), last);
            *known.borrow_mut().entry(one.clone()).or_insert_with(compare)
        };
        // Thousands of documents share a few stamps, and each is compared with all records.
        let seems = |footprint: &Footprint| match (baseline, &last) {
            (Some(baseline), Some(last)) => footprint.iter().all(|one| seems_one(baseline, one, last)),
            _ => false,
        };
        DividedReads::of(tx, baseline, seems)
    }

    /// Returns true if what seemed unchanged is so, now that the later look has come.
    pub(crate) fn is_still_unchanged(
        &self,
        baseline: Option<&ReadBaseline>,
        unasked: &Footprint,
        later: &ChangeLook,
    ) -> bool {
        unasked.is_empty()
            || baseline.is_some_and(|baseline| self.core.unchanged.is_unchanged(baseline, unasked, later))
    }

    /// Step 2: reads all of this again: together what can be, the rest some commands at a time.
    /// Rivals that may not be passed by end it. `looks`: a look behind it is wanted.
    async fn read_again(&self, tx: &Transaction, parts: Vec<RereadPart<'_>>, looks: bool) -> Result<Reread> {
        let left = CombinedRereads::of(self.core).ask_together(tx, parts, looks, None).await?;
        let mut rivals = Rivals::new();
        for some in left.parts.chunks(AT_A_TIME) {
            let found = try_join_all(some.iter().map(|part| self.check_part(tx, part))).await?;
            rivals.extend(found.into_iter().flatten());
            if !rivals.is_empty() && !tx.is_in_quiet() {
                break;
            }
        }
        Ok(Reread { rivals, look: left.look })
    }

    /// Sends a write, and behind it steps 2 and 3. Returns their result if nothing is left to be
    /// read by itself.
    pub(crate) async fn ask_behind(
        &self,
        tx: &Transaction,
        baseline: Option<&ReadBaseline>,
        leading: &mut LeadingWrite<'_>,
    ) -> Option<LookBehind> {
        let DividedReads { parts, asked, unasked } = self.divide_reads(tx, baseline);
        if parts.is_empty() {
            let (_, later) = self.core.looks.ask_before_look(&[], Some(leading)).await.ok()??;
            return Some(LookBehind { later: later?, asked, unasked });
        }
        let left = CombinedRereads::of(self.core).ask_together(tx, parts, true, Some(leading)).await.ok()?;
        left.look.filter(|_| left.parts.is_empty()).map(|later| LookBehind { later, asked, unasked })
    }

    async fn check_part(&self, tx: &Transaction, part: &RereadPart<'_>) -> Result<Rivals> {
        match part {
            RereadPart::Points(ns, points) => self.check_points(tx, ns, points).await,
            RereadPart::Entry(entry) => self.check_entry(tx, entry).await,
        }
    }

    /// Returns true if one document, which is the transaction's own by now, is still as it was
    /// read.
    pub(crate) async fn check_point(&self, tx: &Transaction, ns: &Namespace, id: &Bson) -> Result<bool> {
        let Some(point) = tx.reads.point(ns, id) else { return Ok(true) };
        match self.check_points(tx, ns, &[point]).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            checked => checked.map(|_| true),
        }
    }

    /// Returns true if this read would be answered now as it was.
    pub(crate) async fn is_as_read(&self, tx: &Transaction, entry: &Entry) -> Result<bool> {
        Ok(self.ask_again(tx, entry).await? == entry.witness.digest())
    }

    async fn check_points(&self, tx: &Transaction, ns: &Namespace, points: &[&Point]) -> Result<Rivals> {
        let mut left: Vec<&Point> = points.to_vec();
        let (mut rivals, mut decided) = (Rivals::new(), HashSet::new());
        for _ in 0..FETCHES {
            let by_now = self.core.finisher.by_now();
            let stored = self.fetch_points(ns, &left).await?;
            let writers = stored.values().filter_map(|(_, writer)| *writer);
            let holders = self.core.holders.of(writers, by_now).await?;
            let status = |id: TxId| holders.get(&id).map(|holder| holder.status);
            let mut again = Vec::new();
            for point in left {
                let found = stored.get(&OwnKey::of(&point.id));
                let writer = found.and_then(|(_, writer)| *writer);
                if let Some(writer) = writer.filter(|writer| holders.get(writer).is_some_and(Holder::is_news))
                    && decided.insert((OwnKey::of(&point.id), writer))
                {
                    // It may have written to the document again since that was fetched, and before
                    // it was decided.
                    again.push(point);
                    continue;
                }
                let Some(version) = shown(found, |id| status(id).unwrap_or(TxStatus::RolledBack))? else {
                    again.push(point);
                    continue;
                };
                if Digest::of(version.as_deref()) != point.digest {
                    return Err(changed(ns, Some(&point.id)));
                }
                let is_rival = |writer: &TxId| Some(*writer) != tx.id() && status(*writer) == Some(TxStatus::Active);
                if tx.is_serializable() && !would_be_same(found, point) {
                    rivals.extend(writer.filter(is_rival));
                }
            }
            left = again;
            if left.is_empty() {
                return Ok(rivals);
            }
        }
        let message = format!("documents of {ns} were finished {FETCHES} times while they were validated");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Reads the documents as they are stored, with their holders.
    async fn fetch_points(&self, ns: &Namespace, points: &[&Point]) -> Result<HashMap<OwnKey, Stored>> {
        let ids: Vec<Bson> = points.iter().map(|point| point.id.clone()).collect();
        let find = doc! {"find": &ns.coll, "filter": {"_id": {"$in": ids}}};
        let found = self.core.server.collect_raw(&ns.db, find, points.len()).await?;
        let parse = |raw: RawDocumentBuf| {
            let locks = document::locks(&raw)?;
            let writer = whole_lock_state(&locks)?.writer;
            Ok((OwnKey::of(locks.get("_id").unwrap_or(&Bson::Null)), (raw, writer)))
        };
        found.into_iter().map(parse).collect()
    }

    async fn check_entry(&self, tx: &Transaction, entry: &Entry) -> Result<Rivals> {
        let is_own = entry.pinned.as_ref().is_some_and(|id| tx.is_own(&entry.ns, id));
        let mut rivals = if tx.is_serializable() && !is_own { self.rivals_of(tx, entry).await? } else { Rivals::new() };
        if let Some(holder) = rivals.first().filter(|_| rivals.len() == 1)
            && self.is_same_to(*holder, entry).await?
        {
            rivals.clear();
        }
        let is_asked = rivals.is_empty() || tx.is_in_quiet();
        if is_asked && !self.is_as_read(tx, entry).await? {
            return Err(changed(&entry.ns, entry.pinned.as_ref()));
        }
        Ok(rivals)
    }

    /// Returns true if the answer would be the same if this rival were committed. Only for reads of
    /// one document: of several, each rival could leave the answer as it is, and all of them
    /// together not.
    async fn is_same_to(&self, rival: TxId, entry: &Entry) -> Result<bool> {
        let (Read::Find(query), Some(_)) = (&entry.read, &entry.pinned) else { return Ok(false) };
        if query.options.find_only.is_some() {
            return Ok(false);
        }
        let answer = own_view::find(self.core, Some(&rival.into()), &entry.ns, query).await?.all_raw(2).await?;
        Ok(Digest::of(answer.iter().map(AsRef::as_ref)) == entry.witness.digest())
    }

    /// The digest of as much of the answer as was read at first.
    async fn ask_again(&self, tx: &Transaction, entry: &Entry) -> Result<Digest> {
        let answer = match &entry.read.probed() {
            Read::Find(query) => committed::find(self.core, None, &entry.ns, query).await?,
            Read::Aggregate(command) => Plan::of(self.core, None, &entry.ns, command).await?.run(self.core).await?,
            Read::Count(query) => {
                return Ok(Digest::of_count(committed::count(self.core, None, &entry.ns, query).await?));
            }
            Read::Distinct(field, query) => {
                return Digest::of_values(&committed::distinct(self.core, None, &entry.ns, field, query).await?);
            }
        };
        digest_like(answer, entry, tx).await
    }

    /// The active transactions that hold a document which matters to the read.
    async fn rivals_of(&self, tx: &Transaction, entry: &Entry) -> Result<Rivals> {
        let conditions = match &entry.read {
            Read::Find(query) | Read::Count(query) | Read::Distinct(_, query) => {
                vec![(entry.ns.clone(), query.filter.clone(), query.options.clone())]
            }
            Read::Aggregate(command) => {
                let options = QueryOptions { collation: command.options.collation.clone(), ..QueryOptions::default() };
                let reads = Plan::of(self.core, None, &entry.ns, command).await?.reads();
                reads.into_iter().map(|(ns, condition)| (ns, condition, options.clone())).collect()
            }
        };
        let mut rivals = Rivals::new();
        for (ns, condition, options) in &conditions {
            rivals.extend(self.core.pending.active_writers(ns, condition, options, tx.id()).await?);
        }
        Ok(rivals)
    }
}

/// Returns true if the document would be the same if its holder were committed.
fn would_be_same(found: Option<&Stored>, point: &Point) -> bool {
    let changed = found.and_then(|(raw, _)| document::unsafe_version(raw));
    let is_removed = found.is_some_and(|(raw, _)| !matches!(raw.get(REMOVE), Ok(None)));
    !is_removed && changed.is_some_and(|changed| Digest::of([&*changed]) == point.digest)
}

/// A document as stored, and its writer.
type Stored = (RawDocumentBuf, Option<TxId>);

/// Version that a client sees which has written nothing: the outer `None`, if it has to be fetched
/// again.
fn shown(found: Option<&Stored>, status: impl Fn(TxId) -> TxStatus) -> Result<Option<Option<RawDocumentBuf>>> {
    let Some((raw, writer)) = found else { return Ok(Some(None)) };
    if writer.is_none() {
        return document::stripped(raw.clone()).map(|document| Some(Some(document)));
    }
    let lock = whole_lock_state(&document::locks(raw)?)?;
    Ok(match visible_version(&lock, None, status) {
        Some(Version::Absent) => Some(None),
        Some(Version::Safe) => Some(Some(document::stripped(raw.clone())?)),
        Some(Version::Unsafe) => Some(document::unsafe_version(raw)),
        None => None,
    })
}

/// The digest of the documents of others, up to as many as were read at first if that was not all.
async fn digest_like(mut answer: Documents, entry: &Entry, tx: &Transaction) -> Result<Digest> {
    let (mut digest, before) = (Digest::default(), entry.witness.digest());
    while before.complete || digest.documents < before.documents {
        let Some(document) = answer.next().await else {
            digest.complete = before.complete;
            return Ok(digest);
        };
        let document = document?;
        if !is_own(&document, entry, tx) {
            digest.add(&document);
        }
        if digest.documents > before.documents {
            return Ok(digest);
        }
    }
    Ok(digest)
}

fn is_own(document: &RawDocumentBuf, entry: &Entry, tx: &Transaction) -> bool {
    let id = |document: &RawDocumentBuf| Bson::try_from(document.get("_id").ok()??).ok();
    entry.own > 0 && id(document).is_some_and(|id| tx.was_own(&entry.ns, &id, entry.own))
}
