//! What members send each other.

use std::collections::BTreeSet;

use super::id::{MemberId, Position, Term};

/// A message between members. Term and index are at most [`GREATEST`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// Votes, batches and acknowledgements. What is in the entries travels beside it.
    Raft(noraft::Message),
    /// A leader asks whether its term is still the latest one.
    Round { term: Term, number: u64 },
    /// It was, when that round arrived.
    Confirm { term: Term, number: u64 },
    /// Would you vote in this term for a log that ends here? (PreVote)
    Ask { term: Term, last: Position },
    /// The answer to that, with the term of who gives it.
    Would { term: Term, asked: Term, grants: bool },
    /// A store that has taken a lost one's place asks what that one can have promised.
    Rejoin,
    /// The answer: term and last entry of who gives it, whether it is rejoining, too, whom it takes
    /// for the members, and in which configuration; `None` if that may still be another one.
    RejoinAnswer { term: Term, last: Position, rejoins: bool, members: BTreeSet<MemberId>, settled: Option<Position> },
}

/// Greatest term and index that a member believes: neither is reached, and none overflows.
const GREATEST: u64 = 1 << 62;

impl Message {
    /// Returns true if its numbers can be those of a member.
    pub(super) fn is_plausible(&self) -> bool {
        let (term, index) = match self {
            Self::Raft(message) => (message.term(), last(message).map_or(0, |last| last.index.get())),
            Self::Ask { term, last } | Self::RejoinAnswer { term, last, .. } => (*term, last.index.get()),
            Self::Rejoin => (Term::ZERO, 0),
            Self::Would { term, .. } | Self::Round { term, .. } | Self::Confirm { term, .. } => (*term, 0),
        };
        term.get() <= GREATEST && index <= GREATEST && !self.is_ahead_of_its_term()
    }

    /// Returns true if it names an entry of a term that its sender does not know: no log has one.
    fn is_ahead_of_its_term(&self) -> bool {
        match self {
            Self::Ask { term, last } | Self::RejoinAnswer { term, last, .. } => last.term > *term,
            _ => false,
        }
    }
}

fn last(message: &noraft::Message) -> Option<Position> {
    match message {
        noraft::Message::RequestVoteCall { last_position, .. }
        | noraft::Message::AppendEntriesReply { last_position, .. } => Some(*last_position),
        noraft::Message::AppendEntriesCall { entries, .. } => Some(entries.last_position()),
        noraft::Message::RequestVoteReply { .. } => None,
    }
}
