//! Tests of a server that joins three others while clients work, which are each restarted with the
//! longer list.

use std::thread;
use std::time::Duration;

use dtranx::client::{Client, Error};
use dtranx::core::{Key, KeyRange, ServerId};

use crate::limit::Limit;
use crate::processes::appends::append_and_judge;
use crate::processes::trio::{REQUEST_MS, Trio};

const JOINER: ServerId = ServerId(4);

/// Moves the keys from one list up to another one to a server, as soon as that takes them.
fn move_lists(client: &Client, from: &str, until: &str, to: ServerId) {
    let key = |name: &str| Key::new(name.as_bytes().to_vec()).unwrap();
    loop {
        match client.move_range(&KeyRange::until(key(from), key(until)), to, |_| {}) {
            Ok(_) => return,
            Err(Error::Unknown(_) | Error::Unavailable { .. } | Error::GivenUp { .. } | Error::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(20));
    }
}

/// The clients and the mover are connected before the server is there, and go on.
#[test]
fn server_joins_under_appends_and_takes_ranges_and_the_shorter_list_is_refused() {
    let _limit = Limit::of(300, "answer to a transaction");
    let mut trio = Trio::ranges("disk", ["", "list2", "list4"]);
    let clients = (0..3).map(|_| trio.client(REQUEST_MS)).collect();
    let (mover, reader) = (trio.client(REQUEST_MS), trio.client(20_000));
    append_and_judge(clients, &reader, || {
        let joiner = trio.add();
        assert!(!trio.serves(joiner), "nobody knows it");
        for at in 0..3 {
            trio.kill(at);
            trio.run(at);
            // Snapshots are made by servers with the longer list and by those with the old one.
            (0..3).for_each(|_| drop(reader.snapshot().unwrap()));
            assert!(at == 2 || !trio.serves(joiner), "server 3 does not know it");
        }
        wait_until(|| trio.serves(joiner));
        move_lists(&mover, "list1", "list3", JOINER);
        move_lists(&mover, "list4", "list5", JOINER);
        (0..4).for_each(|_| drop(reader.snapshot().unwrap()));
        trio.kill(joiner);
        trio.run(joiner);
        move_lists(&mover, "list2", "list3", ServerId(1));
    });
    let map = reader.map().unwrap();
    let holders: Vec<u16> =
        ["list0", "list1", "list2", "list4"].map(|list| map.server_of(&Key::new(list).unwrap()).0).into();
    assert_eq!(holders, [1, 4, 1, 4]);
    assert_eq!(reader.cluster().servers.len(), 4);
    for server in &reader.cluster().servers {
        assert_eq!(reader.status(server.id).unwrap().anomalies, 0);
    }
    for at in [1, 3] {
        trio.kill(at);
        let said = trio.refusal_with(at, 3);
        let expected = if at == 3 {
            "server 4 is not among the servers"
        } else {
            "servers: the cluster has the servers [1, 2, 3, 4], the configuration says [1, 2, 3]; a server that has \
             joined stays in the list"
        };
        assert!(said.contains(expected), "{said}");
        trio.run(at);
    }
    reader.put("list1", "after that").unwrap();
}

/// One server never gets the longer list: the new one is refused and refuses by name, and
/// everything else goes on.
#[test]
fn server_that_one_other_does_not_know_is_waited_for_by_nobody() {
    let _limit = Limit::of(120, "answer to a transaction");
    let mut trio = Trio::ranges("disk", ["", "list2", "list4"]);
    let client = trio.client(20_000);
    client.put("list1", "one").unwrap();
    let joiner = trio.add();
    for at in [0, 1] {
        trio.kill(at);
        trio.run(at);
    }
    let mover = trio.client(REQUEST_MS);
    let key = |name: &'static str| Key::new(name).unwrap();
    let range = KeyRange::until(key("list1"), key("list2"));
    let refused = mover.move_range(&range, JOINER, |_| {}).unwrap_err().to_string();
    assert!(refused.contains("server 4 is new: it serves once it has met server 3"), "{refused}");
    assert!(!trio.serves(joiner));
    for n in 0..6 {
        client.put("list1", format!("{n}")).unwrap();
        assert_eq!(client.snapshot().unwrap().get("list1").unwrap().unwrap(), format!("{n}"));
    }
    // A server that knows it can be started again, and one that does not, too.
    for at in [0, 2] {
        trio.kill(at);
        trio.run_with_first(at, 3 + usize::from(at == 0));
    }
    client.put("list5", "five").unwrap();
    assert_eq!(client.get("list5").unwrap().unwrap(), "five");
}
