//! The GC log (section 3.3.2): one record, written into the two halves of a file by turns.
//!
//! A torn write leaves the other half, which is the state before: the same segments are then
//! collected again. Beside the caller's bytes (the low-water marks) it holds the oldest segment
//! that is needed, the place of the last entry before it, and the newest state of a member of a
//! group, whose own block may be in a segment that goes. The order is always: write the GC log,
//! then remove segments.

use super::configured::CONFIGURATION_LIMIT_BYTES;
use super::entry::{Configured, Position, State};
use super::format::{COUNT_LIMIT, FORMAT_VERSION, Owner, is_read, store_at, u32_at, u64_at};
use super::medium::{Medium, MediumFile};
use super::segment::SegmentNumber;
use super::{LogError, Result};

pub(super) const NAME: &str = "gc.log";
const MAGIC: [u8; 8] = *b"DTRX-GCL";
const HALF_BYTES: usize = 64 * 1024;
const HALF_HEADER_BYTES: usize = 120;
/// First version of the format that has configurations, and the length of a half's header before.
const FIRST_CONFIGURED: u16 = 7;
const UNCONFIGURED_HEADER_BYTES: usize = 96;

/// Size of the file, in bytes.
pub(super) const FILE_BYTES: u64 = 2 * HALF_BYTES as u64;

/// Length of the longest state that fits, in bytes.
pub const GC_PAYLOAD_LIMIT_BYTES: usize = HALF_BYTES - HALF_HEADER_BYTES - CONFIGURATION_LIMIT_BYTES;

/// The GC log of one server.
pub(super) struct GcLog {
    file: Box<dyn MediumFile>,
    owner: Owner,
    generation: u64,
    kept: Kept,
    payload: Vec<u8>,
}

/// Facts about the log that outlive its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The oldest segment that is needed.
    pub(super) oldest: SegmentNumber,
    /// Place of the last entry that was removed and is not void.
    pub(super) before: Position,
    /// The newest state that was durable in the log.
    pub(super) state: State,
    /// The configuration of the group that was in force at `before`, if one was in the log.
    pub(super) configured: Option<Configured>,
}

impl Kept {
    /// Those of a new log.
    const NEW: Self = Self {
        oldest: SegmentNumber(1),
        before: Position { term: 0, index: 0 },
        state: State { term: 0, vote: None, committed: 0 },
        configured: None,
    };

    /// Returns false if a number is one that no log reaches.
    fn is_possible(&self) -> bool {
        let numbers = [self.oldest.0, self.before.index, self.before.term, self.state.term, self.state.committed];
        let is_of_the_removed = |configured: &Configured| {
            let Position { term, index } = configured.at;
            let is_before = (1..=self.before.index).contains(&index) && term <= self.before.term;
            is_before && configured.bytes.len() <= CONFIGURATION_LIMIT_BYTES
        };
        numbers.iter().all(|number| *number < COUNT_LIMIT) && self.configured.as_ref().is_none_or(is_of_the_removed)
    }
}

/// One half of the file, which holds one state.
pub(super) struct Half {
    pub(super) owner: Owner,
    generation: u64,
    pub(super) kept: Kept,
    pub(super) payload: Vec<u8>,
}

impl GcLog {
    /// Opens the GC log, or makes an empty one where there is none and no segment either, unless it
    /// must exist.
    ///
    /// # Errors
    /// It is not there and must be; both halves are damaged, the file is foreign, of another
    /// version, or of a member of a group and was not to be; or the medium refuses.
    pub(super) fn open(medium: &dyn Medium, owner: Owner, must_exist: bool, is_member: bool) -> Result<Self> {
        let names = medium.list()?;
        if !names.iter().any(|name| name == NAME) {
            if let Some(segment) = names.iter().find(|name| SegmentNumber::from_file_name(name).is_some()) {
                return Err(LogError::Missing { missing: NAME.to_owned(), found: segment.clone() });
            }
            if must_exist {
                return Err(LogError::Lost { missing: NAME.to_owned() });
            }
            return Self::create(medium, owner);
        }
        let mut file = medium.open(NAME)?;
        file.persist()?;
        let has_room = file.size_bytes() == FILE_BYTES;
        let halves = if has_room { [read_half(&*file, 0)?, read_half(&*file, 1)?] } else { [None, None] };
        let Some(half) = halves.into_iter().flatten().max_by_key(|half| half.generation) else {
            // Its creation was interrupted, if nothing was built on it.
            if must_exist || names.iter().any(|name| SegmentNumber::from_file_name(name).is_some()) {
                let bytes = file.size_bytes();
                let what =
                    if has_room { "both halves are damaged".to_owned() } else { format!("it has {bytes} bytes") };
                return Err(LogError::corrupt(NAME, 0, what));
            }
            drop(file);
            medium.remove(NAME)?;
            return Self::create(medium, owner);
        };
        half.owner.check(NAME, owner)?;
        if half.generation >= COUNT_LIMIT || !half.kept.is_possible() {
            let what = format!("generation {}, {:?}", half.generation, half.kept);
            return Err(LogError::corrupt(NAME, 0, what));
        }
        let term = half.kept.state.term.max(half.kept.before.term);
        if !is_member && (term > 0 || half.kept.state != State::default()) {
            return Err(LogError::OfGroup { file: NAME.to_owned(), term });
        }
        let mut log = Self { file, owner, generation: half.generation, kept: half.kept, payload: half.payload };
        if !medium.is_read_only() {
            log.put()?;
        }
        Ok(log)
    }

