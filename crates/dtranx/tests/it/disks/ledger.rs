//! What a client wrote, and what it was told of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions};

/// How long nothing may be written.
const PATIENCE: Duration = Duration::from_secs(60);
const VALUE_BYTES: usize = 256 << 10;

/// Transactions, numbered, each of which writes two keys.
#[derive(Default)]
pub(crate) struct Ledger {
    next: u32,
    acknowledged: Vec<u32>,
}

impl Ledger {
    pub(crate) fn client(address: SocketAddr) -> Client {
        Self::client_for(address, 20_000)
    }

    /// It waits for an answer for so long.
    fn client_for(address: SocketAddr, request_ms: u64) -> Client {
        let options = ClientOptions { request_ms, attempts: 1, ..ClientOptions::default() };
        Client::connect(&[address], options).unwrap()
    }

    /// Writes until the server has ended: whatever is told then, it is not that the transaction is
    /// committed. What is not answered because the machine is slow is tried once more, as another
    /// transaction.
    pub(crate) fn write_until_the_end(&mut self, address: SocketAddr, mut has_ended: impl FnMut() -> bool) {
        // Nobody answers in the end.
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

    /// One transaction. Was it acknowledged?
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

    /// Everything acknowledged is there, and nothing is half there.
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

/// Bytes that nothing compresses, different for each.
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
