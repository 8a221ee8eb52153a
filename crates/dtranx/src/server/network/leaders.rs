//! Members that lead the groups among the other servers, as they say themselves.

use std::collections::BTreeMap;

use crate::cluster::PeerId;
use crate::core::ServerId;

/// For each group, the member that leads in the latest term that was heard of.
#[derive(Default)]
pub(super) struct Leaders {
    latest: BTreeMap<ServerId, (u64, u8)>,
}

impl Leaders {
    /// Notes that a member leads in this term. One of an earlier term may believe so for a while.
    pub(super) fn note(&mut self, peer: PeerId, term: u64) {
        let Some(member) = peer.member else { return };
        let latest = self.latest.entry(peer.server).or_insert((term, member));
        *latest = (*latest).max((term, member));
    }

    /// The member that messages for a group go to.
    pub(super) fn of(&self, server: ServerId) -> Option<PeerId> {
        self.latest.get(&server).map(|(_, member)| PeerId::member(server, *member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_of_the_latest_term_leads() {
        let (group, other) = (ServerId(1), ServerId(2));
        let mut leaders = Leaders::default();
        assert_eq!(leaders.of(group), None);
        for (member, term) in [(3, 5), (1, 7), (2, 6)] {
            leaders.note(PeerId::member(group, member), term);
        }
        leaders.note(other.into(), 9);
        assert_eq!((leaders.of(group), leaders.of(other)), (Some(PeerId::member(group, 1)), None));
    }
}
