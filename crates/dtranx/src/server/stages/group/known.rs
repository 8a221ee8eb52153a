//! The members that this one knows: the configurations in its log, those that others have told of,
//! and which stores are in the places. The machine knows stores alone; here they are exchanged for
//! places and back (decision 0088, C10).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use noraft::{ClusterConfig, LogEntry};

use super::{id, translate};
use crate::cluster::{Place, Places, Role};
use crate::core::StoreId;
use crate::core::group::{self, Configuration, MemberId, Placed};
use crate::log::{self, Configured, Position};
use crate::server::roster::Roster;
use crate::wire::Told;

/// Configurations that others have told of, at most: older ones are forgotten.
const MAX_TOLD: usize = 16;

/// A configuration, and the place of its entry in the log.
pub(super) type At = (Position, Places);

pub(super) struct Known {
    me: u8,
    /// Stores that are in the places now, as they were noted.
    notes: BTreeMap<u8, StoreId>,
    /// The configuration before the first entry, or a later one that this member was told of.
    before: At,
    /// Configurations in the log, by their indices.
    in_log: BTreeMap<u64, At>,
    /// Configurations that others have told of, later than what is settled here.
    told: Vec<At>,
    /// Stores that other members have in the places, as they say.
    said: BTreeMap<u8, BTreeMap<u8, StoreId>>,
    /// All places that were heard of, by the stores that are in them.
    places: BTreeMap<MemberId, Place>,
}

impl Known {
    /// `before` is what the member was told; a later configuration may be at the log's beginning.
    pub(super) fn new(
        me: u8,
        notes: BTreeMap<u8, StoreId>,
        before: At,
        outline: &log::Outline,
    ) -> Result<Self, String> {
        let (in_log, told, said) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let mut known = Self { me, notes, before, in_log, told, said, places: BTreeMap::new() };
        for Configured { at, bytes } in &outline.configurations {
            let places = Places::decode(bytes).ok_or_else(|| format!("{at}: no group has such members"))?;
            known.register(&places)?;
            if at.index > outline.before.index {
                known.in_log.insert(at.index, (*at, places));
            } else if at.index > known.before.0.index {
                known.before = (*at, places);
            }
        }
        let places = known.before.1.clone();
        known.register(&places)?;
        Ok(known)
    }

    /// The id of the store that is in a place.
    pub(super) fn id(&self, place: &Place) -> MemberId {
        id(self.store(place))
    }

    /// The id of this member's own store.
    pub(super) fn own(&self) -> MemberId {
        self.notes.get(&self.me).map_or(MemberId(0), id)
    }

    /// The number that a store has, or had, as a member.
    pub(super) fn number_of(&self, store: &StoreId) -> Option<u8> {
        let noted = self.notes.iter().find(|(_, noted)| *noted == store).map(|(number, _)| *number);
        let place = self.places.get(&id(store)).filter(|place| self.store(place) == store);
        noted.or(place.map(|place| place.number))
    }

    fn store<'a>(&'a self, place: &'a Place) -> &'a StoreId {
        self.notes.get(&place.number).unwrap_or(&place.store)
    }

    /// Hears of places. The machine knows stores by their first 64 bits.
    pub(super) fn register(&mut self, places: &Places) -> Result<(), String> {
        for place in &places.places {
            let id = self.id(place);
            // Members that know of a lost store name another first store of its place.
            if let Some(other) = self.places.get(&id).filter(|other| self.store(other) != self.store(place)) {
                let numbers = (other.number, place.number);
                return Err(format!("the stores of the members {numbers:?} have the same first 64 bits"));
            }
            self.places.insert(id, *place);
        }
        Ok(())
    }

    /// A configuration, as the machine has it.
    pub(super) fn configuration(&self, places: &Places) -> Configuration {
        let of = |roles: &[Role]| -> BTreeSet<MemberId> {
            let those = places.places.iter().filter(|place| roles.contains(&place.role));
            those.map(|place| self.id(place)).collect()
        };
        let next = if places.is_joint() { of(&[Role::Votes, Role::Comes]) } else { BTreeSet::new() };
        Configuration { voters: of(&[Role::Votes, Role::Goes]), next, learners: of(&[Role::Learns]) }
    }

