//! PreVote: a member asks whether it would be elected before it stands, and members that hear of a
//! leader refuse. So a member that was cut off does not depose the leader when it is back.

use std::collections::BTreeSet;

use super::id::{MemberId, Term};

/// The question that a member has asked, and whether it hears of a leader itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Canvass {
    /// The term in which it would stand, with the members that would vote for it.
    asked: Option<(Term, BTreeSet<MemberId>)>,
    hears: bool,
}

impl Canvass {
    /// A leader was heard of: there is nothing to ask.
    pub(super) fn hear(&mut self) {
        self.hears = true;
        self.asked = None;
    }

    /// No leader was heard of for as long as an election waits.
    pub(super) fn silence(&mut self) {
        self.hears = false;
    }

    pub(super) const fn hears(&self) -> bool {
        self.hears
    }

    /// Begins to ask the others for their votes in this term.
    pub(super) fn ask(&mut self, me: MemberId, term: Term) {
        self.hears = false;
        self.asked = Some((term, BTreeSet::from([me])));
    }

    /// The question is void: the term has changed.
    pub(super) fn clear(&mut self) {
        self.asked = None;
    }

    /// A member would vote in this term. Returns true once that is a majority.
    pub(super) fn grant(&mut self, from: MemberId, term: Term, majority: usize) -> bool {
        let Some((_, would)) = self.asked.as_mut().filter(|(asked, _)| *asked == term) else { return false };
        would.insert(from);
        let is_elected = would.len() >= majority;
        if is_elected {
            self.asked = None;
        }
        is_elected
    }
}
