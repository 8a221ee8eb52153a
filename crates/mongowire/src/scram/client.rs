//! The client's side of an exchange (RFC 5802, section 5). Pure: no I/O, no randomness, no clock.
//!
//! 1. client: `n,,n=NAME,r=NONCE`; 2. server: `r=NONCE+ITS,s=SALT,i=ITERATIONS`; 3. client:
//!    `c=biws,r=NONCE+ITS,p=PROOF`;
//! 4. server: `v=SIGNATURE`, which shows that it knows the password as well.

use base64::{Engine, prelude::BASE64_STANDARD};
use subtle::ConstantTimeEq;

use super::Mechanism;

/// Least number of iterations that the client accepts. With fewer, an attacker between client and
/// server could guess the password from the proof (RFC 7677).
const FEWEST_ITERATIONS: u32 = 4_096;
/// More, and a server that is none keeps a processor busy.
const MOST_ITERATIONS: u32 = 10_000_000;
/// The header without channel binding, and what step 3 says instead of it.
const HEADER: &str = "n,,";
const BOUND: &str = "c=biws";

/// Reason why the client ends a login: what answers is not the server that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScramError {
    /// The server's message does not have the form, or not the nonce, of this exchange.
    #[error("the server's answer to the login is malformed: {0}")]
    Malformed(&'static str),
    /// The server does not prove that it knows the password: it may be an impostor.
    #[error("the server does not prove that it knows the password")]
    Proof,
}

/// A login whose first message was made; [`ClientFirst::read_server_first`] goes on with the answer
/// to it.
#[derive(Clone, Debug)]
pub struct ClientFirst {
    nonce: String,
    bare: String,
}

/// A login whose first answer was read, with the salt and the iterations that the server demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFirst {
    /// The client's nonce, with the server's behind it.
    nonce: String,
    /// Salt with which the password is hashed, as the server sent it, decoded from Base64.
    pub salt: Vec<u8>,
    /// Number of times that the password is hashed, from 4,096 to 10 million.
    pub iterations: u32,
    /// The exchanged messages so far, in the form that is signed.
    spoken: String,
}

/// A login whose proof was made: only the server's own proof is missing.
#[derive(Clone, Debug)]
pub struct ServerVerifier {
    signature: Vec<u8>,
}

impl ClientFirst {
    /// Step 1: makes the first message. `nonce`: letters and digits that were never used before.
    pub fn new(user: &str, nonce: &str) -> (Self, Vec<u8>) {
        let bare = format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C"));
        let message = format!("{HEADER}{bare}");
        (Self { nonce: nonce.to_owned(), bare }, message.into_bytes())
    }

    /// Reads the server's first answer (step 2), which has its nonce, the salt and the iterations.
    ///
    /// # Errors
    /// [`ScramError::Malformed`].
    pub fn read_server_first(self, payload: &[u8]) -> Result<ServerFirst, ScramError> {
        let text = std::str::from_utf8(payload).map_err(|_| ScramError::Malformed("it is no UTF-8"))?;
        let mut fields = text.split(',');
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name));
        let nonce = field("r=").filter(|nonce| nonce.len() > self.nonce.len() && nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or(ScramError::Malformed("the nonce is not that of this exchange"))?.to_owned();
        let salt = field("s=").and_then(|salt| BASE64_STANDARD.decode(salt).ok()).filter(|salt| !salt.is_empty());
        let salt = salt.ok_or(ScramError::Malformed("there is no salt"))?;
        let iterations = field("i=").and_then(|count| count.parse().ok());
        let iterations = iterations.filter(|count| (FEWEST_ITERATIONS..=MOST_ITERATIONS).contains(count));
        let iterations = iterations.ok_or(ScramError::Malformed("the number of iterations is out of range"))?;
        Ok(ServerFirst { nonce, salt, iterations, spoken: format!("{},{text}", self.bare) })
    }
}

