//! Bytes that have come over one connection and are not handled, cut into frames. A frame for which
//! there is no room is read to its end and not kept, so that it can be refused and the connection
//! goes on.

use crate::wire::{FrameHeader, HEADER_BYTES, PREFACE_BYTES, WireError, check_preface, frame_header, next_frame};

/// Bytes that are kept of a frame that is not kept: enough to say which request it was.
const HEAD_BYTES: usize = 16;
/// Size from which on a buffer is made smaller when little is in it, in bytes.
pub(super) const KEPT_BYTES: usize = 64 << 10;

/// A frame that has come.
pub(super) enum Frame<'a> {
    /// Payload of a whole frame.
    Whole(&'a [u8]),
    /// A frame that was not kept, and was not damaged: the beginning of its payload.
    Unkept(Vec<u8>),
}

#[derive(Default)]
pub(super) struct Incoming {
    is_preface_read: bool,
    bytes: Vec<u8>,
    /// Offset in `bytes` up to which they were handled.
    read: usize,
    unkept: Option<Unkept>,
    /// Time since which a part of a frame has been here.
    begun_ms: Option<u64>,
}

struct Unkept {
    head: Vec<u8>,
    expected: u32,
    checksum: u32,
    left: usize,
}

impl Incoming {
    /// Adds bytes that have come.
    pub(super) fn extend(&mut self, mut chunk: &[u8]) {
        if let Some(unkept) = &mut self.unkept {
            let (its, rest) = chunk.split_at(unkept.left.min(chunk.len()));
            unkept.checksum = crc32c::crc32c_append(unkept.checksum, its);
            unkept.left -= its.len();
            chunk = rest;
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// Forgets the bytes that were handled.
    pub(super) fn compact(&mut self) {
        self.bytes.drain(..self.read);
        self.read = 0;
        if self.bytes.capacity() > KEPT_BYTES && self.bytes.len() < self.bytes.capacity() / 4 {
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }

    /// Gives the room of an empty buffer back.
    pub(super) fn rest(&mut self) {
        if self.held_bytes() == 0 {
            (self.bytes, self.read) = (Vec::new(), 0);
        }
    }

    /// Bytes that wait here for the rest of their frame, or to be handled.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// The next frame, if a whole one is here; its payload may have so many bytes.
    pub(super) fn next(&mut self, limit: usize) -> Result<Option<Frame<'_>>, WireError> {
        if !self.is_preface_read {
            let Some(bytes) = self.bytes.get(self.read..).and_then(|bytes| bytes.first_chunk::<PREFACE_BYTES>()) else {
                return Ok(None);
            };
            check_preface(bytes)?;
            self.is_preface_read = true;
            self.read += PREFACE_BYTES;
        }
        if let Some(unkept) = self.unkept.take_if(|unkept| unkept.left == 0) {
            let is_whole = unkept.checksum == unkept.expected;
            return if is_whole { Ok(Some(Frame::Unkept(unkept.head))) } else { Err(WireError::Damaged) };
        }
        if self.unkept.is_some() {
            return Ok(None);
        }
        if let Some(FrameHeader { length, .. }) = frame_header(&self.bytes[self.read..]).filter(|h| h.length > limit) {
            return Err(WireError::TooLong { bytes: length, limit });
        }
        Ok(next_frame(&self.bytes[self.read..])?.map(|(payload, taken)| {
            self.read += taken;
            Frame::Whole(payload)
        }))
    }

    /// Stops keeping the frame whose first part is here. `false` if there is none, or too little of
    /// it.
    pub(super) fn unkeep(&mut self) -> bool {
        if self.unkept.is_some() || !self.is_preface_read {
            return false;
        }
        let held = &self.bytes[self.read..];
        let Some(header) = frame_header(held) else { return false };
        let part = &held[HEADER_BYTES..];
        if part.len() < HEAD_BYTES || part.len() >= header.length {
            return false;
        }
        self.unkept = Some(Unkept {
            head: part[..HEAD_BYTES].to_vec(),
            expected: header.checksum,
            checksum: crc32c::crc32c(part),
            left: header.length - part.len(),
        });
        (self.bytes, self.read) = (Vec::new(), 0);
        true
    }

    /// The beginning of the frame whose first part is here.
    pub(super) fn head(&self) -> Option<Vec<u8>> {
        let held = self.bytes[self.read..].get(HEADER_BYTES..).map(|part| &part[..part.len().min(HEAD_BYTES)]);
        self.unkept.as_ref().map(|unkept| unkept.head.clone()).or_else(|| held.map(<[u8]>::to_vec))
    }

    /// Notes, after a turn in which so many frames were handled, since when a part of a frame is
    /// here.
    pub(super) fn note_part(&mut self, frames: usize, now_ms: u64) {
        let has_part = self.held_bytes() > 0 || self.unkept.is_some();
        let since_ms = self.begun_ms.filter(|_| frames == 0).unwrap_or(now_ms);
        self.begun_ms = has_part.then_some(since_ms);
    }

    /// Time since which a part of a frame has waited for the rest.
    pub(super) fn begun_ms(&self) -> Option<u64> {
        self.begun_ms
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::wire::{FRAME_LIMIT_BYTES, encode, preface};

    fn frame(byte: u8, bytes: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        encode(&vec![byte; bytes], &mut frame).unwrap();
        frame
    }

    /// Length of the next frame: the bytes of its payload, or of the beginning of one that was not
    /// kept.
    fn next(incoming: &mut Incoming) -> Option<Result<usize, usize>> {
        incoming.next(FRAME_LIMIT_BYTES).unwrap().map(|frame| match frame {
            Frame::Whole(payload) => Ok(payload.len()),
            Frame::Unkept(head) => Err(head.len()),
        })
    }

    fn begun() -> Incoming {
        let mut incoming = Incoming::default();
        incoming.extend(&preface());
        assert!(next(&mut incoming).is_none());
        incoming
    }

    #[test]
    fn frame_that_is_not_kept_takes_no_room_and_ends_where_it_ends() {
        let (large, small) = (frame(1, 1 << 20), frame(2, 5));
        for cut in [HEADER_BYTES + HEAD_BYTES, 5000, large.len() - 1] {
            let mut incoming = begun();
            incoming.extend(&large[..cut]);
            assert!(incoming.unkeep(), "{cut}");
            assert_eq!((next(&mut incoming), incoming.held_bytes()), (None, 0));
            for chunk in [&large[cut..], &small].concat().chunks(1 << 18) {
                assert!(!incoming.unkeep(), "it is not kept twice");
                incoming.compact();
                incoming.extend(chunk);
                assert!(incoming.held_bytes() <= small.len());
            }
            assert_eq!(next(&mut incoming), Some(Err(HEAD_BYTES)));
            assert_eq!((next(&mut incoming), next(&mut incoming)), (Some(Ok(6)), None));
        }
    }

    #[test]
    fn damage_of_a_frame_that_is_not_kept_is_noticed() {
        let mut large = frame(1, 1 << 20);
        let mut incoming = begun();
        incoming.extend(&large[..5000]);
        assert!(incoming.unkeep());
        large[9999] ^= 1;
        incoming.extend(&large[5000..]);
        assert!(matches!(incoming.next(FRAME_LIMIT_BYTES), Err(WireError::Damaged)));
    }

    #[test]
    fn frames_that_are_whole_or_hardly_begun_are_kept() {
        let frame = frame(1, 1000);
        let mut incoming = begun();
        assert!(!incoming.unkeep());
        incoming.extend(&frame[..HEADER_BYTES + HEAD_BYTES - 1]);
        assert!(!incoming.unkeep());
        incoming.extend(&frame[HEADER_BYTES + HEAD_BYTES - 1..]);
        assert!(!incoming.unkeep() && next(&mut incoming).is_some());
    }

    #[test]
    fn frame_longer_than_may_be_said_now_is_refused_by_its_header() {
        let mut incoming = begun();
        incoming.extend(&frame(1, 2000)[..HEADER_BYTES]);
        assert!(matches!(incoming.next(1024), Err(WireError::TooLong { bytes: 2002, limit: 1024 })));
    }

    #[test]
    fn part_of_a_frame_has_been_here_since_it_began() {
        let frame = frame(1, 1000);
        let mut incoming = begun();
        incoming.note_part(0, 5);
        assert_eq!(incoming.begun_ms(), None);
        for (at_ms, bytes) in [(10, &frame[..1]), (20, &frame[1..30])] {
            incoming.extend(bytes);
            incoming.note_part(0, at_ms);
            assert_eq!(incoming.begun_ms(), Some(10));
        }
        assert!(incoming.unkeep());
        incoming.note_part(0, 30);
        assert_eq!(incoming.begun_ms(), Some(10));
        incoming.extend(&frame[30..]);
        incoming.extend(&frame[..7]);
        assert!(next(&mut incoming).is_some() && next(&mut incoming).is_none());
        incoming.note_part(1, 40);
        assert_eq!(incoming.begun_ms(), Some(40));
    }
}
