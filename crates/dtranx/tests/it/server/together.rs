//! Tests of three servers: transactions over all of them, and servers that end and restart.

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use dtranx::client::{Client, ClientOptions, Error};
use dtranx::cluster::Cluster;
use dtranx::core::KeyRange;
use dtranx::server::Server;
use tempfile::TempDir;

use crate::limit::Limit;
use crate::server::{cluster, config};

const ACCOUNTS: u32 = 12;
const EACH: u32 = 100;

struct Three {
    cluster: Cluster,
    folder: TempDir,
    servers: Vec<Option<Server>>,
}

impl Three {
    fn start() -> Self {
        let (cluster, folder) = (cluster(3), tempfile::tempdir().unwrap());
        let mut three = Self { cluster, folder, servers: vec![None, None, None] };
        (0..3).for_each(|at| three.restart(at));
        three
    }

    fn restart(&mut self, at: usize) {
        self.servers[at] = None;
        let config = config(&self.cluster, at as u16 + 1, self.folder.path());
        self.servers[at] = Some(Server::start(&config).unwrap());
    }

    fn client(&self) -> Client {
        let options = ClientOptions { attempts: 10_000, request_ms: 20_000, ..ClientOptions::default() };
        let addresses: Vec<_> = self.cluster.servers.iter().map(|server| server.address).collect();
        Client::connect(&addresses, options).unwrap()
    }
}

fn account(number: u32) -> Vec<u8> {
    format!("account{number:03}").into_bytes()
}

fn balance(value: Option<Bytes>) -> u32 {
    value.map_or(0, |value| u32::from_be_bytes(*value.first_chunk().unwrap()))
}

fn open_accounts(client: &Client) {
    client
        .transact(|tranx| (0..ACCOUNTS).try_for_each(|number| tranx.put(account(number), EACH.to_be_bytes().to_vec())))
        .unwrap();
}

fn pay(client: &Client, from: u32, to: u32) -> Result<(), Error> {
    client.transact(|tranx| {
        let balances: Vec<u32> = tranx.multi_get([account(from), account(to)])?.into_iter().map(balance).collect();
        if from != to && balances[0] > 0 {
            tranx.put(account(from), (balances[0] - 1).to_be_bytes().to_vec())?;
            tranx.put(account(to), (balances[1] + 1).to_be_bytes().to_vec())?;
        }
        Ok(())
    })
}

fn total(client: &Client) -> u32 {
    let found = client.scan(&KeyRange::all(), 100).unwrap();
    assert_eq!(found.items.len() as u32, ACCOUNTS);
    found.items.into_iter().map(|(_, value)| balance(Some(value))).sum()
}

#[test]
fn bank_over_three_servers_keeps_its_money() {
    let _limit = Limit::of(300, "answer to a payment");
    let three = Three::start();
    let client = three.client();
    open_accounts(&client);
    thread::scope(|scope| {
        for worker in 0..4_u32 {
            let client = client.clone();
            scope.spawn(move || {
                for round in 0..40 {
                    let from = (worker * 7 + round * 5) % ACCOUNTS;
                    pay(&client, from, (from * 3 + round + 1) % ACCOUNTS).unwrap();
                }
            });
        }
        scope.spawn(|| (0..10).for_each(|_| assert_eq!(total(&client), ACCOUNTS * EACH)));
    });
    assert_eq!(total(&client), ACCOUNTS * EACH);
}

#[test]
fn bank_keeps_its_money_while_servers_restart() {
    let _limit = Limit::of(300, "answer to a payment, or server that ends");
    let mut three = Three::start();
    let client = three.client();
    open_accounts(&client);
    thread::scope(|scope| {
        for worker in 0..3_u32 {
            let client = client.clone();
            scope.spawn(move || {
                for round in 0..60 {
                    let from = (worker * 7 + round * 5) % ACCOUNTS;
                    match pay(&client, from, (from * 3 + round + 1) % ACCOUNTS) {
                        // A restarted server does not know the outcomes of requests before its
                        // restart.
                        Ok(()) | Err(Error::Unknown(_)) | Err(Error::Unavailable { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for at in [0, 1, 2, 1, 0] {
            thread::sleep(Duration::from_millis(150));
            three.restart(at);
        }
    });
    assert_eq!(total(&client), ACCOUNTS * EACH);
    for server in &three.cluster.servers {
        let status = client.status(server.id).unwrap();
        assert_eq!(status.anomalies, 0, "{status:?}");
    }
}

#[test]
fn scan_merges_the_servers_in_order_and_goes_on_behind_a_limit() {
    let _limit = Limit::of(300, "answer to a scan");
    let three = Three::start();
    let client = three.client();
    let names: Vec<String> = (0..60).map(|number| format!("k{number:02}")).collect();
    client.transact(|tranx| names.iter().try_for_each(|name| tranx.put(name.clone(), "v"))).unwrap();
    let mut seen = Vec::new();
    let mut range = KeyRange::all();
    loop {
        let found = client.scan(&range, 7).unwrap();
        assert!(found.items.len() <= 7);
        let last = found.items.last().map(|(key, _)| key.clone());
        seen.extend(found.items.into_iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()));
        if found.complete {
            break;
        }
        let mut next = last.unwrap().to_vec();
        next.push(0);
        range.start = dtranx::core::Key::new(next).unwrap();
    }
    assert_eq!(seen, names);
}
