//! Memory of a client's notices, and of its plain writes: which collections the next notice names,
//! whether a write needs one, and which notices are over. Sends nothing; the commands are in
//! `plain.rs`, the content of a notice in `stamps/notice.rs`.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use bson::oid::ObjectId;

use super::{COVERS, RENEWED_AFTER};
use crate::coordinator::stamps::{moment::Moment, notice::Scope, tag::Tag};

/// Time without plain writes after which notices are ended, at first: a client that goes on writing
/// needs no other one.
pub(super) const QUIET: Duration = Duration::from_secs(30);
/// The most of that, for a client that has needed another one soon after each end.
const MOST_QUIET: Duration = COVERS;
/// Collections that a notice names. Where more were written to of late, it is about all.
const MOST_NAMED: usize = 16;
/// Notices of one client that may still be there: those of the last half hour, and some that were
/// given up and arrived nevertheless.
const MOST_KEPT: usize = 256;
/// Time after its sending in which a notice may arrive that was given up.
const LONGEST_LATE: Duration = Duration::from_secs(30 * 60);

/// Notices that were given, and what the next one will be about.
#[derive(Default)]
pub(super) struct OwnNotices {
    /// The last one that is stored: when it was sent, and what it is about.
    last: Option<(Moment, Scope)>,
    written: Written,
    /// Notices that this client has sent.
    notices: Vec<ObjectId>,
    /// Notices among them that go on, as far as is known.
    going_on: Vec<GoingOn>,
    end_delay: EndDelay,
}

/// A notice that goes on.
#[derive(Clone, Copy)]
struct GoingOn {
    notice: ObjectId,
    sent: Moment,
    is_stored: bool,
}

/// Time that a client waits with the end of its notices.
struct EndDelay {
    quiet: Duration,
    /// Time at which some were ended, if none was needed since.
    ended: Option<Moment>,
}

impl Default for EndDelay {
    fn default() -> Self {
        Self { quiet: QUIET, ended: None }
    }
}

impl EndDelay {
    /// Notes that another notice is needed: others remember each one that was ended, so a client
    /// that writes every now and then waits longer the next time.
    fn renewed(&mut self) {
        let Some(ended) = self.ended.take() else { return };
        self.quiet = match ended.elapsed() < RENEWED_AFTER {
            true => (self.quiet * 2).min(MOST_QUIET),
            false => QUIET,
        };
    }
}

/// Times at which plain writes were last made, by their collections; `None`: in any.
#[derive(Default)]
struct Written(HashMap<Option<Tag>, Moment>);

impl Written {
    /// Notes that a plain write is about to be made.
    fn note(&mut self, collection: Option<Tag>) {
        if !self.0.contains_key(&collection) && self.0.len() > MOST_NAMED {
            // Too many to be named, with this one instead of another as well.
            let oldest = self.0.iter().max_by_key(|(_, at)| at.elapsed()).map(|(collection, _)| *collection);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(collection, Moment::now());
    }

    /// Returns true if no plain write was made for this time.
    fn are_quiet(&self, time: Duration) -> bool {
        self.0.values().all(|at| at.steadily_elapsed() >= time)
    }

    /// The collections that a notice has to name which is sent now.
    fn of_late(&mut self) -> Scope {
        self.0.retain(|_, at| at.elapsed() < COVERS);
        let collections: Option<BTreeSet<Tag>> = self.0.keys().copied().collect();
        collections.filter(|collections| collections.len() <= MOST_NAMED).map_or(Scope::All, Scope::Of)
    }
}

impl OwnNotices {
    /// Notes that a plain write is about to be made: the next notice names its collection.
    pub(super) fn note_write(&mut self, collection: Option<Tag>) {
        self.written.note(collection);
    }

    /// Collections that a notice has to name which is sent now.
    pub(super) fn next_scope(&mut self) -> Scope {
        self.end_delay.renewed();
        self.written.of_late()
    }

