//! The login of a new connection by SCRAM (`saslStart`, `saslContinue`). The exchange itself,
//! without a connection, is in `crate::scram`.

use std::sync::Arc;

use bson::{Binary, RawBsonRef, RawDocument, RawDocumentBuf, cstr, rawdoc, spec::BinarySubtype};
use rand::RngExt;

use super::Connection;
use crate::{
    Failure, Refusal,
    scram::{ClientFirst, Mechanism},
    settings::Login,
};

/// Random bytes in the client's half of the nonce.
const NONCE_BYTES: usize = 24;

impl Connection {
    /// Logs in, if the settings name a user.
    pub(super) async fn log_in(&mut self) -> Result<(), Failure> {
        let Some(login) = self.settings.login.clone() else { return Ok(()) };
        let address = self.settings.address.clone();
        let mechanism = login.mechanism.unwrap_or_else(|| best(|mechanism| self.greeting.offers(mechanism.name())));
        let (client_first, first) = ClientFirst::new(&login.user, &nonce());
        let start = rawdoc! {
            "saslStart": 1, "mechanism": mechanism.name(), "payload": binary(first), "options": {"skipEmptyExchange": true},
        };
        let answer = self.converse(&login, start).await?;
        let server_first = client_first.read_server_first(payload(&answer)).map_err(Failure::scram(&address))?;
        let conversation = answer.get("conversationId").ok().flatten();
        let salted = hash(&login, mechanism, server_first.salt.clone(), server_first.iterations).await;
        let salted = salted.map_err(|reason| Failure::login(&address, reason))?;
        let (verifier, third) = server_first.make_client_final(mechanism, &salted);
        let mut next = rawdoc! {"saslContinue": 1};
        if let Some(conversation) = conversation {
            next.append(cstr!("conversationId"), conversation);
        }
        let mut more = next.clone();
        next.append(cstr!("payload"), binary(third));
        let answer = self.converse(&login, next).await?;
        verifier.check_server_final(payload(&answer)).map_err(Failure::scram(&address))?;
        if is_done(&answer) {
            return Ok(());
        }
        // A server that does not skip the empty exchange.
        more.append(cstr!("payload"), binary(Vec::new()));
        match is_done(&self.converse(&login, more).await?) {
            true => Ok(()),
            false => Err(Failure::login(&address, "the login does not come to its end")),
        }
    }

    /// Sends one step of the SCRAM exchange and answers the server's reply.
    async fn converse(&mut self, login: &Login, command: RawDocumentBuf) -> Result<RawDocumentBuf, Failure> {
        let answer = self.exchange(Some(&login.source), &command, &[]).await?;
        match Refusal::of(&answer) {
            Some(refused) => {
                let reason = format!("{} (code {})", refused.message, refused.code);
                Err(Failure::login(&self.settings.address, reason))
            }
            None => Ok(answer),
        }
    }
}

/// The password as the server wants it. It takes milliseconds of a processor, which others must not
/// wait for.
async fn hash(login: &Arc<Login>, mechanism: Mechanism, salt: Vec<u8>, iterations: u32) -> Result<Vec<u8>, String> {
    let login = Arc::clone(login);
    let hashed = tokio::task::spawn_blocking(move || login.salted(mechanism, &salt, iterations)).await;
    hashed.unwrap_or_else(|_| Err("the password could not be hashed: the runtime ends".to_owned()))
}

/// The best mechanism that is offered; where none is, as drivers do, SHA-1, which every server
/// knows.
fn best(offered: impl Fn(Mechanism) -> bool) -> Mechanism {
    match offered(Mechanism::ScramSha256) {
        true => Mechanism::ScramSha256,
        false => Mechanism::ScramSha1,
    }
}

fn nonce() -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let mut bytes = [0; NONCE_BYTES];
    rand::rng().fill(&mut bytes[..]);
    BASE64_STANDARD.encode(bytes)
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

/// Payload of a SASL answer; empty if the server sent none, which the next step of SCRAM refuses.
fn payload(answer: &RawDocument) -> &[u8] {
    match answer.get("payload") {
        Ok(Some(RawBsonRef::Binary(binary))) => binary.bytes,
        Ok(Some(RawBsonRef::String(text))) => text.as_bytes(),
        _ => &[],
    }
}

fn is_done(answer: &RawDocument) -> bool {
    answer.get_bool("done").unwrap_or(false)
}
