//! PreVote: a member asks whether it would be elected before it stands, and members that hear of a
//! leader refuse. So a member that was cut off does not depose the leader when it is back.

use std::collections::BTreeSet;

use super::{
    configuration::Configuration,
    id::{MemberId, Term},
};

/// The question that a member has asked, and whether it hears of a leader itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Canvass {
    /// The term in which it would stand, with the members that would vote for it.
    asked: Option<(Term, BTreeSet<MemberId>)>,
    hears: bool,
    /// Whether an election has waited for others (0088, C8).
    has_waited: bool,
}

impl Canvass {
    /// A leader was heard of: there is nothing to ask.
    pub(super) fn hear(&mut self) {
        self.hears = true;
        self.has_waited = false;
        self.asked = None;
    }

    /// No leader was heard of for as long as an election waits.
    pub(super) fn silence(&mut self) {
        self.hears = false;
    }

    pub(super) const fn hears(&self) -> bool {
        self.hears
    }

    /// Returns true the first time since a leader was heard of: others are to stand before.
    pub(super) fn waits_once(&mut self) -> bool {
        !std::mem::replace(&mut self.has_waited, true)
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

    /// A member would vote in this term.
    pub(super) fn grant(&mut self, from: MemberId, term: Term) {
        if let Some((_, would)) = self.asked.as_mut().filter(|(asked, _)| *asked == term) {
            would.insert(from);
        }
    }

    /// Returns true once a majority would vote.
    pub(super) fn is_granted(&mut self, members: &Configuration) -> bool {
        self.asked.take_if(|(_, would)| members.is_majority(|member| would.contains(&member))).is_some()
    }
}
