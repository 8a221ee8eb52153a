//! The client's description of itself in its first handshake: driver, system, application.

use bson::{Document, RawBsonRef, RawDocument};

use crate::{
    connection::Connection,
    error::{CommandError, code},
};

/// Greatest size of the metadata, as a router allows it.
const LONGEST_BYTES: usize = 512;
/// Greatest length of an application's name.
const LONGEST_NAME_BYTES: usize = 128;

/// Keeps the client's description of itself, if the message has one. A client sends it once.
pub(super) fn keep_metadata(connection: &Connection, hello: &RawDocument) -> Result<(), CommandError> {
    let client = match hello.get("client") {
        Ok(None) => return Ok(()),
        Ok(Some(RawBsonRef::Document(client))) => client,
        _ => return Err(CommandError::new(code::TYPE_MISMATCH, "client: expected a document")),
    };
    if client.as_bytes().len() > LONGEST_BYTES {
        let text = format!("client: the client's metadata may have {LONGEST_BYTES} bytes");
        return Err(CommandError::new(code::CLIENT_METADATA_DOCUMENT_TOO_LARGE, text));
    }
    check(client)?;
    let kept = Document::try_from(client).map_err(|error| CommandError::new(code::INVALID_BSON, error.to_string()))?;
    if connection.set_metadata(kept) {
        return Ok(());
    }
    let text = "The client metadata document may only be sent in the first hello";
    Err(CommandError::new(code::CLIENT_METADATA_CANNOT_BE_MUTATED, text))
}

/// Checks that the required fields are there, and that none is too long.
fn check(client: &RawDocument) -> Result<(), CommandError> {
    let missing =
        |what: &str| CommandError::new(code::CLIENT_METADATA_MISSING_FIELD, format!("client: {what} is missing"));
    let driver = client.get_document("driver").map_err(|_| missing("driver"))?;
    driver.get_str("name").map_err(|_| missing("driver.name"))?;
    driver.get_str("version").map_err(|_| missing("driver.version"))?;
    let system = client.get_document("os").map_err(|_| missing("os"))?;
    system.get_str("type").map_err(|_| missing("os.type"))?;
    let name = client.get_document("application").ok().and_then(|application| application.get_str("name").ok());
    if name.is_some_and(|name| name.len() > LONGEST_NAME_BYTES) {
        let text = format!("client: application.name may have {LONGEST_NAME_BYTES} bytes");
        return Err(CommandError::new(code::CLIENT_METADATA_APP_NAME_TOO_LARGE, text));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::connection::Peer;

    fn driver(name: &str) -> RawDocumentBuf {
        rawdoc! {"client": {
            "application": {"name": name}, "driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"},
        }}
    }

    #[test]
    fn it_is_said_once() {
        let connection = Connection::new(1, Peer::Unix);
        keep_metadata(&connection, &rawdoc! {"hello": 1}).unwrap();
        assert_eq!(connection.metadata(), None);
        keep_metadata(&connection, &driver("a")).unwrap();
        let again = keep_metadata(&connection, &driver("b")).unwrap_err();
        assert_eq!(again.code, code::CLIENT_METADATA_CANNOT_BE_MUTATED);
        let name =
            connection.metadata().unwrap().get_document("application").unwrap().get_str("name").unwrap().to_owned();
        assert_eq!(name, "a");
    }

    #[test]
    fn what_is_missing_or_too_long_is_named() {
        let refused = |hello: RawDocumentBuf| keep_metadata(&Connection::new(1, Peer::Unix), &hello).unwrap_err();
        assert_eq!(refused(rawdoc! {"client": 1}).code, code::TYPE_MISMATCH);
        assert_eq!(refused(rawdoc! {"client": {}}).code, code::CLIENT_METADATA_MISSING_FIELD);
        assert_eq!(refused(driver(&"x".repeat(129))).code, code::CLIENT_METADATA_APP_NAME_TOO_LARGE);
        assert_eq!(refused(driver(&"x".repeat(600))).code, code::CLIENT_METADATA_DOCUMENT_TOO_LARGE);
    }
}
