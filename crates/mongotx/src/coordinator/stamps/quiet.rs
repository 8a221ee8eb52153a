//! Quiet for a reader that has lost its validation again and again: for a moment no transaction is
//! decided where it reads.
//!
//! 1. It writes into every open record, by one command, that no decision may set one of these
//!    change stamps until a moment that is soon by the server's clock. A record holds the quiet of
//!    one reader at a time.
//! 2. An owner whose decision is refused for that leaves out the transactions in question and sends
//!    the others; it tries again a little later ([`crate::coordinator::decisions::client_record`]).
//! 3. The reader ends it when its validation has come to its end, before it waits for a rival, and
//!    before its own first lock.
//!
//! The reader's part, 1 and 3, is in [`crate::coordinator::validating::quiet_reader`]; whether its
//! session needs quiet is in [`super::attempts`].
//!
//! What was read is validated all the same. A record that does not hold the quiet (it was made
//! meanwhile, or holds another reader's), a reader that dies, or a clock that jumps costs time and
//! no more.
//!
//! A read that takes longer than its quiet is disturbed all the same. The next one of its session
//! is twice as long, and the one after that four times. The owner of a record heeds it for as long,
//! and half a second more (decision 0064).
//!
//! A serializable reader in quiet need not wait for rivals that hold what it has read, if its
//! second look shows that their records still hold its quiet: a decision at serializable demands
//! that no quiet was set where it writes, or that it was over when its own validation began
//! ([`Heard`], [`Conditions`]). Otherwise the transaction is validated again, and what it has read
//! may not have been changed by then. Clocks decide when quiet is to end, but it is over when the
//! record shows it.

use std::{
    collections::BTreeSet,
    sync::Weak,
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc, oid::ObjectId};
use futures_util::future::BoxFuture;
use protocol::TxId;
use tokio::runtime::Handle;
use tracing::instrument::WithSubscriber;

use super::{
    change_look::ChangeLook,
    tag::{Tag, Tags},
};
use crate::{error::Result, numbers::as_i64};

/// Time for which a reader has quiet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Length {
    doublings: u32,
}

impl Length {
    /// Doublings of the longest. With more, transactions that are held back would keep others
    /// waiting for longer than their limits: see decision 0064.
    const LONGEST: u32 = 2;
    /// Milliseconds of the shortest, and at most this part of a record's lease.
    const SHORTEST_MS: i64 = 500;
    const LEASES: u32 = 8;

    fn stored(doublings: Option<&Bson>) -> Self {
        let doublings = doublings.map_or(0, as_i64).clamp(0, i64::from(Self::LONGEST));
        Self::of(u32::try_from(doublings).unwrap_or(0))
    }

    /// The shortest, doubled so often; not more than the longest.
    pub(super) fn of(doublings: u32) -> Self {
        Self { doublings: doublings.min(Self::LONGEST) }
    }

    fn times(self, shortest: Duration) -> Duration {
        shortest * 2_u32.pow(self.doublings)
    }

    /// The longest in a record with this lease.
    pub(in crate::coordinator) fn longest(self, lease: Duration) -> Duration {
        let shortest = Duration::from_millis(Self::SHORTEST_MS.unsigned_abs());
        self.times(shortest.min(lease / Self::LEASES))
    }

    /// Time for which a decision heeds the quiet of readers, one after the other, if the last one
    /// has requested this length.
    pub(crate) fn longest_held(self) -> Duration {
        self.longest(Duration::MAX) + Duration::from_millis(500)
    }

    /// Expression of the server for the time at which a quiet of this length ends.
    fn until(self) -> Document {
        let shortest = doc! {"$min": [Self::SHORTEST_MS, {"$divide": ["$leaseMs", i64::from(Self::LEASES)]}]};
        doc! {"$add": ["$$NOW", {"$multiply": [2_i64.pow(self.doublings), shortest]}]}
    }

    /// The field of a record for a quiet of this name, where these stamps are not to be set.
    pub(crate) fn asked(self, by: ObjectId, tags: Vec<Bson>) -> Document {
        let doublings = i64::from(self.doublings);
        let (tags, until) = (doc! {"$literal": tags}, self.until());
        doc! {"by": by, "tags": tags, "until": until, "doublings": doublings, "over": false, "before": "$quiet.by"}
    }
}