    fn create(medium: &dyn Medium, owner: Owner) -> Result<Self> {
        Self::create_with(medium, owner, Kept::NEW, &[])
    }

    /// Makes the GC log of a log that does not begin with its first entry.
    ///
    /// # Errors
    /// A number is one that no log reaches; the payload is too large; the medium refuses.
    pub(super) fn create_with(medium: &dyn Medium, owner: Owner, kept: Kept, payload: &[u8]) -> Result<Self> {
        if !kept.is_possible() {
            return Err(LogError::corrupt(NAME, 0, format!("{kept:?}")));
        }
        let file = medium.create(NAME, FILE_BYTES)?;
        let mut log = Self { file, owner, generation: 0, kept: Kept::NEW, payload: Vec::new() };
        log.write(kept, payload)?;
        Ok(log)
    }

    /// Facts that were written last.
    pub(super) const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Payload that was written last.
    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Replaces the state; durable when this returns.
    ///
    /// # Errors
    /// The state is larger than [`GC_PAYLOAD_LIMIT_BYTES`], or the medium refuses.
    pub(super) fn write(&mut self, kept: Kept, payload: &[u8]) -> Result<()> {
        if payload.len() > GC_PAYLOAD_LIMIT_BYTES {
            return Err(LogError::GcPayloadTooLarge { bytes: payload.len(), limit_bytes: GC_PAYLOAD_LIMIT_BYTES });
        }
        let (generation, payload) = (self.generation + 1, payload.to_vec());
        (self.generation, self.kept, self.payload) = (generation, kept, payload);
        self.put()
    }

    /// Writes the state into its half. When the log is opened, it is written once more where it was
    /// found: a sync that failed leaves it in the system's cache, and segments must not be removed
    /// because of it.
    fn put(&mut self) -> Result<()> {
        let half = encode(self.owner, self.generation, &self.kept, &self.payload);
        self.file.write((self.generation % 2) * HALF_BYTES as u64, &half)?;
        self.file.persist()
    }
}

