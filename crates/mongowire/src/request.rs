//! One command as it came from a client: a body, and arrays of documents that were sent beside it.
//!
//! The bytes stay as they came, so that a command can be passed on unchanged. `check.rs` has
//! checked all of them when the request is made: reading it later neither fails half-way nor
//! overflows a stack.

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::check;
use crate::error::{CommandError, code};

/// A command that is sent to a server: a body, and document sequences beside it.
///
/// ```
/// use bson::{doc, rawdoc};
/// use mongowire::{Request, Sequence, error::code};
///
/// // The documents of an insert come beside its body.
/// let documents = Sequence::new("documents", &[doc! {"_id": 1}, doc! {"_id": 2}])?;
/// let insert = Request::of_parts(rawdoc! {"insert": "orders", "$db": "shop"}, vec![documents], None)?;
/// assert_eq!((insert.name(), insert.database()), ("insert", "shop"));
/// assert_eq!(insert.sequences()[0].documents().count(), 2);
///
/// // What cannot be carried out is answered with an error of MongoDB.
/// let refused = Request::of(&doc! {"ping": 1}).unwrap_err();
/// assert_eq!(refused.code, code::MISSING_DATABASE);
/// # Ok::<(), mongowire::error::CommandError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    body: RawDocumentBuf,
    sequences: Vec<Sequence>,
    name: String,
    database: String,
    /// Number that the client gave to this message; the answer repeats it in `response_to`.
    pub request_id: i32,
    /// The message that this one answers: 0 in requests, unless a client thinks otherwise.
    pub response_to: i32,
    /// True if the client does not want an answer (`moreToCome`): an unacknowledged write.
    pub more_to_come: bool,
    /// The client would take several answers (`exhaustAllowed`). It takes one as well.
    pub exhaust_allowed: bool,
}

/// An array of documents that was sent beside the body, to stand in it under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Field name of the array that the documents form in the command.
    pub name: String,
    /// The documents' BSON, one after the other, without anything between them.
    pub bytes: Vec<u8>,
}

impl Request {
    /// The request that a driver would send for a command, which names its database in `$db`.
    ///
    /// ```
    /// use bson::doc;
    /// use mongowire::Request;
    ///
    /// let request = Request::of(&doc! {"find": "carts", "$db": "shop"})?;
    /// assert_eq!((request.name(), request.database()), ("find", "shop"));
    /// assert!(Request::of(&doc! {"find": "carts"}).is_err(), "no database is named");
    /// # Ok::<(), mongowire::error::CommandError>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Request::of_parts`].
    pub fn of(command: &Document) -> Result<Self, CommandError> {
        let body = RawDocumentBuf::try_from(command)?;
        Self::of_parts(body, Vec::new(), None)
    }

    /// A request of its parts. `database` is for messages that name it elsewhere; the body does
    /// otherwise, in `$db`.
    ///
    /// # Errors
    /// What has to be answered when a document is no BSON or nested too deeply, when the body is
    /// empty, when an array was sent twice, or when no database is named.
    pub fn of_parts(
        body: RawDocumentBuf,
        sequences: Vec<Sequence>,
        database: Option<&str>,
    ) -> Result<Self, CommandError> {
        check::document(&body)?;
        for (n, sequence) in sequences.iter().enumerate() {
            check::sequence(&sequence.bytes)?;
            let twice = sequences[..n].iter().any(|other| other.name == sequence.name);
            if twice || !matches!(body.get(&sequence.name), Ok(None)) {
                let text = format!("the field {:?} was sent twice, in the body or beside it", sequence.name);
                return Err(CommandError::new(code::FAILED_TO_PARSE, text));
            }
        }
        let name = first_name(&body)?;
        let database = database.map_or_else(|| database_of(&body), |named| Ok(named.to_owned()))?;
        Ok(Self {
            body,
            sequences,
            name,
            database,
            request_id: 0,
            response_to: 0,
            more_to_come: false,
            exhaust_allowed: false,
        })
    }

