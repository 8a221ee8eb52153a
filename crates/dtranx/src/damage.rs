//! Damage to a server's data: where it is, and what it means.

use std::fmt;

/// A place in a server's data that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Path of the damaged file.
    pub file: String,
    /// Offset at which the damage begins, in bytes; `None`: the file as a whole.
    pub offset: Option<u64>,
    /// The damage that was found there, and the content that is lost or uncertain by it.
    pub what: String,
}

impl Damage {
    /// Damage at a place in a file.
    pub(crate) fn at(file: impl fmt::Display, offset: u64, what: impl Into<String>) -> Self {
        Self { file: file.to_string(), offset: Some(offset), what: what.into() }
    }

    /// Damage that concerns a file or folder as a whole.
    pub(crate) fn of(file: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { file: file.to_string(), offset: None, what: what.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{}, offset {offset}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// The most damages that are kept: a disk that is broken everywhere is named often enough by these.
const KEPT: usize = 1_000;

/// Damages that were found, in the order of their finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    kept: Vec<Damage>,
    more: u64,
}

impl Damages {
    pub(crate) fn push(&mut self, damage: Damage) {
        if self.kept.len() < KEPT { self.kept.push(damage) } else { self.more += 1 }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        other.kept.into_iter().for_each(|damage| self.push(damage));
        self.more += other.more;
    }

    /// The first thousand of them.
    pub fn list(&self) -> &[Damage] {
        &self.kept
    }

    /// Number of damages that are not in the list.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Number of all damages.
    pub(crate) fn total(&self) -> u64 {
        self.kept.len() as u64 + self.more
    }

    /// Returns true if nothing is damaged.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}
