//! A look at the change stamps of all records, and the comparison of two looks.
//!
//! A collection whose stamps are the same at two looks, in every record, was changed by no
//! transaction between the answer of the first and the sending of the second, if one server process
//! answered both: see docs/isolation.md, "How validation works".

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bson::oid::ObjectId;
use protocol::ClientId;

use super::{
    changes::{Changes, RecordScan},
    closed_records::ClosedRecords,
    moment::Moment,
    notice::Scope,
    tag::Tags,
};

/// The connections that there were at a moment: data connections and record connections. A server
/// process that ends takes all of them along.
type Connections = (u64, u64);

/// One look at the change stamps.
pub(crate) struct ChangeLook {
    asked: Moment,
    before: Connections,
    after: Connections,
    /// True if the look has waited for the majority of the members.
    by_majority: bool,
    changes: Changes,
    quiet: HashMap<ClientId, ObjectId>,
    closed: ClosedRecords,
    /// Notices of plain writes that may go on, and of those that are over.
    notices: HashMap<ClientId, Scope>,
    over: HashSet<ClientId>,
}

impl ChangeLook {
    /// A look that was sent at `asked`; the connections that there were then, and when it was
    /// answered. It has not read the records that were known to be closed.
    pub(crate) fn new(
        asked: Moment,
        [before, after]: [Connections; 2],
        by_majority: bool,
        known: &ClosedRecords,
        scan: RecordScan,
    ) -> Self {
        let closed = known.with(&scan, asked);
        // Of what was known: a record that is forgotten as too old by now was not read either.
        let known_over = known.records.iter().filter(|(_, record)| record.is_notice).map(|(client, _)| *client);
        let over = scan.over.iter().copied().chain(known_over).collect();
        let RecordScan { mut changes, quiet, notices, .. } = scan;
        changes.0.extend(known.records.iter().map(|(client, record)| (*client, Arc::clone(&record.stamps))));
        Self { asked, before, after, by_majority, changes, quiet, closed, notices, over }
    }

    /// The records that were closed by then.
    pub(crate) fn closed(&self) -> &ClosedRecords {
        &self.closed
    }

    /// The name of the quiet in this client's record, if there is one.
    pub(crate) fn quiet_of(&self, client: ClientId) -> Option<ObjectId> {
        self.quiet.get(&client).copied()
    }

    pub(crate) fn is_by_majority(&self) -> bool {
        self.by_majority
    }

    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        self.asked.is_after(other.asked)
    }

    /// Time since it was sent.
    pub(crate) fn age(&self) -> Duration {
        self.asked.elapsed()
    }

    /// Returns true if another client may have written outside transactions, in what one of these
    /// names stands for, between the sending of this look and that of the later one. `is_own`:
    /// whether a notice is this client's own.
    pub(crate) fn may_be_written_around(&self, later: &Self, tags: &Tags, is_own: impl Fn(ObjectId) -> bool) -> bool {
        let concerns = |scope: &Scope| tags.iter().any(|tag| scope.concerns(*tag));
        let going_on = self.notices.iter().chain(&later.notices);
        let going_on = going_on.filter(|(_, scope)| concerns(scope)).map(|(notice, _)| notice);
        // The collections of a notice that is over are known only if this look has read the notice.
        let elsewhere = |notice: &&ClientId| self.notices.get(notice).is_some_and(|scope| !concerns(scope));
        let over = later.over.difference(&self.over).filter(|notice| !elsewhere(notice));
        going_on.chain(over).any(|notice| !is_own(ObjectId::from_bytes(notice.0)))
    }

    /// A moment by which a look had found over each notice that is over by this look: reads sent
    /// later show everything that was written under them.
    pub(crate) fn over_since(&self) -> Option<Moment> {
        self.closed.over_since
    }

    /// Returns true if more notices are over than are remembered.
    pub(crate) fn forgets_notices(&self) -> bool {
        self.closed.is_full
    }

    /// Returns true if the connections were the same all the while.
    pub(crate) fn is_of(&self, now: Connections) -> bool {
        self.before == now
    }

    /// Returns true if only the owner of these stamps has set one of these names, records that are
    /// closed excepted.
    pub(crate) fn is_silent(&self, own: &Changes, tags: &Tags) -> bool {
        let is_open = |client: &ClientId| !self.closed.records.contains_key(client);
        let others = self.changes.0.iter().filter(|(client, _)| !own.0.contains_key(client) && is_open(client));
        others.flat_map(|(_, stamps)| stamps.keys()).all(|tag| !tags.contains(tag))
    }
}

