//! An upsert that has met a duplicate key looks again whether a document matches, as the server's
//! own do: a rival may have inserted, and committed, what was not there when it looked.
//!
//! 1. Nothing matches: insert. A duplicate key: match again. Whatever matches now is changed.
//! 2. Still nothing matches: it is a real duplicate, which is reported. Exception: the filter
//!    demands the very key that was there, and nothing else. Then that key is gone, and the
//!    document can be inserted after all.

use bson::Document;
use sd2v::filter::demands_only;

use crate::error::{Error, Result};

/// Times that one upsert matches again.
const REMATCHES: usize = 16;

/// State of one upsert between its attempts.
#[derive(Default)]
pub(crate) struct Rematches {
    refused: Option<Error>,
    times: usize,
}

impl Rematches {
    /// Called when no document matches. An error: the duplicate that was met before is a real one.
    pub(crate) fn may_insert(&mut self, filter: &Document) -> Result<()> {
        let Some(refused) = self.refused.take() else { return Ok(()) };
        let was_sought = refused.duplicate_key().is_some_and(|key| demands_only(filter, &key.value));
        if was_sought && self.times < REMATCHES { Ok(()) } else { Err(refused) }
    }

    /// Judges the result of the insert. `None`: match again.
    pub(crate) fn judge<T>(&mut self, inserted: Result<T>) -> Result<Option<T>> {
        match inserted {
            Err(refused) if refused.is_duplicate_key() && !refused.ends_transaction() => {
                self.times += 1;
                self.refused = Some(refused);
                Ok(None)
            }
            inserted => inserted.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::error::DuplicateKey;

    fn duplicate(key: Document) -> Result<()> {
        Err(Error::invalid(11000, "duplicate").with_duplicate_key(Some(DuplicateKey::of_value(key))))
    }

    #[test]
    fn a_duplicate_of_what_was_sought_is_inserted_again_a_bounded_number_of_times() {
        let (filter, mut rematches, mut times) = (doc! {"k": 1_i64, "l": {"$eq": 2}}, Rematches::default(), 0);
        while rematches.may_insert(&filter).is_ok() {
            assert!(rematches.judge(duplicate(doc! {"k": 1, "l": 2})).unwrap().is_none());
            times += 1;
        }
        assert_eq!(times, REMATCHES);
    }

    #[test]
    fn another_duplicate_is_a_real_one() {
        for key in [doc! {"k": 2}, doc! {"l": 1}, doc! {"k": 1, "l": 1}, doc! {}] {
            let mut rematches = Rematches::default();
            assert!(rematches.judge(duplicate(key.clone())).unwrap().is_none());
            assert_eq!(rematches.may_insert(&doc! {"k": 1}).unwrap_err().code(), Some(11000), "{key}");
        }
    }

    #[test]
    fn any_other_error_is_answered_at_once() {
        let other: Result<()> = Err(Error::invalid(2, "bad"));
        assert_eq!(Rematches::default().judge(other).unwrap_err().code(), Some(2));
        assert!(Rematches::default().judge(Ok(())).unwrap().is_some());
    }
}
