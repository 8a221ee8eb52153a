//! A member's identity while its store takes a lost one's place (decision 0081).

mod lists;

use tempfile::TempDir;

use super::meeting::MAX_REPLACED;
use super::*;
use crate::cluster::{Cluster, Place, Role};
use crate::core::group::{Index, Position, Term};
use crate::server::ServerConfig;

const GROUP: ServerId = ServerId(1);
const LOST: StoreId = StoreId([9; 16]);

fn member(number: u8) -> PeerId {
    PeerId::member(GROUP, number)
}

fn store(number: u8) -> StoreId {
    StoreId([number; 16])
}

/// The configuration of the first of three members, on an empty folder.
fn config() -> (TempDir, ServerConfig) {
    let folder = tempfile::tempdir().unwrap();
    let addresses = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
    let mut config = ServerConfig::new(Cluster::of_group("test", GROUP, addresses), GROUP, folder.path());
    (config.member, config.replace) = (Some(1), vec![LOST]);
    (folder, config)
}

fn promised() -> Promised {
    Promised { term: Term::new(5), last: Position { term: Term::new(4), index: Index::new(7) } }
}

#[test]
fn store_takes_part_without_a_vote_once_it_has_met_all_members_and_keeps_what_it_knows() {
    let (_folder, config) = config();
    let mut identity = Identity::open(&config).unwrap();
    assert_eq!((identity.members(), identity.unmet()), (None, vec![2, 3]));
    identity.meet(member(2), store(2), &[]).unwrap();
    assert_eq!((identity.members(), identity.unmet()), (None, vec![3]));
    identity.meet(member(3), store(3), &[]).unwrap();
    assert!(identity.members().is_some_and(|members| members.len() == 3) && identity.unmet().is_empty());
    // Who welcomes it does not make it one that counts.
    [2, 3].into_iter().for_each(|number| identity.welcomed(member(number), true).unwrap());
    assert_eq!((identity.rejoins(), identity.is_in_use()), (Some(Rejoin::Asking), false));
    identity.follow(promised()).unwrap();
    let mut again = Identity::open(&config).unwrap();
    assert_eq!(again.rejoins(), Some(Rejoin::Following(promised())));
    again.rejoined().unwrap();
    let again = Identity::open(&config).unwrap();
    assert_eq!((again.rejoins(), again.is_in_use(), again.replaces()), (None, true, &[LOST][..]));
}

/// The member that is added is known when it is removed, after restarts of this one, too.
#[test]
fn stores_of_a_settled_configuration_are_remembered() {
    let (_folder, config) = config();
    let mut identity = Identity::open(&config).unwrap();
    let place = Place { number: 4, store: store(4), address: ([127, 0, 0, 1], 4).into(), role: Role::Votes };
    identity.learn_settled(&Places { given: 4, places: vec![place] }).unwrap();
    let again = Identity::open(&config).unwrap();
    assert_eq!(again.judge(member(4), store(4), &[]), Met::Known);
    assert!(matches!(again.judge(member(5), store(4), &[]), Met::Refused(_)));
}

#[test]
fn store_that_takes_part_again_names_more_stores_up_to_a_limit() {
    let (_folder, mut config) = config();
    let mut identity = Identity::open(&config).unwrap();
    identity.meet(member(2), LOST, &[]).unwrap();
    identity.rejoined().unwrap();
    // It was named before the member was met that has it.
    Identity::open(&config).unwrap();
    config.replace = (0..MAX_REPLACED as u8 - 1).map(|number| StoreId([100 + number; 16])).collect();
    assert_eq!(Identity::open(&config).unwrap().replaces().len(), MAX_REPLACED);
    config.replace = vec![StoreId([1; 16])];
    let refused = Identity::open(&config).unwrap_err().to_string();
    assert!(refused.contains("takes the place of 64 others already"), "{refused}");
}

#[test]
fn replaced_stores_are_refused_by_name_as_long_as_they_are_remembered() {
    let (_folder, mut config) = config();
    config.replace.clear();
    let mut identity = Identity::open(&config).unwrap();
    let numbered = |number: u8| StoreId([100 + number; 16]);
    identity.meet(member(2), numbered(0), &[]).unwrap();
    for number in 1..=MAX_REPLACED as u8 + 1 {
        let met = identity.meet(member(2), numbered(number), &[numbered(0), numbered(number - 1)]).unwrap();
        assert_eq!(met, Met::Replaced);
    }
    let mut identity = Identity::open(&config).unwrap();
    let mut why = |number| match identity.meet(member(2), numbered(number), &[]).unwrap() {
        Met::Refused(why) => why,
        met => panic!("{met:?}"),
    };
    assert!([0, 3].iter().all(|number| why(*number).contains("was replaced as lost")), "{} {}", why(0), why(3));
    // The oldest but the first one is forgotten, and is another store.
    assert!(why(1).contains("and had the store"), "{}", why(1));
}

