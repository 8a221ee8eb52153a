//! Members of groups: who is welcomed, whose messages are taken, and which callers hear who leads.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::*;
use crate::cluster::Places;
use crate::log::Position;
use crate::server::roster::Roster;
use crate::wire::Told;

/// The first member of a group of three.
fn member() -> Rig {
    Rig::new(|config| {
        let members = [0, 1, 2].map(|port| ([127, 0, 0, 1], port).into());
        config.cluster = Cluster::of_group("test", ME, members.to_vec());
        config.member = Some(1);
    })
}

#[test]
fn members_of_the_group_are_welcomed_and_heard_and_nobody_else_is() {
    let mut rig = member();
    let caller = |member, store| Caller::Member {
        server: ME,
        member,
        store: StoreId([store; 16]),
        replaces: vec![],
        told: None,
    };
    let (mut other, welcome) = rig.greet(caller(2, 2));
    assert!(matches!(welcome, Welcome::Member { member: 1, .. }), "{welcome:?}");
    other.say(&MemberMessage::Round { term: 5, number: 6 });
    let heard = rig.until("message", |rig| {
        let mut heard = Vec::new();
        rig.heard.take(8, &mut heard);
        heard.into_iter().find_map(|event| {
            if let FromMembers::Heard { from, message } = event { Some((from, message)) } else { None }
        })
    });
    assert_eq!(heard, (2, MemberMessage::Round { term: 5, number: 6 }));
    let strangers = [
        (caller(1, 1), "server 1.1 is not one of the cluster's others"),
        (caller(4, 4), "server 1.4 is not one"),
        (caller(2, 9), "server 1.2 has the store 09"),
        (caller(2, 3), "which is that of server 1.3"),
        (Caller::Server { server: OTHER, store: STORE, is_new: false }, "server 2 is not one"),
    ];
    for (stranger, expected) in strangers {
        let (_, welcome) = rig.greet(stranger);
        let Welcome::Refused { why, is_temporary: false } = welcome else { panic!("{welcome:?}") };
        assert!(why.contains(expected), "{why:?} does not say {expected:?}");
    }
}

#[test]
fn member_tells_the_stage_of_the_group_once_who_the_members_are() {
    let mut rig = member();
    let met = rig.until("stores", |rig| {
        let mut heard = Vec::new();
        rig.heard.take(8, &mut heard);
        heard
            .into_iter()
            .find_map(|event| if let FromMembers::Met { stores, .. } = event { Some(stores) } else { None })
    });
    let numbered: Vec<u8> = met.keys().copied().collect();
    assert_eq!((numbered, met[&2], met[&3]), (vec![1, 2, 3], StoreId([2; 16]), StoreId([3; 16])));
    rig.now_ms += 1000;
    rig.stage.run(rig.now_ms).unwrap();
    assert!(rig.heard.is_empty());
}

#[test]
fn member_starts_again_when_it_meets_a_store_in_a_lost_ones_place() {
    let mut rig = member();
    let caller = |store: u8, replaces: &[u8]| Caller::Member {
        server: ME,
        member: 2,
        store: StoreId([store; 16]),
        replaces: replaces.iter().map(|store| StoreId([*store; 16])).collect(),
        told: None,
    };
    // It had the store of twos.
    let (_, welcome) = rig.greet(caller(9, &[8]));
    let Welcome::Refused { why, is_temporary: false } = welcome else { panic!("{welcome:?}") };
    assert!(why.contains(&format!("--replace {}", StoreId([2; 16]))), "{why}");
    assert_eq!(rig.stage.port.members.as_ref().unwrap().restart.get(), None);
    let met = rig.stage.port.identity.meet(PeerId::member(ME, 2), StoreId([9; 16]), &[StoreId([2; 16])]);
    assert_eq!(met.unwrap(), Met::Replaced);
    let met = rig.stage.port.identity.meet(PeerId::member(ME, 2), StoreId([9; 16]), &[StoreId([2; 16])]);
    assert_eq!(met.unwrap(), Met::Known);
    let (_, welcome) = rig.greet(caller(2, &[]));
    let Welcome::Refused { why, is_temporary: false } = welcome else { panic!("{welcome:?}") };
    assert!(why.contains("was replaced as lost"), "{why}");
    // By the first store in the place clients may know the group: it should be named, too.
    let (_, welcome) = rig.greet(caller(7, &[8]));
    let Welcome::Refused { why, is_temporary: false } = welcome else { panic!("{welcome:?}") };
    let both = format!("--replace {} --replace {}", StoreId([2; 16]), StoreId([9; 16]));
    assert!(why.contains(&both), "{why}");
    // The next one ends the stage, and with it the engine.
    let mut stranger = rig.call();
    let map = Some(rig.stage.map.clone());
    let from = caller(7, &[2, 9]);
    stranger.say(&Hello { cluster: "test".to_owned(), map, to: Some(ME), from, nonce: [0; 16] });
    let begun = Instant::now();
    let failed = loop {
        stranger.is_closed();
        match rig.stage.run(rig.now_ms) {
            Err(failed) => break failed,
            Ok(_) => assert!(begun.elapsed() < PATIENCE, "it goes on"),
        }
    };
    assert!(failed.contains("another store has taken the place of server 1.2's"), "{failed}");
    assert_eq!(rig.stage.port.members.as_ref().unwrap().restart.get(), Some(&Restart::Replaced));
}