/// Quiet that a transaction has requested. Dropped, it ends in the background.
pub(crate) struct Quiet {
    by: ObjectId,
    /// The change stamps that are not to be set.
    stamps: Tags,
    ends: Weak<QuietEnd>,
    /// Time at which it runs out.
    until: Instant,
    /// True if it had run out when it was ended.
    has_run_out: bool,
    /// The record's answer to the request for quiet has come.
    is_asked: bool,
    is_over: bool,
}

impl Quiet {
    /// Quiet of this name that is about to be requested.
    pub(in crate::coordinator) fn new(by: ObjectId, stamps: Tags, ends: Weak<QuietEnd>, longest: Duration) -> Self {
        let until = Instant::now() + longest;
        Self { by, stamps, ends, until, has_run_out: false, is_asked: false, is_over: false }
    }

    /// Returns true if it was granted, and has lasted for as long as it may.
    pub(crate) fn has_run_out(&self) -> bool {
        self.has_run_out || self.stands() && Instant::now() >= self.until
    }

    /// Notes that the records have answered the request.
    pub(in crate::coordinator) fn note_asked(&mut self) {
        self.is_asked = true;
    }

    /// Ends it, if it is not over.
    pub(in crate::coordinator) async fn end(&mut self, ends: &QuietEnd) {
        if !self.is_over {
            self.has_run_out = self.has_run_out();
            ends.end(self.by).await;
            self.is_over = true;
        }
    }

    /// Name of the quiet, if it is certain that no record hears of it later.
    pub(crate) fn asked(&self) -> Option<ObjectId> {
        self.is_asked.then_some(self.by)
    }

    /// Returns true if quiet was granted and has not ended.
    pub(crate) fn stands(&self) -> bool {
        self.is_asked && !self.is_over
    }

    /// Returns true if this look shows that all these rivals will be validated again before they
    /// are decided, if they change what has these stamps.
    pub(crate) fn covers(&self, rivals: &BTreeSet<TxId>, stamps: &Tags, look: &ChangeLook) -> bool {
        let is_asked = |rival: &TxId| look.quiet_of(rival.client) == Some(self.by);
        self.stands() && stamps.is_subset(&self.stamps) && rivals.iter().all(is_asked)
    }
}

/// The quiets that a transaction knows when it is to be decided. Another one in its client's record
/// holds its decision back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Every quiet counts as known: nothing that the transaction has read has to be validated
    /// again.
    Any,
    /// The quiets of these names, which were over when its validation began, or are its own.
    These(Vec<ObjectId>),
}

impl Heard {
    /// Returns true if it has heard of the quiet of this name.
    pub(crate) fn knows(&self, by: ObjectId) -> bool {
        match self {
            Self::Any => true,
            Self::These(these) => these.contains(&by),
        }
    }
}

/// Conditions on the record of the transactions in a group that have to be validated again after a
/// quiet that they have not heard of.
///
/// Names only advance: a quiet that was set is the last one in the record, or the one before it, or
/// forgotten together with these. So a group that has heard of neither, [`Verdict::Deaf`], is never
/// decided as it is, nor is a late copy of its decision.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// The change stamps that they set.
    changed: BTreeSet<Tag>,
    /// The quiet that all of them have heard of.
    heard: BTreeSet<ObjectId>,
}

/// The consequence of the quiet in its record for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No quiet concerns the transaction: it can be decided.
    Free,
    /// The transaction has to wait until the quiet is over.
    Waits,
    /// The transactions that have not heard of this quiet, which is over, have to be validated
    /// again.
    Deaf(ObjectId),
}

