//! A request that has the connection to itself is written at once by the thread that sends it:
//! nothing can gather with it, and waking the writer would cost more than the write. The write
//! never blocks: what the system does not take is left to the writer.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::Shared;
use super::state::State;

/// Largest request that is written in this way, in bytes. Copying a larger one would delay the
/// sender: the writer does it.
const MOST_BYTES: usize = 64 << 10;

/// Bytes that one thread has taken out of the buffer and must write.
pub(super) struct Alone {
    stream: Arc<TcpStream>,
    bytes: Vec<u8>,
}

impl State {
    /// Takes the bytes to be written if they are one request, and nothing else is under way.
    pub(super) fn take_alone(&mut self) -> Option<Alone> {
        if self.waiting.len() != 1 || self.out.len() > MOST_BYTES || !self.can_write() {
            return None;
        }
        let stream = self.stream.clone()?;
        self.is_writing = true;
        Some(Alone { stream, bytes: std::mem::take(&mut self.out) })
    }

    /// Takes a long request back, of which `written` bytes are written. The rest comes before the
    /// requests that have gathered meanwhile, unless the connection is another one by now.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::client::socket::state::tests::waiting;

    fn connected() -> Arc<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap())
    }

    fn with_one_request() -> State {
        let mut state = State::new();
        state.stream = Some(connected());
        state.waiting.insert(1, waiting(1));
        state.out = b"request".to_vec();
        state
    }

    #[test]
    fn what_was_not_written_comes_before_what_gathered_meanwhile() {
        let mut state = with_one_request();
        let alone = state.take_alone().unwrap();
        assert!(state.take_alone().is_none() && !state.can_write(), "one writes at a time");
        state.out.extend_from_slice(b" another");
        state.give_back(alone, 3);
        assert_eq!(state.out, b"uest another");
        assert!(state.can_write());
    }

    #[test]
    fn what_was_not_written_does_not_go_to_another_connection() {
        let mut state = with_one_request();
        let alone = state.take_alone().unwrap();
        state.stream = Some(connected());
        state.out = b"anew".to_vec();
        state.give_back(alone, 3);
        assert_eq!(state.out, b"anew");
    }

    #[test]
    fn request_among_others_is_the_writers() {
        let mut state = with_one_request();
        state.waiting.insert(2, waiting(1));
        assert!(state.take_alone().is_none());
    }
}
