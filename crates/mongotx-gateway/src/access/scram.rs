//! The server's side of a SCRAM exchange (RFC 5802, section 5). Pure: no I/O, no randomness, no
//! clock.
//!
//! 1. client: `n,,n=NAME,r=NONCE`
//! 2. server: `r=NONCE+OURS,s=SALT,i=ITERATIONS`
//! 3. client: `c=biws,r=NONCE+OURS,p=PROOF`
//! 4. server: `v=SIGNATURE`
//!
//! A wrong proof is found out in step 4, after the same work for every user, known or not.

use base64::{Engine, prelude::BASE64_STANDARD};
use mongowire::scram::Mechanism;
use subtle::ConstantTimeEq;

use super::credential::Credential;

/// Greatest length of a client's message, in bytes. Names and nonces are much shorter.
const LONGEST_BYTES: usize = 4 * 1024;

/// Reason why a login failed: for the log, never for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoginRefused {
    #[error("malformed message: {0}")]
    Malformed(&'static str),
    #[error("wrong password")]
    Proof,
    #[error("there is no such user")]
    Unknown,
}

/// The client's first message of a SCRAM login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientFirst {
    /// Name of the user that the client logs in as.
    pub(crate) user: String,
    /// GS2 header of the message: `n,,` or `y,,`.
    header: String,
    nonce: String,
    /// The message without its header.
    bare: String,
}

/// An exchange between steps 2 and 3.
pub(crate) struct Exchange {
    mechanism: Mechanism,
    credential: Credential,
    header: String,
    nonce: String,
    /// The messages so far, as they are signed.
    spoken: String,
}

impl ClientFirst {
    /// Reads step 1.
    ///
    /// # Errors
    /// A payload that is no such message, or that requests something unsupported: channel bindings,
    /// extensions, acting for another user.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, LoginRefused> {
        let text = text(payload)?;
        let (header, bare) = match text.get(..3) {
            Some(header @ ("n,," | "y,,")) => (header, &text[3..]),
            _ if text.starts_with("p=") => return Err(LoginRefused::Malformed("channel bindings are not supported")),
            _ => return Err(LoginRefused::Malformed("the header is not 'n,,'")),
        };
        let mut fields = bare.split(',');
        let user = fields.next().and_then(|field| field.strip_prefix("n="));
        let user = user.ok_or(LoginRefused::Malformed("there is no name"))?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        let nonce = nonce.filter(|nonce| !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let nonce = nonce.ok_or(LoginRefused::Malformed("there is no nonce"))?;
        if fields.next().is_some() {
            return Err(LoginRefused::Malformed("extensions are not supported"));
        }
        Ok(Self { user: unescape(user)?, header: header.to_owned(), nonce: nonce.to_owned(), bare: bare.to_owned() })
    }

    /// Step 2. `ours`: a nonce that was never used before and cannot be guessed.
    pub(crate) fn answer(self, mechanism: Mechanism, credential: Credential, ours: &str) -> (Exchange, Vec<u8>) {
        let nonce = format!("{}{ours}", self.nonce);
        let salt = BASE64_STANDARD.encode(&credential.salt);
        let message = format!("r={nonce},s={salt},i={}", credential.iterations);
        let spoken = format!("{},{message}", self.bare);
        (Exchange { mechanism, credential, header: self.header, nonce, spoken }, message.into_bytes())
    }
}

impl Exchange {
    /// Steps 3 and 4.
    ///
    /// # Errors
    /// A payload that is no such message, does not belong to this exchange, or does not prove that
    /// the client knows the password.
    pub(crate) fn finish(self, payload: &[u8]) -> Result<Vec<u8>, LoginRefused> {
        let (without_proof, proof) =
            text(payload)?.rsplit_once(",p=").ok_or(LoginRefused::Malformed("there is no proof"))?;
        let proof = BASE64_STANDARD.decode(proof).map_err(|_| LoginRefused::Malformed("the proof is no base64"))?;
        let expected = format!("c={},r={}", BASE64_STANDARD.encode(&self.header), self.nonce);
        if without_proof != expected {
            return Err(LoginRefused::Malformed("the nonce or the header is not that of this exchange"));
        }
        let spoken = format!("{},{without_proof}", self.spoken);
        let (mechanism, credential) = (self.mechanism, &self.credential);
        let signature = mechanism.hmac(&credential.stored_key, spoken.as_bytes());
        if proof.len() != signature.len() {
            return Err(LoginRefused::Malformed("the proof has not the length of a key"));
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(one, other)| one ^ other).collect();
        if !bool::from(mechanism.hash(&client_key).ct_eq(&credential.stored_key)) {
            return Err(LoginRefused::Proof);
        }
        let signature = mechanism.hmac(&credential.server_key, spoken.as_bytes());
        Ok(format!("v={}", BASE64_STANDARD.encode(signature)).into_bytes())
    }
}

