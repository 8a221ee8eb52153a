//! Credentials: stored instead of a password. They are enough to check that a client knows the
//! password, and to show the client that the gateway knows it.

use mongowire::scram::Mechanism;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// The fewest iterations that RFC 7677 allows. With fewer, passwords can be guessed from a stolen
/// file.
const FEWEST_ITERATIONS: u32 = 4_096;
/// The most iterations. Clients have to do their work too, and some give up at more.
const MOST_ITERATIONS: u32 = 1_000_000;

/// A salted password of one mechanism (RFC 5802, section 3). The password cannot be computed from
/// it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Credential {
    pub(crate) iterations: u32,
    #[serde(with = "super::base64_text")]
    pub(crate) salt: Vec<u8>,
    #[serde(with = "super::base64_text")]
    pub(crate) stored_key: Vec<u8>,
    #[serde(with = "super::base64_text")]
    pub(crate) server_key: Vec<u8>,
}

impl Credential {
    /// Makes the credential of a password, with a new salt.
    ///
    /// # Errors
    /// In words, for a password that the mechanism does not allow.
    pub(crate) fn of(mechanism: Mechanism, user: &str, password: &str) -> Result<Self, String> {
        let mut salt = vec![0; mechanism.salt_bytes()];
        rand::rng().fill(&mut salt[..]);
        let prepared = mechanism.prepare(user, password)?;
        Ok(Self::with_salt(mechanism, &prepared, salt, mechanism.iterations()))
    }

    /// Makes the credential of a prepared password.
    pub(crate) fn with_salt(mechanism: Mechanism, prepared: &str, salt: Vec<u8>, iterations: u32) -> Self {
        let salted = mechanism.salted(prepared, &salt, iterations);
        let client_key = mechanism.hmac(&salted, b"Client Key");
        let server_key = mechanism.hmac(&salted, b"Server Key");
        Self { iterations, salt, stored_key: mechanism.hash(&client_key), server_key }
    }

    /// Returns true if this credential was derived from the password.
    pub(crate) fn is_of(&self, mechanism: Mechanism, user: &str, password: &str) -> bool {
        let prepared = mechanism.prepare(user, password);
        // A password that the mechanism does not allow takes the same time.
        let of =
            Self::with_salt(mechanism, prepared.as_deref().unwrap_or_default(), self.salt.clone(), self.iterations);
        prepared.is_ok() && bool::from(of.stored_key.ct_eq(&self.stored_key))
    }

    /// Credential of a user who does not exist. Clients cannot distinguish it from a real one, and
    /// no password fits. The same name has the same salt, at every gateway that has the same
    /// secret.
    pub(crate) fn fake(mechanism: Mechanism, secret: &[u8], user: &str) -> Self {
        let derived = |what: &str| {
            Mechanism::ScramSha256.hmac(secret, format!("{what}\0{}\0{user}", mechanism.name()).as_bytes())
        };
        let mut keys = [derived("salt"), derived("stored"), derived("server")];
        keys[0].truncate(mechanism.salt_bytes());
        keys[1].truncate(mechanism.key_bytes());
        keys[2].truncate(mechanism.key_bytes());
        let [salt, stored_key, server_key] = keys;
        Self { iterations: mechanism.iterations(), salt, stored_key, server_key }
    }

    /// # Errors
    /// In words, for lengths and counts that are out of range.
    pub(crate) fn check(&self, mechanism: Mechanism) -> Result<(), String> {
        if !(FEWEST_ITERATIONS..=MOST_ITERATIONS).contains(&self.iterations) {
            let iterations = self.iterations;
            return Err(format!("iterations: {iterations} is not in {FEWEST_ITERATIONS}..={MOST_ITERATIONS}"));
        }
        for (field, value, wanted) in [
            ("salt", &self.salt, mechanism.salt_bytes()),
            ("storedKey", &self.stored_key, mechanism.key_bytes()),
            ("serverKey", &self.server_key, mechanism.key_bytes()),
        ] {
            if value.len() != wanted {
                return Err(format!("{field}: {} bytes where {wanted} are needed", value.len()));
            }
        }
        Ok(())
    }
}
