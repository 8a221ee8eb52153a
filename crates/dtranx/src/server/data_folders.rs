//! Names of the folders in which a server's items and log are. A store begins with the first ones.
//! A transfer of a leader's items is written into the next ones, beside them, and `identity.toml`
//! says which of them count (`transfer`).
//!
//! | | items | log |
//! | --- | --- | --- |
//! | the first | `items` in the server's folder | the log's folder itself |
//! | number n, from 2 on | `items-n`, beside that | `log-n` in the log's folder |

use std::fs;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::ServerConfig;
use crate::folders;

/// Name of the file that says which folders count.
pub(super) const IDENTITY: &str = "identity.toml";
const ITEMS: &str = "items";
const LOG: &str = "log";

/// The folders of a store's items and log, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataFolders {
    number: u64,
}

impl DataFolders {
    /// Those that a store begins with.
    pub(crate) const FIRST: Self = Self { number: 1 };

    /// Those that a transfer is written into while these count.
    pub(crate) const fn next(self) -> Self {
        Self { number: self.number.saturating_add(1) }
    }

    /// Names of the two folders, if they are not the first.
    pub(crate) fn names(self) -> Option<(String, String)> {
        Some((self.items_name(), self.log_name()?))
    }

    /// The folders of these names; `None`: no transfer gives such names.
    pub(crate) fn parse(items: &str, log: &str) -> Option<Self> {
        let found = Self { number: number(items, ITEMS)? };
        found.names().filter(|(_, name)| name == log).map(|_| found)
    }

    /// Path of the folder in which the items are.
    pub(crate) fn items(self, config: &ServerConfig) -> PathBuf {
        config.folder.join(self.items_name())
    }

    /// Path of the folder in which the log's segments are.
    pub(crate) fn log(self, config: &ServerConfig) -> PathBuf {
        self.log_name().map_or_else(|| config.log_folder.clone(), |name| config.log_folder.join(name))
    }

    /// Name of the log's folder within the one that the configuration names, if it is another.
    pub(crate) fn log_name(self) -> Option<String> {
        (self.number > 1).then(|| format!("{LOG}-{}", self.number))
    }

    fn items_name(self) -> String {
        if self.number == 1 { ITEMS.to_owned() } else { format!("{ITEMS}-{}", self.number) }
    }

    /// The folders that surely were made to count, if nothing says which do: the last ones that
    /// have a log.
    pub(crate) fn guess(config: &ServerConfig) -> Self {
        let has_log = |of: &Self| of.log(config).join("gc.log").exists();
        let numbers = names(&config.log_folder).unwrap_or_default().into_iter();
        let later = numbers.filter_map(|name| number(&name, LOG)).map(|number| Self { number });
        later.filter(has_log).max_by_key(|of| of.number).unwrap_or(Self::FIRST)
    }

    /// Path of something that a transfer has made, in any folder.
    pub(crate) fn first_later(config: &ServerConfig) -> Result<Option<PathBuf>> {
        let later = |folder: &Path, prefix| -> Result<Option<PathBuf>> {
            let found = names(folder)?.into_iter().find(|name| number(name, prefix).is_some_and(|number| number > 1));
            Ok(found.map(|name| folder.join(name)))
        };
        Ok(later(&config.folder, ITEMS)?.or(later(&config.log_folder, LOG)?))
    }

    /// Removes all of a store that is not in these folders: what is left of a transfer that was
    /// interrupted, or the folders whose place it has taken.
    pub(crate) fn remove_others(self, config: &ServerConfig) -> Result<()> {
        if self.number > 1 {
            // `identity.toml` says so for good: a crash may have come right behind its renaming.
            folders::sync_above(&config.folder.join(IDENTITY))?;
        }
        let is_other = |name: &str, prefix| number(name, prefix).is_some_and(|number| number != self.number);
        for name in names(&config.folder)?.iter().filter(|name| is_other(name, ITEMS)) {
            fs::remove_dir_all(config.folder.join(name))?;
        }
        for name in names(&config.log_folder)? {
            let path = config.log_folder.join(&name);
            if name != LOG && is_other(&name, LOG) {
                fs::remove_dir_all(path)?;
            } else if self.number > 1 && is_of_a_log(&name) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Empties the folders; none of them must count.
    pub(crate) fn remove(self, config: &ServerConfig) -> Result<()> {
        for folder in [self.items(config), self.log(config)] {
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns true if a log has files of this name.
pub(crate) fn is_of_a_log(name: &str) -> bool {
    name == "gc.log" || name.starts_with("segment-")
}

/// Number of the folder with this name: 1 for the one that has none.
fn number(name: &str, prefix: &str) -> Option<u64> {
    if name == prefix {
        return Some(1);
    }
    let digits = name.strip_prefix(prefix)?.strip_prefix('-')?;
    digits.parse().ok().filter(|number: &u64| *number > 1 && number.to_string() == digits)
}

/// Names in a folder, which may be missing.
fn names(folder: &Path) -> Result<Vec<String>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_given_and_no_others() {
        let third = DataFolders::FIRST.next().next();
        assert_eq!(third.names(), Some(("items-3".to_owned(), "log-3".to_owned())));
        assert_eq!(DataFolders::parse("items-3", "log-3"), Some(third));
        assert_eq!(DataFolders::FIRST.names(), None);
        let bad = [("items-3", "log-2"), ("items", "log"), ("items-1", "log-1"), ("../items-2", "log-2")];
        for (items, log) in bad.into_iter().chain([("items-02", "log-02"), ("items-", "log-"), ("items-x", "log-x")]) {
            assert_eq!(DataFolders::parse(items, log), None, "{items}, {log}");
        }
    }
}