fn text(payload: &[u8]) -> Result<&str, LoginRefused> {
    if payload.len() > LONGEST_BYTES {
        return Err(LoginRefused::Malformed("it is too long"));
    }
    std::str::from_utf8(payload).map_err(|_| LoginRefused::Malformed("it is no UTF-8"))
}

/// `=2C` is a comma, `=3D` is `=`; no other `=` may be there.
fn unescape(name: &str) -> Result<String, LoginRefused> {
    let mut parts = name.split('=');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match part.get(..2) {
            Some("2C") => (',', &part[2..]),
            Some("3D") => ('=', &part[2..]),
            _ => return Err(LoginRefused::Malformed("a '=' in the name that stands for nothing")),
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    if plain.is_empty() { Err(LoginRefused::Malformed("the name is empty")) } else { Ok(plain) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// The example of RFC 5802, section 5, whose password is used as it is.
    #[test]
    fn the_rfcs_example_of_sha_1_is_followed() {
        let salt = BASE64_STANDARD.decode("QSXCR+Q6sek8bf92").unwrap();
        let credential = Credential::with_salt(Mechanism::ScramSha1, "pencil", salt, 4096);
        let first = ClientFirst::parse(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL").unwrap();
        let (exchange, answer) = first.answer(Mechanism::ScramSha1, credential, "3rfcNHYJY1ZVvWVs7j");
        let expected = "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        assert_eq!(String::from_utf8(answer).unwrap(), expected);
        let last = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
        assert_eq!(exchange.finish(last).unwrap(), b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=");
    }

    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const OURS: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    /// The example of RFC 7677, section 3.
    fn sha_256() -> Exchange {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let credential = Credential::with_salt(Mechanism::ScramSha256, "pencil", salt, 4096);
        ClientFirst::parse(FIRST).unwrap().answer(Mechanism::ScramSha256, credential, OURS).0
    }

    #[test]
    fn the_rfcs_example_of_sha_256_is_followed() {
        let signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(sha_256().finish(LAST.as_bytes()).unwrap(), signature);
    }

    #[test]
    fn what_proves_nothing_is_refused() {
        let finish = |message: &str| sha_256().finish(message.as_bytes()).unwrap_err();
        assert_eq!(finish(&LAST.replace("p=d", "p=e")), LoginRefused::Proof);
        for bad in [
            String::new(),
            LAST[..LAST.len() - 1].to_owned(),
            LAST.replace("p=dHzb", "p="),
            LAST.replace("c=biws", "c=eSws"),
            LAST.replace("r=r", "r=s"),
            LAST.replace("$k0", "$k"),
            LAST.replace(",p=", ",x=1,p="),
            LAST.split(",p=").next().unwrap().to_owned(),
            "p=".to_owned(),
        ] {
            assert!(matches!(finish(&bad), LoginRefused::Malformed(_)), "{bad}");
        }
        // Knowing how the fake credential is derived must not be enough to log in.
        let fake = Credential::fake(Mechanism::ScramSha256, b"secret", "user");
        let (exchange, _) = ClientFirst::parse(FIRST).unwrap().answer(Mechanism::ScramSha256, fake, OURS);
        assert_eq!(exchange.finish(LAST.as_bytes()).unwrap_err(), LoginRefused::Proof);
    }

    #[test]
    fn first_messages_of_another_form_are_refused() {
        for bad in [
            "",
            "n",
            "n,",
            "n,,",
            "n,,n=",
            "n,,n=a",
            "n,,n=a,r=",
            "n,,n=,r=x",
            "n,a=b,n=a,r=x",
            "p=tls,,n=a,r=x",
            "n,,m=x,n=a,r=x",
            "n,,n=a,r=x,e=1",
            "n,,n=a=b,r=x",
            "n,,n=a=2c,r=x",
            "n,,n=a=,r=x",
            "n,,r=x,n=a",
            "n,,n=a,r=é",
        ] {
            assert!(ClientFirst::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(ClientFirst::parse(&[0xff, 0xfe]).is_err());
        assert!(ClientFirst::parse(format!("n,,n=a,r={}", "x".repeat(5000)).as_bytes()).is_err());
        assert_eq!(ClientFirst::parse(b"y,,n=a=2Cb=3D,r=x").unwrap().user, "a,b=");
    }
}
