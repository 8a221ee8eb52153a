//! One user: a name in a database, roles, and what is kept instead of the password.

use std::fmt;

use mongowire::scram::Mechanism;
use sha2::{Digest, Sha256};

use super::{
    credential::Credential,
    role::{Need, Role},
};
use crate::request::is_database_name;

/// The longest name, in bytes.
const LONGEST_BYTES: usize = 128;

/// A user's name: users of two databases are two, even if they are called the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserName {
    /// Database in which the user logs in (`authSource`): `admin` for most users.
    pub database: String,
    /// Name of the user in that database.
    pub name: String,
}

impl UserName {
    /// # Errors
    /// In words, for a name or a database that cannot be.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || self.name.len() > LONGEST_BYTES || self.name.contains(char::is_control) {
            return Err(format!("{:?}: a name has 1 to {LONGEST_BYTES} bytes and no control characters", self.name));
        }
        if !is_database_name(&self.database) {
            return Err(format!("{:?} is no database name", self.database));
        }
        Ok(())
    }

    /// Digest of the user's name in the keys of sessions, as in MongoDB.
    pub(crate) fn digest(&self) -> Vec<u8> {
        Sha256::digest(self.to_string()).to_vec()
    }
}

/// Prints the name as `name@database`.
impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.database)
    }
}

/// A user who may log in.
#[derive(PartialEq)]
pub(crate) struct User {
    pub(crate) name: UserName,
    /// Digest of the name: [`UserName::digest`].
    pub(crate) digest: Vec<u8>,
    pub(crate) roles: Vec<Role>,
    pub(crate) sha_1: Credential,
    pub(crate) sha_256: Credential,
}

impl User {
    /// The credential stored for this mechanism.
    pub(crate) fn credential(&self, mechanism: Mechanism) -> &Credential {
        match mechanism {
            Mechanism::ScramSha1 => &self.sha_1,
            Mechanism::ScramSha256 => &self.sha_256,
        }
    }

    /// Returns true if one of the user's roles grants the privilege on the database.
    pub(crate) fn may(&self, need: Need, database: &str) -> bool {
        self.roles.iter().any(|role| role.allows(need, database))
    }

    /// Returns true if the user may do everything.
    pub(crate) fn is_root(&self) -> bool {
        self.roles.contains(&Role::Root)
    }

    /// Returns true if the user may look at what others do.
    pub(crate) fn may_monitor(&self) -> bool {
        self.may(Need::Monitor, "admin")
    }

    /// Returns true if the user has any role on the database.
    pub(crate) fn knows(&self, database: &str) -> bool {
        self.roles.iter().any(|role| role.is_about(database))
    }
}
