//! Clients by name. A client whose connection broke is remembered for a while: if it comes back
//! under its name, its earlier requests are still carried out once, and the answers are the same.

use std::collections::{HashMap, VecDeque};

use mio::Token;

use crate::core::ClientId;

/// Time that a client is remembered after its connection broke, in milliseconds.
const GRACE_MS: u64 = 30_000;

/// The clients of this incarnation.
#[derive(Default)]
pub(super) struct Sessions {
    clients: HashMap<ClientId, Session>,
    /// Clients that have lost their connection, with the time, in order.
    lost: VecDeque<(u64, ClientId)>,
}

#[derive(Default)]
struct Session {
    /// `None`: it has no connection.
    token: Option<Token>,
    /// Bytes of each request that is handed on and not answered, and the time when it was.
    under_way: HashMap<u64, (usize, u64)>,
    bytes: usize,
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(super) fn token(&self, client: ClientId) -> Option<Token> {
        self.clients.get(&client).and_then(|session| session.token)
    }

    pub(super) fn add(&mut self, client: ClientId, token: Token) {
        self.clients.insert(client, Session { token: Some(token), ..Session::default() });
    }

    /// Reconnects a client that comes back; `false` if it is not remembered. Its old connection, if
    /// there still is one, no longer counts.
    pub(super) fn resume(&mut self, client: ClientId, token: Token) -> bool {
        match self.clients.get_mut(&client) {
            Some(session) => {
                session.token = Some(token);
                self.lost.retain(|(_, lost)| *lost != client);
                true
            }
            None => false,
        }
    }

    pub(super) fn lose(&mut self, client: ClientId, token: Token, now_ms: u64) {
        if let Some(session) = self.clients.get_mut(&client).filter(|session| session.token == Some(token)) {
            session.token = None;
            self.lost.push_back((now_ms, client));
        }
    }

    /// A client that has been away for too long, with the bytes that it had under way; it is
    /// forgotten.
    pub(super) fn expire(&mut self, now_ms: u64) -> Option<(ClientId, usize)> {
        let (at_ms, _) = *self.lost.front()?;
        if now_ms.saturating_sub(at_ms) < GRACE_MS { None } else { self.forget_first() }
    }

    /// The client that has been away for longest; it is forgotten.
    pub(super) fn forget_first(&mut self) -> Option<(ClientId, usize)> {
        let (_, client) = self.lost.pop_front()?;
        let bytes = self.clients.remove(&client).map_or(0, |session| session.bytes);
        Some((client, bytes))
    }

    /// Bytes of requests that a client has under way.
    pub(super) fn bytes(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |session| session.bytes)
    }

    /// Notes that a request is handed on. Returns the bytes that it adds: none if an earlier copy
    /// of it is under way.
    pub(super) fn begin(&mut self, client: ClientId, id: u64, bytes: usize, now_ms: u64) -> usize {
        let Some(session) = self.clients.get_mut(&client) else { return 0 };
        if session.under_way.contains_key(&id) {
            return 0;
        }
        session.under_way.insert(id, (bytes, now_ms));
        session.bytes += bytes;
        bytes
    }

    /// Notes that a request is answered. Returns the bytes that it had.
    pub(super) fn end(&mut self, client: ClientId, id: u64) -> usize {
        let Some(session) = self.clients.get_mut(&client) else { return 0 };
        let bytes = session.under_way.remove(&id).map_or(0, |(bytes, _)| bytes);
        session.bytes -= bytes;
        bytes
    }

    /// Stops counting requests that were handed on before `before_ms`: some that are repeated get
    /// no answer. Returns the bytes that they had.
    pub(super) fn forget_unanswered(&mut self, before_ms: u64) -> usize {
        let mut all = 0;
        for session in self.clients.values_mut() {
            let old = session.under_way.extract_if(|_, (_, at_ms)| *at_ms < before_ms);
            let bytes: usize = old.map(|(_, (bytes, _))| bytes).sum();
            session.bytes -= bytes;
            all += bytes;
        }
        all
    }

    /// Returns true if nothing is under way for this client.
    pub(super) fn is_idle(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_none_or(|session| session.under_way.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Incarnation;

    const ME: ClientId = ClientId { incarnation: Incarnation(1), number: 1 };

    #[test]
    fn requests_are_counted_once_until_they_are_answered_or_the_client_is_forgotten() {
        let mut sessions = Sessions::default();
        sessions.add(ME, Token(5));
        assert_eq!(
            [sessions.begin(ME, 1, 10, 0), sessions.begin(ME, 1, 10, 1), sessions.begin(ME, 2, 20, 7)],
            [10, 0, 20]
        );
        assert_eq!((sessions.end(ME, 1), sessions.end(ME, 1), sessions.bytes(ME)), (10, 0, 20));
        sessions.begin(ME, 3, 5, 2);
        assert_eq!((sessions.forget_unanswered(7), sessions.bytes(ME), sessions.is_idle(ME)), (5, 20, false));
        sessions.lose(ME, Token(5), 100);
        assert_eq!(sessions.expire(100 + GRACE_MS - 1), None);
        assert_eq!((sessions.expire(100 + GRACE_MS), sessions.len()), (Some((ME, 20)), 0));
    }
}
