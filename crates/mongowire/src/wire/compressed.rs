//! `OP_COMPRESSED`: the kind of another message, its size, and its compressed payload.
//!
//! A message states the size of its payload uncompressed. A size beyond the limit of a message is
//! refused first; decompression then writes no more bytes than were stated.

use std::io::{Read, Write};

use super::{
    WireError,
    cursor::Cursor,
    header::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, OpCode, set_length},
};

/// The compressor of a message: client and server agree on it in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// No compression: the payload as it is.
    Noop,
    /// Snappy in its raw format, without frames.
    Snappy,
    /// zlib: DEFLATE with a header and a checksum.
    Zlib,
    /// Zstandard in its frame format.
    Zstd,
}

impl Compressor {
    /// All that can be negotiated, in the order in which they are preferred.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Snappy, Self::Zlib];

    /// Name of the compressor in handshakes and connection strings, such as `zstd`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Noop => 0,
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Zstd => 3,
        }
    }

    fn of(number: u8) -> Result<Self, WireError> {
        [Self::Noop, Self::Snappy, Self::Zlib, Self::Zstd]
            .into_iter()
            .find(|one| one.number() == number)
            .ok_or(WireError::Compressor(number))
    }
}

/// The compressor, and the message that was compressed.
pub(super) fn decode(outer: &Header, payload: &[u8]) -> Result<(Compressor, Header, Vec<u8>), WireError> {
    let mut cursor = Cursor::new(payload);
    let op_code = OpCode::of(cursor.i32()?)?;
    let declared = cursor.i32()?;
    let compressor = Compressor::of(cursor.u8()?)?;
    if op_code == OpCode::Compressed {
        return Err(WireError::OpCode(op_code.number()));
    }
    let size = usize::try_from(declared).ok().filter(|size| *size <= MAX_MESSAGE_BYTES - HEADER_BYTES);
    let size = size.ok_or(WireError::Length(i64::from(declared)))?;
    let inner = decompress(compressor, cursor.rest(), size).filter(|inner| inner.len() == size);
    let inner = inner.ok_or(WireError::Decompress(compressor.name()))?;
    Ok((compressor, Header { length_bytes: HEADER_BYTES + size, op_code, ..*outer }, inner))
}

/// Size in bytes that a compressed message states for its decompressed payload; 0 if it states
/// none.
pub(super) fn declared_bytes(payload: &[u8]) -> usize {
    let mut cursor = Cursor::new(payload);
    let declared = cursor.i32().and_then(|_| cursor.i32());
    declared.ok().and_then(|declared| usize::try_from(declared).ok()).unwrap_or(0)
}

/// At most `size` bytes, or one more when there would be more; none when the bytes are no
/// compressed ones.
fn decompress(compressor: Compressor, bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    match compressor {
        Compressor::Noop => Some(bytes.to_vec()),
        Compressor::Snappy => match snap::raw::decompress_len(bytes) {
            Ok(declared) if declared == size => snap::raw::Decoder::new().decompress_vec(bytes).ok(),
            _ => None,
        },
        Compressor::Zlib => {
            let mut plain = Vec::new();
            let limit = u64::try_from(size).ok()?.saturating_add(1);
            flate2::read::ZlibDecoder::new(bytes).take(limit).read_to_end(&mut plain).ok()?;
            Some(plain)
        }
        // Writes into a buffer of this size: no window is allocated, whatever the frame says.
        Compressor::Zstd => zstd::bulk::decompress(bytes, size).ok(),
    }
}

/// The message compressed, or `None` when it is none or cannot be.
pub(super) fn encode(message: &[u8], compressor: Compressor) -> Option<Vec<u8>> {
    let (header, payload) = message.split_first_chunk::<HEADER_BYTES>()?;
    let inner = Header::decode(header).ok()?;
    let packed = pack(compressor, payload)?;
    let outer = Header { op_code: OpCode::Compressed, ..inner };
    let mut compressed = Vec::with_capacity(HEADER_BYTES + 9 + packed.len());
    compressed.extend(outer.encode());
    compressed.extend(inner.op_code.number().to_le_bytes());
    compressed.extend(i32::try_from(payload.len()).ok()?.to_le_bytes());
    compressed.push(compressor.number());
    compressed.extend(packed);
    set_length(&mut compressed);
    Some(compressed)
}

fn pack(compressor: Compressor, bytes: &[u8]) -> Option<Vec<u8>> {
    match compressor {
        Compressor::Noop => Some(bytes.to_vec()),
        Compressor::Snappy => snap::raw::Encoder::new().compress_vec(bytes).ok(),
        Compressor::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).ok()?;
            encoder.finish().ok()
        }
        Compressor::Zstd => zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL).ok(),
    }
}
