//! How much of its log a leader keeps for its followers. A segment may go once every member has
//! what is in it; a member that is away is waited for as long as there is room.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::group::{Group, MemberId};

/// Time after its last acknowledgement from which on a member counts as away, in milliseconds.
const AWAY_MS: u64 = 10_000;
/// The same for a change of the members that needs its answers.
const SILENT_MS: u64 = 2_000;

/// Time at which each follower has acknowledged something last, and the entries that may go.
#[derive(Debug, Default)]
pub(super) struct Retention {
    acknowledged_ms: BTreeMap<MemberId, u64>,
    /// Greatest index that was found to be spare in this term.
    spare: u64,
}

/// The room of the leader's log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) limit_bytes: u64,
}

impl Retention {
    /// A term begins in which this member leads: all others count as present.
    pub(super) fn begin(&mut self, others: impl Iterator<Item = MemberId>, now_ms: u64) {
        *self = Self { acknowledged_ms: others.map(|member| (member, now_ms)).collect(), spare: 0 };
    }

    /// These are the other members that are waited for at all: new ones count as present.
    pub(super) fn keep(&mut self, others: BTreeSet<MemberId>, now_ms: u64) {
        self.acknowledged_ms.retain(|member, _| others.contains(member));
        for member in others {
            self.acknowledged_ms.entry(member).or_insert(now_ms);
        }
    }

    pub(super) fn acknowledged(&mut self, by: MemberId, now_ms: u64) {
        self.acknowledged_ms.insert(by, now_ms);
    }

    /// Returns true if a member has acknowledged something lately.
    pub(super) fn answers(&self, member: MemberId, now_ms: u64) -> bool {
        self.acknowledged_ms.get(&member).is_some_and(|at_ms| now_ms < at_ms + SILENT_MS)
    }

    /// A member lacks entries that are gone, and is not waited for until it is heard of again.
    pub(super) fn forget(&mut self, member: MemberId) {
        self.acknowledged_ms.remove(&member);
    }

    /// Entries up to this index are spare: no member that is waited for lacks them. A member is
    /// waited for while it acknowledges, and while the log takes less than half of its room.
    pub(super) fn spare(&mut self, machine: &Group, room: Room, now_ms: u64) -> u64 {
        let counted = |member: &MemberId| machine.counted(*member).get();
        self.spare = self.spare.max(self.least(counted, room, now_ms));
        self.spare
    }

    /// The least that a member has which is waited for; 0 if none is.
    fn least(&self, counted: impl Fn(&MemberId) -> u64, room: Room, now_ms: u64) -> u64 {
        let waits_for_all = room.bytes < room.limit_bytes / 2;
        let is_waited_for = |at_ms: u64| waits_for_all || now_ms < at_ms + AWAY_MS;
        let waited_for = self.acknowledged_ms.iter().filter(|(_, at_ms)| is_waited_for(**at_ms));
        waited_for.map(|(member, _)| counted(member)).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Room = Room { bytes: 49, limit_bytes: 100 };
    const MUCH: Room = Room { bytes: 50, limit_bytes: 100 };

    /// Two followers, of which one has acknowledged nothing since the term began.
    fn one_away() -> Retention {
        let mut retention = Retention::default();
        retention.begin([MemberId(1), MemberId(2)].into_iter(), 0);
        retention.acknowledged(MemberId(1), AWAY_MS);
        retention
    }

    fn counted(member: &MemberId) -> u64 {
        if member.0 == 1 { 70 } else { 30 }
    }

    #[test]
    fn member_that_is_away_is_waited_for_while_there_is_room() {
        assert_eq!(one_away().least(counted, LITTLE, AWAY_MS), 30);
        assert_eq!(one_away().least(counted, MUCH, AWAY_MS), 70);
        assert_eq!(one_away().least(counted, MUCH, AWAY_MS - 1), 30, "it is not away yet");
    }

    #[test]
    fn member_that_acknowledges_is_waited_for_whatever_room_there_is() {
        let mut retention = one_away();
        retention.acknowledged(MemberId(2), AWAY_MS);
        assert_eq!(retention.least(counted, MUCH, AWAY_MS), 30);
    }

    #[test]
    fn member_that_lacks_removed_entries_is_not_waited_for() {
        let mut retention = one_away();
        retention.forget(MemberId(2));
        assert_eq!(retention.least(counted, LITTLE, AWAY_MS), 70);
        retention.acknowledged(MemberId(2), AWAY_MS);
        assert_eq!(retention.least(counted, LITTLE, AWAY_MS), 30);
    }

    #[test]
    fn member_that_goes_is_not_waited_for_and_a_new_one_is() {
        let mut retention = one_away();
        retention.keep([MemberId(1), MemberId(3)].into(), AWAY_MS);
        let counted = |member: &MemberId| if member.0 == 3 { 40 } else { counted(member) };
        assert_eq!(retention.least(counted, MUCH, AWAY_MS), 40);
        retention.keep([MemberId(1)].into(), AWAY_MS);
        assert_eq!(retention.least(counted, LITTLE, AWAY_MS), 70);
    }

    #[test]
    fn nothing_is_spare_when_nobody_is_heard_of() {
        assert_eq!(one_away().least(counted, MUCH, 2 * AWAY_MS), 0);
    }
}
