//! [`Ledger`]: the transactions that a client wrote, and which of them were acknowledged.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions};

/// Longest time without a committed transaction.
const PATIENCE: Duration = Duration::from_secs(60);
const VALUE_BYTES: usize = 256 << 10;

/// Numbered transactions, each of which writes the same value to two keys.
#[derive(Default)]
pub(crate) struct Ledger {
    next: u32,
    acknowledged: Vec<u32>,
}

impl Ledger {
    pub(crate) fn client(address: SocketAddr) -> Client {
        Self::client_for(address, 20_000)
    }

    /// Connects a client that waits `request_ms` milliseconds for each answer.
    fn client_for(address: SocketAddr, request_ms: u64) -> Client {
        let options = ClientOptions { request_ms, attempts: 1, ..ClientOptions::default() };
        Client::connect(&[address], options).unwrap()
    }

    /// Writes transactions until the server has ended. A transaction without an answer counts as
    /// not acknowledged; the next one goes on, because the machine may only be slow.
    pub(crate) fn write_until_the_end(&mut self, address: SocketAddr, mut has_ended: impl FnMut() -> bool) {
        // The last request stays without an answer, so the client waits for a short time only.
        let client = Self::client_for(address, 1500);
        let mut written = Instant::now();
        while !has_ended() {
            if self.write(&client) {
                written = Instant::now();
            }
            assert!(self.next < 4000, "the disk is not full after {} transactions", self.next);
            assert!(written.elapsed() < PATIENCE, "the server neither writes nor ends");
        }
    }

    /// Writes one transaction. Returns whether it was acknowledged.
    pub(crate) fn write(&mut self, client: &Client) -> bool {
        let number = self.next;
        self.next += 1;
        let committed = client.transact(|tranx| {
            tranx.put(key("a", number), value(number))?;
            tranx.put(key("b", number), value(number))
        });
        if committed.is_ok() {
            self.acknowledged.push(number);
        }
        committed.is_ok()
    }

    /// Checks that every acknowledged transaction is there, and no transaction in part.
    pub(crate) fn check(&self, client: &Client) {
        assert!(self.acknowledged.len() > 5, "hardly anything was written: {}", self.acknowledged.len());
        for number in 0..self.next {
            let found = ["a", "b"].map(|name| client.get(key(name, number)).unwrap());
            assert_eq!(found[0], found[1], "transaction {number}");
            match &found[0] {
                Some(found) => assert!(*found == value(number), "transaction {number}"),
                None => assert!(!self.acknowledged.contains(&number), "transaction {number} is lost"),
            }
        }
    }
}

fn key(name: &str, number: u32) -> Vec<u8> {
    format!("{name}{number}").into_bytes()
}

/// Makes a value of pseudo-random bytes, which cannot be compressed, so that it takes room on the
/// disk.
fn value(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) * 2 + 1;
    let mut bytes = Vec::with_capacity(VALUE_BYTES);
    while bytes.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}
