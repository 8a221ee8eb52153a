//! Secrets that servers and clients share. Each side of a connection proves that it knows the
//! secret without sending it: by an HMAC-SHA-256 over the caller's [`Hello`] and a nonce of the
//! called side.
//!
//! Later messages are neither encrypted nor authenticated: an attacker who can change the network's
//! traffic needs no secret.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::frame::WireError;
use super::message::{Hello, Nonce, Proof};

/// Least length of a secret, in bytes.
pub const MIN_SECRET_BYTES: usize = 16;
/// Greatest length of a secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 4096;

/// A secret that both sides of a connection know. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

/// Side of a connection that makes a proof. The side is part of the proof, so that an attacker
/// cannot send a server's own proof back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that opened the connection.
    Caller,
    /// The side that accepted the connection.
    Called,
}

impl Secret {
    /// Makes a secret of these bytes.
    ///
    /// # Errors
    /// The secret is shorter than [`MIN_SECRET_BYTES`] or longer than [`MAX_SECRET_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&bytes.len()) {
            let range = format!("{MIN_SECRET_BYTES} to {MAX_SECRET_BYTES}");
            return Err(format!("a secret has {range} bytes, this one has {}", bytes.len()));
        }
        Ok(Self(bytes.into()))
    }

    /// Reads the secret in a file, without the white space at its end. Only the file's owner and
    /// group may have access to it.
    ///
    /// # Errors
    /// The file cannot be read, all users have access to it, or the secret is too short or too
    /// long.
    pub fn read(file: &Path) -> Result<Self, String> {
        use std::os::unix::fs::PermissionsExt;
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
        let mode = std::fs::metadata(file).map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(format!("everybody may read or change {} (mode {mode:o}); 600 is right", file.display()));
        }
        let bytes = std::fs::read(file).map_err(failed)?;
        Self::new(bytes.trim_ascii_end()).map_err(|what| format!("{}: {what}", file.display()))
    }

    /// Makes the proof of `side` for a connection that began with `hello`, to which the called side
    /// has answered with `nonce`.
    ///
    /// # Errors
    /// The hello cannot be encoded.
    pub fn prove(&self, side: Side, hello: &Hello, nonce: &Nonce) -> Result<Proof, WireError> {
        Ok(Proof(self.mac(side, hello, nonce)?.finalize().into_bytes().into()))
    }

    /// Returns true if `proof` is the right one. The comparison takes the same time for every wrong
    /// proof, so that its duration reveals nothing.
    ///
    /// # Errors
    /// The hello cannot be encoded.
    pub fn is_proven(&self, side: Side, hello: &Hello, nonce: &Nonce, proof: &Proof) -> Result<bool, WireError> {
        Ok(self.mac(side, hello, nonce)?.verify_slice(&proof.0).is_ok())
    }

    fn mac(&self, side: Side, hello: &Hello, nonce: &Nonce) -> Result<Hmac<Sha256>, WireError> {
        let unsendable = |what: String| WireError::Unsendable { what };
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|error| unsendable(error.to_string()))?;
        mac.update(match side {
            Side::Caller => b"dtranx caller\0",
            Side::Called => b"dtranx called\0",
        });
        mac.update(nonce);
        mac.update(&postcard::to_stdvec(hello).map_err(|error| unsendable(error.to_string()))?);
        Ok(mac)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
