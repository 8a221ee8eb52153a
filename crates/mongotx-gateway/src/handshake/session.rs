//! `startSession`: an id for a session. Sessions begin with their first command, not with this;
//! drivers make ids themselves.

use bson::{Document, Uuid, doc};

use super::hello::SESSION_TIMEOUT_MINUTES;

/// A new session id, with the timeout of sessions.
pub(super) fn start() -> Document {
    doc! {"id": {"id": Uuid::new()}, "timeoutMinutes": SESSION_TIMEOUT_MINUTES, "ok": 1.0}
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Bson, spec::BinarySubtype};

    use super::*;

    #[test]
    fn ids_are_uuids_and_differ() {
        let [one, two] = [start(), start()];
        let id = |reply: &Document| reply.get_document("id").ok()?.get("id").cloned();
        assert!(matches!(id(&one), Some(Bson::Binary(Binary { subtype: BinarySubtype::Uuid, .. }))));
        assert_ne!(id(&one), id(&two));
    }
}
