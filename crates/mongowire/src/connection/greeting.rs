//! The first exchange of a connection: `hello` with the client's name, and the server's answer.

use bson::{RawDocumentBuf, cstr, oid::ObjectId, rawdoc};

use crate::{
    settings::{Login, Settings},
    wire::MAX_MESSAGE_BYTES,
};

/// Limit of a document's bytes, if the server states none.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// The server's answer to `hello`: the first message of every connection.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// The whole answer to `hello`, for fields that have no place of their own here.
    pub hello: RawDocumentBuf,
    /// Id of the server process, new at every start. `None`: the server does not send it (a router,
    /// or another product).
    pub process_id: Option<ObjectId>,
    /// True if the server accepts writes (`isWritablePrimary`): a primary, a standalone server or a
    /// router.
    pub is_writable: bool,
    /// True if the server is a router (`mongos`), or says that it is one.
    pub is_router: bool,
    /// Name of the replica set that the server is a member of. `None`: it is in none.
    pub set_name: Option<String>,
    /// Size of the largest document that the server stores, in bytes; 16 MiB unless it says
    /// otherwise.
    pub max_document_bytes: usize,
    /// Size of the longest message that the server takes, in bytes, its header included.
    pub max_message_bytes: usize,
    /// Minutes after which the server removes an idle session. `None`: it has no sessions.
    pub session_minutes: Option<i32>,
}

impl Greeting {
    pub(super) fn read(hello: RawDocumentBuf) -> Self {
        let flag = |name: &str| hello.get_bool(name).unwrap_or(false);
        let bytes = |name: &str, default| {
            hello.get_i32(name).ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(default)
        };
        let topology = hello.get_document("topologyVersion");
        Self {
            process_id: topology.and_then(|version| version.get_object_id("processId")).ok(),
            is_writable: flag("isWritablePrimary") || flag("ismaster"),
            is_router: hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid"),
            set_name: hello.get_str("setName").ok().map(str::to_owned),
            max_document_bytes: bytes("maxBsonObjectSize", MAX_DOCUMENT_BYTES),
            max_message_bytes: bytes("maxMessageSizeBytes", MAX_MESSAGE_BYTES).min(MAX_MESSAGE_BYTES),
            session_minutes: hello.get_i32("logicalSessionTimeoutMinutes").ok(),
            hello,
        }
    }

    /// Returns true if the server lets the user of the handshake log in by this mechanism.
    pub(super) fn offers(&self, mechanism: &str) -> bool {
        let offered = self.hello.get_array("saslSupportedMechs").into_iter().flatten();
        offered.flatten().any(|one| one.as_str() == Some(mechanism))
    }
}

/// The first command of a connection.
pub(super) fn hello(settings: &Settings) -> RawDocumentBuf {
    let mut client = rawdoc! {};
    if let Some(name) = &settings.app_name {
        client.append(cstr!("application"), rawdoc! {"name": name.as_str()});
    }
    client.append(cstr!("driver"), rawdoc! {"name": "mongowire", "version": env!("CARGO_PKG_VERSION")});
    client.append(cstr!("os"), rawdoc! {"type": std::env::consts::OS});
    let mut hello = rawdoc! {"hello": 1, "client": client};
    if let Some(Login { user, source, mechanism: None, .. }) = settings.login.as_deref() {
        hello.append(cstr!("saslSupportedMechs"), format!("{source}.{user}"));
    }
    hello
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::settings::Address;

    #[test]
    fn greetings_of_all_kinds_of_servers_are_read() {
        let id = ObjectId::new();
        let alone = Greeting::read(rawdoc! {
            "isWritablePrimary": true, "topologyVersion": {"processId": id, "counter": 0_i64},
            "maxBsonObjectSize": 1000, "maxMessageSizeBytes": 48_000_000, "logicalSessionTimeoutMinutes": 30, "ok": 1.0,
        });
        assert_eq!((alone.process_id, alone.max_document_bytes, alone.session_minutes), (Some(id), 1000, Some(30)));
        assert!(alone.is_writable && !alone.is_router && alone.set_name.is_none());
        let router = Greeting::read(rawdoc! {"isWritablePrimary": true, "msg": "isdbgrid"});
        assert!(router.is_router && router.process_id.is_none());
        assert_eq!(router.max_message_bytes, MAX_MESSAGE_BYTES);
        let secondary =
            Greeting::read(rawdoc! {"isWritablePrimary": false, "setName": "rs0", "maxMessageSizeBytes": -1});
        assert_eq!((secondary.is_writable, secondary.set_name.as_deref()), (false, Some("rs0")));
    }

    #[test]
    fn servers_are_asked_about_a_user_whose_mechanism_is_not_known() {
        let mut settings = Settings::new(Address::Tcp("h".to_owned(), 1));
        assert!(hello(&settings).get("saslSupportedMechs").unwrap().is_none());
        settings.login = Some(Login::new("u", "p", "d", None).into());
        assert_eq!(hello(&settings).get_str("saslSupportedMechs").unwrap(), "d.u");
        let greeting = Greeting::read(rawdoc! {"saslSupportedMechs": ["SCRAM-SHA-256", 1]});
        assert!(greeting.offers("SCRAM-SHA-256") && !greeting.offers("SCRAM-SHA-1"));
    }
}
