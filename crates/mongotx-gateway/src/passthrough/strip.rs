//! Fields that a server without sessions and transactions refuses, or that are about the gateway
//! and not about the server.

use std::borrow::Cow;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::CommandError;

/// Fields of sessions and transactions, and of the cluster's time.
const FOREIGN: [&str; 8] =
    ["lsid", "txnNumber", "startTransaction", "autocommit", "stmtId", "stmtIds", "recoveryToken", "$clusterTime"];
const READ_CONCERN: &str = "readConcern";
/// The part of a read concern that says "not before this time of the cluster".
const AFTER: &str = "afterClusterTime";

/// The command without these fields. All others are copied byte for byte; most commands are not
/// copied at all.
pub(super) fn strip(body: &RawDocument) -> Result<Cow<'_, RawDocument>, CommandError> {
    let mut foreign = false;
    for field in body.iter_elements() {
        foreign |= is_foreign(field?.key().as_str());
    }
    if !foreign {
        return Ok(Cow::Borrowed(body));
    }
    let mut kept = RawDocumentBuf::new();
    for field in body.iter() {
        let (name, value) = field?;
        match value {
            RawBsonRef::Document(concern) if name.as_str() == READ_CONCERN => {
                kept.append(name, without(concern, AFTER)?);
            }
            _ if FOREIGN.contains(&name.as_str()) => {}
            value => kept.append(name, value),
        }
    }
    Ok(Cow::Owned(kept))
}

fn is_foreign(name: &str) -> bool {
    FOREIGN.contains(&name) || name == READ_CONCERN
}

fn without(document: &RawDocument, left_out: &str) -> Result<RawDocumentBuf, CommandError> {
    let mut kept = RawDocumentBuf::new();
    for field in document.iter() {
        let (name, value) = field?;
        if name.as_str() != left_out {
            kept.append(name, value);
        }
    }
    Ok(kept)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn only_what_is_foreign_goes() {
        let sent = rawdoc! {
            "dbStats": 1, "lsid": {"id": 1}, "txnNumber": 1_i64, "scale": 1.0, "readConcern": {"level": "local", "afterClusterTime": 1},
            "$clusterTime": {}, "$db": "d",
        };
        let kept = rawdoc! {"dbStats": 1, "scale": 1.0, "readConcern": {"level": "local"}, "$db": "d"};
        assert_eq!(&*strip(&sent).unwrap(), &*kept);
    }

    #[test]
    fn commands_without_such_fields_are_not_copied() {
        let sent = rawdoc! {"ping": 1, "nested": {"lsid": 1}, "$db": "d"};
        assert!(matches!(strip(&sent), Ok(Cow::Borrowed(_))));
    }
}
