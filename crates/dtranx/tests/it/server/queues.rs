//! Tests of the queues for locks: consecutive transactions of one client, and many clients that
//! write the same keys.

use std::thread;

use dtranx::client::{Client, ClientOptions, Error};
use dtranx::cluster::Cluster;
use dtranx::core::{Key, Partition, ServerId};
use dtranx::server::Server;
use tempfile::TempDir;

use crate::limit::Limit;
use crate::server::{cluster, config};

/// Two keys, one on each server.
const KEYS: [&str; 2] = ["a", "z"];

struct Two {
    cluster: Cluster,
    _servers: Vec<Server>,
    _folder: TempDir,
}

impl Two {
    fn start() -> Self {
        let (mut cluster, folder) = (cluster(2), tempfile::tempdir().unwrap());
        let first = |name: &'static str| Key::new(name).unwrap();
        cluster.partition = Partition::Ranges(vec![(first(""), ServerId(1)), (first("m"), ServerId(2))]);
        let start = |server| Server::start(&config(&cluster, server, folder.path())).unwrap();
        let servers = [1, 2].map(start).into();
        Self { cluster, _servers: servers, _folder: folder }
    }

    fn client(&self, attempts: u32) -> Client {
        let addresses: Vec<_> = self.cluster.servers.iter().map(|server| server.address).collect();
        Client::connect(&addresses, ClientOptions { attempts, ..ClientOptions::default() }).unwrap()
    }

    /// Number of commits that were refused, on both servers together.
    fn refused(&self, client: &Client) -> u64 {
        self.cluster.servers.iter().map(|server| client.status(server.id).unwrap().refused).sum()
    }
}

fn count(value: Option<bytes::Bytes>) -> u32 {
    value.map_or(0, |value| u32::from_be_bytes(*value.first_chunk().unwrap()))
}

/// Each commit meets the locks of the commit before, whose outcome has not arrived at the other
/// server yet.
#[test]
fn one_clients_own_last_transaction_does_not_refuse_its_next_one() {
    const COMMITS: u64 = 300;
    let _limit = Limit::of(120, "commits one after the other");
    let two = Two::start();
    let client = two.client(100);
    client.transact(|tranx| KEYS.iter().try_for_each(|key| tranx.put(*key, "0"))).unwrap();
    let before = two.refused(&client);
    for number in 0..COMMITS {
        client.transact(|tranx| KEYS.iter().try_for_each(|key| tranx.put(*key, number.to_string()))).unwrap();
    }
    let refused = two.refused(&client) - before;
    assert!(refused < COMMITS / 4, "{refused} refusals");
}

/// Each increment counts once, and 40 attempts suffice for each. `core/tests/contention.rs` shows
/// on a simulated clock that no client starves.
#[test]
fn increments_of_the_same_keys_by_many_clients_are_all_counted() {
    const CLIENTS: usize = 12;
    const EACH: u32 = 25;
    let _limit = Limit::of(120, "increments");
    let two = Two::start();
    two.client(100).transact(|_| Ok(())).unwrap();
    let increment = |client: &Client| -> Result<(), Error> {
        client.transact(|tranx| {
            for (key, value) in KEYS.iter().zip(tranx.multi_get(KEYS)?) {
                tranx.put(*key, (count(value) + 1).to_be_bytes().to_vec())?;
            }
            Ok(())
        })
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let client = two.client(40);
                (0..EACH).for_each(|_| increment(&client).unwrap());
            });
        }
    });
    let found = two.client(100).transact(|tranx| tranx.multi_get(KEYS)).unwrap();
    assert_eq!(found.into_iter().map(count).collect::<Vec<_>>(), [CLIENTS as u32 * EACH; 2]);
}
