//! Memory of this client's own changes: which change stamps' names ([`super::tag`]) were touched
//! since a moment.
//!
//! A change is counted from before it is sent until its outcome is known. One whose outcome the
//! client does not learn, because its future was dropped or its answer stayed out, may arrive later
//! at the same server process: a decision counts as long as that process lives, a plain write for
//! half an hour at most. Decisions of transactions are counted by the stamps that they set and the
//! fields that they change (decision 0069), and plain writes by the stamps of a whole collection
//! and as changes of all fields.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bson::oid::ObjectId;

use super::{changes::stamps_of_changes, moment::Moment, tag::Tag};
use crate::{
    coordinator::{request::fields::Fields, stored::nodes::Nodes},
    options::Namespace,
};

/// The most names that are remembered.
const MAX_TAGS: usize = 20_000;
/// The most different sets of fields that are remembered for each.
const MOST_SETS: usize = 8;

/// A mark in the life of this client: the number of changes that had ended by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeMark(u64);

/// Documents that a change touches.
#[derive(Debug)]
enum TouchedDocuments {
    /// The documents under these tags, with the fields that change under each.
    Some(Vec<(Tag, Fields)>),
    /// The documents of any collection.
    Any,
}

/// State of the changes of one name.
#[derive(Clone, Copy, Debug, Default)]
struct ChangeState {
    /// Number of changes that are under way.
    open: usize,
    /// The moment at which the last one ended.
    ended: u64,
    /// A change has been lost.
    lost: Option<LostChange>,
}

/// Time after its loss in which a plain write may still arrive: a notice covers it for less.
const LONGEST_LATE: Duration = Duration::from_secs(30 * 60);

/// A change whose outcome the client will not learn.
#[derive(Clone, Copy, Debug)]
struct LostChange {
    /// The server process that it was sent to, if that is known.
    process: Option<ObjectId>,
    /// Time at which it was lost. `None`: a decision, which counts as long as the process lives.
    at: Option<Moment>,
}

impl LostChange {
    /// Returns true if it may still arrive at this process, or may have arrived at it.
    fn concerns(self, process: Option<ObjectId>) -> bool {
        !self.is_past() && (self.process.is_none() || process.is_none() || self.process == process)
    }

    /// Returns true if it cannot arrive any more, at any process. (A process that is not the server
    /// now may be it again: members of a replica set take turns.)
    fn is_past(self) -> bool {
        self.at.is_some_and(|at| at.steadily_elapsed() >= LONGEST_LATE)
    }

    /// Two losses in different processes count in any, for as long as the one that counts longer.
    fn and(self, before: Option<Self>) -> Self {
        let Some(before) = before.filter(|before| !before.is_past()) else { return self };
        let process = self.process.filter(|process| before.process == Some(*process));
        let later = |(one, other): (Moment, Moment)| {
            if one.steadily_elapsed() < other.steadily_elapsed() { one } else { other }
        };
        Self { process, at: before.at.zip(self.at).map(later) }
    }
}

impl ChangeState {
    fn is_changed(&self, since: ChangeMark, process: Option<ObjectId>) -> bool {
        self.open > 0 || self.ended > since.0 || self.lost.is_some_and(|lost| lost.concerns(process))
    }

    /// The change that was lost, if it may still arrive.
    fn lost(&self) -> Option<LostChange> {
        self.lost.filter(|lost| !lost.is_past())
    }

    fn end(&mut self, moment: u64, lost: Option<LostChange>) {
        self.open = self.open.saturating_sub(1);
        self.ended = moment;
        if let Some(lost) = lost {
            self.lost = Some(lost.and(self.lost));
        }
    }
}

/// State of the changes of one name, by the fields that they have changed.
#[derive(Debug, Default)]
struct ByFields(Vec<(Fields, ChangeState)>);