    /// The configuration in the payload of an entry, as the machine has it. `None`: no group has
    /// such members.
    pub(super) fn understood(&mut self, bytes: &[u8]) -> Option<ClusterConfig> {
        let places = Places::decode(bytes)?;
        self.register(&places).ok()?;
        Some(ClusterConfig::from(&self.configuration(&places)))
    }

    /// A configuration of the machine's, as it is in the log. `None`: it has an unknown store.
    pub(super) fn spelled(&self, config: &ClusterConfig) -> Option<Places> {
        let Configuration { voters, next, learners } = Configuration::from(config);
        let role = |id: &MemberId| match (voters.contains(id), next.contains(id)) {
            (true, has_next) if has_next || next.is_empty() => Role::Votes,
            (true, _) => Role::Goes,
            (false, true) => Role::Comes,
            (false, false) => Role::Learns,
        };
        let all: BTreeSet<&MemberId> = voters.iter().chain(&next).chain(&learners).collect();
        let place = |id: &MemberId| Some(Place { role: role(id), ..*self.places.get(id)? });
        let mut places = all.into_iter().map(place).collect::<Option<Vec<_>>>()?;
        places.sort_by_key(|place| place.number);
        let greatest = places.last().map_or(0, |place| place.number);
        let given = self.in_log.values().next_back().unwrap_or(&self.before).1.given.max(greatest);
        Some(Places { given, places })
    }

    /// The configuration before the log's first entry, as the machine has it.
    pub(super) fn placed(&self) -> Placed {
        Placed { at: translate::place(self.before.0), configuration: self.configuration(&self.before.1) }
    }

    /// The entries of a log, for the machine.
    pub(super) fn entries(&self, outline: &log::Outline) -> group::Entries {
        let entries = translate::entries(outline);
        let changed = |(at, entry): (group::Position, LogEntry)| match self.in_log.get(&at.index.get()) {
            Some((_, places)) => LogEntry::ClusterConfig(ClusterConfig::from(&self.configuration(places))),
            None => entry,
        };
        group::Entries::from_iter(entries.prev_position(), entries.iter_with_positions().map(changed))
    }

    /// An entry is written, which makes all of its index and above void.
    pub(super) fn written(&mut self, at: Position, places: Option<Places>) {
        drop(self.in_log.split_off(&at.index));
        if let Some(places) = places {
            self.in_log.insert(at.index, (at, places));
        }
    }

    /// The configuration at this place of the log.
    pub(super) fn at(&self, at: group::Position) -> Option<&At> {
        let found = self.in_log.get(&at.index.get()).unwrap_or(&self.before);
        Some(found).filter(|(found, _)| translate::place(*found) == at)
    }

    /// Another member tells which configuration is in force there. Returns the stores in it, for
    /// the machine, if it is later than what is settled here.
    pub(super) fn hear(&mut self, from: u8, told: &Told, settled: group::Position) -> Option<BTreeSet<MemberId>> {
        // Of two configurations the later one is that of the later term: others became void.
        let is_later = translate::place(told.at) > settled;
        if !told.is_possible() {
            return None;
        }
        self.said.insert(from, told.stores.iter().copied().collect());
        if !is_later || self.register(&told.places).is_err() {
            return None;
        }
        let heard = (told.at, told.places.clone());
        if !self.told.contains(&heard) {
            self.told.drain(..(self.told.len() + 1).saturating_sub(MAX_TOLD));
            self.told.push(heard);
        }
        Some(told.places.places.iter().map(|place| self.id(place)).collect())
    }

    /// Returns true if a member has said that it takes the same stores for these places (C5).
    pub(super) fn takes_the_same(&self, member: u8, places: &Places) -> bool {
        let Some(said) = self.said.get(&member) else { return false };
        places.places.iter().all(|place| said.get(&place.number) == Some(self.store(place)))
    }

    /// Configurations by which members are heard: the settled one, and later ones in the log or
    /// told by others. The later ones come last.
    fn heard(&self, settled: group::Position) -> Vec<&At> {
        let is_later = |(at, _): &&At| translate::place(*at) > settled;
        let mut heard: Vec<&At> = self.in_log.values().chain(&self.told).filter(is_later).collect();
        heard.sort_by_key(|(at, _)| *at);
        self.at(settled).into_iter().chain(heard).collect()
    }

