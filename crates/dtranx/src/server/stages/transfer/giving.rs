//! What a leader gives, to whom, and up to which key: one transfer at a time, and one piece of it
//! under way. This has no disk and no network.

use crate::core::Key;
use crate::log::Beginning;
use crate::server::transfer::TransferName;

/// Time after which a piece that is not acknowledged is sent again for the first time, in
/// milliseconds. It doubles each time: a slow link must not carry one piece again and again.
pub(super) const AGAIN_MS: u64 = 2_000;
/// Time without progress after which a transfer ends, and with it the pin of the log, in
/// milliseconds.
pub(super) const IDLE_MS: u64 = 30_000;

/// The transfer that is under way, if there is one.
#[derive(Default)]
pub(super) struct Giving {
    current: Option<Current>,
    pins: u64,
}

struct Current {
    member: u8,
    /// Term in which this member leads and gives the items.
    term: u64,
    /// Number of the pin of the log.
    pin: u64,
    /// Beginning of the log that is pinned; `None` until it is.
    from: Option<Beginning>,
    /// The last key that the member has.
    after: Option<Key>,
    /// The last entry that the member has acknowledged since.
    reached: u64,
    sent_ms: u64,
    /// Time after which the piece is sent again.
    again_ms: u64,
    /// Time of the last progress.
    moved_ms: u64,
}

/// Consequence of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Pin the log, under this number.
    Pin(u64),
    /// Send the piece that [`Giving::wanted`] names.
    Send,
    /// This member's transfer is over: the log need not be pinned any more.
    Release(u8),
}

/// A piece that is to be sent.
pub(super) struct Wanted<'a> {
    pub(super) member: u8,
    pub(super) name: TransferName,
    pub(super) after: Option<&'a Key>,
    /// Beginning of the log that is pinned.
    pub(super) from: &'a Beginning,
}

impl Giving {
    /// A member lacks entries that are removed. While another one gets items, it waits: it is heard
    /// of again.
    pub(super) fn lacks(&mut self, member: u8, term: u64, now_ms: u64) -> Step {
        if self.current.is_some() {
            return Step::Nothing;
        }
        self.pins += 1;
        let (pin, from, after, reached) = (self.pins, None, None, 0);
        let (sent_ms, again_ms, moved_ms) = (now_ms, AGAIN_MS, now_ms);
        self.current = Some(Current { member, term, pin, from, after, reached, sent_ms, again_ms, moved_ms });
        Step::Pin(pin)
    }

    /// The log is pinned.
    pub(super) fn pinned(&mut self, pin: u64, from: Beginning, now_ms: u64) -> Step {
        let Some(current) = self.current.as_mut().filter(|current| current.pin == pin && current.from.is_none()) else {
            return Step::Nothing;
        };
        current.from = Some(from);
        current.sent_ms = now_ms;
        Step::Send
    }

    /// A member says up to which key it has all pieces of a transfer.
    pub(super) fn taken(&mut self, member: u8, name: TransferName, through: Option<Key>, now_ms: u64) -> Step {
        let Some(current) = self.current.as_mut().filter(|current| current.member == member) else {
            return Step::Nothing;
        };
        if current.name() != Some(name) || current.after == through {
            return Step::Nothing;
        }
        (current.after, current.sent_ms, current.moved_ms) = (through, now_ms, now_ms);
        current.again_ms = AGAIN_MS;
        Step::Send
    }

    /// A member has acknowledged the entries up to this one. If it has all that may go, the
    /// transfer is over.
    pub(super) fn reached(&mut self, member: u8, index: u64, has_all: bool, now_ms: u64) -> Step {
        let Some(current) = self.current.as_mut().filter(|current| current.member == member) else {
            return Step::Nothing;
        };
        if index > current.reached {
            (current.reached, current.moved_ms) = (index, now_ms);
        }
        if has_all { self.end() } else { Step::Nothing }
    }

    /// This member leads no more.
    pub(super) fn end(&mut self) -> Step {
        self.current.take().map_or(Step::Nothing, |current| Step::Release(current.member))
    }

    /// Looks at the clock. Without room in the log, the transfer ends.
    pub(super) fn tick(&mut self, has_room: bool, now_ms: u64) -> Step {
        let is_over = |current: &mut Current| !has_room || now_ms.saturating_sub(current.moved_ms) >= IDLE_MS;
        if let Some(current) = self.current.take_if(is_over) {
            return Step::Release(current.member);
        }
        let is_due = |current: &&mut Current| current.waits() && now_ms >= current.sent_ms + current.again_ms;
        let Some(current) = self.current.as_mut().filter(is_due) else { return Step::Nothing };
        (current.sent_ms, current.again_ms) = (now_ms, current.again_ms * 2);
        Step::Send
    }

