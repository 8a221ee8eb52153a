//! Roles: what a user may do, and where.
//!
//! | role | on its database |
//! | --- | --- |
//! | `read:DB` | reads documents, lists collections and indexes, statistics |
//! | `readWrite:DB` | also writes documents, makes, drops and renames collections, makes and drops indexes |
//! | `dbAdmin:DB` | makes, drops and changes collections and indexes, drops the database, looks at how it works; no documents |
//! | `dbOwner:DB` | `readWrite` and `dbAdmin` |
//!
//! | role | everywhere |
//! | --- | --- |
//! | `readAnyDatabase`, `readWriteAnyDatabase`, `dbAdminAnyDatabase` | `read`, `readWrite`, `dbAdmin` on all databases but `local` and `config` |
//! | `clusterMonitor` | looks at how gateway and server work; which collections there are, and how large; no documents |
//! | `backup` | reads all databases, as a dump does |
//! | `restore` | writes to all databases, makes and drops collections and indexes, as putting a dump back does; reads no documents |
//! | `root` | everything |

use std::{fmt, str::FromStr};

use crate::request::is_database_name;

/// A role of a user, named as in MongoDB: `root`, `read:DATABASE`, `readWriteAnyDatabase`, …
///
/// ```
/// use mongotx_gateway::Role;
///
/// let role: Role = "readWrite:bank".parse()?;
/// assert_eq!(role, Role::ReadWrite("bank".to_owned()));
/// assert!("readWrite".parse::<Role>().is_err()); // of which database?
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// `root`: may do everything, on all databases, also on the records of MongoTx.
    Root,
    /// `read:DATABASE`: reads documents of this database, lists collections and indexes, sees their
    /// sizes.
    Read(String),
    /// `readWrite:DATABASE`: as `read`; besides writes documents, and makes and drops collections
    /// and indexes.
    ReadWrite(String),
    /// `dbAdmin:DATABASE`: makes, drops and changes collections and indexes, and reads no
    /// documents.
    DbAdmin(String),
    /// `dbOwner:DATABASE`: what `readWrite` and `dbAdmin` may do on this database, together.
    DbOwner(String),
    /// `readAnyDatabase`: `read` on all databases but `local` and `config`, which are the server's
    /// own.
    ReadAnyDatabase,
    /// `readWriteAnyDatabase`: `readWrite` on all databases but those of the server itself.
    ReadWriteAnyDatabase,
    /// `dbAdminAnyDatabase`: `dbAdmin` on all databases but those of the server itself.
    DbAdminAnyDatabase,
    /// Looks at how the gateway and the server work.
    ClusterMonitor,
    /// `backup`: reads documents of all databases, as a program that dumps them does.
    Backup,
    /// `restore`: writes documents, collections and indexes of all databases, and reads no
    /// documents.
    Restore,
}

/// A privilege that a command needs on a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// See the names and sizes of collections and indexes.
    See,
    /// Read documents of the database.
    Read,
    /// Change documents of the database.
    Write,
    /// Make and drop collections and indexes of the database.
    Define,
    /// Change how collections work, drop the database, look at how the server works on it.
    Manage,
    /// Look at how the gateway and the server work.
    Monitor,
    /// Do everything: only `root` has this privilege.
    Root,
}

/// Databases of the server itself, on which roles for all databases have no effect.
const OF_THE_SERVER: [&str; 2] = ["local", "config"];

/// Roles for all databases, by their names.
const EVERYWHERE: [Role; 7] = [
    Role::Root,
    Role::ReadAnyDatabase,
    Role::ReadWriteAnyDatabase,
    Role::DbAdminAnyDatabase,
    Role::ClusterMonitor,
    Role::Backup,
    Role::Restore,
];

impl Role {
    /// The database that the role is about.
    pub(crate) fn database(&self) -> Option<&str> {
        match self {
            Self::Read(database) | Self::ReadWrite(database) | Self::DbAdmin(database) | Self::DbOwner(database) => {
                Some(database)
            }
            Self::Root
            | Self::ReadAnyDatabase
            | Self::ReadWriteAnyDatabase
            | Self::DbAdminAnyDatabase
            | Self::ClusterMonitor
            | Self::Backup
            | Self::Restore => None,
        }
    }

