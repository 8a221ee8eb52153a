//! Rounds: what speaks of now leaves when a majority has confirmed the term in a round that began
//! after it was said (G6).

use std::collections::BTreeMap;

use super::{
    configuration::Configuration,
    event::Command,
    id::{AnswerId, MemberId},
};

/// Greatest number of answers that wait. What is said beyond that is dropped, as a lost message is;
/// the node's own limits (`max_validating`, `max_snapshots`) are reached before.
const MAX_HELD: usize = 1 << 15;

/// The rounds of one term, and what waits for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rounds {
    /// Number of the last round that has begun.
    begun: u64,
    /// The last round that each of the others has confirmed.
    confirmed: BTreeMap<MemberId, u64>,
    /// Answers, each with the first round that counts for it.
    held: Vec<(u64, AnswerId)>,
}

impl Rounds {
    /// Holds an answer back until a round is confirmed that has not begun yet. Returns false if
    /// there are too many.
    pub(super) fn hold(&mut self, answer: AnswerId) -> bool {
        self.hold_for(self.begun + 1, answer)
    }

    /// Holds an answer back until this round, or a later one, is confirmed.
    pub(super) fn hold_for(&mut self, round: u64, answer: AnswerId) -> bool {
        let has_room = self.held.len() < MAX_HELD;
        if has_room {
            self.held.push((round, answer));
        }
        has_room
    }

    /// Begins another round. Returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Returns true if an answer waits for a round that has not begun, and none is under way: all
    /// are confirmed up to `through`.
    pub(super) fn is_due(&self, through: u64) -> bool {
        through >= self.begun && self.held.iter().any(|(round, _)| *round > self.begun)
    }

    pub(super) fn confirm(&mut self, from: MemberId, number: u64) {
        let confirmed = self.confirmed.entry(from).or_default();
        *confirmed = (*confirmed).max(number.min(self.begun));
    }

    /// Lets leave what is confirmed up to `through`.
    pub(super) fn release(&mut self, through: u64, out: &mut Vec<Command>) {
        let leaving = self.held.iter().filter(|(round, _)| *round <= through);
        out.extend(leaving.map(|(_, answer)| Command::Release { answer: *answer }));
        self.held.retain(|(round, _)| *round > through);
    }

    /// The last round that a majority has confirmed; the leader, if it is a voter, each that it
    /// began.
    pub(super) fn through(&self, members: &Configuration, me: MemberId) -> u64 {
        let of = |member: MemberId| {
            if member == me { self.begun } else { self.confirmed.get(&member).copied().unwrap_or(0) }
        };
        let is_confirmed = |round: &u64| members.is_majority(|member| of(member) >= *round);
        let rounds = self.confirmed.values().copied().chain([self.begun]);
        rounds.filter(is_confirmed).max().unwrap_or(0)
    }

    /// The last round that has begun.
    pub(super) const fn begun(&self) -> u64 {
        self.begun
    }
}
