//! Answers that speak of now, which wait for a round (G6).

use std::collections::BTreeMap;

use crate::core::group::AnswerId;
use crate::server::member_event::Held;

/// Greatest number of answers that wait; the machine holds no more either. The node's own limits
/// are reached before.
const MOST: usize = 1 << 15;

/// Answers that wait, by the names that the machine knows them by.
#[derive(Default)]
pub(super) struct Answers {
    waiting: BTreeMap<AnswerId, Held>,
    last: u64,
}

impl Answers {
    /// Keeps an answer. Returns its name; `None`: there are too many, and it is dropped, as if it
    /// were lost on the way.
    pub(super) fn keep(&mut self, held: Held) -> Option<AnswerId> {
        if self.waiting.len() >= MOST {
            return None;
        }
        self.last += 1;
        let answer = AnswerId(self.last);
        self.waiting.insert(answer, held);
        Some(answer)
    }

    /// Takes an answer that leaves.
    pub(super) fn take(&mut self, answer: AnswerId) -> Option<Held> {
        self.waiting.remove(&answer)
    }
}
