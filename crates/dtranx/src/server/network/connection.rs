//! One connection: bytes in and out, the preface, and frames. `requests` has their meaning.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use serde::Serialize;

use super::incoming::{Frame, Incoming, KEPT_BYTES};
use crate::cluster::PeerId;
use crate::core::ClientId;
use crate::wire::{FRAME_LIMIT_BYTES, WireError, encode, preface};

/// Bytes that may wait to be sent on one connection. A peer that does not read that much is
/// disconnected.
const UNSENT_LIMIT_BYTES: usize = 64 << 20;
/// Bytes that are read from one connection before others have their turn.
const TURN_BYTES: usize = 1 << 20;
/// Greatest size of a message before the caller is known: more than a greeting and its answer need.
const GREETING_LIMIT_BYTES: usize = 16 << 10;
/// Time without a byte in or out after which a connection keeps no buffers, in milliseconds.
const REST_MS: u64 = 1000;
/// Bytes that one call of the system reads at most.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Party at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    /// A party that has called, and has not said who it is.
    Unknown,
    /// A client with this name.
    Client(ClientId),
    /// A server or member that called us: it only speaks.
    Caller(PeerId),
    /// A server or member that we called: we only speak. `true` once it has welcomed us.
    Called(PeerId, bool),
}

/// Reason why a connection is over.
#[derive(Debug)]
pub(super) enum Over {
    /// The other side closed it, or the network did.
    Closed,
    /// The other side breaks the rules.
    Wire(WireError),
}

impl From<WireError> for Over {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) party: Party,
    pub(super) opened_ms: u64,
    pub(super) incoming: Incoming,
    /// Bytes of the connection that the budget has counted.
    pub(super) counted: usize,
    /// Time at which a byte last came or went.
    pub(super) active_ms: u64,
    /// True if messages were left in `incoming` for the next turn.
    pub(super) is_behind: bool,
    outgoing: Vec<u8>,
    /// Offset in `outgoing` up to which it was sent.
    sent: usize,
    /// True if there may be more to read.
    pub(super) is_readable: bool,
    /// The other side has said that it ends, or the connection is broken: after what there is to
    /// read comes the end, of which the poll says nothing more.
    pub(super) is_ending: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, party: Party, opened_ms: u64) -> Self {
        // Batches are ours to make.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            party,
            opened_ms,
            incoming: Incoming::default(),
            counted: 0,
            active_ms: opened_ms,
            is_behind: false,
            outgoing: preface().to_vec(),
            sent: 0,
            is_readable: true,
            is_ending: false,
        }
    }

    /// Adds a message to the bytes to be sent.
    pub(super) fn push(&mut self, message: &impl Serialize) -> Result<(), Over> {
        if self.unsent_bytes() > UNSENT_LIMIT_BYTES {
            return Err(Over::Closed);
        }
        if self.sent > KEPT_BYTES && self.sent > self.outgoing.len() / 2 {
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
        Ok(encode(message, &mut self.outgoing)?)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Bytes of a budget that the connection holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.incoming.held_bytes() + self.unsent_bytes()
    }

    /// Gives back the room of buffers that are empty and have not been used for a while.
    pub(super) fn rest(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.active_ms) >= REST_MS {
            self.incoming.rest();
            if !self.has_unsent() {
                (self.outgoing, self.sent) = (Vec::new(), 0);
            }
        }
    }

    /// Sends the bytes that wait, as far as the other side takes them.
    pub(super) fn send(&mut self, now_ms: u64) -> Result<(), Over> {
        while self.has_unsent() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(Over::Closed),
                Ok(bytes) => {
                    self.sent += bytes;
                    self.active_ms = now_ms;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Not connected yet: the poll says when it is.
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Over::Closed),
            }
        }
        // The buffer is kept for the next messages.
        self.outgoing.clear();
        self.outgoing.shrink_to(KEPT_BYTES);
        self.sent = 0;
        Ok(())
    }

    /// Reads what has come, up to one turn, through `chunk`.
    pub(super) fn receive(&mut self, chunk: &mut [u8], now_ms: u64) -> Result<(), Over> {
        self.incoming.compact();
        let mut turn = 0;
        while turn < TURN_BYTES {
            match self.stream.read(chunk) {
                Ok(0) => return Err(Over::Closed),
                Ok(bytes) => {
                    self.incoming.extend(&chunk[..bytes]);
                    self.active_ms = now_ms;
                    turn += bytes;
                    if bytes < chunk.len() && !self.is_ending {
                        // That was all: the poll says when more has come.
                        self.is_readable = false;
                        return Ok(());
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    self.is_readable = false;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Over::Closed),
            }
        }
        Ok(())
    }

    /// The next message, if a whole one is here.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, Over> {
        let limit = match self.party {
            Party::Unknown | Party::Called(..) => GREETING_LIMIT_BYTES,
            Party::Client(_) | Party::Caller(_) => FRAME_LIMIT_BYTES,
        };
        Ok(self.incoming.next(limit)?)
    }
}
