//! The `writeErrors` of a reply. All statements of a command may be refused, so their words are
//! bounded: a reply that no driver can read would tell nothing.

use bson::{Document, RawDocumentBuf, doc};

use crate::failure::Failure;

/// Bytes of all messages together; those that come after are empty, as in the server.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// Bytes of all other fields together; entries that come after have none but their statement and
/// the code. The server has no such limit: there the keys in them are part of the request.
const DETAIL_BYTES: usize = 32 * 1024 * 1024;

/// Refused statements, and the room that is left for what is said about them.
pub(super) struct WriteErrors {
    entries: Vec<Document>,
    message_bytes: usize,
    detail_bytes: usize,
}

impl Default for WriteErrors {
    fn default() -> Self {
        Self { entries: Vec::new(), message_bytes: MESSAGE_BYTES, detail_bytes: DETAIL_BYTES }
    }
}

impl WriteErrors {
    pub(super) fn add(&mut self, statement: usize, failure: &Failure) {
        let mut entry = doc! {"index": statement as i32, "code": failure.code};
        let is_left = take(&mut self.message_bytes, failure.message.len());
        entry.insert("errmsg", if is_left { failure.message.as_str() } else { "" });
        let bytes = RawDocumentBuf::try_from(&*failure.details).map_or(usize::MAX, |raw| raw.as_bytes().len());
        if take(&mut self.detail_bytes, bytes) {
            entry.extend(Document::clone(&failure.details));
        }
        self.entries.push(entry);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn into_entries(self) -> Vec<Document> {
        self.entries
    }
}

/// Takes from what is left. False: there is not so much.
fn take(left: &mut usize, bytes: usize) -> bool {
    let rest = left.checked_sub(bytes);
    *left = rest.unwrap_or(*left);
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_refused_statements_are_bounded_and_every_statement_is_named() {
        let mut errors = WriteErrors::default();
        let message = "m".repeat(MESSAGE_BYTES / 2);
        let details = doc! {"keyValue": {"_id": "k".repeat(DETAIL_BYTES / 3)}};
        for statement in 0..5 {
            let mut failure = Failure::new(11_000, message.as_str());
            *failure.details = details.clone();
            errors.add(statement, &failure);
        }
        errors.add(5, &Failure::new(7, ""));
        let said: Vec<_> = errors
            .into_entries()
            .iter()
            .map(|entry| {
                let message = entry.get_str("errmsg").unwrap_or("?").len();
                (entry.get_i32("index").unwrap_or(-1), message > 0, entry.contains_key("keyValue"))
            })
            .collect();
        let words = [(true, true), (true, true), (false, false), (false, false), (false, false), (false, false)];
        assert_eq!(said, (0..).zip(words).map(|(index, (words, key))| (index, words, key)).collect::<Vec<_>>());
    }
}
