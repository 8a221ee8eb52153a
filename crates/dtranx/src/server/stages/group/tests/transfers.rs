//! Tests of what the stage believes of transfers.

use super::*;
use crate::core::group::MemberId;
use crate::log::{Position, State};
use crate::server::stages::group::id;
use crate::server::transfer::TransferName;
use crate::wire::Piece;

fn at(term: u64, index: u64) -> Position {
    Position { term, index }
}

fn events(member: &Member) -> Vec<Transfer> {
    let mut events = Vec::new();
    member.transfer.take(1000, &mut events);
    events
}

impl World {
    /// A follower, with the term in which the leader leads.
    fn follower(leader: usize, world: &Self) -> (usize, u64) {
        let term = world.members[leader].group.leads.unwrap().get();
        ((leader + 1) % 3, term)
    }

    fn hears(&mut self, at: usize, from: usize, message: MemberMessage) {
        let heard = FromMembers::Heard { from: from as u8 + 1, message };
        self.members[at].members.offer(heard).map_err(drop).unwrap();
        self.turn();
    }
}

fn piece(term: u64, before: Position) -> MemberMessage {
    MemberMessage::Piece(Piece { term, before, after: None, items: vec![], last: None })
}

#[test]
fn piece_counts_only_in_its_term_and_for_who_lacks_the_entries() {
    let (mut world, leader) = World::led();
    let (follower, term) = World::follower(leader, &world);
    let last = world.members[follower].group.machine.as_ref().unwrap().last().index.get();
    let refused = [
        piece(term - 1, at(term - 1, last + 10)),
        piece(term + 1, at(term, last + 10)),
        piece(term, at(term + 1, last + 10)),
        piece(term, at(0, 0)),
        piece(term, at(term, last)),
        piece(term, at(term, u64::MAX)),
    ];
    for message in refused {
        world.hears(follower, leader, message.clone());
        assert!(events(&world.members[follower]).is_empty(), "{message:?}");
    }
    world.hears(leader, follower, piece(term, at(term, last + 10)));
    assert!(events(&world.members[leader]).is_empty(), "who leads lacks nothing");
    world.hears(follower, leader, piece(term, at(term, last + 10)));
    assert!(matches!(events(&world.members[follower])[..], [Transfer::Piece { .. }]));
}

#[test]
fn member_goes_on_with_the_items_with_its_own_term_and_vote_and_says_nothing_more() {
    let (mut world, leader) = World::led();
    let (follower, term) = World::follower(leader, &world);
    let name = |term, index| TransferName { term, before: at(1, index) };
    let whole = |name| FromTransfer::Whole { name, gc_payload: b"marks".to_vec(), configured: None };
    // The leader is another by now; or the entries have come.
    for name in [name(term - 1, 50), name(term, 1)] {
        world.members[follower].of_transfer.offer(whole(name)).map_err(drop).unwrap();
        world.turn();
        assert!(world.members[follower].given.try_recv().is_err());
    }
    let member = &mut world.members[follower];
    member.of_transfer.offer(whole(name(term, 50))).map_err(drop).unwrap();
    let ended = member.group.run(world.now_ms);
    assert!(ended.is_err(), "it takes no part until it is started again");
    let Whole { before, gc_payload, state, .. } = member.given.try_recv().unwrap();
    assert_eq!((before, gc_payload), (at(1, 50), b"marks".to_vec()));
    let MemberId(vote) = id(&StoreId([leader as u8 + 1; 16]));
    assert_eq!(State { committed: 0, ..state }, State { term, vote: Some(vote), committed: 0 });
}

#[test]
fn leader_gives_to_who_lacks_entries_until_it_has_them_or_another_leads() {
    let (mut world, leader) = World::led();
    let (follower, term) = World::follower(leader, &world);
    let number = follower as u8 + 1;
    world.members[leader].group.give(number);
    let told = events(&world.members[leader]);
    assert!(matches!(told[..], [Transfer::Lacks { member, term: of }] if member == number && of == term));
    world.members[leader].append(1);
    world.turns(100);
    let reached = |world: &World| -> Vec<bool> {
        let all = |event| match event {
            Transfer::Reached { member, has_all, .. } if member == number => has_all,
            _ => panic!("another event"),
        };
        events(&world.members[leader]).into_iter().map(all).collect()
    };
    assert_eq!(reached(&world), [true], "it has all that may go, and is no longer asked after");
    let begin = |world: &World, from| {
        let begun = FromTransfer::Begun { member: number, from };
        world.members[leader].of_transfer.offer(begun).map_err(drop).unwrap();
    };
    // Whatever was believed of it before.
    begin(&world, 100);
    world.members[leader].append(2);
    world.turns(200);
    let told = reached(&world);
    assert!(!told.is_empty() && told.iter().all(|has_all| !has_all), "the log is kept from there on");
    begin(&world, 1);
    world.members[leader].append(3);
    world.turns(200);
    assert_eq!(reached(&world).iter().filter(|has_all| **has_all).count(), 1);
    world.turns(200);
    assert!(reached(&world).is_empty());
    world.members[leader].group.give(number);
    events(&world.members[leader]);
    world.members[leader].group.leads = None;
    world.members[leader].group.give_nothing();
    assert!(matches!(events(&world.members[leader])[..], [Transfer::Ended]));
}