/// Evidence that both looks, and the reads between them, were answered by one server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SameServer {
    /// The commit's evidence will: the transaction has locked something before. Or several servers
    /// keep the data, and each look waits for the majority.
    Elsewhere,
    /// No connection was begun since the first look.
    Connections,
}

/// Records are kept for 30 minutes after their end: two looks further apart may both miss one.
const LONGEST_APART: Duration = Duration::from_secs(15 * 60);

impl ChangeLook {
    /// The stamps of these names that transactions have set between the answer of this look and the
    /// sending of the later one. `known`: stamps that were acknowledged in between, which do not
    /// count. `None`: that cannot be said.
    pub(crate) fn changed_at(&self, later: &Self, known: &Changes, tags: &Tags, same: SameServer) -> Option<Tags> {
        if !self.can_be_compared(later, same) {
            return None;
        }
        let nothing = Changes::default();
        let (before, after) = (self.changes.of(known, tags), later.changes.of(&nothing, tags));
        let stamps = before.keys().chain(after.keys());
        let changed = stamps.filter(|stamp| before.get(stamp) != after.get(stamp));
        Some(changed.map(|(_, tag)| *tag).collect())
    }

    /// Returns true if other clients than the owner of these stamps have set one of these names
    /// between the sending of this look and that of the later one. `None`: that is not known.
    pub(crate) fn changed_by_others(&self, later: &Self, own: &Changes, tags: &Tags, same: SameServer) -> Option<bool> {
        if !self.can_be_compared(later, same) {
            return None;
        }
        let of_others = |look: &Self| {
            let mut stamps = look.changes.of(&Changes::default(), tags);
            stamps.retain(|(client, _), _| !own.0.contains_key(client));
            stamps
        };
        Some(of_others(self) != of_others(later))
    }

    fn can_be_compared(&self, later: &Self, same: SameServer) -> bool {
        let one_server = same == SameServer::Elsewhere || self.before == later.after;
        one_server && self.asked.until(later.asked) < LONGEST_APART
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coordinator::stamps::{
            closed_records::{CLOSED_FOR, MOST_CLOSED},
            tag::Tag,
        },
        options::Namespace,
    };

    fn named(name: &str) -> Tag {
        Tag::of(&Namespace::new("d", name))
    }

    fn changes(stamps: &[(u8, &str, i64)]) -> Changes {
        let mut changes = Changes::default();
        for (client, tag, stamp) in stamps {
            let stamps = changes.0.entry(ClientId([*client; 12])).or_default();
            Arc::make_mut(stamps).insert(named(tag), *stamp);
        }
        changes
    }

    fn look(connections: Connections, stamps: &[(u8, &str, i64)]) -> ChangeLook {
        let scan = RecordScan { changes: changes(stamps), ..RecordScan::default() };
        ChangeLook::new(Moment::now(), [connections, connections], false, &ClosedRecords::default(), scan)
    }

    /// A look of the same server after this one; these records are found closed.
    fn look_after(before: &ChangeLook, stamps: &[(u8, &str, i64)], closed: &[u8]) -> ChangeLook {
        let closed = closed.iter().map(|client| ClientId([*client; 12])).collect();
        let scan = RecordScan { changes: changes(stamps), closed, ..RecordScan::default() };
        ChangeLook::new(Moment::now(), [before.after, before.after], false, before.closed(), scan)
    }

    #[test]
    fn closed_records_are_not_asked_for_again_and_what_they_have_changed_is_seen() {
        let unchanged = |first: &ChangeLook, later: &ChangeLook| is_unchanged(first, later, SameServer::Connections);
        let first = look((1, 1), &[(1, "x", 3), (2, "x", 5)]);
        let decided = look_after(&first, &[(1, "x", 3), (2, "x", 6), (3, "x", 1)], &[2, 3]);
        let after = look_after(&decided, &[(1, "x", 3)], &[]);
        assert!(!unchanged(&first, &decided), "both have changed it before they closed");
        assert!(!unchanged(&first, &after), "it does not ask for them, and knows what they have changed");
        assert!(unchanged(&decided, &after));
        assert_eq!(after.closed().clients().count(), 2);

        let tags = Tags::from([named("x")]);
        let own = changes(&[(1, "x", 3)]);
        assert!(!first.is_silent(&own, &tags), "the second may go on");
        assert!(decided.is_silent(&own, &tags) && after.is_silent(&own, &tags));
    }

