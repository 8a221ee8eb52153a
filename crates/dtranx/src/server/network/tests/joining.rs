//! Lists of servers that differ, and a new server before all others know it (decision 0087).

use super::*;
use crate::core::{Partition, SnapshotMessage};

const THIRD: ServerId = ServerId(3);
const STORE_OF_THIRD: StoreId = StoreId([103; 16]);

/// This cluster, by ranges, with servers of these numbers.
fn cluster(ids: &[u16]) -> Cluster {
    let server = |id: &u16| Server { id: ServerId(*id), address: ([127, 0, 0, 1], u16::from(*id != ME.0)).into() };
    let partition = Partition::Ranges(vec![(Key::smallest(), ME)]);
    Cluster { partition, ..Cluster::hashed("test", ids.iter().map(server).collect()) }
}

fn hello_of(from: Caller, ids: &[u16]) -> Hello {
    Hello { cluster: "test".to_owned(), map: Some(cluster(ids).map_id()), to: Some(ME), from, nonce: [0; 16] }
}

fn server(id: u16) -> Caller {
    let store = if id == OTHER.0 { STORE } else { StoreId([id as u8 + 100; 16]) };
    Caller::Server { server: ServerId(id), store, is_new: false }
}

fn greet_with(rig: &mut Rig, hello: &Hello) -> (Socket, Welcome) {
    let mut caller = rig.call();
    caller.say(hello);
    let welcome = rig.until("welcome", |_| caller.hear());
    (caller, welcome)
}

/// Reason why a caller with this list is refused.
fn refusal(rig: &mut Rig, from: Caller, ids: &[u16]) -> Option<String> {
    match greet_with(rig, &hello_of(from, ids)).1 {
        Welcome::Refused { why, .. } => Some(why),
        _ => None,
    }
}

#[test]
fn lists_of_servers_agree_where_one_has_servers_behind_those_of_the_other() {
    let mut rig = Rig::new(|config| config.cluster = cluster(&[1, 2]));
    for ids in [&[1, 2][..], &[2, 1], &[1, 2, 3], &[2, 1, 4, 3], &[1]] {
        assert_eq!(refusal(&mut rig, server(2), ids), None, "{ids:?}");
    }
    for ids in [&[1, 3, 2][..], &[3, 1, 2], &[1, 3]] {
        let why = refusal(&mut rig, server(2), ids).unwrap();
        assert!(why.contains("has other servers, or another map of keys, in its configuration"), "{why}");
        assert_eq!(refusal(&mut rig, Caller::Client(None), ids), None, "{ids:?}");
    }
}

#[test]
fn server_that_joins_is_refused_by_those_that_do_not_have_it_in_their_lists() {
    let mut rig = Rig::new(|config| config.cluster = cluster(&[1, 2]));
    let why = refusal(&mut rig, server(3), &[1, 2, 3]).unwrap();
    let said =
        "server 3 is not one of the cluster's others: if it joins, server 1 has to be started with it in its list";
    assert_eq!(why, said);
    let mut knows = Rig::new(|config| config.cluster = cluster(&[1, 2, 3]));
    assert_eq!(refusal(&mut knows, server(3), &[1, 2, 3]), None);
}

/// The store by which this server knows another one.
fn known(rig: &Rig, server: ServerId) -> Option<StoreId> {
    rig.stage.port.identity.known(server)
}

#[test]
fn store_of_a_new_server_is_not_noted_before_all_others_have_met_it() {
    let mut rig = new_server();
    let is_new = |store: u8| Caller::Server { server: THIRD, store: StoreId([store; 16]), is_new: true };
    for store in [7, 8] {
        assert_eq!(refusal(&mut rig, is_new(store), &[1, 2, 3]), None);
        assert_eq!(known(&rig, THIRD), None);
    }
    assert_eq!(refusal(&mut rig, server(3), &[1, 2, 3]), None);
    assert_eq!(known(&rig, THIRD), Some(STORE_OF_THIRD));
    let why = refusal(&mut rig, is_new(8), &[1, 2, 3]).unwrap();
    assert!(why.contains(&format!("and had the store {STORE_OF_THIRD}")), "{why}");
}

/// This server is new in a cluster with two others, and has met none.
fn new_server() -> Rig {
    Rig::unmet(|config| config.cluster = cluster(&[1, 2, 3]))
}

fn refused_client(rig: &mut Rig) -> String {
    refusal(rig, Caller::Client(None), &[1, 2, 3]).unwrap()
}