    /// Returns true if there is a notice about this collection, or about any, that was sent less
    /// than this time ago.
    pub(super) fn has_notice(&self, collection: Option<Tag>, age: Duration) -> bool {
        self.last.as_ref().is_some_and(|(sent, scope)| sent.elapsed() < age && scope.covers(collection))
    }

    /// Returns true if this notice is one of this client's own.
    pub(super) fn is_own(&self, notice: ObjectId) -> bool {
        self.notices.contains(&notice)
    }

    pub(super) fn has_any(&self) -> bool {
        !self.notices.is_empty()
    }

    /// A notice is about to be sent.
    pub(super) fn note(&mut self, notice: ObjectId) {
        // One that is forgotten counts as another client's, and goes on.
        if self.notices.len() >= MOST_KEPT {
            self.notices.remove(0);
        }
        self.notices.push(notice);
        if self.going_on.len() >= MOST_KEPT {
            let given_up = self.going_on.iter().position(|one| !one.is_stored);
            self.going_on.remove(given_up.unwrap_or(0));
        }
        self.going_on.push(GoingOn { notice, sent: Moment::now(), is_stored: false });
    }

    /// The notice is stored. It was sent at this moment, and is about this.
    pub(super) fn stored(&mut self, notice: ObjectId, sent: Moment, scope: Scope) {
        self.last = Some((sent, scope));
        self.going_on.iter_mut().filter(|one| one.notice == notice).for_each(|one| one.is_stored = true);
    }

    /// The notice is not stored, and never will be.
    pub(super) fn not_stored(&mut self, notice: ObjectId) {
        self.notices.retain(|one| *one != notice);
        self.going_on.retain(|one| one.notice != notice);
    }

    /// Time without a plain write after which notices are ended.
    pub(super) fn quiet(&self) -> Duration {
        self.end_delay.quiet
    }

    /// Notices that can be ended, if all plain writes are over and none was made for this time.
    /// Writes from here on need another one.
    pub(super) fn take_over(&mut self, quiet: Duration, are_over: impl FnOnce() -> bool) -> Vec<ObjectId> {
        if self.going_on.is_empty() || !self.written.are_quiet(quiet) || !are_over() {
            return Vec::new();
        }
        self.last = None;
        self.written = Written::default();
        self.going_on.iter().map(|one| one.notice).collect()
    }