    /// The piece that is to be sent.
    pub(super) fn wanted(&self) -> Option<Wanted<'_>> {
        let current = self.current.as_ref()?;
        let (from, after) = (current.from.as_ref()?, current.after.as_ref());
        Some(Wanted { member: current.member, name: current.name()?, after, from })
    }

    /// Time of the next look at the clock.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let current = self.current.as_ref()?;
        let again_ms = current.waits().then_some(current.sent_ms + current.again_ms);
        again_ms.into_iter().chain([current.moved_ms + IDLE_MS]).min()
    }
}

impl Current {
    /// Returns true if a piece is under way: the member does not go on with the items yet.
    fn waits(&self) -> bool {
        self.from.as_ref().is_some_and(|from| self.reached < from.before.index)
    }

    fn name(&self) -> Option<TransferName> {
        Some(TransferName { term: self.term, before: self.from.as_ref()?.before })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::log::Position;

    const BEFORE: Position = Position { term: 4, index: 60 };
    const NAME: TransferName = TransferName { term: 5, before: BEFORE };

    fn from() -> Beginning {
        Beginning { before: BEFORE, configured: None, gc_payload: b"marks".to_vec() }
    }

    fn key(text: &str) -> Option<Key> {
        Some(Key::new(text.to_owned()).unwrap())
    }

    fn begun() -> Giving {
        let mut giving = Giving::default();
        assert_eq!(giving.lacks(2, 5, 0), Step::Pin(1));
        assert_eq!(giving.pinned(1, from(), 0), Step::Send);
        giving
    }

    #[test]
    fn each_piece_is_sent_once_the_one_before_is_there() {
        let mut giving = begun();
        assert_eq!(giving.taken(2, NAME, key("a"), 10), Step::Send);
        assert_eq!(giving.wanted().unwrap().after, key("a").as_ref());
        assert_eq!(giving.taken(2, NAME, key("a"), 10), Step::Nothing, "it is under way");
        assert_eq!(giving.taken(3, NAME, key("b"), 10), Step::Nothing);
        assert_eq!(giving.taken(2, TransferName { term: 4, ..NAME }, key("b"), 10), Step::Nothing);
        // The member was started again, and has nothing any more.
        assert_eq!(giving.taken(2, NAME, None, 10), Step::Send);
        assert_eq!(giving.wanted().unwrap().after, None);
    }

    #[test]
    fn piece_that_seems_lost_is_sent_again_and_not_for_ever() {
        let mut giving = begun();
        assert_eq!(giving.tick(true, AGAIN_MS - 1), Step::Nothing);
        assert_eq!((giving.tick(true, AGAIN_MS), giving.tick(true, AGAIN_MS)), (Step::Send, Step::Nothing));
        // Another two seconds might be too short for it.
        assert_eq!((giving.tick(true, 3 * AGAIN_MS - 1), giving.tick(true, 3 * AGAIN_MS)), (Step::Nothing, Step::Send));
        assert_eq!(giving.taken(2, NAME, key("a"), IDLE_MS - 1), Step::Send);
        assert_eq!(giving.tick(true, IDLE_MS), Step::Nothing, "there was progress");
        assert_eq!(giving.tick(true, 2 * IDLE_MS - 1), Step::Release(2));
        assert!(giving.wanted().is_none() && giving.next_ms().is_none());
    }

    #[test]
    fn second_member_waits_for_the_first() {
        let mut giving = begun();
        assert_eq!(giving.lacks(3, 5, 0), Step::Nothing);
        assert_eq!(giving.reached(3, 90, true, 0), Step::Nothing);
        assert_eq!(giving.reached(2, 90, true, 0), Step::Release(2));
        assert_eq!(giving.lacks(3, 5, 0), Step::Pin(2));
        assert_eq!(giving.pinned(1, from(), 0), Step::Nothing, "that pin is over");
    }

    #[test]
    fn log_stays_pinned_until_the_member_has_what_may_go() {
        let mut giving = begun();
        assert_eq!(giving.reached(2, 60, false, AGAIN_MS), Step::Nothing);
        assert_eq!(giving.tick(true, 2 * AGAIN_MS), Step::Nothing, "nothing more is sent");
        assert_eq!(giving.next_ms(), Some(AGAIN_MS + IDLE_MS));
        assert_eq!(giving.reached(2, 61, false, IDLE_MS), Step::Nothing);
        assert_eq!(giving.reached(2, 61, false, IDLE_MS + 5), Step::Nothing);
        assert_eq!(giving.tick(true, 2 * IDLE_MS - 1), Step::Nothing, "it goes on");
        assert_eq!(giving.tick(true, 2 * IDLE_MS), Step::Release(2), "it does not any more");
    }

    #[test]
    fn transfer_ends_when_the_log_has_no_room_or_another_member_leads() {
        assert_eq!(begun().tick(false, 1), Step::Release(2));
        assert_eq!(begun().end(), Step::Release(2));
        assert_eq!(Giving::default().end(), Step::Nothing);
    }
}