#[test]
fn new_server_is_in_use_once_all_others_know_it_and_its_node_has_joined() {
    let mut rig = new_server();
    assert_eq!(refused_client(&mut rig), "server 1 is new: it serves once it has met server 2, 3");
    let mut met = Vec::new();
    let epochs = "the others have said their epochs";
    for (peer, is_noted, waits) in [
        (OTHER, false, "it has met server 3"),
        (THIRD, false, "it has met server 2, 3"),
        (OTHER, true, "it has met server 3"),
        (THIRD, true, epochs),
    ] {
        assert!(met.is_empty());
        rig.stage.port.identity.welcomed(peer.into(), is_noted).unwrap();
        assert_eq!(refused_client(&mut rig), format!("server 1 is new: it serves once {waits}"));
        rig.peers.take(8, &mut met);
    }
    assert!(matches!(met[..], [TranxEvent::Met]), "{met:?}");
    assert!(rig.stage.port.identity.is_new());
    rig.stage.port.stats.note_joined(true);
    rig.client();
    assert!(rig.stage.port.identity.is_in_use());
}

#[test]
fn new_server_hears_of_snapshots_marks_and_inquiries_and_of_nothing_else() {
    let mut rig = new_server();
    let (mut caller, welcome) = greet_with(&mut rig, &hello_of(server(2), &[1, 2, 3]));
    assert!(matches!(welcome, Welcome::Server { .. }), "{welcome:?}");
    let tranx = TranxId { server: OTHER, number: 1 };
    let (participants, part, standing) = (vec![ME], Transaction::default(), Standing::default());
    let raise = Message::Snapshot(SnapshotMessage::Raise { epoch: Epoch(1) });
    let marks = Message::LowWater { through: 1, incomplete: vec![] };
    let mut heard = Vec::new();
    let mut hear = |rig: &mut Rig, number: usize| {
        rig.until("messages", |rig| {
            rig.peers.take(8, &mut heard);
            (heard.len() >= number).then_some(())
        });
    };
    caller.say(&Message::Prepare { tranx, participants, part, standing });
    caller.say(&Message::Inquire { tranx });
    caller.say(&Message::Keep { tranx });
    caller.say(&raise);
    hear(&mut rig, 2);
    caller.say(&Message::Keep { tranx });
    caller.say(&marks);
    hear(&mut rig, 3);
    let heard: Vec<_> = heard
        .into_iter()
        .map(|event| if let TranxEvent::Receive { message, .. } = event { message } else { panic!("{event:?}") })
        .collect();
    assert_eq!(heard, [Message::Inquire { tranx }, raise, marks]);
}

/// A list of a cluster whose first server is a group.
fn listed(rig: &Rig, joined: bool) -> crate::cluster::MapId {
    let mut map = rig.stage.map.clone();
    map.servers.retain(|(server, _)| joined || *server != THIRD);
    map
}

#[test]
fn member_notes_a_server_that_joins_when_the_others_of_its_group_have_it_in_their_lists() {
    let mut rig = Rig::unmet(|config| {
        let members = [0, 1, 2].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        config.cluster = cluster(&[1, 2, 3]);
        config.cluster.groups = [(ME, members)].into();
        config.member = Some(1);
    });
    let caller = |number: u8| {
        let (store, replaces) = (StoreId([number; 16]), vec![]);
        Caller::Member { server: ME, member: number, store, replaces, told: None }
    };
    let say = |rig: &mut Rig, from: Caller, joined: bool| {
        let map = Some(listed(rig, joined));
        let hello = Hello { cluster: "test".to_owned(), map, to: Some(ME), from, nonce: [0; 16] };
        let (socket, welcome) = greet_with(rig, &hello);
        let why = if let Welcome::Refused { why, .. } = welcome { Some(why) } else { None };
        (socket, why)
    };
    let unlisted = "server 1.3 has a new store, and its list of servers lacks some that have joined";
    assert_eq!(say(&mut rig, caller(3), false).1.as_deref(), Some(unlisted));
    for number in [2, 3] {
        rig.stage.port.identity.meet(PeerId::member(ME, number), StoreId([number; 16]), &[]).unwrap();
    }
    let unsaid = |number| Some(format!("server 1.{number} has not said yet that server 3 is in its list"));
    assert_eq!(say(&mut rig, server(3), true).1, unsaid(2));
    let is_new = Caller::Server { server: THIRD, store: STORE_OF_THIRD, is_new: true };
    assert_eq!(say(&mut rig, is_new, true).1, None, "it is not noted");
    let _second = say(&mut rig, caller(2), true);
    assert_eq!(say(&mut rig, server(3), true).1, unsaid(3));
    let third = say(&mut rig, caller(3), false);
    assert_eq!((third.1, say(&mut rig, server(3), true).1), (None, unsaid(3)), "it has the old list");
    let _third = say(&mut rig, caller(3), true);
    assert_eq!((known(&rig, THIRD), say(&mut rig, server(3), true).1), (None, None));
    assert_eq!(known(&rig, THIRD), Some(STORE_OF_THIRD));
}
