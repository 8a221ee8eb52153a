//! A member's identity while its store takes a lost one's place (decision 0081).

mod lists;

use tempfile::TempDir;

use super::*;
use crate::cluster::{Cluster, Place, Role};
use crate::core::group::{Index, Position, Term};

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
        let met = identity.meet(member(2), numbered(number), &[numbered(number - 1)]).unwrap();
        assert_eq!(met, Met::Replaced);
    }
    let mut identity = Identity::open(&config).unwrap();
    let mut why = |number| match identity.meet(member(2), numbered(number), &[]).unwrap() {
        Met::Refused(why) => why,
        met => panic!("{met:?}"),
    };
    assert!(why(1).contains("was replaced as lost"), "{}", why(1));
    // The oldest is forgotten, and is another store.
    assert!(why(0).contains("and had the store"), "{}", why(0));
}