    /// The command's name: the name of the body's first field, as the client spelled it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the database that the command is for (`$db`), without the collection.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The command's body as bytes, without the document sequences, which [`Request::sequences`]
    /// has.
    pub fn body(&self) -> &RawDocument {
        &self.body
    }

    /// Arrays of documents that were sent beside the body, such as `documents` of an `insert`.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }
}

impl Sequence {
    /// The documents as the array `name` of a command.
    ///
    /// # Errors
    /// 22, for a document that cannot be encoded as BSON.
    pub fn new<'a>(name: &str, documents: impl IntoIterator<Item = &'a Document>) -> Result<Self, CommandError> {
        let mut bytes = Vec::new();
        for document in documents {
            bytes.extend(RawDocumentBuf::try_from(document)?.into_bytes());
        }
        Ok(Self { name: name.to_owned(), bytes })
    }

    /// The documents one by one, as bytes. After the first error the iterator ends.
    pub fn documents(&self) -> impl Iterator<Item = Result<&RawDocument, CommandError>> {
        check::documents(&self.bytes)
    }
}

fn first_name(body: &RawDocument) -> Result<String, CommandError> {
    match body.iter_elements().next() {
        Some(Ok(first)) => Ok(first.key().as_str().to_owned()),
        Some(Err(error)) => Err(error.into()),
        None => Err(CommandError::new(code::FAILED_TO_PARSE, "an empty document is no command")),
    }
}

/// Returns true if MongoDB allows this name for a database: 1 to 63 bytes, without `/\. "` and zero
/// bytes.
pub fn is_database_name(name: &str) -> bool {
    /// Bytes of the longest name that MongoDB allows.
    const LONGEST_BYTES: usize = 63;
    /// Characters that a database's name must not contain.
    const FORBIDDEN: [char; 6] = ['\0', '/', '\\', '.', ' ', '"'];
    !name.is_empty() && name.len() <= LONGEST_BYTES && !name.contains(FORBIDDEN)
}

fn database_of(body: &RawDocument) -> Result<String, CommandError> {
    match body.get("$db")? {
        None => Err(CommandError::new(code::MISSING_DATABASE, "OP_MSG requests require a $db argument")),
        Some(bson::RawBsonRef::String(name)) if !is_database_name(name) => {
            Err(CommandError::new(code::INVALID_NAMESPACE, format!("$db: invalid database name {name:?}")))
        }
        Some(bson::RawBsonRef::String(name)) => Ok(name.to_owned()),
        Some(other) => {
            let text = format!("$db: expected a string, found {:?}", other.element_type());
            Err(CommandError::new(code::NOT_A_STRING, text))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn what_was_sent_twice_is_refused() {
        let body = rawdoc! {"insert": "c", "$db": "d", "documents": []};
        let error = Request::of_parts(body, vec![Sequence::new("documents", &[]).unwrap()], None).unwrap_err();
        assert_eq!(error.code, code::FAILED_TO_PARSE);
        let twice = vec![Sequence::new("documents", &[]).unwrap(), Sequence::new("documents", &[]).unwrap()];
        let error = Request::of_parts(rawdoc! {"insert": "c", "$db": "d"}, twice, None).unwrap_err();
        assert_eq!(error.code, code::FAILED_TO_PARSE);
    }

    #[test]
    fn commands_without_name_or_database_are_refused() {
        let code_of = |command: Document| Request::of(&command).unwrap_err().code;
        assert_eq!(code_of(doc! {}), code::FAILED_TO_PARSE);
        assert_eq!(code_of(doc! {"ping": 1}), code::MISSING_DATABASE);
        assert_eq!(code_of(doc! {"ping": 1, "$db": 1}), code::NOT_A_STRING);
        assert_eq!(code_of(doc! {"ping": 1, "$db": ""}), code::INVALID_NAMESPACE);
        for name in ["x".repeat(64), "a b".to_owned(), "a.b".to_owned(), "a\0".to_owned()] {
            assert_eq!(code_of(doc! {"ping": 1, "$db": &name}), code::INVALID_NAMESPACE, "{name:?}");
        }
    }
}