    /// Clients, or notices, of these numbers.
    fn clients(numbers: &[u16]) -> Vec<ClientId> {
        numbers.iter().map(|number| client(*number)).collect()
    }

    /// A look of the same server after this one, which finds these notices. The one of number 7 is
    /// about the collection y, the others are about any.
    fn look_at_notices(before: &ChangeLook, going_on: &[u16], over: &[u16]) -> ChangeLook {
        let scope = |notice| if notice == client(7) { Scope::Of([named("y")].into()) } else { Scope::All };
        let notices = clients(going_on).into_iter().map(|notice| (notice, scope(notice))).collect();
        let scan = RecordScan { notices, over: clients(over), closed: clients(over), ..RecordScan::default() };
        ChangeLook::new(Moment::now(), [before.after, before.after], false, before.closed(), scan)
    }

    #[test]
    fn notices_of_others_count_until_they_were_over_before_the_first_look() {
        let own = |notice: ObjectId| ClientId(notice.bytes()) == client(9);
        let tags = Tags::from([named("x")]);
        let may = |first: &ChangeLook, later: &ChangeLook| first.may_be_written_around(later, &tags, own);
        let none = look((1, 1), &[]);
        assert!(!may(&none, &look_at_notices(&none, &[9], &[])), "its own");
        let going_on = look_at_notices(&none, &[1, 9], &[]);
        assert!(may(&none, &going_on) && may(&going_on, &none));
        assert!(going_on.closed().clients().next().is_none(), "it is asked for again");
        let elsewhere = look_at_notices(&none, &[7], &[]);
        assert!(!may(&none, &elsewhere) && !may(&elsewhere, &none), "it is about another collection");
        assert!(none.may_be_written_around(&elsewhere, &Tags::from([named("x"), named("y")]), own));
        assert!(!may(&elsewhere, &look_at_notices(&elsewhere, &[], &[7])), "and over now");
        let over = look_at_notices(&going_on, &[], &[1]);
        assert!(may(&none, &over), "it has come and gone");
        // The next look does not read it any more.
        let after = look_at_notices(&over, &[], &[]);
        assert!(may(&going_on, &after) && may(&none, &after));
        assert!(!may(&over, &after) && !may(&after, &after));
        // A look that forgets it, as too old by now, has not read it.
        let later = after.asked.later(CLOSED_FOR, CLOSED_FOR);
        let forgets = ChangeLook::new(later, [(1, 1), (1, 1)], false, after.closed(), RecordScan::default());
        assert!(forgets.closed().clients().next().is_none() && may(&none, &forgets) && !may(&after, &forgets));
    }

    #[test]
    fn stamps_of_others_are_compared_and_own_ones_are_not() {
        let tags = Tags::from([named("x")]);
        let own = changes(&[(1, "x", 9)]);
        let first = look((1, 1), &[(1, "x", 3), (2, "x", 5), (2, "y", 5)]);
        let by_others = |later: &ChangeLook| first.changed_by_others(later, &own, &tags, SameServer::Connections);
        assert_eq!(by_others(&look((1, 1), &[(1, "x", 4), (2, "x", 5), (2, "y", 6)])), Some(false));
        for other in [&[(2, "x", 6)][..], &[], &[(2, "x", 5), (3, "x", 1)]] {
            assert_eq!(by_others(&look((1, 1), other)), Some(true), "{other:?}");
        }
        assert_eq!(by_others(&look((2, 1), &[(2, "x", 5)])), None, "another server process perhaps");
    }

    #[test]
    fn closed_records_that_were_removed_are_forgotten() {
        let closed = look_after(&look((1, 1), &[]), &[(2, "x", 6)], &[2]);
        let much_later = RecordScan { changes: Changes::default(), ..RecordScan::default() };
        let forgotten = closed.closed().with(&much_later, closed.asked.later(CLOSED_FOR, CLOSED_FOR));
        assert_eq!(forgotten.clients().count(), 0);

        let many = RecordScan { closed: (0..=u16::MAX).map(client).collect(), ..RecordScan::default() };
        assert_eq!(ClosedRecords::default().with(&many, Moment::now()).clients().count(), MOST_CLOSED);
    }

    /// A look that finds these notices over, and nothing else.
    fn look_with_over(before: &ChangeLook, over: std::ops::Range<u16>) -> ChangeLook {
        let over: Vec<ClientId> = over.map(client).collect();
        let scan = RecordScan { closed: over.clone(), over, ..RecordScan::default() };
        ChangeLook::new(Moment::now(), [(1, 1), (1, 1)], false, before.closed(), scan)
    }

