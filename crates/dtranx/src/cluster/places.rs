//! [`Places`]: the members of a group, and which of them have a vote, as a configuration in the
//! group's log says (decision 0088).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::core::StoreId;

/// Most members of a group that have a vote, now or after the change that is under way.
pub const MAX_VOTERS: usize = 7;

/// Most members of a group that have no vote.
pub const MAX_LEARNERS: usize = 2;

/// Most places in a configuration: voters before a change and behind it, and learners.
const MAX_PLACES: usize = 2 * MAX_VOTERS + MAX_LEARNERS;

/// A member of a group, whatever store it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Number of the member. It is never given again.
    pub number: u8,
    /// The first store in this place. Which one is there now is a note of each member.
    pub store: StoreId,
    /// Address on which the member listens.
    pub address: SocketAddr,
    /// Part of the member in what needs a majority.
    pub role: Role,
}

/// Part of a member of a group in what needs a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// It has a vote, and none less after the change that is under way.
    Votes,
    /// It has a vote until the change that is under way is over.
    Goes,
    /// It has a vote among those that have one after the change, and was a learner.
    Comes,
    /// It gets items and entries, and has no vote.
    Learns,
}

/// A configuration of a group. While a change of voters is under way it is joint: a majority of
/// those that vote before the change is needed, and one of those that vote after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Places {
    /// Greatest number that was given to a place so far.
    pub given: u8,
    /// Places, in the order of their numbers.
    pub places: Vec<Place>,
}

impl Places {
    /// The first members of a group: all have a vote. Addresses are in the order of the numbers,
    /// which begin with 1.
    pub(crate) fn first(stores: &BTreeMap<u8, StoreId>, addresses: &[SocketAddr]) -> Self {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let place = |(number, store): (&u8, &StoreId)| {
            let address = addresses.get(usize::from(*number).wrapping_sub(1)).copied().unwrap_or(unknown);
            Place { number: *number, store: *store, address, role: Role::Votes }
        };
        Self { given: stores.keys().next_back().copied().unwrap_or(0), places: stores.iter().map(place).collect() }
    }

    /// The place with this number.
    pub fn get(&self, number: u8) -> Option<&Place> {
        self.places.iter().find(|place| place.number == number)
    }

    /// Returns true if a change of voters is under way.
    pub fn is_joint(&self) -> bool {
        self.places.iter().any(|place| matches!(place.role, Role::Goes | Role::Comes))
    }

    /// Returns true if a place with this number was removed.
    pub(crate) fn has_removed(&self, number: u8) -> bool {
        number <= self.given && self.get(number).is_none()
    }

    /// The addresses of all places, in the order of their numbers.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.address).collect()
    }

    /// Bytes in the log.
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads what [`Places::encode`] has written; `None` if no group has such members.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok().filter(Self::is_possible)
    }

    /// Returns true if a group can have these members.
    pub(crate) fn is_possible(&self) -> bool {
        let numbers: Vec<u8> = self.places.iter().map(|place| place.number).collect();
        let stores: BTreeSet<StoreId> = self.places.iter().map(|place| place.store).collect();
        let is_in_order = numbers.windows(2).all(|pair| pair[0] < pair[1]);
        let are_given = numbers.iter().all(|number| (1..=self.given).contains(number));
        let count = |roles: &[Role]| self.places.iter().filter(|place| roles.contains(&place.role)).count();
        let votes = [count(&[Role::Votes, Role::Goes]), count(&[Role::Votes, Role::Comes])];
        let have_votes = votes.iter().all(|votes| (1..=MAX_VOTERS).contains(votes));
        is_in_order
            && are_given
            && stores.len() == numbers.len()
            && numbers.len() <= MAX_PLACES
            && have_votes
            && count(&[Role::Learns]) <= MAX_LEARNERS
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::log::CONFIGURATION_LIMIT_BYTES;

    fn places(roles: &[Role]) -> Places {
        let place = |(role, number): (&Role, u8)| {
            let address = SocketAddr::from(([0xff; 8].map(|half: u16| half << 8), u16::MAX));
            Place { number, store: StoreId([number; 16]), address, role: *role }
        };
        Places { given: u8::MAX, places: roles.iter().zip(240..=u8::MAX).map(place).collect() }
    }

    #[test]
    fn members_are_read_as_they_are_written_and_fit_into_an_entry() {
        let largest = [[Role::Goes; 7], [Role::Comes; 7]].concat();
        let largest = places(&[&largest[..], &[Role::Learns; 2]].concat());
        assert!(largest.encode().len() <= CONFIGURATION_LIMIT_BYTES, "{}", largest.encode().len());
        assert_eq!(Places::decode(&largest.encode()), Some(largest));
        assert_eq!([Places::decode(&[]), Places::decode(&[7; 40])], [None, None]);
    }

    #[test]
    fn members_that_no_group_has_are_refused() {
        let good = places(&[Role::Votes, Role::Votes, Role::Learns]);
        assert!(good.is_possible());
        let mut bad = vec![places(&[]), places(&[Role::Learns]), places(&[Role::Goes]), places(&[Role::Votes; 8])];
        bad.push(places(&[Role::Votes, Role::Learns, Role::Learns, Role::Learns]));
        for spoil in [
            |places: &mut Places| places.places[1].number = places.places[0].number,
            |places: &mut Places| places.places[1].store = places.places[0].store,
            |places: &mut Places| places.given = 5,
            |places: &mut Places| places.places.swap(0, 2),
        ] {
            let mut spoiled = good.clone();
            spoil(&mut spoiled);
            bad.push(spoiled);
        }
        for members in bad {
            assert!(!members.is_possible() && Places::decode(&members.encode()).is_none(), "{members:?}");
        }
    }

    #[test]
    fn number_that_was_given_and_is_not_there_was_removed() {
        let stores = BTreeMap::from([1, 2, 3].map(|number| (number, StoreId([number; 16]))));
        let mut members = Places::first(&stores, &[]);
        assert_eq!(members.given, 3);
        members.places.remove(1);
        assert_eq!([1, 2, 3, 4].map(|number| members.has_removed(number)), [false, true, false, false]);
    }
}
