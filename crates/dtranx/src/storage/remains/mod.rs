//! Reads what is whole of a storage that may be damaged, without its engine: the engine writes into
//! the folder when it opens it, ends a journal silently at the first entry that makes no sense, and
//! does not open a tree of which one file is damaged. Nothing is written here, and no more than one
//! entry or one block is in memory.
//!
//! The folder is one of fjall 3:
//!
//! | file | content | checked by |
//! | --- | --- | --- |
//! | `version` | version of the engine's format | the manifests, which name it, too |
//! | `N.jnl` | journals: batches of entries, not yet in tables | a checksum for each batch |
//! | `keyspaces/K/current` | number and checksum of the manifest | |
//! | `keyspaces/K/vN` | manifest: the tables, each with its checksum | `current` |
//! | `keyspaces/K/tables/T` | entries in the order of their keys, in blocks | the manifest, a checksum for each block, and what the table says about itself |
//!
//! Keyspace 0 has the names of the others. Of all entries of a key the one with the highest number
//! counts; so the order in which files are read does not matter.

mod archive;
mod block;
mod footer;
mod journal;
mod manifest;
mod numbers;
mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};

use crate::damage::{Damage, Damages};
use crate::files::Files;
use manifest::Bad;
use numbers::Tabled;

/// Name of the keyspace that says whose the storage is.
pub(crate) const ABOUT: &str = "about";
/// Name of the keyspace with the items.
pub(crate) const ITEMS: &str = "items";
/// Number of the keyspace with the names of the others.
const NAMES: u64 = 0;
/// Version of the engine's format that this module reads.
const KNOWN_VERSION: u8 = 3;
/// Limit of the length of the file `version`, in bytes: it has four.
const VERSION_LIMIT_BYTES: u64 = 64;
/// Letters before the version in the file `version`.
const VERSION_MAGIC: &[u8] = b"FJL";

/// An entry of a keyspace. Of several entries of a key, the one with the highest number counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Key of the entry as it is stored.
    pub(crate) key: &'a [u8],
    /// Number of the write that made the entry; later writes have higher ones.
    pub(crate) number: u64,
    /// Value of the entry; `None`: the key was deleted.
    pub(crate) value: Option<&'a [u8]>,
}

/// Stored keys between two limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Between {
    /// Lower limit of the keys.
    pub(crate) start: Bound<Vec<u8>>,
    /// Upper limit of the keys.
    pub(crate) end: Bound<Vec<u8>>,
}

impl Between {
    /// Returns the range that has all keys.
    pub(crate) const fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// Returns true if the key is one of them.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let limits = (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice));
        RangeBounds::<[u8]>::contains(&limits, key)
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |limit: &Bound<Vec<u8>>| match limit {
            // A stored key has a mark before it.
            Bound::Included(key) | Bound::Excluded(key) => {
                Some(key.get(1..).unwrap_or_default().escape_ascii().to_string())
            }
            Bound::Unbounded => None,
        };
        match (shown(&self.start), shown(&self.end)) {
            (None, None) => write!(f, "any keys"),
            (Some(start), None) => write!(f, "keys from \"{start}\" on"),
            (None, Some(end)) => write!(f, "keys up to \"{end}\""),
            (Some(start), Some(end)) => write!(f, "keys from \"{start}\" to \"{end}\""),
        }
    }
}

/// Limit of the number of ranges that are kept; more of them become one that has all keys.
const RANGES: usize = 1_000;

/// Facts about a storage, beside its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    /// Everything that is not as it was written.
    pub(crate) damages: Damages,
    /// Keys of items whose newest entry may be lost.
    pub(crate) unsure: Vec<Between>,
}

impl Remains {
    fn lose(&mut self, keys: Between) {
        if self.unsure.len() < RANGES { self.unsure.push(keys) } else { self.unsure = vec![Between::all()] }
    }

    /// Names damage by which the newest entry of any key may be lost.
    fn lose_all(&mut self, damage: Damage) {
        self.damages.push(damage);
        self.lose(Between::all());
    }
}

/// Receives the entries of the keyspaces `about` and `items`, by the keyspace's name.
pub(crate) type Take<'a> = dyn FnMut(&str, Entry<'_>) -> io::Result<()> + 'a;

/// Reads the storage in a folder.
///
/// # Errors
/// Those of `take` only: what cannot be read is damage.
pub(crate) fn read(files: &Files<'_>, take: &mut Take<'_>) -> io::Result<Remains> {
    let mut found = Remains::default();
    let folder = files.folder();
    if !folder.is_dir() {
        found.lose_all(Damage::of(folder.display(), "it is missing: all items that the log does not have are lost"));
        return Ok(found);
    }
    if let Err(damage) = check_version(files, &mut found) {
        found.lose_all(damage);
        return Ok(found);
    }
    let mut tabled = Tabled::default();
    let names = names(files, &mut found, &mut tabled)?;
    for (id, name) in &names {
        let is_items = name == ITEMS;
        let mut keyspace = Remains::default();
        read_tables(files, *id, &mut keyspace, &mut tabled, &mut |entry| take(name, entry))?;
        found.damages.extend(keyspace.damages);
        if is_items {
            keyspace.unsure.into_iter().for_each(|keys| found.lose(keys));
        }
    }
    journal::read(files, &tabled, &mut found, &mut |id, entry| match names.get(&id) {
        Some(name) => take(name, entry),
        None => Ok(()),
    })?;
    Ok(found)
}