fn encode(owner: Owner, generation: u64, kept: &Kept, payload: &[u8]) -> Vec<u8> {
    let mut half = vec![0; HALF_HEADER_BYTES];
    half[..8].copy_from_slice(&MAGIC);
    half[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    half[10..12].copy_from_slice(&owner.server.to_le_bytes());
    half[16..24].copy_from_slice(&generation.to_le_bytes());
    half[24..32].copy_from_slice(&kept.oldest.0.to_le_bytes());
    half[32..36].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    half[36..40].copy_from_slice(&u32::from(kept.state.vote.is_some()).to_le_bytes());
    half[40..56].copy_from_slice(&owner.store.0);
    let Kept { before, state, configured, .. } = kept;
    let configured = configured.clone().unwrap_or_default();
    let state = [state.term, state.committed, state.vote.unwrap_or_default()];
    let words = [before.index, before.term].into_iter().chain(state).chain([configured.at.index, configured.at.term]);
    for (at, word) in (56..).step_by(8).zip(words) {
        half[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    half[112..116].copy_from_slice(&(configured.bytes.len() as u32).to_le_bytes());
    half.extend_from_slice(payload);
    half.extend_from_slice(&configured.bytes);
    let checksum = crc32c::crc32c(&half);
    half[12..16].copy_from_slice(&checksum.to_le_bytes());
    half
}

/// The half that counts in a whole file, if one of the two is whole.
///
/// # Errors
/// A half has another version.
pub(super) fn newest(file: &[u8]) -> Result<Option<Half>> {
    let mut newest: Option<Half> = None;
    for (half, bytes) in file.chunks_exact(HALF_BYTES).enumerate() {
        let half = decode_half(bytes.to_vec(), half as u64)?;
        let half = half.filter(|half| half.generation < COUNT_LIMIT && half.kept.is_possible());
        newest = newest.into_iter().chain(half).max_by_key(|half| half.generation);
    }
    Ok(newest)
}

fn read_half(file: &dyn MediumFile, half: u64) -> Result<Option<Half>> {
    let mut bytes = vec![0; HALF_BYTES];
    file.read(half * HALF_BYTES as u64, &mut bytes)?;
    decode_half(bytes, half)
}

/// Bytes of a half of this version that its checksum is of; `None` if it says that it has more than
/// fits. Earlier versions are known so that they are refused by name.
fn checked_bytes(half: &[u8], version: u16) -> Option<usize> {
    let payload = u32_at(half, 32) as usize;
    if version < FIRST_CONFIGURED {
        return Some(UNCONFIGURED_HEADER_BYTES + payload).filter(|bytes| *bytes <= HALF_BYTES);
    }
    let configured = u32_at(half, 112) as usize;
    let fits = payload <= GC_PAYLOAD_LIMIT_BYTES && configured <= CONFIGURATION_LIMIT_BYTES;
    fits.then_some(HALF_HEADER_BYTES + payload + configured)
}

/// `None` for a half that is empty or torn, or whose generation is one of the other half.
fn decode_half(mut bytes: Vec<u8>, half: u64) -> Result<Option<Half>> {
    let (generation, length) = (u64_at(&bytes, 16), u32_at(&bytes, 32) as usize);
    let found = u16::from_le_bytes([bytes[8], bytes[9]]);
    let Some(checked_bytes) = checked_bytes(&bytes, found) else { return Ok(None) };
    if bytes[..8] != MAGIC || generation % 2 != half {
        return Ok(None);
    }
    bytes.truncate(checked_bytes);
    let checksum = u32_at(&bytes, 12);
    bytes[12..16].fill(0);
    if crc32c::crc32c(&bytes) != checksum {
        return Ok(None);
    }
    if !is_read(found) {
        return Err(LogError::Version { file: NAME.to_owned(), found, supported: FORMAT_VERSION });
    }
    let (votes, vote) = (u32_at(&bytes, 36), u64_at(&bytes, 88));
    if !matches!((votes, vote), (1, _) | (0, 0)) {
        return Err(LogError::corrupt(NAME, 0, format!("it has {votes} votes, for the member {vote}")));
    }
    let configuration = bytes.split_off(HALF_HEADER_BYTES + length);
    let at = Position { index: u64_at(&bytes, 96), term: u64_at(&bytes, 104) };
    Ok(Some(Half {
        owner: Owner { server: u16::from_le_bytes([bytes[10], bytes[11]]), store: store_at(&bytes, 40) },
        generation,
        kept: Kept {
            oldest: SegmentNumber(u64_at(&bytes, 24)),
            before: Position { index: u64_at(&bytes, 56), term: u64_at(&bytes, 64) },
            state: State {
                term: u64_at(&bytes, 72),
                vote: (u32_at(&bytes, 36) > 0).then(|| u64_at(&bytes, 88)),
                committed: u64_at(&bytes, 80),
            },
            configured: (at.index > 0).then_some(Configured { at, bytes: configuration }),
        },
        payload: bytes.split_off(HALF_HEADER_BYTES),
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::StoreId;
    use crate::log::Memory;

    const OWNER: Owner = Owner { server: 1, store: StoreId([7; 16]) };

    /// A GC log as version 7 has written it is read, and has the version of now from then on.
    #[test]
    fn log_of_the_version_before_is_read_and_written_anew() {
        let (medium, kept) = (Memory::new(), Kept { oldest: SegmentNumber(3), ..Kept::NEW });
        drop(GcLog::create_with(&medium, OWNER, kept.clone(), b"marks").unwrap());
        let mut half = encode(OWNER, 1, &kept, b"marks");
        half[8..10].copy_from_slice(&7_u16.to_le_bytes());
        half[12..16].fill(0);
        let checksum = crc32c::crc32c(&half);
        half[12..16].copy_from_slice(&checksum.to_le_bytes());
        medium.open(NAME).unwrap().write(HALF_BYTES as u64, &half).unwrap();
        let opened = GcLog::open(&medium, OWNER, true, false).unwrap();
        assert_eq!((opened.kept(), opened.payload()), (&kept, &b"marks"[..]));
        let written = medium.contents(NAME).unwrap();
        assert_eq!(written[HALF_BYTES + 8..HALF_BYTES + 10], FORMAT_VERSION.to_le_bytes());
    }

    /// A medium with a GC log of version 6: two halves, of which the first is empty.
    fn of_version_6() -> Memory {
        let mut half = vec![0; UNCONFIGURED_HEADER_BYTES];
        half[..8].copy_from_slice(&MAGIC);
        half[8..10].copy_from_slice(&6_u16.to_le_bytes());
        half[16] = 1;
        half[24] = 1;
        half[32] = 40;
        // Were they taken for those of a configuration's length, no checksum would be right.
        half.extend_from_slice(&[0xff; 40]);
        let checksum = crc32c::crc32c(&half);
        half[12..16].copy_from_slice(&checksum.to_le_bytes());
        let medium = Memory::new();
        let mut file = medium.create(NAME, FILE_BYTES).unwrap();
        file.write(HALF_BYTES as u64, &half).unwrap();
        file.persist().unwrap();
        medium
    }

    #[test]
    fn log_of_an_earlier_version_is_refused_by_name() {
        for must_exist in [false, true] {
            let refused = GcLog::open(&of_version_6(), OWNER, must_exist, true).map(drop).unwrap_err();
            assert_eq!(refused.to_string(), "gc.log has format version 6; this version reads 8");
        }
    }
}