    /// Notes that these notices have ended. Unless `were_all_there`, a notice whose storing was
    /// given up may still arrive.
    pub(super) fn ended(&mut self, over: &[ObjectId], were_all_there: bool) {
        let may_arrive = |one: &GoingOn| !were_all_there && !one.is_stored && one.sent.elapsed() < LONGEST_LATE;
        let has_ended = |one: &GoingOn| over.contains(&one.notice) && !may_arrive(one);
        if self.going_on.iter().any(|one| one.is_stored && has_ended(one)) {
            self.end_delay.ended = Some(Moment::now());
        }
        self.going_on.retain(|one| !has_ended(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Namespace;

    fn tag(name: &str) -> Tag {
        Tag::of(&Namespace::new("d", name))
    }

    fn written(names: &[&str]) -> Written {
        let mut written = Written::default();
        names.iter().for_each(|name| written.note(Some(tag(name))));
        written
    }

    #[test]
    fn a_notice_names_what_was_written_to_of_late() {
        let mut written = written(&["a", "b"]);
        assert_eq!(written.of_late(), Scope::Of([tag("a"), tag("b")].into()));
        written.0.insert(Some(tag("a")), Moment::now().earlier(COVERS, Duration::ZERO));
        assert_eq!(written.of_late(), Scope::Of([tag("b")].into()));
        written.note(None);
        assert_eq!(written.of_late(), Scope::All, "a command was sent that may change any");
        written.0.insert(None, Moment::now().earlier(COVERS, Duration::ZERO));
        assert_eq!(written.of_late(), Scope::Of([tag("b")].into()));
    }

    #[test]
    fn more_collections_than_can_be_named_stand_for_all_and_are_not_all_kept() {
        let names: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(matches!(written(&names[..MOST_NAMED]).of_late(), Scope::Of(named) if named.len() == MOST_NAMED));
        let mut all = written(&names);
        assert_eq!((all.0.len(), all.of_late()), (MOST_NAMED + 1, Scope::All));
    }

    /// A client that has stored this notice, and has written at that moment.
    fn own_notices(notice: ObjectId, written: Moment) -> OwnNotices {
        let mut own_notices = OwnNotices::default();
        own_notices.note(notice);
        own_notices.stored(notice, Moment::now(), Scope::Of([tag("a")].into()));
        own_notices.written.0.insert(Some(tag("a")), written);
        own_notices
    }

    fn long_ago() -> Moment {
        Moment::now().earlier(QUIET, Duration::ZERO)
    }

    #[test]
    fn notices_can_be_ended_when_all_plain_writes_are_over_and_the_last_one_is_long_ago() {
        let notice = ObjectId::new();
        assert!(OwnNotices::default().take_over(QUIET, || true).is_empty(), "there is none");
        for (written, are_over) in [
            (Moment::now(), true),
            (long_ago(), false),
            // The wall clock was set forward.
            (Moment::now().earlier(Duration::ZERO, QUIET), true),
        ] {
            let mut own_notices = own_notices(notice, written);
            assert!(own_notices.take_over(QUIET, || are_over).is_empty());
            assert!(own_notices.has_notice(Some(tag("a")), COVERS));
        }
        let mut own_notices = own_notices(notice, long_ago());
        assert_eq!(own_notices.take_over(QUIET, || true), [notice]);
        assert!(!own_notices.has_notice(Some(tag("a")), COVERS), "the next write needs another notice");
        assert_eq!(own_notices.take_over(QUIET, || true), [notice], "it is not ended yet");
        own_notices.ended(&[notice], true);
        assert!(own_notices.take_over(QUIET, || true).is_empty() && own_notices.is_own(notice));
    }

    #[test]
    fn a_notice_that_was_given_up_is_ended_again_when_it_may_have_come_late() {
        let (stored, given_up) = (ObjectId::new(), ObjectId::new());
        let mut own_notices = own_notices(stored, long_ago());
        own_notices.note(given_up);
        own_notices.ended(&[stored, given_up], false);
        assert_eq!(own_notices.take_over(QUIET, || true), [given_up]);
        own_notices.ended(&[given_up], true);
        assert!(own_notices.take_over(QUIET, || true).is_empty(), "it was there");
        own_notices.note(given_up);
        own_notices.not_stored(given_up);
        assert!(own_notices.take_over(QUIET, || true).is_empty() && !own_notices.is_own(given_up), "it was refused");
        own_notices.note(given_up);
        own_notices.going_on[0].sent = Moment::now().earlier(LONGEST_LATE, Duration::ZERO);
        own_notices.ended(&[given_up], false);
        assert!(own_notices.take_over(QUIET, || true).is_empty(), "it cannot come any more");
    }

    #[test]
    fn a_client_that_writes_every_now_and_then_waits_longer_with_the_end_of_its_notices() {
        let mut own_notices = OwnNotices::default();
        let mut quiet_after = |ended: Moment| {
            own_notices.end_delay.ended = Some(ended);
            own_notices.next_scope();
            own_notices.next_scope();
            own_notices.quiet()
        };
        assert_eq!(quiet_after(Moment::now()), QUIET * 2);
        assert_eq!(quiet_after(Moment::now()), QUIET * 4);
        assert_eq!((0..20).map(|_| quiet_after(Moment::now())).last(), Some(MOST_QUIET));
        assert_eq!(quiet_after(Moment::now().earlier(RENEWED_AFTER, Duration::ZERO)), QUIET);
    }
}
