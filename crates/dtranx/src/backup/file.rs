//! The file of a backup, piece by piece: a heading, pieces with items, and an end that counts them.
//! Each piece has a checksum, so that a file that was cut or changed is noticed wherever it was.
//!
//! Nothing here knows servers: what is written and restored is chosen in `mod.rs`.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Content;
use crate::core::{Epoch, Key, ServerId, Value};
use crate::wire::{FRAME_LIMIT_BYTES, WireError, decode, encode, next_frame};

const MAGIC: &str = "dtranx backup";
const VERSION: u16 = 1;
/// Version of a file that is no backup of a whole cluster as of one moment. Programs that know the
/// other version only refuse it.
const SALVAGED_VERSION: u16 = 2;
/// Number of bytes at which a piece is written.
const PIECE_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 64 << 10;

/// One frame of the file.
#[derive(Deserialize, Serialize)]
enum Piece {
    Begin {
        magic: String,
        version: u16,
        /// Name of the cluster that the backup is from, for people.
        cluster: String,
        epoch: Epoch,
    },
    /// Items in the order of their keys.
    Items(Vec<(Key, Value)>),
    End {
        items: u64,
        bytes: u64,
    },
    /// Second in a file of the other version.
    Salvaged(Mark),
    /// Items whose newest values may be others, behind those that are sure.
    Uncertain(Vec<(Key, Value)>),
}

/// Mark of a file with what was salvaged of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Mark {
    /// The server whose items the file has.
    pub server: ServerId,
}

/// Errors of a backup's file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The file cannot be read or written.
    #[error("the backup cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// The file is no backup.
    #[error("this is no backup of dtranx")]
    Stranger,
    /// The backup was made by another version of the program.
    #[error("the backup has version {found}; this program reads versions {VERSION} and {SALVAGED_VERSION}")]
    Version {
        /// Version of the format in the file.
        found: u16,
    },
    /// A piece of it is damaged.
    #[error("the backup is damaged at byte {at}: {what}")]
    Damaged {
        /// Offset at which the damaged piece begins, in bytes.
        at: u64,
        /// Kind of the damage, for people.
        what: String,
    },
    /// The end of the backup is missing.
    #[error("the backup ends at byte {at}, before its end: it was cut off")]
    CutOff {
        /// Offset at which the file ends, in bytes.
        at: u64,
    },
}

/// Writes a backup, item by item, in the order of their keys.
pub(crate) struct Writer<W> {
    file: W,
    piece: Vec<(Key, Value)>,
    piece_bytes: usize,
    content: Content,
    is_uncertain: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a file; `mark` says that it is no backup of a whole cluster.
    pub(crate) fn begin(file: W, cluster: &str, epoch: Epoch, mark: Option<Mark>) -> Result<Self, BackupError> {
        let content = Content::default();
        let mut writer = Self { file, piece: Vec::new(), piece_bytes: 0, content, is_uncertain: false };
        let (magic, cluster) = (MAGIC.to_owned(), cluster.to_owned());
        let version = if mark.is_some() { SALVAGED_VERSION } else { VERSION };
        writer.write(&Piece::Begin { magic, version, cluster, epoch })?;
        if let Some(mark) = mark {
            writer.write(&Piece::Salvaged(mark))?;
        }
        Ok(writer)
    }

    /// Notes that all items from here on are uncertain; their keys begin anew.
    pub(crate) fn begin_uncertain(&mut self) -> Result<(), BackupError> {
        self.write_items()?;
        self.is_uncertain = true;
        Ok(())
    }

    pub(crate) fn add(&mut self, key: Key, value: Value) -> Result<(), BackupError> {
        self.content.count(&key, &value);
        self.piece_bytes += key.as_bytes().len() + value.as_bytes().len();
        self.piece.push((key, value));
        if self.piece_bytes >= PIECE_BYTES { self.write_items() } else { Ok(()) }
    }

    pub(crate) fn end(mut self) -> Result<Content, BackupError> {
        self.write_items()?;
        let Content { items, bytes } = self.content;
        self.write(&Piece::End { items, bytes })?;
        self.file.flush()?;
        Ok(self.content)
    }

    fn write_items(&mut self) -> Result<(), BackupError> {
        self.piece_bytes = 0;
        let items = std::mem::take(&mut self.piece);
        match items {
            items if items.is_empty() => Ok(()),
            items if self.is_uncertain => self.write(&Piece::Uncertain(items)),
            items => self.write(&Piece::Items(items)),
        }
    }

    fn write(&mut self, piece: &Piece) -> Result<(), BackupError> {
        let mut frame = Vec::new();
        encode(piece, &mut frame).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(self.file.write_all(&frame)?)
    }
}

pub(super) struct Reader<R> {
    file: R,
    bytes: Vec<u8>,
    /// Offset at which `bytes` begin in the file.
    at: u64,
    /// Counts of the items that were read so far, and of those that are uncertain.
    content: Content,
    uncertain: Content,
    mark: Option<Mark>,
}

/// Items of one piece.
pub(super) struct Items {
    pub(super) items: Vec<(Key, Value)>,
    pub(super) is_uncertain: bool,
}

