//! The GC log (section 3.3.2): one record, written into the two halves of a file by turns.
//!
//! A torn write leaves the other half, which is the state before: the same segments are then
//! collected again. Beside the caller's bytes (the low-water marks) it holds the oldest segment
//! that is needed. The order is always: write the GC log, then remove segments.

use super::format::{COUNT_LIMIT, FORMAT_VERSION, Owner, store_at, u32_at, u64_at};
use super::medium::{Medium, MediumFile};
use super::segment::SegmentNumber;
use super::{LogError, Result};

pub(super) const NAME: &str = "gc.log";
const MAGIC: [u8; 8] = *b"DTRX-GCL";
const HALF_BYTES: usize = 64 * 1024;
const HALF_HEADER_BYTES: usize = 56;

/// Size of the file, in bytes.
pub(super) const FILE_BYTES: u64 = 2 * HALF_BYTES as u64;

/// Length of the longest state that fits, in bytes.
pub const GC_PAYLOAD_LIMIT_BYTES: usize = HALF_BYTES - HALF_HEADER_BYTES;

/// The GC log of one server.
pub(super) struct GcLog {
    file: Box<dyn MediumFile>,
    owner: Owner,
    generation: u64,
    oldest: SegmentNumber,
    payload: Vec<u8>,
}

/// One half of the file, which holds one state.
pub(super) struct Half {
    pub(super) owner: Owner,
    generation: u64,
    pub(super) oldest: SegmentNumber,
    pub(super) payload: Vec<u8>,
}

impl GcLog {
    /// Opens the GC log, or makes an empty one where there is none and no segment either, unless it
    /// must exist.
    ///
    /// # Errors
    /// It is not there and must be; both halves are damaged, the file is foreign or of another
    /// version, or the medium refuses.
    pub(super) fn open(medium: &dyn Medium, owner: Owner, must_exist: bool) -> Result<Self> {
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
        if half.generation >= COUNT_LIMIT || half.oldest.0 >= COUNT_LIMIT {
            let what = format!("generation {}, oldest segment {}", half.generation, half.oldest.0);
            return Err(LogError::corrupt(NAME, 0, what));
        }
        let mut log = Self { file, owner, generation: half.generation, oldest: half.oldest, payload: half.payload };
        if !medium.is_read_only() {
            log.put()?;
        }
        Ok(log)
    }

    fn create(medium: &dyn Medium, owner: Owner) -> Result<Self> {
        let file = medium.create(NAME, FILE_BYTES)?;
        let mut log = Self { file, owner, generation: 0, oldest: SegmentNumber(1), payload: Vec::new() };
        log.write(SegmentNumber(1), &[])?;
        Ok(log)
    }

    /// The oldest segment that is needed.
    pub(super) fn oldest(&self) -> SegmentNumber {
        self.oldest
    }

    /// Payload that was written last.
    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Replaces the state; durable when this returns.
    ///
    /// # Errors
    /// The state is larger than [`GC_PAYLOAD_LIMIT_BYTES`], or the medium refuses.
    pub(super) fn write(&mut self, oldest: SegmentNumber, payload: &[u8]) -> Result<()> {
        if payload.len() > GC_PAYLOAD_LIMIT_BYTES {
            return Err(LogError::GcPayloadTooLarge { bytes: payload.len(), limit_bytes: GC_PAYLOAD_LIMIT_BYTES });
        }
        let (generation, payload) = (self.generation + 1, payload.to_vec());
        (self.generation, self.oldest, self.payload) = (generation, oldest, payload);
        self.put()
    }

    /// Writes the state into its half. When the log is opened, it is written once more where it was
    /// found: a sync that failed leaves it in the system's cache, and segments must not be removed
    /// because of it.
    fn put(&mut self) -> Result<()> {
        let half = encode(self.owner, self.generation, self.oldest, &self.payload);
        self.file.write((self.generation % 2) * HALF_BYTES as u64, &half)?;
        self.file.persist()
    }
}

fn encode(owner: Owner, generation: u64, oldest: SegmentNumber, payload: &[u8]) -> Vec<u8> {
    let mut half = vec![0; HALF_HEADER_BYTES];
    half[..8].copy_from_slice(&MAGIC);
    half[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    half[10..12].copy_from_slice(&owner.server.to_le_bytes());
    half[16..24].copy_from_slice(&generation.to_le_bytes());
    half[24..32].copy_from_slice(&oldest.0.to_le_bytes());
    half[32..36].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    half[40..56].copy_from_slice(&owner.store.0);
    half.extend_from_slice(payload);
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
    for bytes in file.chunks_exact(HALF_BYTES) {
        let half = decode_half(bytes.to_vec())?;
        let half = half.filter(|half| half.generation < COUNT_LIMIT && half.oldest.0 < COUNT_LIMIT);
        newest = newest.into_iter().chain(half).max_by_key(|half| half.generation);
    }
    Ok(newest)
}

fn read_half(file: &dyn MediumFile, half: u64) -> Result<Option<Half>> {
    let mut bytes = vec![0; HALF_BYTES];
    file.read(half * HALF_BYTES as u64, &mut bytes)?;
    decode_half(bytes)
}

/// `None` for a half that is empty or torn.
fn decode_half(mut bytes: Vec<u8>) -> Result<Option<Half>> {
    let length = u32_at(&bytes, 32) as usize;
    if bytes[..8] != MAGIC || length > GC_PAYLOAD_LIMIT_BYTES {
        return Ok(None);
    }
    bytes.truncate(HALF_HEADER_BYTES + length);
    let checksum = u32_at(&bytes, 12);
    bytes[12..16].fill(0);
    if crc32c::crc32c(&bytes) != checksum {
        return Ok(None);
    }
    let found = u16::from_le_bytes([bytes[8], bytes[9]]);
    if found != FORMAT_VERSION {
        return Err(LogError::Version { file: NAME.to_owned(), found, supported: FORMAT_VERSION });
    }
    Ok(Some(Half {
        owner: Owner { server: u16::from_le_bytes([bytes[10], bytes[11]]), store: store_at(&bytes, 40) },
        generation: u64_at(&bytes, 16),
        oldest: SegmentNumber(u64_at(&bytes, 24)),
        payload: bytes.split_off(HALF_HEADER_BYTES),
    }))
}