    /// Numbers of the members whose questions are heard, by their stores.
    pub(super) fn members(&self, settled: group::Position) -> BTreeMap<MemberId, u8> {
        let heard = self.heard(settled).into_iter().flat_map(|(_, places)| &places.places);
        // A number that a void configuration has given is another store's in a later one.
        let by_number: BTreeMap<u8, MemberId> = heard.map(|place| (place.number, self.id(place))).collect();
        by_number.into_iter().map(|(number, id)| (id, number)).collect()
    }

    /// What the network has to know.
    pub(super) fn roster(&mut self, in_force: group::Position, settled: group::Position) -> Option<Roster> {
        self.told.retain(|(at, _)| translate::place(*at) > settled);
        let (at, places) = self.at(in_force)?.clone();
        // Those of members that are gone, too: clients know the group by the first one's.
        let mut stores = self.notes.clone();
        stores.extend(places.places.iter().map(|place| (place.number, *self.store(place))));
        let stores = stores.into_iter().collect();
        let told = Told { at, is_settled: in_force == settled && !places.is_joint(), places, stores };
        let heard = self.heard(settled).into_iter().flat_map(|(_, places)| &places.places);
        let heard: BTreeMap<u8, SocketAddr> =
            heard.filter(|place| place.number != self.me).map(|place| (place.number, place.address)).collect();
        Some(Roster { settled: self.at(settled)?.clone(), told, heard })
    }

