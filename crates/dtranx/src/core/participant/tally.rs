//! Number of a participant's parts, by their progress.

use super::{
    Participant,
    state::{InquiryPlan, State},
};

/// Open work of a participant, counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Parts that are not voted on, or whose outcome is not known or not applied.
    pub(crate) unfinished: usize,
    /// Of these, those it has voted yes on for another server, without knowing the outcome.
    pub(crate) in_doubt: usize,
    /// Of these, those that the recovery service inquires about, because it took too long.
    pub(crate) handed_over: usize,
}

impl Participant {
    /// Counts the participant's parts.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally { unfinished: self.validations.len(), ..Tally::default() };
        for state in self.tranxs.values() {
            if matches!(state, State::Committed(_) | State::Aborted { .. }) {
                continue;
            }
            tally.unfinished += 1;
            if let State::Ready { doubt: doubt @ (InquiryPlan::From(_) | InquiryPlan::HandedOver), .. } = state {
                tally.in_doubt += 1;
                tally.handed_over += usize::from(*doubt == InquiryPlan::HandedOver);
            }
        }
        tally
    }
}
