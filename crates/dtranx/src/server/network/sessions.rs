//! Clients by name. A client whose connection broke is remembered for a while: if it comes back under its name, what it
//! asked for before is still carried out once, and the answer is the same.

use std::collections::{HashMap, VecDeque};

use mio::Token;

use crate::core::ClientId;

/// How long a client is remembered after its connection broke.
const GRACE_MS: u64 = 30_000;

/// The clients of this incarnation.
#[derive(Default)]
pub(super) struct Sessions {
    /// `None`: it has no connection.
    clients: HashMap<ClientId, Option<Token>>,
    /// Who lost its connection when, in order.
    lost: VecDeque<(u64, ClientId)>,
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(super) fn token(&self, client: ClientId) -> Option<Token> {
        self.clients.get(&client).copied().flatten()
    }

    pub(super) fn add(&mut self, client: ClientId, token: Token) {
        self.clients.insert(client, Some(token));
    }

    /// A client comes back; `false` if it is not remembered. Its old connection, if there still is one, no longer counts.
    pub(super) fn resume(&mut self, client: ClientId, token: Token) -> bool {
        match self.clients.get_mut(&client) {
            Some(slot) => {
                *slot = Some(token);
                self.lost.retain(|(_, lost)| *lost != client);
                true
            }
            None => false,
        }
    }

    pub(super) fn lose(&mut self, client: ClientId, token: Token, now_ms: u64) {
        if let Some(slot) = self.clients.get_mut(&client).filter(|slot| **slot == Some(token)) {
            *slot = None;
            self.lost.push_back((now_ms, client));
        }
    }

    /// A client that has been away for too long; it is forgotten.
    pub(super) fn expire(&mut self, now_ms: u64) -> Option<ClientId> {
        let (at_ms, client) = *self.lost.front()?;
        if now_ms.saturating_sub(at_ms) < GRACE_MS {
            return None;
        }
        self.lost.pop_front();
        self.clients.remove(&client);
        Some(client)
    }
}