impl<R: Read> Reader<R> {
    pub(super) fn begin(file: R) -> Result<Self, BackupError> {
        let (content, uncertain) = Default::default();
        let mut reader = Self { file, bytes: Vec::new(), at: 0, content, uncertain, mark: None };
        match reader.piece() {
            Ok(Piece::Begin { magic, version: VERSION, .. }) if magic == MAGIC => Ok(reader),
            Ok(Piece::Begin { magic, version: SALVAGED_VERSION, .. }) if magic == MAGIC => reader.marked(),
            Ok(Piece::Begin { magic, version, .. }) if magic == MAGIC => Err(BackupError::Version { found: version }),
            Err(error @ BackupError::Io(_)) => Err(error),
            _ => Err(BackupError::Stranger),
        }
    }

    fn marked(mut self) -> Result<Self, BackupError> {
        let at = self.at;
        match self.piece()? {
            Piece::Salvaged(mark) => Ok(Self { mark: Some(mark), ..self }),
            _ => Err(BackupError::Damaged { at, what: "it does not say what it is".to_owned() }),
        }
    }

    /// The next items, in the order of their keys; `None` at the end, when all are there.
    pub(super) fn next(&mut self) -> Result<Option<Items>, BackupError> {
        let at = self.at;
        let damaged = |what: String| BackupError::Damaged { at, what };
        match self.piece()? {
            Piece::Items(items) => Ok(Some(self.counted(items, false))),
            Piece::Uncertain(items) if self.mark.is_some() => Ok(Some(self.counted(items, true))),
            Piece::End { items, bytes } if self.content == (Content { items, bytes }) => Ok(None),
            Piece::End { items, .. } => {
                Err(damaged(format!("it should have {items} items, and has {}", self.content.items)))
            }
            Piece::Begin { .. } => Err(damaged("it begins anew".to_owned())),
            Piece::Salvaged(_) | Piece::Uncertain(_) => Err(damaged("it is out of its place".to_owned())),
        }
    }

    fn counted(&mut self, items: Vec<(Key, Value)>, is_uncertain: bool) -> Items {
        for (key, value) in &items {
            self.content.count(key, value);
            if is_uncertain {
                self.uncertain.count(key, value);
            }
        }
        Items { items, is_uncertain }
    }

    /// Mark of a file that is no backup of a whole cluster.
    pub(super) const fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Counts of the items and bytes that were read and are uncertain.
    pub(super) const fn uncertain(&self) -> Content {
        self.uncertain
    }

    pub(super) const fn content(&self) -> Content {
        self.content
    }

    fn piece(&mut self) -> Result<Piece, BackupError> {
        loop {
            let damaged = |error: WireError| BackupError::Damaged { at: self.at, what: error.to_string() };
            if let Some((payload, taken)) = next_frame(&self.bytes).map_err(damaged)? {
                let piece = decode(payload).map_err(damaged)?;
                self.bytes.drain(..taken);
                self.at += taken as u64;
                return Ok(piece);
            }
            let before = self.bytes.len();
            debug_assert!(before <= FRAME_LIMIT_BYTES + CHUNK_BYTES);
            self.bytes.resize(before + CHUNK_BYTES, 0);
            let read = self.file.read(&mut self.bytes[before..])?;
            self.bytes.truncate(before + read);
            if read == 0 {
                return Err(BackupError::CutOff { at: self.at + before as u64 });
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const ITEMS: u64 = 300;

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::begin(&mut file, "bank", Epoch(5), None).unwrap();
        for number in 0..ITEMS {
            let value = vec![number as u8; 10_000];
            writer.add(Key::new(format!("{number:03}")).unwrap(), Value::new(value).unwrap()).unwrap();
        }
        assert_eq!(writer.end().unwrap(), Content { items: ITEMS, bytes: ITEMS * 10_003 });
        file
    }

    fn read(file: &[u8]) -> Result<Vec<(Key, Value)>, BackupError> {
        let mut reader = Reader::begin(file)?;
        let mut items = Vec::new();
        while let Some(some) = reader.next()? {
            items.extend(some.items);
        }
        Ok(items)
    }

    #[test]
    fn what_was_written_is_read() {
        let items = read(&file()).unwrap();
        assert_eq!(items.len() as u64, ITEMS);
        assert!(items.iter().enumerate().all(|(at, (key, _))| key.as_bytes() == format!("{at:03}").as_bytes()));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let whole = file();
        for at in (0..whole.len()).step_by(4999).chain([whole.len() - 1]) {
            assert!(matches!(read(&whole[..at]), Err(BackupError::CutOff { .. } | BackupError::Stranger)), "{at}");
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn missing_piece_and_another_version_are_named() {
        let whole = file();
        let (_, first) = next_frame(&whole).unwrap().unwrap();
        let (_, second) = next_frame(&whole[first..]).unwrap().unwrap();
        let less = [&whole[..first], &whole[first + second..]].concat();
        let error = read(&less).unwrap_err().to_string();
        assert!(error.contains("it should have 300 items"), "{error}");
        let mut other = Vec::new();
        let begin = Piece::Begin { magic: MAGIC.to_owned(), version: 9, cluster: String::new(), epoch: Epoch(0) };
        encode(&begin, &mut other).unwrap();
        assert!(matches!(read(&other), Err(BackupError::Version { found: 9 })));
        assert!(matches!(read(b"something else"), Err(BackupError::Stranger)));
    }
}
