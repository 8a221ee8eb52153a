//! Reads what is whole of a storage that may be damaged, without its engine: the engine writes into
//! the folder when it opens it, ends a journal silently at the first entry that makes no sense, and
//! does not open a tree of which one file is damaged. Nothing is written here, and no more than one
//! entry or one block is in memory.
//!
//! The folder is one of fjall 3:
//!
//! | file | content | checked by |
//! | --- | --- | --- |
//! | `N.jnl` | journals: batches of entries, not yet in tables | a checksum for each batch |
//! | `keyspaces/K/current` | number and checksum of the manifest | |
//! | `keyspaces/K/vN` | manifest: the tables, each with its checksum | `current` |
//! | `keyspaces/K/tables/T` | entries in the order of their keys, in blocks | the manifest, and a checksum for each block |
//!
//! Keyspace 0 has the names of the others. Of all entries of a key the one with the highest number
//! counts; so the order in which files are read does not matter.

mod block;
mod journal;
mod manifest;
mod table;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use crate::damage::{Damage, Damages};

/// Name of the keyspace that says whose the storage is.
pub(crate) const ABOUT: &str = "about";
/// Name of the keyspace with the items.
pub(crate) const ITEMS: &str = "items";
/// Keyspace with the names of the others.
const NAMES: u64 = 0;

/// An entry of a keyspace. Of several entries of a key, the one with the highest number counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    /// Number of the write.
    pub(crate) number: u64,
    /// `None`: the key was deleted.
    pub(crate) value: Option<&'a [u8]>,
}

/// Keys behind a key and up to another one; `None`: no limit on this side. The other one is among
/// them: behind the damage there may be an older entry of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Between {
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) before: Option<Vec<u8>>,
}

impl Between {
    /// All keys.
    pub(crate) const fn all() -> Self {
        Self { after: None, before: None }
    }

    /// Returns true if the key is one of them.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| after < key)
            && self.before.as_deref().is_none_or(|before| key <= before)
    }
}

/// The most ranges that are kept; more are one that has all keys.
const RANGES: usize = 1_000;

/// What is known about a storage, beside its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    pub(crate) damages: Damages,
    /// Keys of items whose newest entry may be lost.
    pub(crate) unsure: Vec<Between>,
}

impl Remains {
    fn lose(&mut self, keys: Between) {
        if self.unsure.len() < RANGES { self.unsure.push(keys) } else { self.unsure = vec![Between::all()] }
    }
}

/// Receives the entries of the keyspaces `about` and `items`, by the keyspace's name.
pub(crate) type Take<'a> = dyn FnMut(&str, Entry<'_>) -> io::Result<()> + 'a;

/// Reads a storage.
///
/// # Errors
/// Those of `take` only: what cannot be read is damage.
pub(crate) fn read(folder: &Path, take: &mut Take<'_>) -> io::Result<Remains> {
    let mut found = Remains::default();
    if !folder.is_dir() {
        found
            .damages
            .push(Damage::of(folder.display(), "it is missing: all items that the log does not have are lost"));
        found.lose(Between::all());
        return Ok(found);
    }
    let names = names(folder, &mut found)?;
    for (id, name) in &names {
        let is_items = name == ITEMS;
        let mut keyspace = Remains::default();
        read_tables(folder, *id, &mut keyspace, &mut |entry| take(name, entry))?;
        found.damages.extend(keyspace.damages);
        if is_items {
            keyspace.unsure.into_iter().for_each(|keys| found.lose(keys));
        }
    }
    journal::read(folder, &mut found, &mut |id, entry| match names.get(&id) {
        Some(name) => take(name, entry),
        None => Ok(()),
    })?;
    Ok(found)
}

/// Names of the keyspaces. They are made in the same order in every folder, which is what counts
/// where the names cannot be read.
fn names(folder: &Path, found: &mut Remains) -> io::Result<BTreeMap<u64, String>> {
    let mut named: BTreeMap<u64, (u64, Option<String>)> = BTreeMap::new();
    let mut keyspace = Remains::default();
    read_tables(folder, NAMES, &mut keyspace, &mut |entry| {
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

/// Reads the tables of a keyspace.
fn read_tables(
    folder: &Path,
    id: u64,
    found: &mut Remains,
    take: &mut dyn FnMut(Entry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let keyspace = folder.join("keyspaces").join(id.to_string());
    let tables = match manifest::read(&keyspace) {
        Ok(tables) => tables,
        Err(damage) => {
            // Without it, a table that was replaced may count: deleted keys may come back.
            found.damages.push(damage);
            found.lose(Between::all());
            manifest::all(&keyspace.join("tables"))
        }
    };
    for (table, listed) in tables {
        let path = keyspace.join("tables").join(table.to_string());
        table::read(&path, listed, found, take)?;
    }
    Ok(())
}

/// Checksum of a whole file.
fn checksum(path: &Path) -> io::Result<u128> {
    let (mut file, mut hasher) = (File::open(path)?, Xxh3::new());
    let mut window = vec![0; 1 << 20];
    loop {
        match file.read(&mut window) {
            Ok(0) => return Ok(hasher.digest128()),
            Ok(read) => hasher.update(&window[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Names of a folder that are numbers, with this ending.
fn numbered(folder: &Path, ending: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(ending)).and_then(|digits| digits.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests;