impl ServerFirst {
    /// Step 3. `salted`: of [`Mechanism::salted`], with this salt and this number of iterations.
    pub fn make_client_final(self, mechanism: Mechanism, salted: &[u8]) -> (ServerVerifier, Vec<u8>) {
        let without_proof = format!("{BOUND},r={}", self.nonce);
        let spoken = format!("{},{without_proof}", self.spoken);
        let client_key = mechanism.hmac(salted, b"Client Key");
        let signature = mechanism.hmac(&mechanism.hash(&client_key), spoken.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(one, other)| one ^ other).collect();
        let server_key = mechanism.hmac(salted, b"Server Key");
        let expected = mechanism.hmac(&server_key, spoken.as_bytes());
        let message = format!("{without_proof},p={}", BASE64_STANDARD.encode(proof));
        (ServerVerifier { signature: expected }, message.into_bytes())
    }
}

impl ServerVerifier {
    /// Reads the server's second answer (step 4) and checks its proof.
    ///
    /// # Errors
    /// [`ScramError::Malformed`], [`ScramError::Proof`].
    pub fn check_server_final(self, payload: &[u8]) -> Result<(), ScramError> {
        let received = std::str::from_utf8(payload).ok().and_then(|text| text.strip_prefix("v="));
        let received =
            received.and_then(|text| text.split(',').next()).and_then(|received| BASE64_STANDARD.decode(received).ok());
        let received = received.ok_or(ScramError::Malformed("there is no signature"))?;
        if bool::from(received.ct_eq(&self.signature)) { Ok(()) } else { Err(ScramError::Proof) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SECOND: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn salted(mechanism: Mechanism, server_first: &ServerFirst) -> Vec<u8> {
        mechanism.salted("pencil", &server_first.salt, server_first.iterations)
    }

    /// The example of RFC 5802, section 5, whose password is used as it is.
    #[test]
    fn the_rfcs_example_of_sha_1_is_followed() {
        let (client_first, first) = ClientFirst::new("user", "fyko+d2lbbFgONRv9qkxdawL");
        assert_eq!(first, b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
        let server_first = client_first
            .read_server_first(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096")
            .unwrap();
        let salted = salted(Mechanism::ScramSha1, &server_first);
        let (verifier, third) = server_first.make_client_final(Mechanism::ScramSha1, &salted);
        let expected = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
        assert_eq!(third, expected);
        assert_eq!(verifier.check_server_final(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Ok(()));
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_rfcs_example_of_sha_256_is_followed() {
        let server_first = ClientFirst::new("user", NONCE).0.read_server_first(SECOND.as_bytes()).unwrap();
        let salted = salted(Mechanism::ScramSha256, &server_first);
        let (verifier, third) = server_first.make_client_final(Mechanism::ScramSha256, &salted);
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8(third).unwrap(), expected);
        assert_eq!(verifier.clone().check_server_final(LAST.as_bytes()), Ok(()));
        assert_eq!(verifier.clone().check_server_final(LAST.replace("v=6", "v=7").as_bytes()), Err(ScramError::Proof));
        for bad in ["", "v=", "v=!", "e=other-error"] {
            assert!(verifier.clone().check_server_final(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn servers_that_ask_for_what_is_not_safe_are_refused() {
        let asked = |message: &str| ClientFirst::new("user", NONCE).0.read_server_first(message.as_bytes());
        assert!(asked(SECOND).is_ok());
        for bad in [
            String::new(),
            SECOND.replace("r=r", "r=s"),
            SECOND.replace("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""),
            SECOND.replace("s=W", "s=!"),
            SECOND.replace("i=4096", "i=4095"),
            SECOND.replace("i=4096", "i=4000000000"),
            SECOND.replace(",i=4096", ""),
        ] {
            assert!(matches!(asked(&bad), Err(ScramError::Malformed(_))), "{bad}");
        }
    }

    #[test]
    fn names_with_commas_and_equals_signs_are_escaped() {
        assert_eq!(ClientFirst::new("a,b=", "x").1, b"n,,n=a=2Cb=3D,r=x");
    }
}