    /// Number of configurations that are known beside the one in force.
    pub(super) fn told(&self) -> usize {
        self.told.len()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::group::{Index, Term};

    fn store(number: u8) -> StoreId {
        StoreId([number; 16])
    }

    fn place(number: u8, role: Role) -> Place {
        Place { number, store: store(number), address: ([127, 0, 0, 1], u16::from(number)).into(), role }
    }

    fn places(roles: &[(u8, Role)], given: u8) -> Places {
        Places { given, places: roles.iter().map(|(number, role)| place(*number, *role)).collect() }
    }

    fn at(term: u64, index: u64) -> Position {
        Position { term, index }
    }

    fn outline(configurations: Vec<Configured>) -> log::Outline {
        log::Outline { before: at(1, 4), runs: vec![at(2, 6)], last: at(2, 9), committed: 8, configurations }
    }

    fn configured(at: Position, places: &Places) -> Configured {
        Configured { at, bytes: places.encode() }
    }

    fn first() -> Places {
        places(&[(1, Role::Votes), (2, Role::Votes), (3, Role::Votes)], 3)
    }

    fn known(configurations: Vec<Configured>) -> Known {
        // Another store has taken the place of the second member's.
        let notes = BTreeMap::from([(1, store(1)), (2, store(20)), (3, store(3))]);
        Known::new(1, notes, (Position::default(), first()), &outline(configurations)).unwrap()
    }

    #[test]
    fn configurations_are_spelled_as_they_are_understood_with_the_stores_of_now() {
        let mut known = known(vec![]);
        let joint = [(1, Role::Votes), (2, Role::Goes), (3, Role::Votes), (4, Role::Comes), (6, Role::Learns)];
        for members in [first(), places(&joint, 6), places(&[(1, Role::Votes), (3, Role::Votes), (6, Role::Learns)], 6)]
        {
            let understood = known.understood(&members.encode()).unwrap();
            assert_eq!(understood.voters.contains(&id(&store(20)).into()), members.get(2).is_some());
            let given = members.given;
            assert_eq!(known.spelled(&understood).map(|spelled| Places { given, ..spelled }), Some(members));
        }
        assert_eq!(known.understood(b"nonsense"), None);
    }

    #[test]
    fn stores_are_found_by_what_is_in_their_places_now() {
        let known = known(vec![]);
        let numbers = [store(1), store(20), store(2), store(9)].map(|store| known.number_of(&store));
        assert_eq!(numbers, [Some(1), Some(2), None, None]);
    }

    #[test]
    fn numbers_that_were_given_stay_so() {
        let known = known(vec![configured(at(2, 7), &places(&[(1, Role::Votes), (2, Role::Votes)], 5))]);
        let mut config = ClusterConfig::new();
        config.voters.insert(id(&store(1)).into());
        assert_eq!(known.spelled(&config).unwrap().given, 5);
    }

    #[test]
    fn configuration_before_the_log_is_the_latest_of_what_was_told_and_kept() {
        let (old, new) = (places(&[(1, Role::Votes)], 3), places(&[(1, Role::Votes), (2, Role::Votes)], 3));
        let kept = known(vec![configured(at(1, 3), &old), configured(at(2, 7), &new)]);
        assert_eq!(kept.before, (at(1, 3), old.clone()));
        let told = (at(2, 8), new);
        let later = Known::new(1, BTreeMap::new(), told.clone(), &outline(vec![configured(at(1, 3), &old)])).unwrap();
        assert_eq!((later.before.clone(), later.placed().at.index), (told, Index::new(8)));
        let entries = kept.entries(&outline(vec![]));
        assert!(matches!(entries.get_entry(Index::new(7)), Some(LogEntry::ClusterConfig(_))));
        let damaged = Known::new(1, BTreeMap::new(), (at(0, 0), old), &outline(vec![Configured::default()]));
        assert!(damaged.is_err());
    }

    #[test]
    fn members_are_heard_by_what_is_settled_and_by_all_that_is_later() {
        let mut known = known(vec![configured(at(2, 7), &places(&[(1, Role::Votes), (3, Role::Votes)], 4))]);
        let settled = group::Position::ZERO;
        let numbers = |known: &Known, settled| known.members(settled).into_values().collect::<BTreeSet<u8>>();
        assert_eq!(numbers(&known, settled), BTreeSet::from([1, 2, 3]));
        let members = places(&[(1, Role::Votes), (5, Role::Votes)], 5);
        let told = Told { at: at(3, 12), is_settled: true, places: members, stores: vec![(5, store(5))] };
        assert_eq!(known.hear(5, &told, settled).unwrap().len(), 2);
        assert_eq!(numbers(&known, settled), BTreeSet::from([1, 2, 3, 5]));
        let later = group::Position { term: Term::new(2), index: Index::new(7) };
        assert_eq!(numbers(&known, later), BTreeSet::from([1, 3, 5]));
        // The entry is void.
        known.written(at(3, 7), None);
        assert_eq!(numbers(&known, settled), BTreeSet::from([1, 2, 3, 5]));
        let roster = known.roster(settled, settled).unwrap();
        assert_eq!(roster.heard.keys().copied().collect::<Vec<_>>(), [2, 3, 5]);
        assert!(roster.told.is_settled && roster.told.stores.contains(&(2, store(20))));
        let old = Told { at: at(1, 1), ..told };
        assert!(known.hear(5, &old, later).is_none(), "what is settled is later");
    }

    #[test]
    fn first_store_of_a_place_may_be_another_one_but_no_two_stores_may_look_the_same() {
        let mut known = known(vec![]);
        let with = |number: u8, store| Places { given: 4, places: vec![Place { store, ..place(number, Role::Votes) }] };
        for first in [store(2), store(20)] {
            assert_eq!(known.register(&with(2, first)), Ok(()), "{first}");
        }
        let mut alike = [3; 16];
        alike[15] = 4;
        assert!(known.register(&with(4, StoreId(alike))).unwrap_err().contains("same first 64 bits"));
    }

    #[test]
    fn number_that_a_void_configuration_gave_is_that_of_the_later_term() {
        let with = |store| {
            let mut members = first();
            members.places.push(Place { store, ..place(4, Role::Learns) });
            Places { given: 4, ..members }
        };
        let (void, settled) = (StoreId([41; 16]), StoreId([42; 16]));
        let mut known = known(vec![configured(at(2, 7), &with(settled))]);
        let told = Told { at: at(1, 100), is_settled: false, places: with(void), stores: vec![] };
        let now = translate::place(at(2, 7));
        assert!(known.hear(3, &told, now).is_none());
        // It was heard of before, too.
        known.told.push((told.at, told.places.clone()));
        assert_eq!(known.members(now).into_iter().find(|(_, number)| *number == 4), Some((id(&settled), 4)));
    }

    #[test]
    fn learner_that_takes_another_store_for_a_place_gets_no_vote() {
        let mut known = known(vec![]);
        let told = |second| Told {
            at: Position::default(),
            is_settled: true,
            places: first(),
            stores: vec![(1, store(1)), (2, second), (3, store(3))],
        };
        assert!(!known.takes_the_same(4, &first()), "it has said nothing");
        known.hear(4, &told(store(2)), group::Position::ZERO);
        assert!(!known.takes_the_same(4, &first()));
        known.hear(4, &told(store(20)), group::Position::ZERO);
        assert!(known.takes_the_same(4, &first()));
    }
}
