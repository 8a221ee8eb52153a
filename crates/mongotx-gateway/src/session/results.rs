//! Results of the statements of one write. Equal results of statements in a row are one entry: an
//! `insert` of 100,000 documents has one.

use std::collections::BTreeMap;

use bson::{Bson, RawDocumentBuf};

use crate::failure::Failure;

/// Result of one statement of a retryable write, to be answered when that is sent again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementResult {
    /// An insert or a deletion of so many documents.
    Count(u64),
    /// The result of an update.
    Update {
        /// Number of documents that matched.
        matched: u64,
        /// Number of documents that were changed.
        modified: u64,
        /// `_id` of the document that was inserted.
        upserted: Option<Bson>,
    },
    /// A `findAndModify`, with its reply.
    Modify(RawDocumentBuf),
    /// Unknown, because its answer was lost, or there was no memory to keep it. It is not tried
    /// again, because it might happen twice.
    Unknown(Failure),
}

impl StatementResult {
    /// Bytes that an entry with this result takes in memory, about.
    pub(super) fn entry_bytes(&self) -> usize {
        // The nodes of the tree are half empty at worst.
        2 * size_of::<(usize, Run)>()
            + match self {
                Self::Count(_) => 0,
                Self::Update { upserted, .. } => upserted.as_ref().map_or(0, heap_bytes),
                Self::Modify(reply) => reply.as_bytes().len(),
                Self::Unknown(failure) => failure.message.len(),
            }
    }
}

/// Bytes that a value takes besides its own size, about.
fn heap_bytes(value: &Bson) -> usize {
    const FIELD: usize = size_of::<(String, Bson)>() + 4 * size_of::<usize>();
    match value {
        Bson::String(text) => text.len(),
        Bson::Binary(binary) => binary.bytes.len(),
        Bson::Document(fields) => fields.iter().map(|(name, value)| FIELD + name.len() + heap_bytes(value)).sum(),
        Bson::Array(values) => values.iter().map(|value| size_of::<Bson>() + heap_bytes(value)).sum(),
        // Scripts and regular expressions: no driver makes such an `_id`.
        _ => 0,
    }
}

/// Statements in a row that have the same result.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    count: usize,
    done: StatementResult,
}

/// The results by their statements.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Results {
    /// Each under its first statement; they do not overlap.
    runs: BTreeMap<usize, Run>,
}

impl Results {
    pub(super) fn get(&self, statement: usize) -> Option<&StatementResult> {
        let (first, run) = self.runs.range(..=statement).next_back()?;
        (statement - first < run.count).then_some(&run.done)
    }

    /// Returns true if the result takes no entry of its own: the statement before has the same.
    pub(super) fn goes_on(&self, statement: usize, done: &StatementResult) -> bool {
        statement.checked_sub(1).and_then(|before| self.get(before)) == Some(done)
    }

    /// Notes a result, instead of the one that there may be.
    pub(super) fn note(&mut self, statement: usize, done: StatementResult) {
        self.forget(statement);
        if let Some((first, run)) = self.runs.range_mut(..statement).next_back()
            && first + run.count == statement
            && run.done == done
        {
            run.count += 1;
            return;
        }
        self.runs.insert(statement, Run { count: 1, done });
    }

    /// Takes a statement out of its run, which may leave two.
    fn forget(&mut self, statement: usize) {
        let Some((&first, run)) = self.runs.range_mut(..=statement).next_back() else { return };
        let before = statement - first;
        if before >= run.count {
            return;
        }
        let rest = Run { count: run.count - before - 1, done: run.done.clone() };
        run.count = before;
        if before == 0 {
            self.runs.remove(&first);
        }
        if rest.count > 0 {
            self.runs.insert(statement + 1, rest);
        }
    }

    /// All results, in the order of the statements.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &StatementResult)> {
        self.runs.iter().flat_map(|(first, run)| (*first..first + run.count).map(|statement| (statement, &run.done)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(n: u64) -> StatementResult {
        StatementResult::Count(n)
    }

    #[test]
    fn a_hundred_thousand_equal_results_are_one_entry() {
        let mut results = Results::default();
        for statement in 0..100_000 {
            assert_eq!(results.goes_on(statement, &count(1)), statement > 0);
            results.note(statement, count(1));
        }
        assert_eq!(results.runs.len(), 1);
        assert_eq!((results.get(99_999), results.get(100_000)), (Some(&count(1)), None));
    }

    /// Compared with a plain map, whatever the order of the statements is.
    #[test]
    fn every_statement_has_the_result_that_was_noted_last() {
        let (mut results, mut expected) = (Results::default(), BTreeMap::new());
        for step in 0..2_000_usize {
            let (statement, n) = (step * 7 % 31, (step * step / 5 % 3) as u64);
            results.note(statement, count(n));
            expected.insert(statement, count(n));
            assert!(results.iter().eq(expected.iter().map(|(statement, done)| (*statement, done))), "{results:?}");
            for statement in 0..33 {
                assert_eq!(results.get(statement), expected.get(&statement));
            }
        }
    }

    #[test]
    fn values_take_what_they_hold() {
        let text = Bson::String("x".repeat(1_000));
        assert_eq!(heap_bytes(&text), 1_000);
        assert!(heap_bytes(&Bson::Document(bson::doc! {"a": [text.clone(), text]})) > 2_000);
        assert_eq!(heap_bytes(&Bson::Int32(1)), 0);
    }
}
