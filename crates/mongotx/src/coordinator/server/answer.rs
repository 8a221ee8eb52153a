//! The answer to a command that writes.

use bson::{Bson, Document, RawDocument};
use sd2v::validator;

use super::failures::{refused_by_server, too_large_with_both};
use crate::{
    document,
    error::{DuplicateKey, Error, ErrorKind, Progress, Result},
    numbers::as_i64,
};

/// Number of MongoDB's error `DocumentValidationFailure`.
const BREAKS_VALIDATOR: i32 = 121;

/// The answer to an `update`, `insert` or `delete` command.
#[derive(Debug, Default)]
pub(crate) struct WriteAnswer {
    /// Documents matched (inserted, deleted), over all statements.
    pub(crate) n: i64,
    /// Documents changed, over all statements.
    pub(crate) modified: i64,
    /// True if the command was an `update`.
    pub(crate) is_update: bool,
    /// The places of the statements that have inserted a document, and its `_id`.
    pub(crate) upserted: Vec<(usize, Bson)>,
    /// Statements that the server refused: place, code, words.
    pub(crate) errors: Vec<(usize, Error)>,
}

/// Reads the answer of a server that has carried out the command of this name. Documents may hold
/// text that is not UTF-8, which a [`Document`] cannot.
///
/// # Errors
/// [`ErrorKind::Unavailable`] if a `findAndModify` has answered such a document: what it has done
/// is done, and the answer is as good as lost. 22 if another command has, which has changed
/// nothing.
pub(super) fn read_answer(command: &str, answer: &RawDocument) -> Result<Document> {
    match command {
        // Nothing but the texts of errors can be such.
        "insert" | "update" | "delete" => document::parse_lossy(answer),
        "findAndModify" => document::parse(answer).map_err(|error| {
            let message = format!("the server has carried the command out, and its answer cannot be read: {error}");
            Error::new(ErrorKind::Unavailable, message).maybe_done()
        }),
        _ => document::parse(answer),
    }
}

impl WriteAnswer {
    /// The answer to a write that stores both versions of a document: where they are too large, it
    /// says so.
    pub(super) fn of_held(self) -> Self {
        let errors = self.errors.into_iter().map(|(place, error)| (place, too_large_with_both(error).clean()));
        Self { errors: errors.collect(), ..self }
    }

    /// # Errors
    /// [`ErrorKind::Unavailable`] when a statement was not carried out because the server ceased to
    /// be the primary.
    pub(super) fn parse_write(answer: &Document) -> Result<Self> {
        let number = |field| answer.get(field).map_or(0, as_i64);
        let place = |of: &Document| usize::try_from(of.get("index").map_or(0, as_i64)).unwrap_or(0);
        let upserted = answer.get_array("upserted").into_iter().flatten().filter_map(Bson::as_document);
        let upserted = upserted.filter_map(|one| Some((place(one), one.get("_id")?.clone()))).collect();
        let errors = answer.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document);
        let errors = errors.map(|error| {
            let code = error.get("code").map_or(0, as_i64) as i32;
            let message = error.get_str("errmsg").unwrap_or("the server gave no reason");
            let info = error.get_document("errInfo").ok().map(validator::explain);
            let refused = refused_by_server(code, message);
            let refused = refused.with_duplicate_key(DuplicateKey::read(error)).with_info(info);
            (place(error), refused.clean())
        });
        let errors: Vec<(usize, Error)> = errors.collect();
        let is_update = answer.contains_key("nModified");
        match errors.iter().find(|(_, error)| error.kind() == ErrorKind::Unavailable) {
            Some((_, away)) => Err(away.clone()),
            None => Ok(Self { n: number("n"), modified: number("nModified"), is_update, upserted, errors }),
        }
    }

    /// The counts of a write by the command of this name.
    pub(super) fn progress(&self, command: &str) -> Progress {
        let n = u64::try_from(self.n).unwrap_or(0);
        let upserted = self.upserted.len() as u64;
        match command {
            "insert" => Progress { inserted: n, ..Progress::default() },
            "delete" => Progress { deleted: n, ..Progress::default() },
            _ => Progress {
                matched: n.saturating_sub(upserted),
                modified: u64::try_from(self.modified).unwrap_or(0),
                upserted,
                ..Progress::default()
            },
        }
    }

    /// Returns true if it has changed, inserted or removed documents, as far as the totals show.
    /// (Of a statement of many documents that has failed midway they do not.)
    pub(super) fn has_changed(&self) -> bool {
        // An `update` has a number of those that it has changed; other commands have matched none
        // in vain.
        self.modified > 0 || !self.upserted.is_empty() || !self.is_update && self.n > 0
    }

    pub(super) fn breaks_validator(&self) -> bool {
        self.errors.iter().any(|(_, error)| error.code() == Some(BREAKS_VALIDATOR))
    }

    /// The answer, or the first statement's error.
    pub(crate) fn ok(mut self) -> Result<Self> {
        if self.errors.is_empty() { Ok(self) } else { Err(self.errors.swap_remove(0).1) }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn statements_that_the_server_did_not_finish_are_unanswered() {
        let answer = |code| {
            let error = doc! {"index": 0, "code": code, "errmsg": "no"};
            WriteAnswer::parse_write(&doc! {"n": 0, "writeErrors": [error], "ok": 1.0})
        };
        for code in [91, 189, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436] {
            assert_eq!(answer(code).unwrap_err().kind(), ErrorKind::Unavailable, "{code}");
        }
        assert_eq!(answer(11_000).unwrap().errors.len(), 1);
    }

    #[test]
    fn progress_is_what_the_command_has_done() {
        let upserted = doc! {"index": 0, "_id": 7};
        let answer =
            WriteAnswer::parse_write(&doc! {"n": 3, "nModified": 1, "upserted": [upserted], "ok": 1.0}).unwrap();
        let updated = answer.progress("update");
        assert_eq!((updated.matched, updated.modified, updated.upserted), (2, 1, 1));
        assert_eq!((answer.progress("insert").inserted, answer.progress("delete").deleted), (3, 3));
    }
}
