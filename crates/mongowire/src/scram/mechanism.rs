//! The two ways to log in, and their arithmetic: RFC 5802 (SCRAM), RFC 7677 (with SHA-256), and
//! what MongoDB does otherwise.
//!
//! With SHA-1 the password is not the user's own but `MD5(user:mongo:password)` in hexadecimal
//! digits, as it was stored before SCRAM; with SHA-256 it goes through SASLprep (RFC 4013). Names
//! go through nothing.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A SCRAM mechanism (RFC 5802, RFC 7677) that MongoDB knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// `SCRAM-SHA-1`, of servers before 4.0: it hashes an MD5 digest of user and password.
    ScramSha1,
    /// `SCRAM-SHA-256`, the default since MongoDB 4.0: it hashes the password prepared by SASLprep.
    ScramSha256,
}

impl Mechanism {
    /// Every mechanism that this crate can log in by, the weaker one first.
    pub const ALL: [Self; 2] = [Self::ScramSha1, Self::ScramSha256];

    /// Name of the mechanism in connection strings and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism of this name, in capitals. `None`: it is not known here.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Length of a key, in bytes: that of the hash function, 20 or 32.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::ScramSha1 => 20,
            Self::ScramSha256 => 32,
        }
    }

    /// Length of a salt as MongoDB makes them, in bytes: four less than a key.
    pub fn salt_bytes(self) -> usize {
        self.key_bytes() - 4
    }

    /// Number of times that a new password is hashed, as in MongoDB: 10,000 or 15,000.
    pub fn iterations(self) -> u32 {
        match self {
            Self::ScramSha1 => 10_000,
            Self::ScramSha256 => 15_000,
        }
    }

    /// `HMAC(key, text)` of RFC 5802, with the mechanism's hash function.
    pub fn hmac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        match self {
            Self::ScramSha1 => mac::<Hmac<Sha1>>(key, text),
            Self::ScramSha256 => mac::<Hmac<Sha256>>(key, text),
        }
    }

    /// `H(text)` of RFC 5802: the mechanism's hash function.
    pub fn hash(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::ScramSha1 => Sha1::digest(text).to_vec(),
            Self::ScramSha256 => Sha256::digest(text).to_vec(),
        }
    }

    /// `Hi(password, salt, iterations)`, of a password that was prepared.
    pub fn salted(self, prepared: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = vec![0; self.key_bytes()];
        match self {
            Self::ScramSha1 => pbkdf2::pbkdf2_hmac::<Sha1>(prepared.as_bytes(), salt, iterations, &mut salted),
            Self::ScramSha256 => pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations, &mut salted),
        }
        salted
    }

    /// The password as the mechanism uses it.
    ///
    /// # Errors
    /// In words, for characters that SASLprep does not allow.
    pub fn prepare(self, user: &str, password: &str) -> Result<String, String> {
        match self {
            Self::ScramSha1 => {
                let digest = Md5::digest(format!("{user}:mongo:{password}"));
                Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            Self::ScramSha256 => {
                stringprep::saslprep(password).map(|prepared| prepared.into_owned()).map_err(|error| error.to_string())
            }
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    // HMAC takes keys of every length.
    let Ok(mac) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
    mac.chain_update(text).finalize().into_bytes().to_vec()
}