impl Conditions {
    /// Of members that set these stamps, and have heard of these.
    pub(crate) fn of<'a>(members: impl Iterator<Item = (&'a [Tag], &'a [ObjectId])>) -> Self {
        let mut all: Option<Self> = None;
        for (changed, heard) in members.filter(|(changed, _)| !changed.is_empty()) {
            let changed = changed.iter().copied();
            match &mut all {
                None => all = Some(Self { changed: changed.collect(), heard: heard.iter().copied().collect() }),
                Some(all) => {
                    all.changed.extend(changed);
                    all.heard.retain(|by| heard.contains(by));
                }
            }
        }
        all.unwrap_or_default()
    }

    /// The same as [`Conditions::expression`], and what is to be done where that does not hold.
    pub(crate) fn verdict(&self, quiet: &StoredQuiet) -> Verdict {
        let disturbs = self.changed.iter().any(|stamp| quiet.tags.contains(stamp));
        let knows = |by: &ObjectId| self.heard.contains(by);
        let unknown = quiet.before.filter(|before| !knows(before));
        match unknown {
            _ if self.changed.is_empty() || quiet.is_over && knows(&quiet.by) => Verdict::Free,
            None if !disturbs => Verdict::Free,
            _ if quiet.is_over => Verdict::Deaf(quiet.by),
            Some(before) if !disturbs && !knows(&quiet.by) => Verdict::Deaf(before),
            _ => Verdict::Waits,
        }
    }

    /// The condition on the record for the group to be decided. `None`: any record will do.
    pub(crate) fn expression(&self) -> Option<Document> {
        if self.changed.is_empty() {
            return None;
        }
        let heard: Vec<Bson> = self.heard.iter().map(|by| Bson::ObjectId(*by)).collect();
        let is_over = doc! {"$ne": ["$quiet.over", false]};
        let is_known = doc! {"$and": [is_over, {"$in": ["$quiet.by", heard.clone()]}]};
        let none_before = doc! {"$eq": [{"$type": "$quiet.before"}, "missing"]};
        let known_before = doc! {"$or": [none_before, {"$in": ["$quiet.before", heard]}]};
        let is_elsewhere = doc! {"$and": [{"$not": disturbs(&self.changed)}, known_before]};
        Some(doc! {"$or": [is_known, is_elsewhere]})
    }
}

/// Condition on a record: one of these stamps would be set where its quiet is, or was last. If
/// quiet was never set, the intersection is null.
pub(crate) fn disturbs(changed: &BTreeSet<Tag>) -> Document {
    let changed: Vec<String> = changed.iter().map(Tag::to_string).collect();
    doc! {"$gt": [{"$size": {"$ifNull": [{"$setIntersection": ["$quiet.tags", changed]}, []]}}, 0]}
}

/// Quiet as a record holds it.
#[derive(Clone, Debug)]
pub(crate) struct StoredQuiet {
    pub(crate) by: ObjectId,
    tags: Tags,
    /// The quiet has ended; it stays in the record for transactions that began to validate before
    /// that.
    pub(crate) is_over: bool,
    /// Name of the quiet whose place it has taken.
    before: Option<ObjectId>,
    /// Longest time for which it may last.
    pub(crate) length: Length,
    /// True if it should be over by the time at which the record was read (if it was read durably).
    pub(crate) is_late: bool,
}

impl StoredQuiet {
    /// The quiet in a record. `None`: none was set yet.
    pub(crate) fn of(record: &Document) -> Option<Self> {
        let quiet = record.get_document("quiet").ok()?;
        let tags = quiet.get_array("tags").into_iter().flatten().filter_map(|tag| Tag::parse(tag.as_str()?));
        let times = (quiet.get_datetime("until").ok(), record.get_datetime("askedAt").ok());
        Some(Self {
            by: quiet.get_object_id("by").ok()?,
            tags: tags.collect(),
            is_over: quiet.get_bool("over").unwrap_or(true),
            before: quiet.get_object_id("before").ok(),
            length: Length::stored(quiet.get("doublings")),
            is_late: matches!(times, (Some(until), Some(now)) if until <= now),
        })
    }

    /// Returns true if a decision that sets these stamps disturbs it.
    pub(crate) fn is_disturbed_by(&self, changed: &[Tag]) -> bool {
        changed.iter().any(|stamp| self.tags.contains(stamp))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let Some(ends) = self.ends.upgrade().filter(|_| !self.is_over) else { return };
        let by = self.by;
        let runtime = ends.runtime.clone();
        runtime.spawn(async move { ends.end(by).await }.with_current_subscriber());
    }
}

/// Ends quiet, also in the background. The client's own, so that nothing is ended after it.
pub(crate) struct QuietEnd {
    /// Writes the end of a quiet into the records.
    tell: Box<dyn Fn(ObjectId) -> BoxFuture<'static, Result<()>> + Send + Sync>,
    /// The client's runtime, for ends in the background.
    runtime: Handle,
}