impl ByFields {
    /// State of the changes of these fields; if there are too many sets of fields, of the changes
    /// of all. A set that has got no place of its own gets none as long as one of its changes is
    /// open, so each change is counted out where it was counted in.
    fn of(&mut self, fields: &Fields) -> &mut ChangeState {
        let has_place = |all: &Self, fields: &Fields| all.0.iter().position(|(some, _)| some == fields);
        let fields = match has_place(self, fields) {
            None if self.0.len() >= MOST_SETS => &Fields::All,
            _ => fields,
        };
        let place = has_place(self, fields).unwrap_or_else(|| {
            self.0.push((fields.clone(), ChangeState::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    fn all(&self) -> impl Iterator<Item = &ChangeState> {
        self.0.iter().map(|(_, known)| known)
    }

    /// Returns true if fields have been changed on which something rests.
    fn is_changed(&self, fields: &Fields, since: ChangeMark, process: Option<ObjectId>) -> bool {
        self.0.iter().any(|(changed, known)| changed.meet(fields) && known.is_changed(since, process))
    }
}

/// All changes of this client that are under way, and what is known of earlier ones.
#[derive(Default)]
struct State {
    /// Number of changes that have ended.
    moment: u64,
    known: HashMap<Tag, ByFields>,
    /// Changes that may have touched any collection.
    any: ChangeState,
    /// The plain writes of all collections together.
    plain: ChangeState,
    /// The moment before which names may have been forgotten.
    forgotten: u64,
}

impl State {
    /// Forgets what is over, and what was lost too long ago to arrive. If too many names are left,
    /// what has been lost under them counts as changes of any collection.
    fn forget(&mut self) {
        self.forgotten = self.moment;
        self.known.retain(|_, known| known.all().any(|known| known.open > 0 || known.lost().is_some()));
        // So that the next look at all of them is far away.
        if self.known.len() < MAX_TAGS / 2 {
            return;
        }
        let any = &mut self.any;
        self.known.retain(|_, known| {
            let lost = known.all().filter_map(ChangeState::lost);
            any.lost = lost.fold(any.lost, |all, lost| Some(lost.and(all)));
            known.all().any(|known| known.open > 0)
        });
    }

    fn begin(&mut self, touched: &TouchedDocuments, is_decision: bool) {
        self.plain.open += usize::from(!is_decision);
        let TouchedDocuments::Some(tags) = touched else {
            self.any.open += 1;
            return;
        };
        if self.known.len() >= MAX_TAGS {
            self.forget();
        }
        for (tag, fields) in tags {
            self.known.entry(*tag).or_default().of(fields).open += 1;
        }
    }

    fn end(&mut self, touched: &TouchedDocuments, is_decision: bool, lost: Option<LostChange>) {
        self.moment += 1;
        let moment = self.moment;
        if !is_decision {
            self.plain.end(moment, lost);
        }
        match touched {
            TouchedDocuments::Any => self.any.end(moment, lost),
            TouchedDocuments::Some(tags) => tags.iter().for_each(|(tag, fields)| {
                // It is never forgotten while it is open.
                self.known.entry(*tag).or_default().of(fields).end(moment, lost);
            }),
        }
    }
}

/// Changes of this client's own, by the names of the change stamps that they concern.
pub(crate) struct OwnChanges {
    state: Mutex<State>,
    /// The server process of now.
    nodes: Arc<Nodes>,
}

impl OwnChanges {
    pub(crate) fn new(nodes: Arc<Nodes>) -> Self {
        Self { state: Mutex::default(), nodes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> ChangeMark {
        ChangeMark(self.state().moment)
    }

    /// A transaction that sets these change stamps is about to be decided, and has changed these
    /// fields.
    pub(crate) fn deciding(self: &Arc<Self>, stamps: Vec<(Tag, Fields)>) -> ChangeInProgress {
        self.begin(TouchedDocuments::Some(stamps), true)
    }

    /// A plain write in this collection is about to be sent.
    pub(crate) fn writing(self: &Arc<Self>, ns: &Namespace) -> ChangeInProgress {
        let stamps = stamps_of_changes(ns, None).into_iter();
        self.begin(TouchedDocuments::Some(stamps.map(|tag| (tag, Fields::All)).collect()), false)
    }

    /// A command that may change documents of any collection is about to be sent.
    pub(crate) fn changing_any(self: &Arc<Self>) -> ChangeInProgress {
        self.begin(TouchedDocuments::Any, false)
    }

    fn begin(self: &Arc<Self>, touched: TouchedDocuments, is_decision: bool) -> ChangeInProgress {
        self.state().begin(&touched, is_decision);
        ChangeInProgress { process: self.nodes.process(), all: Arc::clone(self), touched, is_decision, is_known: false }
    }

    /// Returns true if no plain write is under way, and none is lost that could still arrive.
    /// (Other clients see decisions by their stamps.)
    pub(crate) fn are_over(&self) -> bool {
        let (process, plain) = (self.nodes.process(), self.state().plain);
        plain.open == 0 && plain.lost.is_none_or(|lost| !lost.concerns(process))
    }

    /// Returns true if this client has left everything as it was since a moment, as far as these
    /// stamps show, each for what rests on these fields.
    pub(crate) fn are_none<'a>(&self, of: impl IntoIterator<Item = &'a (Tag, Fields)>, since: ChangeMark) -> bool {
        let (process, state, mut of) = (self.nodes.process(), self.state(), of.into_iter());
        if state.forgotten > since.0 || state.any.is_changed(since, process) {
            return false;
        }
        let is_changed = |tag: &Tag, fields: &Fields| {
            state.known.get(tag).is_some_and(|known| known.is_changed(fields, since, process))
        };
        of.all(|(tag, fields)| !is_changed(tag, fields))
    }
}

/// A change that is under way. Dropped before its outcome is known, it is lost.
pub(crate) struct ChangeInProgress {
    all: Arc<OwnChanges>,
    touched: TouchedDocuments,
    /// The server process at its beginning.
    process: Option<ObjectId>,
    is_decision: bool,
    is_known: bool,
}

impl ChangeInProgress {
    /// The change has taken effect, or it certainly never will.
    pub(crate) fn over(mut self) {
        self.is_known = true;
    }
}

impl Drop for ChangeInProgress {
    fn drop(&mut self) {
        // If another process has come meanwhile, it may have been sent to that one.
        let process = self.process.filter(|process| self.all.nodes.process() == Some(*process));
        let at = (!self.is_decision).then(Moment::now);
        let lost = (!self.is_known).then_some(LostChange { process, at });
        self.all.state().end(&self.touched, self.is_decision, lost);
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use sd2v::update::Update;

    use super::*;
    use crate::coordinator::request::own_key::OwnKey;

    fn coll(name: &str) -> Namespace {
        Namespace::new("d", name)
    }

    fn whole(name: &str) -> Tag {
        Tag::of(&coll(name))
    }

    fn own() -> Arc<OwnChanges> {
        let own = OwnChanges::new(Arc::default());
        becomes(&own, 1);
        Arc::new(own)
    }

    /// The server is this process from now on.
    fn becomes(own: &OwnChanges, process: u8) {
        let process = ObjectId::from_bytes([process; 12]);
        own.nodes.note(&doc! {"isWritablePrimary": true, "topologyVersion": {"processId": process, "counter": 0_i64}});
    }

    fn is_still(own: &OwnChanges, name: &str, since: ChangeMark) -> bool {
        own.are_none(&[(whole(name), Fields::All)], since)
    }

    #[test]
    fn changes_count_from_their_beginning_to_their_end_and_for_who_began_before_that() {
        let own = own();
        let before = own.now();
        let change = own.writing(&coll("a"));
        let meanwhile = own.now();
        assert!(!is_still(&own, "a", before) && !is_still(&own, "a", meanwhile) && is_still(&own, "b", before));
        assert!(!own.are_over());
        change.over();
        assert!(own.are_over());
        assert!(!is_still(&own, "a", before) && !is_still(&own, "a", meanwhile));
        assert!(is_still(&own, "a", own.now()) && is_still(&own, "b", before));
    }

    #[test]
    fn decisions_touch_the_documents_whose_stamps_they_set() {
        let (own, bucket) = (own(), |number| whole("a").in_bucket_of(&OwnKey::Whole(number)));
        let (before, one) = (own.now(), bucket(1));
        let other = (2..).map(bucket).find(|other| *other != one).unwrap();
        own.deciding(vec![(whole("a"), Fields::All), (one, Fields::All)]).over();
        let none = |tag: Tag| own.are_none(&[(tag, Fields::All)], before);
        assert!(!none(one) && none(other) && !none(whole("a")));
        own.writing(&coll("a")).over();
        assert!(!none(whole("a").in_any_bucket()), "a plain write may be about any document");
    }

    /// The field of this name alone.
    fn field(name: &str) -> Fields {
        Fields::of_update(&Update::Operators(doc! {"$inc": {name: 1}}))
    }

    #[test]
    fn decisions_touch_the_fields_that_they_change() {
        let own = own();
        let before = own.now();
        let none = |fields: Fields| own.are_none(&[(whole("a"), fields)], before);
        let first = own.deciding(vec![(whole("a"), field("x"))]);
        assert!(!none(field("x")) && !none(Fields::All) && none(field("y")) && none(Fields::none()));
        first.over();
        assert!(!none(field("x")) && !none(Fields::All) && none(field("y")));
        drop(own.deciding(vec![(whole("a"), field("y"))]));
        assert!(!none(field("y")) && none(field("z")) && own.are_over(), "others see a decision by its stamps");
        own.writing(&coll("a")).over();
        assert!(!none(field("z")), "a plain write may change any");
    }

    #[test]
    fn more_sets_of_fields_than_can_be_remembered_count_as_all() {
        let own = own();
        let deciding = |n: usize| own.deciding(vec![(whole("a"), field(&n.to_string()))]);
        let open: Vec<ChangeInProgress> = (0..2 * MOST_SETS).map(deciding).collect();
        let now = own.now();
        let is_still = |name: &str| own.are_none(&[(whole("a"), field(name))], now);
        assert!(!is_still("0") && !is_still("other"));
        open.into_iter().for_each(ChangeInProgress::over);
        let now = own.now();
        let is_open = own.state().known.values().flat_map(ByFields::all).any(|known| known.open > 0);
        assert!(own.are_none(&[(whole("a"), Fields::All)], now) && !is_open, "each has ended where it began");
        deciding(0).over();
        assert!(own.are_none(&[(whole("a"), field("other"))], now), "it has a place of its own");
        deciding(2 * MOST_SETS).over();
        assert!(!own.are_none(&[(whole("a"), field("other"))], now));
        assert!(own.state().known[&whole("a")].0.len() <= MOST_SETS + 1);
    }

    #[test]
    fn lost_changes_count_as_long_as_their_server_process_lives() {
        let own = own();
        drop(own.writing(&coll("a")));
        assert!(!is_still(&own, "a", own.now()) && !own.are_over());
        becomes(&own, 2);
        assert!(is_still(&own, "a", own.now()));
        drop(own.writing(&coll("a")));
        becomes(&own, 3);
        assert!(!is_still(&own, "a", own.now()), "one was lost in each of two");

        let between = own.writing(&coll("b"));
        becomes(&own, 4);
        drop(between);
        becomes(&own, 5);
        assert!(!is_still(&own, "b", own.now()), "it was sent to either of two");
    }

    #[test]
    fn lost_plain_writes_count_for_half_an_hour_and_decisions_for_longer() {
        let process = Some(ObjectId::from_bytes([1; 12]));
        let long_ago = Moment::now().earlier(LONGEST_LATE, Duration::ZERO);
        let (decision, now) = (LostChange { process, at: None }, LostChange { process, at: Some(Moment::now()) });
        let past = LostChange { process, at: Some(long_ago) };
        let set_forward = LostChange { process, at: Some(Moment::now().earlier(Duration::ZERO, LONGEST_LATE)) };
        assert!(set_forward.concerns(process), "the wall clock tells nothing of it");
        assert!(decision.concerns(process) && now.concerns(process) && !past.concerns(process));
        assert!(now.and(Some(past)).concerns(process) && past.and(Some(decision)).concerns(process));
        let lost_anywhere = LostChange { process: None, at: Some(long_ago) };
        assert!(!lost_anywhere.concerns(process) && now.and(Some(lost_anywhere)).concerns(None));
    }

    #[test]
    fn changes_of_any_collection_count_in_each() {
        let own = own();
        let before = own.now();
        let change = own.changing_any();
        assert!(!is_still(&own, "a", own.now()));
        change.over();
        assert!(!is_still(&own, "a", before) && is_still(&own, "a", own.now()));
    }

    #[test]
    fn forgotten_names_count_as_changed_for_who_began_before() {
        let own = own();
        let open = own.writing(&coll("open"));
        let before = own.now();
        for n in 0..MAX_TAGS {
            own.writing(&coll(&n.to_string())).over();
        }
        assert!(own.state().known.len() < MAX_TAGS + 2);
        assert!(!is_still(&own, "0", before), "it was changed");
        assert!(!is_still(&own, "open", own.now()), "it is not forgotten");
        open.over();
        assert!(is_still(&own, "open", own.now()));
    }

    /// All that was lost so far was lost long ago.
    fn age(own: &OwnChanges) {
        let mut state = own.state();
        let long_ago = Moment::now().earlier(LONGEST_LATE, Duration::ZERO);
        let of_names = state.known.values_mut().flat_map(|known| known.0.iter_mut().map(|(_, known)| known));
        of_names.filter_map(|known| known.lost.as_mut()).for_each(|lost| lost.at = Some(long_ago));
        if let Some(lost) = &mut state.any.lost {
            lost.at = Some(long_ago);
        }
    }

    #[test]
    fn losses_do_not_add_up() {
        let own = own();
        let lose_many = |prefix: &str| (0..MAX_TAGS).for_each(|n| drop(own.writing(&coll(&format!("{prefix}{n}")))));
        let known = || own.state().known.len();
        // They may still arrive: those that are too many count for any collection.
        lose_many("a");
        own.writing(&coll("b")).over();
        assert!(known() <= MAX_TAGS + 2, "{}", known());
        let now = own.now();
        assert!(!is_still(&own, "a1", now) && !is_still(&own, "c", now));
        age(&own);
        lose_many("d");
        assert!(known() <= MAX_TAGS + 2, "{}", known());
        // Those that came last are counted apart, and the others, which are late for less, as one.
        assert!(!is_still(&own, "d1", own.now()));
        age(&own);
        own.writing(&coll("b")).over();
        let now = own.now();
        assert!(is_still(&own, "a1", now) && is_still(&own, "d1", now) && is_still(&own, "c", now));
    }
}
