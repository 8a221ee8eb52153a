//! Roles: what a user may do, and where.
//!
//! | role | on its database |
//! | --- | --- |
//! | `read:DB` | reads documents, lists collections and indexes, statistics |
//! | `readWrite:DB` | also writes documents, makes, drops and renames collections, makes and drops indexes |
//! | `dbAdmin:DB` | makes, drops and changes collections and indexes, drops the database, looks at how it works; no documents |
//! | `root` | everything, everywhere |

use std::{fmt, str::FromStr};

use crate::request::is_database_name;

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// Everything.
    Root,
    /// Reads documents of this database.
    Read(String),
    /// Reads and writes documents of this database.
    ReadWrite(String),
    /// Manages collections and indexes of this database.
    DbAdmin(String),
}

/// What a command needs of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// To see which collections and indexes there are, and how large.
    See,
    /// To read documents.
    Read,
    /// To change documents.
    Write,
    /// To make and drop collections and indexes.
    Define,
    /// To change how collections work, to drop the database, to look at how the server works on it.
    Manage,
    /// Everything.
    Root,
}

impl Role {
    /// The database that it is about.
    pub(crate) fn database(&self) -> Option<&str> {
        match self {
            Self::Root => None,
            Self::Read(database) | Self::ReadWrite(database) | Self::DbAdmin(database) => Some(database),
        }
    }

    /// MongoDB's name for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Read(_) => "read",
            Self::ReadWrite(_) => "readWrite",
            Self::DbAdmin(_) => "dbAdmin",
        }
    }

    /// Whether it is enough.
    pub(crate) fn allows(&self, need: Need, database: &str) -> bool {
        let enough = match self {
            Self::Root => return true,
            Self::Read(_) => matches!(need, Need::See | Need::Read),
            Self::ReadWrite(_) => matches!(need, Need::See | Need::Read | Need::Write | Need::Define),
            Self::DbAdmin(_) => matches!(need, Need::See | Need::Define | Need::Manage),
        };
        enough && self.database() == Some(database)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.database() {
            None => f.write_str(self.name()),
            Some(database) => write!(f, "{}:{database}", self.name()),
        }
    }
}

/// # Errors
/// In words, for what is no role.
impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "root" {
            return Ok(Self::Root);
        }
        let forms = "a role is root, read:DATABASE, readWrite:DATABASE or dbAdmin:DATABASE";
        let (name, database) = text.split_once(':').ok_or_else(|| format!("{text:?}: {forms}"))?;
        if !is_database_name(database) {
            return Err(format!("{text:?}: {database:?} is no database name"));
        }
        match name {
            "read" => Ok(Self::Read(database.to_owned())),
            "readWrite" => Ok(Self::ReadWrite(database.to_owned())),
            "dbAdmin" => Ok(Self::DbAdmin(database.to_owned())),
            _ => Err(format!("{text:?}: {forms}")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for text in ["root", "read:a", "readWrite:a-b", "dbAdmin:x"] {
            assert_eq!(text.parse::<Role>().unwrap().to_string(), text);
        }
        for bad in ["", "read", "read:", "Read:a", "root:a", "write:a", "read:a.b", "read:a:b c", "readWrite: a"] {
            assert!(bad.parse::<Role>().is_err(), "{bad}");
        }
    }

    #[test]
    fn roles_allow_what_the_table_says_and_on_their_database_only() {
        use Need::{Define, Manage, Read, Root, See, Write};
        let all = [See, Read, Write, Define, Manage, Root];
        for (role, allowed) in [
            ("read:d", &[See, Read][..]),
            ("readWrite:d", &[See, Read, Write, Define]),
            ("dbAdmin:d", &[See, Define, Manage]),
        ] {
            let role: Role = role.parse().unwrap();
            for need in all {
                assert_eq!(role.allows(need, "d"), allowed.contains(&need), "{role} {need:?}");
                assert!(!role.allows(need, "other"), "{role} {need:?}");
                assert!(crate::Role::Root.allows(need, "other"), "{need:?}");
            }
        }
    }
}
