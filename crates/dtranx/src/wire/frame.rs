//! Frames: how messages are delimited in the bytes of a connection. This module does no input or
//! output.

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Version of the wire protocol. It changes whenever the encoding of any message changes.
const VERSION: u16 = 16;
const MAGIC: [u8; 4] = *b"DTRX";
/// Length of a frame's header, in bytes: the payload's length and its checksum.
pub(crate) const HEADER_BYTES: usize = 8;

/// Length of the preface that each side sends first, in bytes.
pub const PREFACE_BYTES: usize = 8;

/// Limit of a frame's payload, in bytes. A transaction at its size limit fits with its versions,
/// and so does the answer to the largest scan.
pub const FRAME_LIMIT_BYTES: usize = 16 << 20;

/// A violation of the wire protocol, after which the connection is closed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The preface of the other side is not one of DTranx.
    #[error("the other side does not speak the protocol of DTranx")]
    Stranger,
    /// The other side speaks another version of the protocol.
    #[error("the other side speaks version {found} of the protocol; this one speaks {VERSION}")]
    Version {
        /// Version in the other side's preface.
        found: u16,
    },
    /// A message is longer than the limit.
    #[error("a message of {bytes} bytes is longer than the limit of {limit} bytes")]
    TooLong {
        /// Length of the message, in bytes.
        bytes: usize,
        /// Limit of a message's length, in bytes.
        limit: usize,
    },
    /// The checksum of a message does not match its bytes.
    #[error("a message was damaged on the way")]
    Damaged,
    /// A message cannot be decoded, or is not expected in this state of the connection.
    #[error("a message cannot be understood: {what}")]
    Unreadable {
        /// Cause, as text for people.
        what: String,
    },
    /// The other side refuses this one.
    #[error("the other side refuses this one: {why}")]
    Refused {
        /// Cause, as the other side says it.
        why: String,
    },
    /// A message cannot be encoded.
    #[error("a message cannot be encoded: {what}")]
    Unsendable {
        /// Cause reported by the encoder.
        what: String,
    },
}

/// Builds the preface, the first bytes that each side sends.
pub fn preface() -> [u8; PREFACE_BYTES] {
    let mut bytes = [0; PREFACE_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Checks the preface of the other side.
///
/// # Errors
/// The preface is not one of DTranx, or has another version.
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
/// The message is longer than [`FRAME_LIMIT_BYTES`] or cannot be encoded. `out` is unchanged then.
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

/// Header of a frame: length and checksum of its payload.
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

/// Decodes the message that fills a frame's payload.
///
/// # Errors
/// The payload is not a message of type `T`, or bytes follow the message.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(payload) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(WireError::Unreadable { what: format!("{} bytes follow it", rest.len()) }),
        Err(error) => Err(WireError::Unreadable { what: error.to_string() }),
    }
}
