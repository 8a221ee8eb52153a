//! Looks through documents that came from outside before anything else touches them.
//!
//! Afterwards every length, type byte and string in them is known to be right, and nothing is
//! nested more deeply than MongoDB itself allows: code that recurses over documents cannot overflow
//! its stack.

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

use bson::{RawBsonRef, RawDocument};

use crate::error::{CommandError, code};

/// Depth to which documents and arrays may be nested, as in MongoDB.
pub(crate) const MAX_DEPTH: usize = 200;

/// Checks a document that came from outside, with everything nested in it.
pub(crate) fn document(document: &RawDocument) -> Result<(), CommandError> {
    nested(document, &mut Vec::new())
}

/// Looks through documents that stand one after the other.
pub(crate) fn sequence(bytes: &[u8]) -> Result<(), CommandError> {
    documents(bytes).try_for_each(|one| document(one?))
}

/// Documents that stand one after the other. Ends after the first that is none.
pub(crate) fn documents(bytes: &[u8]) -> impl Iterator<Item = Result<&RawDocument, CommandError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let first = split_first(rest);
        rest = first.as_ref().map_or(&[], |(_, rest)| *rest);
        Some(first.map(|(first, _)| first))
    })
}

/// The document at the beginning, and what comes after it.
fn split_first(bytes: &[u8]) -> Result<(&RawDocument, &[u8]), CommandError> {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length)).unwrap_or(0);
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len());
    let Some((first, rest)) = length.map(|length| bytes.split_at(length)) else {
        return Err(invalid("a document's length does not fit into its message"));
    };
    Ok((RawDocument::from_bytes(first).map_err(invalid)?, rest))
}

/// `path`: the names of the fields that the document stands in.
fn nested<'a>(document: &'a RawDocument, path: &mut Vec<&'a str>) -> Result<(), CommandError> {
    if path.len() >= MAX_DEPTH {
        let text = format!("documents cannot be nested more than {MAX_DEPTH} levels deep");
        return Err(CommandError::new(code::OVERFLOW, text));
    }
    for element in document.iter_elements() {
        let element = element.map_err(invalid)?;
        path.push(element.key().as_str());
        let value = element.value();
        match value.map_err(|error| invalid(format!("the field {:?} cannot be read: {error}", path.join("."))))? {
            RawBsonRef::Document(inner) => nested(inner, path)?,
            RawBsonRef::Array(inner) => array(inner, path)?,
            RawBsonRef::JavaScriptCodeWithScope(code) => nested(code.scope, path)?,
            _ => {}
        }
        path.pop();
    }
    Ok(())
}

/// Like [`nested`]; arrays are documents with another iterator.
fn array<'a>(array: &'a bson::RawArray, path: &mut Vec<&'a str>) -> Result<(), CommandError> {
    let document = RawDocument::from_bytes(array.as_bytes()).map_err(invalid)?;
    nested(document, path)
}

fn invalid(error: impl ToString) -> CommandError {
    CommandError::new(code::INVALID_BSON, error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{Bson, RawDocumentBuf, doc};

    use super::*;

    fn nest(levels: usize) -> RawDocumentBuf {
        let mut inner = doc! {};
        for n in 1..levels {
            inner = if n % 2 == 0 {
                doc! {"a": inner}
            } else {
                doc! {"a": [Bson::Document(inner)]}
            };
        }
        RawDocumentBuf::try_from(&inner).unwrap()
    }

    #[test]
    fn depth_is_limited() {
        assert!(document(&nest(100)).is_ok());
        assert_eq!(document(&nest(MAX_DEPTH + 1)).unwrap_err().code, code::OVERFLOW);
    }

    #[test]
    fn the_field_that_cannot_be_read_is_named() {
        let mut bytes = RawDocumentBuf::try_from(&doc! {"a": [1, {"b": "**"}]}).unwrap().into_bytes();
        let place = bytes.windows(2).position(|two| two == b"**").unwrap();
        bytes[place] = 0xff;
        let refused = document(RawDocument::from_bytes(&bytes).unwrap()).unwrap_err();
        assert_eq!(refused.code, code::INVALID_BSON);
        assert!(refused.message.contains("\"a.1.b\""), "{refused:?}");
    }

    #[test]
    fn sequences_with_wrong_lengths_are_refused() {
        let one = RawDocumentBuf::try_from(&doc! {"a": 1}).unwrap().into_bytes();
        assert!(sequence(&[]).is_ok());
        assert!(sequence(&[one.clone(), one.clone()].concat()).is_ok());
        for bad in [-1i32, 0, 4, 11, 13, i32::MAX, i32::MIN] {
            let mut bytes = [one.clone(), one.clone()].concat();
            bytes[12..16].copy_from_slice(&bad.to_le_bytes());
            assert_eq!(sequence(&bytes).unwrap_err().code, code::INVALID_BSON, "{bad}");
        }
        assert!(sequence(&one[..3]).is_err());
    }
}