#[test]
fn client_of_a_member_that_does_not_serve_is_told_who_leads() {
    let mut rig = member();
    rig.stage.port.stats.open(Incarnation(0));
    for known in [None, Some(3), Some(1)] {
        rig.stage.port.stats.note_leader(known);
        let (_, welcome) = rig.greet(Caller::Client(None));
        let Welcome::NotLeading { leads, cluster, .. } = welcome else { panic!("{welcome:?}") };
        assert_eq!((leads, cluster.addresses(ME).len()), (known.filter(|member| *member == 3), 3));
    }
    rig.stage.port.stats.open(Incarnation(7));
    rig.client();
}

/// This server, and another one that is a group.
fn beside_a_group() -> Rig {
    Rig::new(|config| {
        let members = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        config.cluster.groups = [(OTHER, members)].into();
    })
}

#[test]
fn messages_of_a_groups_members_are_those_of_one_server() {
    let mut rig = beside_a_group();
    let inquire = |number| Message::Inquire { tranx: TranxId { server: ME, number } };
    // They stay connected: the end of the one that leads would be the server's.
    let mut callers = Vec::new();
    for member in [2, 3] {
        let store = StoreId([member; 16]);
        let (mut caller, welcome) =
            rig.greet(Caller::Member { server: OTHER, member, store, replaces: vec![], told: None });
        assert!(matches!(welcome, Welcome::Server { .. }), "{welcome:?}");
        caller.say(&GroupMessage::<Message>::Leads { term: member.into() });
        caller.say(&GroupMessage::Message(inquire(member.into())));
        let heard = rig.until("message", |rig| {
            let mut heard = Vec::new();
            rig.peers.take(8, &mut heard);
            heard.pop()
        });
        let TranxEvent::Receive { from: OTHER, message } = heard else { panic!("{heard:?}") };
        assert_eq!(message, inquire(member.into()));
        assert_eq!(rig.stage.leaders.of(OTHER), Some(PeerId::member(OTHER, member)));
        callers.push(caller);
    }
}

#[test]
fn member_that_does_not_serve_drops_what_servers_say() {
    let mut rig = Rig::new(|config| {
        let members = [0, 1, 2].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        config.cluster.groups = [(ME, members)].into();
        config.member = Some(1);
    });
    let inquire = Message::Inquire { tranx: TranxId { server: ME, number: 1 } };
    let taken = |rig: &mut Rig| rig.peers.take(8, &mut Vec::new());
    let (mut other, welcome) = rig.greet(Caller::Server { server: OTHER, store: STORE, is_new: false });
    assert!(matches!(welcome, Welcome::Member { .. }), "{welcome:?}");
    other.say(&inquire);
    rig.until("message", |rig| Some(()).filter(|()| taken(rig) == 1));
    rig.stage.port.stats.open(Incarnation(0));
    other.say(&inquire);
    // What is no message ends the connection, once what came before it was handled.
    other.say(&vec![255_u8; 3]);
    rig.until("end", |_| other.is_closed().then_some(()));
    let mut left = Vec::new();
    rig.peers.take(8, &mut left);
    assert!(left.iter().all(|event| matches!(event, TranxEvent::ServerGone { .. })), "{left:?}");
}

/// What a member of four says of its group: the fourth one was added.
fn told_of_four() -> Told {
    told_of(&[0, 1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()), 9)
}

/// The same of a group with members at these addresses, since this entry of the log.
fn told_of(addresses: &[SocketAddr], index: u64) -> Told {
    let numbers = (1..).take(addresses.len());
    let stores: BTreeMap<u8, StoreId> = numbers.map(|number| (number, StoreId([number; 16]))).collect();
    let at = Position { term: 2, index };
    let places = Places::first(&stores, addresses);
    Told { at, is_settled: true, places, stores: stores.into_iter().collect() }
}

/// The first member of three has lost its store, and another one takes its place.
fn in_a_lost_ones_place() -> Rig {
    Rig::unmet(|config| {
        let members = [0, 1, 2].map(|port| ([127, 0, 0, 1], port).into());
        config.cluster = Cluster::of_group("test", ME, members.to_vec());
        config.member = Some(1);
        config.replace = vec![StoreId([1; 16])];
    })
}

