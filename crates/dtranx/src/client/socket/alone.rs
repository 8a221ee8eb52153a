//! A request that has the connection to itself is written at once by whoever asks: nothing can gather with it, and waking
//! the writer would cost more than the write. It never blocks: what the system does not take is left to the writer.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::Shared;
use super::state::State;

/// More is the writer's: copying it would hold up whoever asks.
const MOST_BYTES: usize = 64 << 10;

/// Bytes that are somebody's to write.
pub(super) struct Alone {
    stream: Arc<TcpStream>,
    bytes: Vec<u8>,
}

impl State {
    /// Takes what is to be written if it is one request, and nothing else is under way.
    pub(super) fn take_alone(&mut self) -> Option<Alone> {
        if self.waiting.len() != 1 || self.out.len() > MOST_BYTES || !self.can_write() {
            return None;
        }
        let stream = self.stream.clone()?;
        self.is_writing = true;
        Some(Alone { stream, bytes: std::mem::take(&mut self.out) })
    }

    /// What was written of it is done with; the rest comes before what has gathered meanwhile, unless the connection is
    /// another one by now.
    fn give_back(&mut self, alone: Alone, written: usize) {
        self.is_writing = false;
        let Alone { stream, bytes: mut rest } = alone;
        let is_same = self.stream.as_ref().is_some_and(|now| Arc::ptr_eq(now, &stream));
        rest.drain(..if is_same { written } else { rest.len() });
        rest.append(&mut self.out);
        self.out = rest;
    }
}

impl Shared {
    pub(super) fn write_alone(&self, alone: Alone) {
        let written = loop {
            match send(&*alone.stream, &alone.bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(written) => break written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break 0,
                Err(_) => {
                    // The reader notices, and connects anew.
                    let _ = alone.stream.shutdown(Shutdown::Both);
                    break alone.bytes.len();
                }
            }
        };
        let mut state = self.lock();
        state.give_back(alone, written);
        let is_left = state.can_write() && std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if is_left {
            self.written.notify_one();
        }
    }
}
