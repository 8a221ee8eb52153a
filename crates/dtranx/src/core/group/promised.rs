//! What a lost store can have promised, as the other members' answers bound it: votes, by the
//! latest term, and acknowledgements, by the newest entry (decision 0081, R2).

use std::collections::BTreeMap;

use super::{
    configuration::Configuration,
    id::{MemberId, Position, Term},
};

/// State of a member whose store has taken a lost one's place, until it has a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rejoin {
    /// It asks what the lost store may have promised.
    Asking,
    /// It knows, and gets that from a leader.
    Following(Promised),
}

/// Bounds of what a lost store has promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Promised {
    /// It has voted in no later term.
    pub(crate) term: Term,
    /// It has acknowledged no newer entry.
    pub(crate) last: Position,
}

/// The answer of another member: what it knows, and whether it has no vote itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answer {
    knows: Promised,
    rejoins: bool,
}

/// Answers of the other members to one that rejoins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rejoining {
    answers: BTreeMap<MemberId, Answer>,
    /// True if the machine has said that it is to be started again.
    pub(super) is_said: bool,
}

impl Rejoining {
    pub(super) fn hear(&mut self, from: MemberId, knows: Promised, rejoins: bool) {
        self.answers.insert(from, Answer { knows, rejoins });
    }

    /// The members whose answers are missing, or may be others by now, because they have rejoined.
    pub(super) fn missing(&self, others: Vec<MemberId>) -> Vec<MemberId> {
        let is_missing = |member: &MemberId| self.answers.get(member).is_none_or(|answer| answer.rejoins);
        others.into_iter().filter(is_missing).collect()
    }

    /// The bounds, if all others have answered, and those of them that are not rejoining are a
    /// majority of the group.
    pub(super) fn bounds(&self, others: &[MemberId], members: &Configuration) -> Option<Promised> {
        let is_in_use = |member| self.answers.get(&member).is_some_and(|answer| !answer.rejoins);
        let have_all = others.iter().all(|member| self.answers.contains_key(member));
        (have_all && members.is_majority(is_in_use)).then(|| self.greatest()).flatten()
    }

    pub(super) fn greatest(&self) -> Option<Promised> {
        let known = || self.answers.values().map(|answer| answer.knows);
        let term = known().map(|knows| knows.term).max()?;
        Some(Promised { term, last: known().map(|knows| knows.last).max()? })
    }
}
