//! Frames: bytes on a connection cut into messages. Pure.

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// The version of everything that is sent.
const VERSION: u16 = 7;
const MAGIC: [u8; 4] = *b"DTRX";
/// What every message begins with.
pub(crate) const HEADER_BYTES: usize = 8;

/// The length of the preface.
pub const PREFACE_BYTES: usize = 8;

/// The longest message: a transaction at its limit, with its versions, or a scan at its.
pub const FRAME_LIMIT_BYTES: usize = 16 << 20;

/// Why a connection is closed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The other side speaks something else.
    #[error("the other side does not speak the protocol of DTranx")]
    Stranger,
    /// The other side speaks another version.
    #[error("the other side speaks version {found} of the protocol; this one speaks {VERSION}")]
    Version {
        /// Its version.
        found: u16,
    },
    /// A message is longer than it may be.
    #[error("a message of {bytes} bytes is longer than the limit of {limit} bytes")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A message's checksum is wrong.
    #[error("a message was damaged on the way")]
    Damaged,
    /// A message cannot be understood, or is not one that is expected now.
    #[error("a message cannot be understood: {what}")]
    Unreadable {
        /// Why.
        what: String,
    },
    /// A message cannot be encoded.
    #[error("a message cannot be encoded: {what}")]
    Unsendable {
        /// Why.
        what: String,
    },
}

/// What each side sends first.
pub fn preface() -> [u8; PREFACE_BYTES] {
    let mut bytes = [0; PREFACE_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Is this what the other side should send first?
///
/// # Errors
/// It is something else, or another version.
pub fn check_preface(bytes: &[u8; PREFACE_BYTES]) -> Result<(), WireError> {
    if bytes[..4] != MAGIC || bytes[6..] != [0, 0] {
        return Err(WireError::Stranger);
    }
    match u16::from_le_bytes([bytes[4], bytes[5]]) {
        VERSION => Ok(()),
        found => Err(WireError::Version { found }),
    }
}

/// Appends a message as a frame.
///
/// # Errors
/// It is too long; `out` is as it was then.
pub fn encode(message: &impl Serialize, out: &mut Vec<u8>) -> Result<(), WireError> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let written = postcard::to_io(message, &mut *out).map(drop);
    let bytes = out.len() - start - HEADER_BYTES;
    if let Err(error) = written {
        out.truncate(start);
        return Err(WireError::Unsendable { what: error.to_string() });
    }
    if bytes > FRAME_LIMIT_BYTES {
        out.truncate(start);
        return Err(WireError::TooLong { bytes, limit: FRAME_LIMIT_BYTES });
    }
    let checksum = crc32c::crc32c(&out[start + HEADER_BYTES..]);
    out[start..start + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// What a frame says about its payload.
pub(crate) struct FrameHeader {
    pub(crate) length: usize,
    pub(crate) checksum: u32,
}

/// The header of the frame that `bytes` begins with, if all of it has arrived.
pub(crate) fn frame_header(bytes: &[u8]) -> Option<FrameHeader> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Some(FrameHeader { length: number(0) as usize, checksum: number(4) })
}

/// The payload of the frame that `bytes` begins with, and the frame's length; `None` if it has not
/// all arrived.
///
/// # Errors
/// The frame is too long or damaged.
pub fn next_frame(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some(FrameHeader { length, checksum }) = frame_header(bytes) else { return Ok(None) };
    if length > FRAME_LIMIT_BYTES {
        return Err(WireError::TooLong { bytes: length, limit: FRAME_LIMIT_BYTES });
    }
    let Some(payload) = bytes[HEADER_BYTES..].get(..length) else { return Ok(None) };
    if crc32c::crc32c(payload) != checksum {
        return Err(WireError::Damaged);
    }
    Ok(Some((payload, HEADER_BYTES + length)))
}

/// The message in a frame's payload: all of it.
///
/// # Errors
/// It is not such a message, or something follows it.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(payload) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(WireError::Unreadable { what: format!("{} bytes follow it", rest.len()) }),
        Err(error) => Err(WireError::Unreadable { what: error.to_string() }),
    }
}
