//! A block of a table: its header, and the entries of a block of data.

use xxhash_rust::xxh3::xxh3_128;

use super::Entry;
use super::archive::take;

/// Bytes that a block's header begins with; the last one is the version of the format.
pub(super) const MAGIC: &[u8; 4] = b"LSM\x03";
/// Length of a block's header, in bytes.
pub(super) const HEADER_BYTES: usize = 33;
/// The longest block that is taken for one: a block is written once it has some thousand bytes, and
/// ends with a value.
const LIMIT_BYTES: u32 = 64 << 20;
/// Length of what follows the entries at a block's end, in bytes.
const TRAILER_BYTES: usize = 31;
/// Byte that stands behind the last entry of a block.
const END: u8 = 255;
const DATA: u8 = 0;

/// Header that stands before each block of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// True for a block of data, false for an index, a filter or what a table says about itself.
    pub(super) is_data: bool,
    checksum: u128,
    /// Length of the block that follows the header, in bytes.
    pub(super) length: u32,
}

impl Header {
    /// `None`: these bytes are no header, or a damaged one.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (summed, sum) = bytes.split_at(HEADER_BYTES - 4);
        let is_whole = bytes.starts_with(MAGIC) && (xxh3_128(summed) as u32).to_le_bytes() == sum;
        let length = u32::from_le_bytes(bytes[21..25].try_into().ok()?);
        let checksum = u128::from_le_bytes(bytes[5..21].try_into().ok()?);
        (is_whole && length <= LIMIT_BYTES).then_some(Self { is_data: bytes[4] == DATA, checksum, length })
    }

    /// Returns true if this is what the header was written for.
    pub(super) fn fits(&self, block: &[u8]) -> bool {
        self.is_for(xxh3_128(block))
    }

    /// Returns true if the header was written for a block with this checksum.
    pub(super) fn is_for(&self, checksum: u128) -> bool {
        checksum == self.checksum
    }
}

/// Gives the entries of a whole block of data to `take`. Returns false if it is not understood.
///
/// # Errors
/// Those of `take`.
pub(super) fn entries<E>(block: &[u8], base: u64, take: &mut dyn FnMut(Entry<'_>) -> Result<(), E>) -> Result<bool, E> {
    let Some((mut rest, interval, count)) = frame(block) else { return Ok(false) };
    // The beginning of a key is that of the last one which was written in full.
    let mut head: Vec<u8> = Vec::new();
    let mut key: Vec<u8> = Vec::new();
    for at in 0..count {
        let Some(read) = entry(&mut rest, at % interval == 0, &head, &mut key) else { return Ok(false) };
        if at % interval == 0 {
            head.clone_from(&key);
        }
        take(Entry { key: &key, number: read.number.saturating_add(base), value: read.value })?;
    }
    Ok(rest.first() == Some(&END))
}

/// Splits a block: its entries with what is behind them; the number of entries of which the first
/// one has its key in full; the number of all entries.
fn frame(block: &[u8]) -> Option<(&[u8], u32, u32)> {
    let (entries, trailer) = block.split_at_checked(block.len().checked_sub(TRAILER_BYTES)?)?;
    let interval = u32::from(trailer[0]);
    let count = u32::from_le_bytes(trailer[TRAILER_BYTES - 4..].try_into().ok()?);
    (interval > 0).then_some((entries, interval, count))
}

/// Number and value of an entry that was read.
struct Read<'a> {
    number: u64,
    value: Option<&'a [u8]>,
}

/// Reads the next entry, and puts its key into `key`. `None`: it makes no sense.
fn entry<'a>(rest: &mut &'a [u8], is_full: bool, head: &[u8], key: &mut Vec<u8>) -> Option<Read<'a>> {
    let kind = take(rest, 1)?[0];
    let number = varint(rest)?;
    key.clear();
    if !is_full {
        key.extend_from_slice(head.get(..length(rest)?)?);
    }
    let bytes = length(rest)?;
    key.extend_from_slice(take(rest, bytes)?);
    let value = match kind {
        0 => {
            let bytes = length(rest)?;
            Some(take(rest, bytes)?)
        }
        1 | 2 => None,
        _ => return None,
    };
    Some(Read { number, value })
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint(rest)?).ok()
}

/// Reads a number that has seven of its bits in each byte, the lowest ones first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