/// Three members, with a folder each; each knows the others.
fn group() -> Vec<(TempDir, ServerConfig, Identity)> {
    let one = |number: u8| {
        let (folder, mut config) = config();
        config.member = Some(number);
        config.replace.clear();
        let identity = Identity::open(&config).unwrap();
        (folder, config, identity)
    };
    let mut group: Vec<_> = (1..=3).map(one).collect();
    meet_all(&mut group);
    group
}

fn meet_all(group: &mut [(TempDir, ServerConfig, Identity)]) {
    let said: Vec<_> = group.iter().map(|(_, _, said)| (said.me, said.store, said.replaces.clone())).collect();
    for (_, _, identity) in group {
        let me = identity.me;
        for (peer, store, replaces) in said.iter().filter(|(peer, ..)| *peer != me) {
            let met = identity.meet(*peer, *store, replaces).unwrap();
            assert!(!matches!(met, Met::Refused(_)), "{met:?}");
        }
    }
}

/// The first store of a place is what the store that is there now says of it: one that names
/// another one is taken all the same, and all members say what it says.
#[test]
fn store_that_names_the_lost_ones_in_another_order_is_taken_by_all() {
    let mut group = group();
    let first = group[0].2.store;
    let again = |replace: Vec<StoreId>| {
        let (folder, mut config) = self::config();
        (config.member, config.replace) = (Some(1), replace);
        let identity = Identity::open(&config).unwrap();
        (folder, config, identity)
    };
    // The third member is away while a store takes the place, and is lost in its turn.
    group[0] = again(vec![first]);
    let second = group[0].2.store;
    meet_all(&mut group[..2]);
    for order in [vec![second, first], vec![second], vec![first, second]] {
        let before = group[0].2.store;
        group[0] = again([order, vec![before]].concat());
        meet_all(&mut group);
        let named = group[0].2.replaces[0];
        assert!(group.iter().all(|(_, _, identity)| identity.client_store() == named));
    }
    assert_eq!(group[2].2.client_store(), first);
    // Of those that were replaced none comes back.
    assert!(matches!(group[1].2.judge(member(1), second, &[]), Met::Refused(_)));
    assert!(matches!(group[2].2.judge(member(1), first, &[]), Met::Refused(_)));
}

#[test]
fn store_without_a_vote_takes_the_order_that_is_given_now() {
    let (_folder, mut config) = config();
    let [one, two] = [StoreId([21; 16]), StoreId([22; 16])];
    config.replace = vec![two];
    assert_eq!(Identity::open(&config).unwrap().replaces(), [two]);
    config.replace = vec![one, two];
    assert_eq!(Identity::open(&config).unwrap().replaces(), [one, two]);
    Identity::open(&config).unwrap().rejoined().unwrap();
    config.replace = vec![two, one];
    assert_eq!(Identity::open(&config).unwrap().replaces(), [one, two]);
}

/// Clients would take the group for a cluster made anew, and a commit under way for unknown.
#[test]
fn clients_know_a_group_by_the_same_store_whichever_are_replaced_and_removed() {
    let mut group = group();
    let first = group[0].2.store;
    let names = |group: &[(TempDir, ServerConfig, Identity)]| -> Vec<StoreId> {
        let reopened = |config: &ServerConfig| Identity::open(config).unwrap().client_store();
        group
            .iter()
            .map(|(_, config, identity)| (identity.client_store(), reopened(config)))
            .flat_map(<[_; 2]>::from)
            .collect()
    };
    assert_eq!(names(&group), [first; 6]);
    for lost in [0, 1, 0, 2, 0] {
        let (folder, mut config) = self::config();
        config.member = Some(lost as u8 + 1);
        // What the others name when they refuse the new store.
        let Met::Refused(why) = group[(lost + 1) % 3].2.judge(member(lost as u8 + 1), LOST, &[]) else { panic!() };
        let named = why.split("--replace ").skip(1).map(|rest| StoreId::parse(&rest[..32]).unwrap());
        config.replace = named.collect();
        let identity = Identity::open(&config).unwrap();
        group[lost] = (folder, config, identity);
        meet_all(&mut group);
        assert_eq!(names(&group), [first; 6], "{lost} is lost");
    }
    // A member that is added once the first one is removed hears of it.
    let addresses = [1, 2, 3, 4].map(|port| ([127, 0, 0, 1], port).into());
    let (_, mut places) = group[1].2.before(&addresses[..3]).unwrap();
    places.places.remove(0);
    let added = StoreId([40; 16]);
    places.places.push(Place { number: 4, store: added, address: addresses[3], role: Role::Votes });
    places.given = 4;
    let stores = group[1].2.members().unwrap().into_iter().chain([(4, added)]).collect();
    let told = Told { at: crate::log::Position { term: 2, index: 9 }, is_settled: true, places, stores };
    let (_folder, mut config) = self::config();
    (config.member, config.join) = (None, Some(addresses[3]));
    config.replace.clear();
    let mut waiting = Identity::open_waiting(&config).unwrap();
    waiting.store = added;
    waiting.placed(&group[1].2.complete_told(told)).unwrap();
    assert_eq!(waiting.client_store(), first);
}