impl QuietEnd {
    pub(in crate::coordinator) fn new(
        tell: impl Fn(ObjectId) -> BoxFuture<'static, Result<()>> + Send + Sync + 'static,
    ) -> Self {
        Self { tell: Box::new(tell), runtime: Handle::current() }
    }

    async fn end(&self, by: ObjectId) {
        if let Err(error) = (self.tell)(by).await {
            tracing::debug!(%error, "the quiet that a reader has asked for ends by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Namespace;

    fn named(name: &str) -> Tag {
        Tag::of(&Namespace::new("d", name))
    }

    fn stamps() -> Tags {
        Tags::from([named("x")])
    }

    fn name(n: u8) -> ObjectId {
        ObjectId::from_bytes([n; 12])
    }

    fn quiet(by: u8, tag: &str, is_over: bool, before: Option<u8>) -> StoredQuiet {
        let tags = Tags::from([named(tag)]);
        StoredQuiet { by: name(by), tags, is_over, before: before.map(name), length: Length::default(), is_late: false }
    }

    fn group(members: &[(&str, &[u8])]) -> Conditions {
        let members: Vec<(Vec<Tag>, Vec<ObjectId>)> =
            members.iter().map(|(tag, heard)| (vec![named(tag)], heard.iter().copied().map(name).collect())).collect();
        Conditions::of(members.iter().map(|(changed, heard)| (&changed[..], &heard[..])))
    }

    #[test]
    fn group_is_decided_when_the_quiet_where_it_writes_was_over_before_it_was_validated() {
        let deaf = group(&[("x", &[])]);
        assert_eq!(deaf.verdict(&quiet(1, "x", false, None)), Verdict::Waits);
        assert_eq!(deaf.verdict(&quiet(1, "x", true, None)), Verdict::Deaf(name(1)));
        assert_eq!(deaf.verdict(&quiet(1, "y", true, None)), Verdict::Free);
        assert_eq!(group(&[("x", &[1])]).verdict(&quiet(1, "x", true, None)), Verdict::Free);
        assert_eq!(group(&[("x", &[1]), ("x", &[])]).verdict(&quiet(1, "x", true, None)), Verdict::Deaf(name(1)));
        assert_eq!(Conditions::default().verdict(&quiet(1, "x", false, None)), Verdict::Free);
    }

    #[test]
    fn quiet_elsewhere_does_not_make_the_one_before_it_forgotten() {
        let deaf = group(&[("x", &[])]);
        assert_eq!(deaf.verdict(&quiet(2, "y", false, Some(1))), Verdict::Deaf(name(1)));
        assert_eq!(deaf.verdict(&quiet(2, "y", true, Some(1))), Verdict::Deaf(name(2)));
        let knows = group(&[("x", &[1])]);
        assert_eq!(knows.verdict(&quiet(2, "y", false, Some(1))), Verdict::Free);
        assert_eq!(knows.verdict(&quiet(2, "x", false, Some(1))), Verdict::Waits);
        assert_eq!(knows.verdict(&quiet(3, "y", false, Some(2))), Verdict::Deaf(name(2)));
    }

    #[test]
    fn quiet_that_was_not_granted_or_has_ended_before_was_not_too_short() {
        let mut quiet = Quiet::new(name(1), stamps(), Weak::new(), Duration::ZERO);
        assert!(!quiet.has_run_out(), "it was not granted");
        quiet.note_asked();
        assert!(quiet.has_run_out());
        quiet.is_over = true;
        assert!(!quiet.has_run_out(), "it has ended before");
    }

    #[test]
    fn length_is_read_from_the_record_and_has_a_limit() {
        let length = |doublings: Bson| {
            let quiet = doc! {"by": name(1), "tags": [], "doublings": doublings};
            StoredQuiet::of(&doc! {"quiet": quiet}).unwrap().length.longest_held()
        };
        assert_eq!(length(Bson::Int64(0)), Duration::from_secs(1));
        assert_eq!(length(Bson::Int32(1)), Duration::from_millis(1_500));
        for too_long in [Bson::Int64(3), Bson::Int64(i64::MAX), Bson::Double(f64::INFINITY)] {
            assert_eq!(length(too_long), Duration::from_millis(2_500));
        }
        for none in [Bson::Int64(-1), Bson::Null, Bson::String("2".to_owned()), Bson::Double(f64::NAN)] {
            assert_eq!(length(none), Duration::from_secs(1));
        }
    }
}
