//! Commands as they come from clients, and as parsed documents for handlers.

use bson::{Bson, Document, RawDocument};

pub(crate) use mongowire::is_database_name;
pub use mongowire::{Request, Sequence};

use crate::error::{CommandError, code};

/// A command as one document, with its document sequences.
///
/// ```
/// use bson::{doc, rawdoc};
/// use mongotx_gateway::{Request, Sequence, WholeCommand};
///
/// let beside = Sequence::new("documents", &[doc! {"_id": 1}])?;
/// let insert = Request::of_parts(rawdoc! {"insert": "accounts", "$db": "bank"}, vec![beside], None)?;
/// assert_eq!(insert.to_document()?, doc! {"insert": "accounts", "$db": "bank", "documents": [{"_id": 1}]});
/// # Ok::<(), mongotx_gateway::error::CommandError>(())
/// ```
pub trait WholeCommand {
    /// The command as one document: the sequences stand in it as arrays, after the body's own
    /// fields.
    ///
    /// # Errors
    /// 22, with the name of the field, where the document would not be the same: a field that is
    /// there twice, an array whose places are not numbered. A command that cannot be read at all
    /// was refused by [`Request::of_parts`] before.
    fn to_document(&self) -> Result<Document, CommandError>;
}

impl WholeCommand for Request {
    fn to_document(&self) -> Result<Document, CommandError> {
        let mut document = exact(self.body())?;
        for sequence in self.sequences() {
            let documents: Result<Vec<Bson>, CommandError> =
                sequence.documents().map(|one| Ok(Bson::Document(exact(one?)?))).collect();
            document.insert(&sequence.name, documents?);
        }
        Ok(document)
    }
}

fn exact(raw: &RawDocument) -> Result<Document, CommandError> {
    mongotx::document::exact(raw).map_err(|error| CommandError::new(code::INVALID_BSON, error.message()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn sequences_stand_in_the_document_as_arrays() {
        let body = rawdoc! {"insert": "c", "$db": "d"};
        let request =
            Request::of_parts(body, vec![Sequence::new("documents", &[doc! {"a": 1}, doc! {}]).unwrap()], None)
                .unwrap();
        assert_eq!((request.name(), request.database()), ("insert", "d"));
        let whole = doc! {"insert": "c", "$db": "d", "documents": [{"a": 1}, {}]};
        assert_eq!(request.to_document().unwrap(), whole);
    }
}