/// Checks the version of the engine's format, which stands in a file of its own. A changed byte of
/// that file is no other version, if a manifest says so.
///
/// # Errors
/// The storage is in another version: nothing of it can be read.
fn check_version(files: &Files<'_>, found: &mut Remains) -> Result<(), Damage> {
    let path = files.folder().join("version");
    let bytes = match files.read(&path, VERSION_LIMIT_BYTES) {
        Ok(bytes) => bytes,
        // Without it, the manifests say the same.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            found.damages.push(Damage::of(path.display(), format!("{error}; nothing is lost by it")));
            return Ok(());
        }
    };
    let Some(version) = bytes.strip_prefix(VERSION_MAGIC).and_then(<[u8]>::first).copied() else { return Ok(()) };
    if version == KNOWN_VERSION {
        return Ok(());
    }
    let what = other_version(version);
    if manifest::read(files, &keyspace(files, NAMES)).is_ok() {
        let what = format!("{what}; but the manifests are in version {KNOWN_VERSION}: nothing is lost");
        found.damages.push(Damage::of(path.display(), what));
        return Ok(());
    }
    Err(Damage::of(path.display(), format!("{what}; all items that the log does not have are lost")))
}

fn other_version(version: u8) -> String {
    format!("it is in version {version} of the engine's format, and only version {KNOWN_VERSION} is known")
}

/// Reads the names of the keyspaces. They are made in the same order in every folder, which is what
/// counts where the names cannot be read.
fn names(files: &Files<'_>, found: &mut Remains, tabled: &mut Tabled) -> io::Result<BTreeMap<u64, String>> {
    let mut named: BTreeMap<u64, (u64, Option<String>)> = BTreeMap::new();
    let mut keyspace = Remains::default();
    read_tables(files, NAMES, &mut keyspace, tabled, &mut |entry| {
        let id = entry.key.strip_prefix(b"n").and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
        if let Some(id) = id
            && named.get(&id).is_none_or(|(number, _)| *number <= entry.number)
        {
            let name = entry.value.and_then(|name| String::from_utf8(name.to_vec()).ok());
            named.insert(id, (entry.number, name));
        }
        Ok(())
    })?;
    found.damages.extend(keyspace.damages);
    let is_ours = |name: &String| name == ABOUT || name == ITEMS;
    let names: BTreeMap<u64, String> =
        named.into_iter().filter_map(|(id, (_, name))| Some((id, name.filter(is_ours)?))).collect();
    let has = |wanted: &str| names.values().filter(|name| *name == wanted).count() == 1;
    if has(ABOUT) && has(ITEMS) { Ok(names) } else { Ok([(1, ABOUT.to_owned()), (2, ITEMS.to_owned())].into()) }
}

/// Reads the tables of a keyspace, and notes the numbers of what is in them.
fn read_tables(
    files: &Files<'_>,
    id: u64,
    found: &mut Remains,
    tabled: &mut Tabled,
    take: &mut dyn FnMut(Entry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let keyspace = keyspace(files, id);
    let tables = match manifest::read(files, &keyspace) {
        Ok(manifest) => {
            tabled.note_changes(manifest.changes);
            manifest.tables
        }
        Err(bad) => {
            tabled.miss();
            match bad {
                Bad::Damaged(damage) => {
                    // Without it, a table that was replaced may count: deleted keys may come back.
                    found.lose_all(damage);
                    manifest::all(files, &keyspace.join("tables"))
                }
                Bad::OtherVersion(damage) => {
                    found.lose_all(damage);
                    return Ok(());
                }
            }
        }
    };
    for (number, listed) in tables {
        let path = keyspace.join("tables").join(number.to_string());
        let highest = table::read(files, &path, number, listed, found, take)?;
        tabled.note(id, highest);
    }
    Ok(())
}

/// Returns the folder that has a keyspace's manifest and tables.
fn keyspace(files: &Files<'_>, id: u64) -> PathBuf {
    files.folder().join("keyspaces").join(id.to_string())
}

/// Lists what has a number with this ending as its name.
fn numbered(files: &Files<'_>, folder: &Path, ending: &str) -> io::Result<Vec<u64>> {
    let names = files.list(folder)?.into_iter();
    let number = |name: OsString| name.to_str()?.strip_suffix(ending)?.parse().ok();
    let mut numbers: Vec<u64> = names.filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests;