#[test]
fn store_in_a_lost_ones_place_hears_of_a_member_that_was_added_by_that_ones_call_or_by_another_member() {
    let fourth = PeerId::member(ME, 4);
    let caller = |number: u8, told| Caller::Member {
        server: ME,
        member: number,
        store: StoreId([number; 16]),
        replaces: vec![],
        told,
    };
    let mut rig = in_a_lost_ones_place();
    let (_, welcome) = rig.greet(caller(4, None));
    assert!(matches!(welcome, Welcome::Refused { .. }), "{welcome:?}");
    let (_socket, welcome) = rig.greet(caller(4, Some(told_of_four())));
    assert!(matches!(welcome, Welcome::Member { .. }), "{welcome:?}");
    // The other one knew nothing yet when it called.
    let mut rig = in_a_lost_ones_place();
    let (mut second, welcome) = rig.greet(caller(2, None));
    assert!(matches!(welcome, Welcome::Member { .. }), "{welcome:?}");
    second.say(&MemberMessage::Told(told_of_four()));
    rig.until("call of the fourth", |rig| rig.stage.peers.contains(fourth).then_some(()));
    assert_eq!(rig.stage.port.identity.unmet(), [3, 4]);
}

#[test]
fn only_a_store_that_is_known_in_a_removed_place_is_told_so_and_nothing_of_another_group_counts() {
    let mut rig = member();
    let mut told = told_of_four();
    told.places.places.retain(|place| [1, 3].contains(&place.number));
    let settled = (told.at, told.places.clone());
    let heard = [(3, ([127, 0, 0, 1], 2).into())].into();
    rig.stage.port.stats.note_roster(Roster { settled, told, heard });
    let second = PeerId::member(ME, 2);
    rig.until("members of now", |rig| (!rig.stage.peers.contains(second)).then_some(()));
    let caller = |member, store, told| Caller::Member {
        server: ME,
        member,
        store: StoreId([store; 16]),
        replaces: vec![],
        told,
    };
    let (_, welcome) = rig.greet(caller(2, 2, None));
    assert!(matches!(welcome, Welcome::Removed { at: 9 }), "{welcome:?}");
    // The fourth was removed before this one heard of its store.
    for (number, store) in [(2, 7), (4, 4)] {
        let (_, welcome) = rig.greet(caller(number, store, None));
        let Welcome::Refused { why, .. } = welcome else { panic!("{welcome:?}") };
        let expected = format!("member {number} was removed from the group of server 1: a new store joins with");
        assert!(why.contains(&expected), "{why}");
    }
    // A later configuration, but its stores are none of this group's.
    let stores: BTreeMap<u8, StoreId> = (5..=9).map(|number| (number, StoreId([number + 100; 16]))).collect();
    let other = Told {
        at: Position { term: 9, index: 99 },
        is_settled: true,
        places: Places::first(&stores, &[]),
        stores: stores.into_iter().collect(),
    };
    let (_, welcome) = rig.greet(caller(9, 109, Some(other)));
    assert!(matches!(welcome, Welcome::Refused { .. }), "{welcome:?}");
    assert!(!rig.stage.peers.contains(PeerId::member(ME, 9)));
}

/// Asks the server for a snapshot, with the number 1, and waits until the request is handed on.
/// Returns the client's name.
fn ask_for_a_snapshot(rig: &mut Rig, client: &mut Socket) -> ClientId {
    client.say(&Request { id: 1, is_repeated: false, ask: Ask::Snapshot });
    rig.until("request", |rig| {
        let mut taken = Vec::new();
        rig.entry.take(8, &mut taken);
        let mut asked = taken.into_iter();
        asked.find_map(|event| if let TranxEvent::Snapshot { client, .. } = event { Some(client) } else { None })
    })
}

#[test]
fn clients_are_disconnected_when_the_members_change_once_they_wait_for_nothing_or_after_a_while() {
    let mut rig = member();
    let (mut idle, mut busy) = (rig.client(), rig.client());
    let client = ask_for_a_snapshot(&mut rig, &mut busy);
    let note = |rig: &mut Rig, index: u64, addresses: &[SocketAddr]| {
        let told = told_of(addresses, index);
        rig.stage.port.stats.note_roster(Roster {
            settled: (told.at, told.places.clone()),
            told,
            heard: BTreeMap::new(),
        });
    };
    let listed = [0, 1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    note(&mut rig, 3, &listed);
    rig.assert_goes_on(&mut idle);
    note(&mut rig, 9, &[listed.as_slice(), &[SocketAddr::from(([127, 0, 0, 1], 3))]].concat());
    rig.until("end", |_| idle.is_closed().then_some(()));
    // The answer to what was under way comes first.
    rig.answers.send(ToClient { client, response: Response { id: 1, reply: Reply::Refused("no".to_owned()) } });
    assert_eq!(rig.response(&mut busy).id, 1);
    rig.until("end", |_| busy.is_closed().then_some(()));
    // One that greets now knows the four, and one that waits for long is not waited for.
    let (mut endless, welcome) = rig.greet(Caller::Client(None));
    let Welcome::Client { cluster, addresses_of: 9, .. } = welcome else { panic!("{welcome:?}") };
    assert_eq!(cluster.addresses(ME).len(), 4);
    ask_for_a_snapshot(&mut rig, &mut endless);
    note(&mut rig, 12, &listed);
    rig.assert_goes_on(&mut endless);
    rig.now_ms += 1_000;
    rig.until("end", |_| endless.is_closed().then_some(()));
}
