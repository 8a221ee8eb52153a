//! Tests of groups in processes of their own whose members come and go.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use dtranx::cluster::{Place, Role};
use dtranx::core::ServerId;
use dtranx::wire::GroupStatus;

use crate::limit::Limit;
use crate::processes::commands::{dtranx, err};
use crate::processes::group::{count, number, put, store, wait_for_more, wait_until};
use crate::processes::trio::{REQUEST_MS, Trio};

const GROUP: ServerId = ServerId(1);

/// The members of the group, as the one that leads says.
fn status(trio: &Trio) -> GroupStatus {
    let client = trio.client(20_000);
    loop {
        if let Ok(Some(group)) = client.status(GROUP).map(|status| status.group) {
            return group;
        }
        thread::yield_now();
    }
}

/// Numbers of the members, if all of them have a vote.
fn voters(trio: &Trio) -> Vec<u8> {
    let status = status(trio);
    assert!(status.told.places.places.iter().all(|place| place.role == Role::Votes), "{status:?}");
    status.told.places.places.iter().map(|place| place.number).collect()
}

/// Number of the member that is at a place of the test.
fn number_of(trio: &Trio, at: usize) -> u8 {
    let address = trio.addresses()[at];
    let places = status(trio).told.places.places;
    places.iter().find(|place: &&Place| place.address == address).unwrap().number
}

fn remove(trio: &Trio, at: usize) {
    let number = number_of(trio, at);
    let said = loop {
        match trio.member(&["remove", &number.to_string()]) {
            // They were started again a moment ago.
            Err(why) if why.contains("do not answer") => thread::yield_now(),
            said => break said.unwrap(),
        }
    };
    assert!(said.contains(&format!("member {number} of server 1 is removed")), "{said}");
}

