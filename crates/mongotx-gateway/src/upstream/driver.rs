//! Commands passed on by the official driver. It reads answers into documents and writes them
//! again, which keeps everything but a name that occurs twice.

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, raw::CStr};
use mongodb::error::ErrorKind;

use super::Unanswered;
use crate::{
    error::{CommandError, code},
    reply::Reply,
    request::Sequence,
};

/// Runs a command over the driver: see [`super::Upstream::run_command`].
pub(super) async fn run_command(
    client: &mongodb::Client,
    database: &str,
    body: &RawDocument,
    sequences: &[Sequence],
) -> Result<Reply, Unanswered> {
    let command = whole(body, sequences).map_err(|error| Unanswered { error, is_unsent: true })?;
    match client.database(database).run_raw_command(command).await {
        Ok(reply) => Ok(Reply::from(reply)),
        Err(error) => match error.server_response() {
            Some(reply) => Ok(Reply::from(reply.clone())),
            None => {
                let is_unsent = is_unsent(&error.kind);
                let error = CommandError::new(code::HOST_UNREACHABLE, mongotx::error::driver_words(&error));
                Err(Unanswered { error, is_unsent })
            }
        },
    }
}

/// Returns true if the driver had no connection to send the command over. (When it clears its pool,
/// it answers so for commands that are under way, too.)
fn is_unsent(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. })
}

/// One document, with the sequences as arrays, and without the database, which the driver adds.
fn whole(body: &RawDocument, sequences: &[Sequence]) -> Result<RawDocumentBuf, CommandError> {
    let invalid = |error: bson::error::Error| CommandError::new(code::INVALID_BSON, error.to_string());
    let mut whole = RawDocumentBuf::new();
    for field in body.iter() {
        let (name, value) = field.map_err(invalid)?;
        if name.as_str() != "$db" {
            whole.append(name, value);
        }
    }
    for sequence in sequences {
        let mut array = RawArrayBuf::new();
        for document in sequence.documents() {
            array.push(document?);
        }
        whole.append(<&CStr>::try_from(sequence.name.as_str()).map_err(invalid)?, array);
    }
    Ok(whole)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn sequences_become_arrays_and_the_database_goes() {
        let sequence = Sequence::new("documents", &[doc! {"a": 1}]).unwrap();
        let command = whole(&rawdoc! {"insert": "c", "$db": "d", "ordered": true}, &[sequence]).unwrap();
        assert_eq!(command, rawdoc! {"insert": "c", "ordered": true, "documents": [{"a": 1}]});
    }
}