    /// MongoDB's name for the role.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Read(_) => "read",
            Self::ReadWrite(_) => "readWrite",
            Self::DbAdmin(_) => "dbAdmin",
            Self::DbOwner(_) => "dbOwner",
            Self::ReadAnyDatabase => "readAnyDatabase",
            Self::ReadWriteAnyDatabase => "readWriteAnyDatabase",
            Self::DbAdminAnyDatabase => "dbAdminAnyDatabase",
            Self::ClusterMonitor => "clusterMonitor",
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }

    /// Returns true if the role includes this privilege on this database.
    pub(crate) fn allows(&self, need: Need, database: &str) -> bool {
        let enough = match self {
            Self::Root => return true,
            // Commands about the server may be sent to any database.
            Self::ClusterMonitor if need == Need::Monitor => return true,
            Self::ClusterMonitor => matches!(need, Need::See),
            Self::Read(_) | Self::ReadAnyDatabase | Self::Backup => matches!(need, Need::See | Need::Read),
            Self::ReadWrite(_) | Self::ReadWriteAnyDatabase => {
                matches!(need, Need::See | Need::Read | Need::Write | Need::Define)
            }
            Self::DbAdmin(_) | Self::DbAdminAnyDatabase => matches!(need, Need::See | Need::Define | Need::Manage),
            Self::DbOwner(_) => {
                matches!(need, Need::See | Need::Read | Need::Write | Need::Define | Need::Manage)
            }
            Self::Restore => matches!(need, Need::See | Need::Write | Need::Define | Need::Manage),
        };
        enough && self.is_about(database)
    }

    /// Returns true if the role is about this database.
    pub(crate) fn is_about(&self, database: &str) -> bool {
        match self.database() {
            Some(own) => own == database,
            None => *self == Self::Root || !OF_THE_SERVER.contains(&database),
        }
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

/// Reads a role in the form of the options: `NAME`, or `NAME:DATABASE`.
///
/// # Errors
/// A text for people, if the name or the database is wrong.
impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(role) = EVERYWHERE.into_iter().find(|role| role.name() == text) {
            return Ok(role);
        }
        let forms = || {
            let everywhere = EVERYWHERE.map(|role| role.name()).join(", ");
            format!(
                "a role is read:DATABASE, readWrite:DATABASE, dbAdmin:DATABASE, dbOwner:DATABASE, or one of {everywhere}"
            )
        };
        let (name, database) = text.split_once(':').ok_or_else(|| format!("{text:?}: {}", forms()))?;
        if !is_database_name(database) {
            return Err(format!("{text:?}: {database:?} is no database name"));
        }
        let database = database.to_owned();
        match name {
            "read" => Ok(Self::Read(database)),
            "readWrite" => Ok(Self::ReadWrite(database)),
            "dbAdmin" => Ok(Self::DbAdmin(database)),
            "dbOwner" => Ok(Self::DbOwner(database)),
            _ => Err(format!("{text:?}: {}", forms())),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        let everywhere = EVERYWHERE.map(|role| role.to_string());
        let of_one = ["read:a", "readWrite:a-b", "dbAdmin:x", "dbOwner:x"].map(str::to_owned);
        for text in everywhere.into_iter().chain(of_one) {
            assert_eq!(text.parse::<Role>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "read",
            "read:",
            "Read:a",
            "root:a",
            "write:a",
            "read:a.b",
            "read:a:b c",
            "readWrite: a",
            "dbOwner",
            "readAnyDatabase:a",
            "backup:a",
        ] {
            assert!(bad.parse::<Role>().is_err(), "{bad}");
        }
    }

    #[test]
    fn roles_allow_what_the_table_says_and_where_it_says() {
        use Need::{Define, Manage, Monitor, Read, Root, See, Write};
        let all = [See, Read, Write, Define, Manage, Monitor, Root];
        for (role, allowed) in [
            ("read:d", &[See, Read][..]),
            ("readWrite:d", &[See, Read, Write, Define]),
            ("dbAdmin:d", &[See, Define, Manage]),
            ("dbOwner:d", &[See, Read, Write, Define, Manage]),
            ("readAnyDatabase", &[See, Read]),
            ("readWriteAnyDatabase", &[See, Read, Write, Define]),
            ("dbAdminAnyDatabase", &[See, Define, Manage]),
            ("clusterMonitor", &[See, Monitor]),
            ("backup", &[See, Read]),
            ("restore", &[See, Write, Define, Manage]),
        ] {
            let role: Role = role.parse().unwrap();
            for need in all {
                let is_allowed = allowed.contains(&need);
                assert_eq!(role.allows(need, "d"), is_allowed, "{role} {need:?}");
                let is_everywhere = role.database().is_none();
                assert_eq!(role.allows(need, "other"), is_everywhere && is_allowed, "{role} {need:?}");
                assert_eq!(role.allows(need, "local"), is_allowed && need == Monitor, "{role} {need:?}");
                assert!(crate::Role::Root.allows(need, "local"), "{need:?}");
            }
        }
    }
}
