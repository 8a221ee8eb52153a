//! All users: found by their names, and kept in a file that holds salted keys and no password.
//!
//! The file is JSON. It is changed by writing a new one beside it (`FILE.new`), which takes its
//! place: a reader sees either the old or the new users. It has the owner, the group and the mode
//! of the old one. As long as the new file exists, no other process changes the users.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, Permissions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

use mongowire::scram::Mechanism;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::{
    credential::Credential,
    role::Role,
    user::{User, UserName},
};

/// The largest file that is read, in bytes: some 20,000 users.
const LARGEST_BYTES: u64 = 16 * 1024 * 1024;
/// Greatest number of roles that a user may have.
const MOST_ROLES: usize = 1_000;
const SECRET_BYTES: usize = 32;
/// Bits of a file's mode that give rights to other users than the owner.
const OTHERS: u32 = 0o077;

/// A file of users that cannot be used, or a change of it that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("users: {}: {reason}", path.display())]
pub struct UsersError {
    /// Path of the file of users, or of the new file beside it.
    pub path: PathBuf,
    /// Reason of the failure, with the line or the user that it concerns.
    pub reason: String,
}

/// The users of a gateway, as their file has them.
///
/// ```
/// use mongotx_gateway::{Role, UserName, Users};
///
/// let folder = tempfile::tempdir()?;
/// let file = folder.path().join("users.json");
/// let ann = UserName { database: "admin".to_owned(), name: "ann".to_owned() };
/// Users::change(&file, |users| users.add(ann.clone(), "secret", vec![Role::Read("bank".to_owned())]))?;
/// Users::change(&file, |users| users.set_roles(&ann, vec![Role::ReadWrite("bank".to_owned())]))?;
///
/// let users = Users::read(&file)?;
/// let listed: Vec<_> = users.list().collect();
/// assert_eq!(listed, [(&ann, &[Role::ReadWrite("bank".to_owned())][..])]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Users {
    secret: Vec<u8>,
    users: BTreeMap<UserName, Arc<User>>,
}

/// The file of users, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredUsers {
    #[serde(with = "super::base64_text")]
    secret: Vec<u8>,
    users: Vec<StoredUser>,
}

/// A user in the file of users.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredUser {
    name: String,
    database: String,
    roles: Vec<String>,
    #[serde(rename = "SCRAM-SHA-1")]
    sha_1: Credential,
    #[serde(rename = "SCRAM-SHA-256")]
    sha_256: Credential,
}

