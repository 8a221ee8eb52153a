//! One connection: bytes in and out, the preface, and frames. What they mean is not here.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use serde::Serialize;

use crate::core::{ClientId, ServerId};
use crate::wire::{PREFACE_BYTES, WireError, check_preface, encode, next_frame, preface};

/// What may wait to be sent on one connection. Whoever does not read that much is disconnected.
const UNSENT_LIMIT_BYTES: usize = 64 << 20;
/// How much is read from one connection before others have their turn.
const TURN_BYTES: usize = 1 << 20;
/// How much one call of the system reads.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    /// It called, and has not said who it is.
    Unknown,
    /// A client.
    Client(ClientId),
    /// A server that called us: it only speaks.
    Caller(ServerId),
    /// A server that we called: we only speak. `true` once it has welcomed us.
    Called(ServerId, bool),
}

/// Why a connection is over.
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
    is_preface_read: bool,
    incoming: Vec<u8>,
    /// From here on `incoming` has not been looked at.
    read: usize,
    outgoing: Vec<u8>,
    /// Up to here `outgoing` was sent.
    sent: usize,
    /// There may be more to read.
    pub(super) is_readable: bool,
    /// The other side has said that it ends, or the connection is broken: after what there is to read comes the end, of which
    /// the poll says nothing more.
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
            is_preface_read: false,
            incoming: Vec::new(),
            read: 0,
            outgoing: preface().to_vec(),
            sent: 0,
            is_readable: true,
            is_ending: false,
        }
    }

    /// Adds a message to what is to be sent.
    pub(super) fn push(&mut self, message: &impl Serialize) -> Result<(), Over> {
        if self.outgoing.len() - self.sent > UNSENT_LIMIT_BYTES {
            return Err(Over::Closed);
        }
        Ok(encode(message, &mut self.outgoing)?)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Sends what there is, as far as the other side takes it.
    pub(super) fn send(&mut self) -> Result<(), Over> {
        while self.has_unsent() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(Over::Closed),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Not connected yet: the poll says when it is.
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Over::Closed),
            }
        }
        // The buffer is kept for the next messages.
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what has come, up to one turn, through `chunk`.
    pub(super) fn receive(&mut self, chunk: &mut [u8]) -> Result<(), Over> {
        self.incoming.drain(..self.read);
        self.read = 0;
        let mut turn = 0;
        while turn < TURN_BYTES {
            match self.stream.read(chunk) {
                Ok(0) => return Err(Over::Closed),
                Ok(bytes) => {
                    self.incoming.extend_from_slice(&chunk[..bytes]);
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

    /// The next message's payload, if a whole one is here.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Over> {
        if !self.is_preface_read {
            let Some(bytes) = self.incoming.get(self.read..).and_then(|bytes| bytes.first_chunk::<PREFACE_BYTES>())
            else {
                return Ok(None);
            };
            check_preface(bytes)?;
            self.is_preface_read = true;
            self.read += PREFACE_BYTES;
        }
        match next_frame(&self.incoming[self.read..])? {
            Some((payload, taken)) => {
                self.read += taken;
                Ok(Some(payload))
            }
            None => Ok(None),
        }
    }
}
