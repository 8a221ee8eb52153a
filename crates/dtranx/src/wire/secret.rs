//! Secrets that servers and clients share, and how each side of a connection proves that it knows
//! one without saying it: HMAC-SHA-256 over what the caller said and a number that the other side
//! has drawn for this connection.
//!
//! What is said afterwards is neither encrypted nor authenticated: whoever can change what is under
//! way on the network needs no secret.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::frame::WireError;
use super::message::{Hello, Nonce, Proof};

/// The shortest secret, in bytes.
pub const MIN_SECRET_BYTES: usize = 16;
/// The longest.
pub const MAX_SECRET_BYTES: usize = 4096;

/// A secret. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

/// Whose proof it is: nobody can send back what was sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that called.
    Caller,
    /// The one that was called.
    Called,
}

impl Secret {
    /// A secret of these bytes.
    ///
    /// # Errors
    /// It is too short or too long.
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&bytes.len()) {
            let range = format!("{MIN_SECRET_BYTES} to {MAX_SECRET_BYTES}");
            return Err(format!("a secret has {range} bytes, this one has {}", bytes.len()));
        }
        Ok(Self(bytes.into()))
    }

    /// The secret in a file, without white space at its end. Only its owner and group may be able
    /// to read it.
    ///
    /// # Errors
    /// It cannot be read, everybody may read it, or it is too short or too long.
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

    /// Proves it for a connection that began with `hello`, to which the other side has answered
    /// with `nonce`.
    ///
    /// # Errors
    /// The hello cannot be encoded.
    pub fn prove(&self, side: Side, hello: &Hello, nonce: &Nonce) -> Result<Proof, WireError> {
        Ok(Proof(self.mac(side, hello, nonce)?.finalize().into_bytes().into()))
    }

    /// Is this the proof? It takes as long, whatever of it is wrong.
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