    #[test]
    fn a_look_tells_since_when_all_notices_are_known_that_are_over_by_it() {
        let first = look((1, 1), &[]);
        assert!(first.over_since().is_none());
        let over = look_with_over(&first, 0..1);
        let since = over.over_since().unwrap();
        assert!(since.is_after(over.asked), "from its answer on");
        let is_since = |look: &ChangeLook| look.over_since().is_some_and(|later| later.is_after(since));
        assert!(!is_since(&look_with_over(&over, 0..0)) && is_since(&look_with_over(&over, 1..2)));
    }

    #[test]
    fn notices_have_a_place_before_closed_records_and_too_many_are_noticed() {
        let most = u16::try_from(MOST_CLOSED).unwrap();
        let records = RecordScan { closed: (1_000..2_000).map(client).collect(), ..RecordScan::default() };
        let full = ChangeLook::new(Moment::now(), [(1, 1), (1, 1)], false, &ClosedRecords::default(), records);
        assert!(full.closed().clients().count() == MOST_CLOSED && !full.forgets_notices());
        let notices = look_with_over(&full, 0..most);
        assert!(notices.closed().clients().count() == MOST_CLOSED && !notices.forgets_notices());
        assert!((0..most).all(|notice| notices.closed().clients().any(|place| place == client(notice))));
        let too_many = look_with_over(&notices, most..most + 1);
        assert!(too_many.forgets_notices() && !look_with_over(&too_many, 0..0).forgets_notices(), "it is removed");
    }

    fn client(number: u16) -> ClientId {
        let [high, low] = number.to_be_bytes();
        ClientId([high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    fn is_unchanged(first: &ChangeLook, later: &ChangeLook, same: SameServer) -> bool {
        let tags = Tags::from([named("x")]);
        first.changed_at(later, &Changes::default(), &tags, same).is_some_and(|changed| changed.is_empty())
    }

    #[test]
    fn nothing_is_changed_at_a_later_look_with_the_same_stamps_by_the_same_connections() {
        let first = look((1, 1), &[(1, "x", 3), (1, "y", 3)]);
        for same in [look((1, 1), &[(1, "x", 3), (1, "y", 9)]), look((1, 1), &[(1, "x", 3), (2, "y", 1)])] {
            assert!(is_unchanged(&first, &same, SameServer::Connections));
        }
        for other in [
            look((1, 1), &[(1, "x", 4)]),
            look((1, 1), &[(1, "x", 3), (2, "x", 3)]),
            look((1, 1), &[]),
            look((2, 1), &[(1, "x", 3)]),
            look((1, 2), &[(1, "x", 3)]),
        ] {
            assert!(!is_unchanged(&first, &other, SameServer::Connections));
        }
        let reconnected = look((2, 1), &[(1, "x", 3)]);
        assert!(is_unchanged(&first, &reconnected, SameServer::Elsewhere));
        let suspended = first.asked.later(Duration::ZERO, LONGEST_APART);
        let late = ChangeLook { asked: suspended, ..look((1, 1), &[(1, "x", 3)]) };
        assert!(!is_unchanged(&first, &late, SameServer::Connections));
    }

    #[test]
    fn nothing_is_changed_at_a_later_look_that_shows_what_is_known() {
        let tags = Tags::from([named("x")]);
        let first = look((1, 1), &[(1, "x", 3), (2, "x", 7)]);
        let known = |stamp| look((1, 1), &[(1, "x", stamp)]).changes;
        let later = |own, other| look((1, 1), &[(1, "x", own), (2, "x", other)]);
        let same = |known: &Changes, later: &ChangeLook| {
            let changed = first.changed_at(later, known, &tags, SameServer::Connections);
            changed.is_some_and(|changed| changed.is_empty())
        };
        assert!(same(&known(5), &later(5, 7)));
        assert!(!same(&known(5), &later(6, 7)), "one decision more");
        assert!(!same(&known(5), &later(3, 7)), "what was acknowledged is lost");
        assert!(!same(&known(5), &later(5, 8)), "a decision of somebody else");
        assert!(same(&known(2), &later(3, 7)), "the look has seen it");
        assert!(first.is_silent(&look((1, 1), &[(1, "x", 1), (2, "x", 1)]).changes, &tags));
        assert!(!first.is_silent(&known(5), &tags));
    }
}
