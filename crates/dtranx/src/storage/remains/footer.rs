//! The part of a table behind its blocks of data: indexes, filters, and what the table says about
//! itself.

use xxhash_rust::xxh3::Xxh3;

use super::archive::{Section, TRAILER_BYTES, Trailer, sections, take_u64};
use super::block::{self, HEADER_BYTES, Header};
use crate::files::Source;

/// Version of the format of tables that this program reads.
const TABLE_VERSION: u8 = 3;
/// Limit of the length of a table of contents and of what a table says about itself, in bytes; both
/// have some hundred, and two keys.
const LIMIT_BYTES: u64 = 1 << 20;
/// Number of bytes of a block that are read at once for its checksum.
const WINDOW_BYTES: usize = 1 << 20;

/// Facts that a table states about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// Number of the table, which is the file's name.
    pub(super) table: u64,
    /// Number of its blocks of data.
    pub(super) blocks: u64,
    /// Lowest key of an entry of the table.
    pub(super) first: Vec<u8>,
    /// Highest key of an entry of the table.
    pub(super) last: Vec<u8>,
    /// Lowest and highest number of an entry, as they stand in the file.
    pub(super) numbers: (u64, u64),
}

/// Facts that were found behind the blocks of data of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Footer {
    /// Facts that the table states about itself; `None`: they are damaged or lost.
    pub(super) about: Option<About>,
    /// Length of the blocks of data together, in bytes; `None`: it is not known.
    pub(super) data_bytes: Option<u64>,
    /// True if everything behind the blocks of data is as it was written.
    pub(super) is_whole: bool,
}

impl Footer {
    /// Reads what is behind a table's blocks of data.
    pub(super) fn read(source: &Source) -> Self {
        let Some(sections) = contents(source) else { return Self::default() };
        let named = |name: &[u8]| sections.iter().find(|section| section.name == name);
        let data_bytes = named(b"data").filter(|data| data.at == 0).map(|data| data.length);
        let about = named(b"meta").and_then(|meta| about(source, meta));
        let are_whole = sections.iter().all(|section| match &section.name[..] {
            // These are read anyway, or have no checksum.
            b"data" | b"linked_blob_files" => true,
            b"table_version" => byte(source, section) == Some(TABLE_VERSION),
            _ => are_blocks_whole(source, section),
        });
        Self { is_whole: are_whole && about.is_some() && data_bytes.is_some(), about, data_bytes }
    }
}

/// Sections of the table, which have to follow one another up to the table of contents.
fn contents(source: &Source) -> Option<Vec<Section>> {
    let at = source.bytes().checked_sub(TRAILER_BYTES as u64)?;
    let mut trailer = [0; TRAILER_BYTES];
    source.read(&mut trailer, at).ok()?;
    let trailer = Trailer::decode(&trailer)?;
    if trailer.length > LIMIT_BYTES || trailer.at.checked_add(trailer.length)? != at {
        return None;
    }
    let mut contents = vec![0; trailer.length as usize];
    source.read(&mut contents, trailer.at).ok()?;
    let sections = sections(&contents).filter(|_| trailer.fits(&contents))?;
    let end = sections.iter().try_fold(
        0,
        |end: u64, section| {
            if section.at == end { end.checked_add(section.length) } else { None }
        },
    );
    (end == Some(trailer.at)).then_some(sections)
}

fn byte(source: &Source, section: &Section) -> Option<u8> {
    let mut byte = [0];
    source.read(&mut byte, section.at).ok()?;
    (section.length == 1).then_some(byte[0])
}

fn are_blocks_whole(source: &Source, section: &Section) -> bool {
    let (mut at, end) = (section.at, section.at + section.length);
    let mut window = vec![0; WINDOW_BYTES];
    while at < end {
        let mut bytes = [0; HEADER_BYTES];
        let header = source.read(&mut bytes, at).ok().and_then(|()| Header::decode(&bytes));
        let Some(header) = header else { return false };
        at += HEADER_BYTES as u64;
        let block_end = at + u64::from(header.length);
        let mut hasher = Xxh3::new();
        while at < block_end {
            let part = &mut window[..(block_end - at).min(WINDOW_BYTES as u64) as usize];
            if source.read(part, at).is_err() {
                return false;
            }
            hasher.update(part);
            at += part.len() as u64;
        }
        if !header.is_for(hasher.digest128()) {
            return false;
        }
    }
    at == end
}

/// Reads the facts that a table states about itself: a block of names and values.
fn about(source: &Source, meta: &Section) -> Option<About> {
    let length = meta.length.checked_sub(HEADER_BYTES as u64).filter(|length| *length <= LIMIT_BYTES)?;
    let (mut header, mut block) = ([0; HEADER_BYTES], vec![0; length as usize]);
    source.read(&mut header, meta.at).ok()?;
    source.read(&mut block, meta.at + HEADER_BYTES as u64).ok()?;
    Header::decode(&header).filter(|header| !header.is_data && header.fits(&block))?;
    let (mut about, mut found) = (About::default(), 0);
    let is_read = block::entries(&block, 0, &mut |entry| {
        let value = entry.value.unwrap_or_default();
        let number = take_u64(&mut &value[..]);
        let is_wanted = match entry.key {
            b"table_id" => number.map(|number| about.table = number).is_some(),
            b"block_count#data" => number.map(|number| about.blocks = number).is_some(),
            b"seqno#min" => number.map(|number| about.numbers.0 = number).is_some(),
            b"seqno#max" => number.map(|number| about.numbers.1 = number).is_some(),
            b"key#min" => {
                about.first = value.to_vec();
                true
            }
            b"key#max" => {
                about.last = value.to_vec();
                true
            }
            _ => false,
        };
        found += u32::from(is_wanted);
        Ok::<(), ()>(())
    });
    (is_read == Ok(true) && found == 6).then_some(about)
}