impl Users {
    /// Reads the users of a file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("users.json");
    /// use mongotx_gateway::Users;
    ///
    /// let refused = Users::read(&file).err().expect("there is no such file yet");
    /// assert_eq!(refused.path, file);
    /// Users::change(&file, |_| Ok(()))?; // makes a file without users
    /// assert_eq!(Users::read(&file)?.list().count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be read, is too large, or says something that cannot be.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let file = File::open(path).map_err(|error| unusable(path, error))?;
        check_private(&file).and_then(|()| Self::read_from(file)).map_err(|reason| unusable(path, reason))
    }

    fn read_from(file: File) -> Result<Self, String> {
        let mut text = String::new();
        file.take(LARGEST_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if text.len() as u64 > LARGEST_BYTES {
            return Err(format!("it has more than {LARGEST_BYTES} bytes"));
        }
        Self::parse(&text)
    }

    /// Reads the content of a file.
    fn parse(text: &str) -> Result<Self, String> {
        let stored: StoredUsers = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if stored.secret.len() != SECRET_BYTES {
            return Err(format!("secret: {} bytes where {SECRET_BYTES} are needed", stored.secret.len()));
        }
        let mut users = Self { secret: stored.secret, users: BTreeMap::new() };
        for stored in stored.users {
            let user = stored.check()?;
            let name = user.name.clone();
            if users.users.insert(name.clone(), Arc::new(user)).is_some() {
                return Err(format!("user {name}: is there twice"));
            }
        }
        Ok(users)
    }

    /// Changes a file, which is made if it does not exist. No other process can change it
    /// meanwhile; an error leaves it as it is.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("users.json");
    /// use mongotx_gateway::{UserName, Users};
    ///
    /// let ann = UserName { database: "admin".to_owned(), name: "ann".to_owned() };
    /// Users::change(&file, |users| {
    ///     users.add(ann.clone(), "secret", vec!["read:bank".parse()?])?;
    ///     users.set_roles(&ann, vec!["readWrite:bank".parse()?]) // both changes, or none
    /// })?;
    /// let taken = Users::change(&file, |users| users.add(ann, "secret", Vec::new()));
    /// assert!(taken.expect_err("ann is there").reason.contains("ann@admin"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Users::read`]; `change`'s own; when another process is changing the file, or it cannot
    /// be written.
    pub fn change(path: &Path, change: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), UsersError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::AlreadyExists => {
                    "another process is changing it; if none is, remove this file, which was left behind".to_owned()
                }
                _ => error.to_string(),
            };
            unusable(&beside, reason)
        })?;
        let changed = Self::change_to(path, &beside, file, change);
        if changed.is_err() {
            // The error is what matters.
            let _ = std::fs::remove_file(&beside);
        }
        changed.map_err(|reason| unusable(path, reason))
    }

    fn change_to(
        path: &Path,
        beside: &Path,
        mut file: File,
        change: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut users = match File::open(path) {
            Ok(old) => {
                keep_rights(&old, &file)
                    .map_err(|error| format!("its owner, group and mode cannot be kept: {error}"))?;
                Self::read_from(old)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Self::none(),
            Err(error) => return Err(error.to_string()),
        };
        change(&mut users)?;
        let text = users.to_json().map_err(|error| error.to_string())?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.and_then(|()| std::fs::rename(beside, path)).map_err(|error| error.to_string())
    }

    fn none() -> Self {
        let mut secret = vec![0; SECRET_BYTES];
        rand::rng().fill(&mut secret[..]);
        Self { secret, users: BTreeMap::new() }
    }

    fn to_json(&self) -> serde_json::Result<String> {
        let users = self.users.values().map(|user| StoredUser {
            name: user.name.name.clone(),
            database: user.name.database.clone(),
            roles: user.roles.iter().map(Role::to_string).collect(),
            sha_1: user.sha_1.clone(),
            sha_256: user.sha_256.clone(),
        });
        let stored = StoredUsers { secret: self.secret.clone(), users: users.collect() };
        serde_json::to_string_pretty(&stored).map(|text| text + "\n")
    }

    /// Adds a user with this password and these roles.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("users.json");
    /// use mongotx_gateway::{Role, UserName, Users};
    ///
    /// let ann = UserName { database: "admin".to_owned(), name: "ann".to_owned() };
    /// let roles: Vec<Role> = vec!["readWrite:bank".parse()?, "read:stock".parse()?];
    /// Users::change(&file, |users| users.add(ann, "secret", roles))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In words: a name that cannot be or is taken, an empty password or one that SASLprep does not
    /// allow, too many roles.
    pub fn add(&mut self, name: UserName, password: &str, roles: Vec<Role>) -> Result<(), String> {
        name.check()?;
        check_roles(&roles)?;
        if self.users.contains_key(&name) {
            return Err(format!("user {name}: is there already; give it another password, or other roles"));
        }
        self.put(name, password, roles)
    }

    fn put(&mut self, name: UserName, password: &str, roles: Vec<Role>) -> Result<(), String> {
        if password.is_empty() {
            return Err("the password is empty".to_owned());
        }
        let credential = |mechanism| {
            Credential::of(mechanism, &name.name, password).map_err(|reason| format!("the password: {reason}"))
        };
        let (sha_1, sha_256) = (credential(Mechanism::ScramSha1)?, credential(Mechanism::ScramSha256)?);
        let user = User { digest: name.digest(), name: name.clone(), roles, sha_1, sha_256 };
        self.users.insert(name, Arc::new(user));
        Ok(())
    }

    /// Gives a user another password.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("users.json");
    /// use mongotx_gateway::{UserName, Users};
    ///
    /// let ann = UserName { database: "admin".to_owned(), name: "ann".to_owned() };
    /// # Users::change(&file, |users| users.add(ann.clone(), "secret", vec!["readWrite:bank".parse()?]))?;
    /// Users::change(&file, |users| users.set_password(&ann, "another secret"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In words: there is none of that name, an empty password or one that SASLprep does not allow.
    pub fn set_password(&mut self, name: &UserName, password: &str) -> Result<(), String> {
        let roles = self.known(name)?.roles.clone();
        self.put(name.clone(), password, roles)
    }

    /// Gives a user other roles.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("users.json");
    /// use mongotx_gateway::{UserName, Users};
    ///
    /// let ann = UserName { database: "admin".to_owned(), name: "ann".to_owned() };
    /// # Users::change(&file, |users| users.add(ann.clone(), "secret", vec!["readWrite:bank".parse()?]))?;
    /// Users::change(&file, |users| users.set_roles(&ann, vec!["readAnyDatabase".parse()?]))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In words: there is none of that name, too many roles.
    pub fn set_roles(&mut self, name: &UserName, roles: Vec<Role>) -> Result<(), String> {
        check_roles(&roles)?;
        let User { name, digest, sha_1, sha_256, .. } = self.known(name)?;
        let (digest, sha_1, sha_256) = (digest.clone(), sha_1.clone(), sha_256.clone());
        let user = User { name: name.clone(), digest, roles, sha_1, sha_256 };
        self.users.insert(user.name.clone(), Arc::new(user));
        Ok(())
    }

    fn known(&self, name: &UserName) -> Result<&User, String> {
        self.users.get(name).map(Arc::as_ref).ok_or_else(|| format!("user {name}: there is none"))
    }

    /// Removes a user, who cannot log in once the gateway has read the file again.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("users.json");
    /// use mongotx_gateway::{UserName, Users};
    ///
    /// let ann = UserName { database: "admin".to_owned(), name: "ann".to_owned() };
    /// # Users::change(&file, |users| users.add(ann.clone(), "secret", vec!["readWrite:bank".parse()?]))?;
    /// Users::change(&file, |users| users.remove(&ann))?;
    /// assert_eq!(Users::read(&file)?.list().count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In words, when there is none of that name.
    pub fn remove(&mut self, name: &UserName) -> Result<(), String> {
        self.users.remove(name).map(drop).ok_or_else(|| format!("user {name}: there is none"))
    }

    /// Names and roles of all users, ordered by database and name.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("users.json");
    /// # let ann = mongotx_gateway::UserName { database: "admin".to_owned(), name: "ann".to_owned() };
    /// # mongotx_gateway::Users::change(&file, |users| users.add(ann, "secret", vec!["readWrite:bank".parse()?]))?;
    /// for (name, roles) in mongotx_gateway::Users::read(&file)?.list() {
    ///     assert_eq!(name.to_string(), "ann@admin");
    ///     assert_eq!(roles[0].to_string(), "readWrite:bank");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list(&self) -> impl Iterator<Item = (&UserName, &[Role])> {
        self.users.values().map(|user| (&user.name, &user.roles[..]))
    }

    /// The user of that name, if there is one, and what to check the password with in either case.
    pub(crate) fn find(&self, mechanism: Mechanism, name: &UserName) -> (Option<Arc<User>>, Credential) {
        // Made for every name, so that a login takes the same time whether the user exists or not.
        let fake = Credential::fake(mechanism, &self.secret, &name.to_string());
        match self.users.get(name) {
            Some(user) => (Some(Arc::clone(user)), user.credential(mechanism).clone()),
            None => (None, fake),
        }
    }

    /// The user of that name.
    pub(super) fn get(&self, name: &UserName) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// Puts these users in the place of `others`; unchanged users keep their [`User`]. Returns the
    /// digests of those of the others who have changed or are gone.
    pub(super) fn instead_of(mut self, others: &Self) -> (Self, Vec<Vec<u8>>) {
        let mut changed = Vec::new();
        for (name, other) in &others.users {
            match self.users.get_mut(name) {
                Some(user) if *user == *other => *user = Arc::clone(other),
                _ => changed.push(other.digest.clone()),
            }
        }
        (self, changed)
    }

    /// A text that only gateways with the same file can make for the same words.
    pub(crate) fn seal(&self, words: &[u8]) -> Vec<u8> {
        Mechanism::ScramSha256.hmac(&self.secret, words)
    }
}