#[test]
fn two_members_are_added_and_two_removed_while_clients_write() {
    let _limit = Limit::of(500, "change of the members");
    let mut trio = Trio::group("disk");
    let (over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (client, reader) = (trio.client(REQUEST_MS), trio.client(20_000));
    thread::scope(|scope| {
        scope.spawn(|| count(&client, &over, &acknowledged));
        wait_for_more(&acknowledged);
        for expected in [4, 5] {
            let at = trio.join();
            let said = trio.add_member(at);
            assert!(said.contains(&format!("member {expected} of server 1 is at")), "{said}");
        }
        assert_eq!(voters(&trio), [1, 2, 3, 4, 5]);
        // Five members go on without any two.
        for away in [[0, 3], [1, 4]] {
            away.iter().for_each(|at| trio.kill(*at));
            wait_for_more(&acknowledged);
            for at in away {
                if at < 3 { trio.run(at) } else { trio.run_joining(at) }
            }
        }
        // One of these leads.
        let leader = trio.leader();
        let other = (0..3).find(|at| *at != leader).unwrap();
        for at in [leader, other] {
            remove(&trio, at);
            trio.wait(at);
            wait_for_more(&acknowledged);
        }
        let at_least = acknowledged.load(Ordering::SeqCst);
        assert!(number(reader.get("number").unwrap()) >= at_least);
        over.store(true, Ordering::SeqCst);
        // All start again: by the log, not by the configuration.
        let left: Vec<usize> = (0..5).filter(|at| ![leader, other].contains(at)).collect();
        left.iter().for_each(|at| trio.kill(*at));
        for at in &left {
            if *at < 3 { trio.run(*at) } else { trio.run_joining(*at) }
        }
        let mut numbers: Vec<u8> = left.iter().map(|at| *at as u8 + 1).collect();
        numbers.sort_unstable();
        assert_eq!(voters(&trio), numbers);
        assert!(number(trio.client(20_000).get("number").unwrap()) >= at_least);
        // A removed one that starts again hears that it was removed, and ends.
        if leader < 3 {
            trio.run(leader)
        } else {
            trio.run_joining(leader)
        }
        trio.wait(leader);
    });
}

#[test]
fn client_that_stays_connected_goes_on_when_all_members_are_replaced_one_after_the_other() {
    let _limit = Limit::of(300, "change of the members");
    let mut trio = Trio::group("disk");
    let (over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (client, idle) = (trio.client(REQUEST_MS), trio.client(20_000));
    idle.get("number").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| count(&client, &over, &acknowledged));
        wait_for_more(&acknowledged);
        // The client stays connected to the leader, which goes last, and cannot say who is left.
        let leader = trio.leader();
        let followers = (0..3).filter(|at| *at != leader);
        for at in followers.chain([leader]) {
            let new = trio.join();
            trio.add_member(new);
            wait_for_more(&acknowledged);
            if at == leader {
                trio.kill(at);
            }
            remove(&trio, at);
            trio.wait(at);
            wait_for_more(&acknowledged);
        }
        let at_least = acknowledged.load(Ordering::SeqCst);
        assert!(number(idle.get("number").unwrap()) >= at_least);
        over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn removal_that_no_majority_takes_ends_with_what_it_waits_for() {
    let _limit = Limit::of(300, "end of the command");
    let mut trio = Trio::group("disk");
    put(&trio.client(20_000), "key", Some(b"value"));
    let leader = trio.leader();
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    for at in &others {
        trio.kill(*at);
    }
    let number = (others[0] + 1).to_string();
    let address = trio.addresses()[leader].to_string();
    let removal = dtranx(None, &["member", "remove", &number, "--timeout-ms", "2000", "--server", &address], "");
    let why = err(&removal);
    match removal.status.code() {
        Some(2) => assert!(why.contains("the change was asked for, and may be carried out once a majority"), "{why}"),
        // The leader had noticed already that it is alone.
        status => assert!(status == Some(1) && why.contains("do not answer"), "{why}"),
    }
}

#[test]
fn lost_store_beside_new_members_is_replaced_with_the_members_of_now() {
    let _limit = Limit::of(500, "change of the members");
    let mut trio = Trio::group("disk");
    put(&trio.client(20_000), "key", Some(b"value"));
    let at = trio.join();
    trio.add_member(at);
    let leader = trio.leader();
    let lost = (0..3).find(|at| *at != leader).unwrap();
    let gone = (0..3).find(|at| *at != leader && *at != lost).unwrap();
    remove(&trio, gone);
    trio.wait(gone);
    let (old, _) = store(&trio.folder(lost));
    trio.kill(lost);
    fs::remove_dir_all(trio.folder(lost)).unwrap();
    trio.run_with(lost, &["--replace", &old]);
    wait_until(|| store(&trio.folder(lost)).1);
    // It has a vote: the other two are a majority with it, and no others.
    let other = if trio.leader() == at { leader } else { at };
    trio.kill(other);
    let client = trio.client(20_000);
    put(&client, "another", Some(b"value"));
    assert_eq!(client.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn changes_that_no_group_takes_are_refused_by_name() {
    let _limit = Limit::of(300, "change of the members");
    let mut trio = Trio::group("disk");
    put(&trio.client(20_000), "key", Some(b"value"));
    let refused = |trio: &Trio, arguments: &[&str], expected: &str| {
        let why = trio.member(arguments).unwrap_err();
        assert!(why.contains(expected), "{arguments:?}: {why:?} does not say {expected:?}");
    };
    refused(&trio, &["remove", "9"], "the group has no member 9");
    refused(&trio, &["remove", "0"], "the group has no member 0");
    let mut of_other = Trio::group("disk");
    put(&of_other.client(20_000), "key", Some(b"value"));
    let address = of_other.addresses()[0].to_string();
    refused(&trio, &["add", &address], "is the address of a server that runs");
    let waits = of_other.join_other("another");
    let address = of_other.addresses()[waits].to_string();
    refused(&trio, &["add", &address], "waits for server 1 of \"another\", not for server 1 of \"trio\"");
    let at = trio.join();
    let (client, address) = (trio.client(20_000), trio.addresses()[at]);
    let store = |number: u8| dtranx::core::StoreId([number; 16]);
    let refusals = [
        (client.add_member(GROUP, trio.addresses()[0], store(9)), "is the address of member 1"),
        (client.add_member(GROUP, ([8, 8, 8, 8], 80).into(), store(9)), "allow_remote"),
    ];
    for (refused, expected) in refusals {
        let why = refused.unwrap_err().to_string();
        assert!(why.contains(expected), "{why:?} does not say {expected:?}");
    }
    trio.add_member(at);
    assert_eq!(client.add_member(GROUP, address, store_at(&trio, at)).unwrap(), 4, "it is there");
    // Two that never answer have no vote, and there is room for no third.
    for (port, expected) in [(1, Ok(5)), (2, Ok(6)), (3, Err("at most 2 catch up"))] {
        let added = loop {
            match client.add_member(GROUP, ([127, 0, 0, 1], port).into(), store(port as u8)) {
                Err(error) if error.to_string().contains("is under way") => thread::yield_now(),
                added => break added,
            }
        };
        match expected {
            Ok(number) => assert_eq!(added.unwrap(), number),
            Err(expected) => assert!(added.unwrap_err().to_string().contains(expected)),
        }
    }
    refused(&trio, &["remove", "7"], "the group has no member 7");
    trio.member(&["remove", "5"]).unwrap();
    trio.member(&["remove", "6"]).unwrap();
    trio.member(&["remove", "6"]).unwrap();
    assert_eq!(voters(&trio), [1, 2, 3, 4]);
    // One that has lost its store, and waits with another one.
    trio.kill(at);
    fs::remove_dir_all(trio.folder(at)).unwrap();
    trio.run_joining(at);
    trio.wait_until_it_waits(at);
    refused(&trio, &["add", &address.to_string()], "is the address of member 4, and another store waits there");
}

/// Id of the store in a member's folder.
fn store_at(trio: &Trio, at: usize) -> dtranx::core::StoreId {
    dtranx::core::StoreId::parse(&store(&trio.folder(at)).0).unwrap()
}
