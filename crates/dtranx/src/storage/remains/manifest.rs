//! The manifest of a keyspace, which lists its tables.

use std::collections::BTreeMap;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::archive::{section, take_u8, take_u32, take_u64, take_u128};
use super::{KNOWN_VERSION, numbered, other_version};
use crate::damage::Damage;
use crate::files::Files;

/// Facts that the manifest states about a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Checksum of the table's whole file.
    pub(super) checksum: u128,
    /// Number that is added to the numbers of the table's entries.
    pub(super) base: u64,
}

/// Tables by their numbers; without a manifest nothing is known about them.
pub(super) type Tables = BTreeMap<u64, Option<Listed>>;

/// Content of a manifest that is whole.
#[derive(Debug)]
pub(super) struct Manifest {
    /// Number of the manifests that the keyspace had before: a new one is made with each change of
    /// its tables.
    pub(super) changes: u64,
    /// Tables that the manifest lists.
    pub(super) tables: Tables,
}

/// Reason why a manifest does not say which tables there are.
#[derive(Debug)]
pub(super) enum Bad {
    /// The manifest is damaged or missing.
    Damaged(Damage),
    /// The manifest is in another version of the engine's format, so that the tables are not read
    /// either.
    OtherVersion(Damage),
}

/// Limit of the length of a manifest, in bytes: it has some hundred, and 33 for each table.
const LIMIT_BYTES: u64 = 64 << 20;
/// Length of the file with the manifest's number and checksum, in bytes.
const CURRENT_BYTES: u64 = 25;
/// Number of levels that a manifest has tables in.
const LEVELS: u8 = 7;

/// Reads the manifest of a keyspace.
///
/// # Errors
/// The manifest is damaged, missing, or of another version.
pub(super) fn read(files: &Files<'_>, keyspace: &Path) -> Result<Manifest, Bad> {
    let lost = "which tables count is not known";
    let current = keyspace.join("current");
    let damaged = |path: &Path, what: String| Bad::Damaged(Damage::of(path.display(), format!("{what}; {lost}")));
    let bytes = files.read(&current, CURRENT_BYTES).map_err(|error| damaged(&current, error.to_string()))?;
    let mut rest = &bytes[..];
    let read = take_u64(&mut rest).zip(take_u128(&mut rest)).filter(|_| rest == [0]);
    let Some((changes, checksum)) = read else {
        return Err(damaged(&current, format!("it is not {CURRENT_BYTES} bytes with a zero at the end")));
    };
    let path = keyspace.join(format!("v{changes}"));
    let failed = |what: String| damaged(&path, what);
    let bytes = files.read(&path, LIMIT_BYTES).map_err(|error| failed(error.to_string()))?;
    if xxh3_128(&bytes) != checksum {
        return Err(failed(format!("the manifest, or its checksum in {}, is damaged", current.display())));
    }
    match section(&bytes, b"format_version") {
        Some([KNOWN_VERSION]) => {}
        Some([version]) => {
            let what = format!("{}; its tables are not read", other_version(*version));
            return Err(Bad::OtherVersion(Damage::of(path.display(), what)));
        }
        _ => return Err(failed("it does not name the version of the engine's format".to_owned())),
    }
    let tables = section(&bytes, b"tables").and_then(tables);
    let tables = tables.ok_or_else(|| failed("it has no list of tables".to_owned()))?;
    Ok(Manifest { changes, tables })
}

/// Lists all tables that are in a folder, of which nothing is known.
pub(super) fn all(files: &Files<'_>, folder: &Path) -> Tables {
    numbered(files, folder, "").unwrap_or_default().into_iter().map(|table| (table, None)).collect()
}

/// Reads the list of tables: levels, in them runs, in them tables.
fn tables(mut section: &[u8]) -> Option<Tables> {
    let rest = &mut section;
    let mut tables = Tables::new();
    if take_u8(rest)? != LEVELS {
        return None;
    }
    for _ in 0..LEVELS {
        for _ in 0..take_u8(rest)? {
            for _ in 0..take_u32(rest)? {
                let table = take_u64(rest)?;
                // The kind of its checksum: there is only one.
                if take_u8(rest)? != 0 {
                    return None;
                }
                let (checksum, base) = (take_u128(rest)?, take_u64(rest)?);
                tables.insert(table, Some(Listed { checksum, base }));
            }
        }
    }
    Some(tables)
}