impl StoredUser {
    fn check(self) -> Result<User, String> {
        let name = UserName { database: self.database, name: self.name };
        let at = |reason: String| format!("user {name}: {reason}");
        name.check().map_err(at)?;
        let roles: Result<Vec<Role>, String> = self.roles.iter().map(|role| role.parse()).collect();
        let roles = roles.map_err(at)?;
        check_roles(&roles).map_err(at)?;
        for (mechanism, credential) in [(Mechanism::ScramSha1, &self.sha_1), (Mechanism::ScramSha256, &self.sha_256)] {
            credential.check(mechanism).map_err(|reason| at(format!("{}.{reason}", mechanism.name())))?;
        }
        Ok(User { digest: name.digest(), name, roles, sha_1: self.sha_1, sha_256: self.sha_256 })
    }
}

/// Gives a new file the owner, the group and the mode of the old one: the gateway, which runs as
/// its owner, has to be able to read it, whoever changes it.
fn keep_rights(old: &File, new: &File) -> std::io::Result<()> {
    let (is, was) = (new.metadata()?, old.metadata()?);
    if (is.uid(), is.gid()) != (was.uid(), was.gid()) {
        fchown(new, Some(was.uid()), Some(was.gid()))?;
    }
    new.set_permissions(Permissions::from_mode(was.mode() & 0o777))
}

/// Refuses a file that other users of the machine can read: they could try out passwords, and
/// pretend to be the gateway.
fn check_private(file: &File) -> Result<(), String> {
    let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode() & 0o777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    Err(format!(
        "others than its owner can use it (mode {mode:o}), and it holds what passwords are checked with: chmod 600"
    ))
}

fn check_roles(roles: &[Role]) -> Result<(), String> {
    if roles.len() > MOST_ROLES { Err(format!("roles: a user has at most {MOST_ROLES}")) } else { Ok(()) }
}

fn unusable(path: &Path, reason: impl ToString) -> UsersError {
    UsersError { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
