//! The engine's archives: sections, a table of contents, and a trailer that finds it. Manifests and
//! tables are archives.

use xxhash_rust::xxh3::xxh3_128;

/// Length of the trailer at an archive's end, in bytes.
pub(super) const TRAILER_BYTES: usize = 38;
/// Bytes that a trailer begins with: four letters, its version, and the kind of its checksum.
const MAGIC: &[u8] = b"SFA!\x01\x00";
/// Bytes that a table of contents begins with.
const CONTENTS_MAGIC: &[u8] = b"TOC!";

/// Place of an archive's table of contents.
pub(super) struct Trailer {
    checksum: u128,
    /// Offset of the table of contents, in bytes.
    pub(super) at: u64,
    /// Length of the table of contents, in bytes.
    pub(super) length: u64,
}

impl Trailer {
    /// `None`: these bytes are no trailer, or a damaged one.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let is_known = take(rest, MAGIC.len())? == MAGIC;
        let (checksum, at, length) = (take_u128(rest)?, take_u64(rest)?, take_u64(rest)?);
        (is_known && rest.is_empty()).then_some(Self { checksum, at, length })
    }

    /// Returns true if this is the table of contents that the trailer was written for.
    pub(super) fn fits(&self, contents: &[u8]) -> bool {
        xxh3_128(contents) == self.checksum
    }
}

/// Place of a section in an archive.
pub(super) struct Section {
    /// Name of the section.
    pub(super) name: Vec<u8>,
    /// Offset of the section, in bytes.
    pub(super) at: u64,
    /// Length of the section, in bytes.
    pub(super) length: u64,
}

/// Sections that a table of contents has, in their order.
pub(super) fn sections(mut contents: &[u8]) -> Option<Vec<Section>> {
    let rest = &mut contents;
    if take(rest, CONTENTS_MAGIC.len())? != CONTENTS_MAGIC {
        return None;
    }
    let count = take_u32(rest)?;
    (0..count)
        .map(|_| {
            let (at, length) = (take_u64(rest)?, take_u64(rest)?);
            let bytes = usize::from(take_u16(rest)?);
            Some(Section { name: take(rest, bytes)?.to_vec(), at, length })
        })
        .collect()
}

/// Returns a section of an archive that is in memory.
pub(super) fn section<'a>(archive: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let trailer = Trailer::decode(archive.get(archive.len().checked_sub(TRAILER_BYTES)?..)?)?;
    let within = |at: u64, length: u64| {
        let (at, length) = (usize::try_from(at).ok()?, usize::try_from(length).ok()?);
        archive.get(at..at.checked_add(length)?)
    };
    let found = sections(within(trailer.at, trailer.length)?)?.into_iter().find(|section| section.name == name)?;
    within(found.at, found.length)
}

/// Takes the first `bytes` bytes of `rest`. `None`: there are fewer.
pub(super) fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

pub(super) fn take_u8(rest: &mut &[u8]) -> Option<u8> {
    take(rest, 1).map(|bytes| bytes[0])
}

fn take_u16(rest: &mut &[u8]) -> Option<u16> {
    take(rest, 2)?.try_into().ok().map(u16::from_le_bytes)
}

pub(super) fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_le_bytes)
}

pub(super) fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.try_into().ok().map(u64::from_le_bytes)
}

pub(super) fn take_u128(rest: &mut &[u8]) -> Option<u128> {
    take(rest, 16)?.try_into().ok().map(u128::from_le_bytes)
}
