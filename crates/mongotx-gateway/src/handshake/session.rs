//! `startSession`: an id for a session. Sessions begin with their first command, not with this;
//! drivers make ids themselves.

use std::time::Duration;

use bson::{Document, Uuid, doc};

/// A new session id, with the timeout of sessions.
pub(super) fn start(timeout: Duration) -> Document {
    doc! {"id": {"id": Uuid::new()}, "timeoutMinutes": timeout_minutes(timeout), "ok": 1.0}
}

/// Minutes that a session lives without a command, for clients. Drivers use no session in its last
/// minute; 0 would mean that there are no sessions.
pub(super) fn timeout_minutes(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_secs() / 60).unwrap_or(i32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Bson, spec::BinarySubtype};

    use super::*;

    #[test]
    fn ids_are_uuids_and_differ() {
        let [one, two] = [(); 2].map(|()| start(Duration::from_secs(600)));
        let id = |reply: &Document| reply.get_document("id").ok()?.get("id").cloned();
        assert!(matches!(id(&one), Some(Bson::Binary(Binary { subtype: BinarySubtype::Uuid, .. }))));
        assert_ne!(id(&one), id(&two));
        assert_eq!(one.get("timeoutMinutes"), Some(&Bson::Int32(10)));
    }

    #[test]
    fn whole_minutes_are_named_and_one_at_least() {
        for (seconds, minutes) in [(1, 1), (59, 1), (60, 1), (119, 1), (120, 2), (1_800, 30), (604_800, 10_080)] {
            assert_eq!(timeout_minutes(Duration::from_secs(seconds)), minutes, "{seconds}");
        }
    }
}
