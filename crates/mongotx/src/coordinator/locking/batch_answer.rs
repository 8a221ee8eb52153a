//! Reads the answer to a command of several prepared writes, which has totals only.
//!
//! Each statement takes its lock if and only if it matches (a removal, the first of two) or changes
//! its document (the only one of a change). So if the totals are those of a command that has done
//! everything, it has. Otherwise another read has found out which documents are held. Of two
//! statements the second matches what the first has locked, unless it was refused, or others have
//! ended the transaction in between: the matches show that. The totals show which documents were
//! *modified* only if all were, or none, or if all that are held count. Which statements have
//! inserted a document the answer says.
//!
//! A question behind a change matches nothing, and changes nothing, or ends the command by an error
//! (decision 0074): the document in front of it is locked and changed, and its keys may be
//! another's.
//!
//! One statement may name all documents (decision 0079). Its totals are read in the same way,
//! unless it has failed: then they leave out what it has changed, and are not read here.

use crate::coordinator::server::WriteAnswer;

/// Kind of the statements that lock a document and change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// One statement that locks and changes, or does neither.
    Fused,
    /// One statement that locks for removal.
    Remove,
    /// Two statements: one locks and copies, the other changes the copy.
    InTwo,
    /// One statement that inserts; it matches nothing. The answer names those that have inserted.
    Insert,
}

impl StatementKind {
    /// Statements that match the document.
    fn matches(self) -> usize {
        match self {
            Self::Insert => 0,
            Self::Fused | Self::Remove => 1,
            Self::InTwo => 2,
        }
    }
}

/// The statements for one document of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentStatements {
    pub(super) kind: StatementKind,
    /// Number of questions behind the statements that lock and change it.
    pub(super) questions: usize,
}

impl SentStatements {
    fn all(self) -> usize {
        self.kind.matches().max(1) + self.questions
    }
}

/// Outcome of several prepared writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchOutcome {
    /// Number of the first documents that are locked, and changed as they were to be.
    pub(crate) count: usize,
    /// Number of these that have been modified, or removed.
    pub(crate) modified: usize,
    /// True if no document after them is held.
    pub(super) is_all_that_is_held: bool,
    /// The documents that were held were given back, because the totals do not show which ones were
    /// modified: sent together again, they would be given back again.
    pub(crate) is_unclear: bool,
    /// All that were sent are done, and no others because the command had no room for them.
    pub(crate) is_full: bool,
    /// The server has refused the one statement that named all documents, and nothing is done: as
    /// statements of their own, those before the refused one can be.
    pub(crate) is_refused_as_one: bool,
}

impl BatchOutcome {
    fn all(sent: &[SentStatements], modified: usize) -> Self {
        Self { count: sent.len(), modified, is_all_that_is_held: true, ..Self::default() }
    }
}

/// Outcome, if everything was done. `None`: a read has to find out which documents are held.
pub(super) fn outcome_of_all(sent: &[SentStatements], answer: &WriteAnswer) -> Option<BatchOutcome> {
    let Totals { matched, modified, inserted } = Totals::of(answer);
    if !answer.errors.is_empty() || inserted != inserts(sent) {
        return None;
    }
    if is_short(sent) {
        let (changes, is_asked) = (matches(sent), sent.iter().any(|one| one.questions > 0));
        // No question has matched anything: else it would have failed.
        return (modified == changes && (!is_asked || matched == changes)).then(|| BatchOutcome::all(sent, modified));
    }
    (matched == matches(sent)).then(|| BatchOutcome::all(sent, modified.saturating_sub(locks_apart(sent))))
}

/// Outcome, if not everything was done; `held`: which of the documents are.
pub(super) fn outcome_of_some(sent: &[SentStatements], held: &[bool], answer: &WriteAnswer) -> BatchOutcome {
    let totals = Totals::of(answer);
    let refused = answer.errors.first().map(|(place, _)| RefusedStatement::at(sent, *place));
    let first = held.iter().take_while(|held| **held).count();
    let count = refused.map_or(first, |refused| first.min(refused.document));
    let (changes, are_inserted) = (count - inserts(&sent[..count]), totals.inserted == inserts(&sent[..count]));
    if is_short(sent) {
        let is_all_that_is_held = totals.modified == changes && are_inserted;
        return BatchOutcome { count, modified: changes, is_all_that_is_held, ..BatchOutcome::default() };
    }
    // Statements of those that are held. The refused one was locked, if it is, and changed only if
    // a question behind the change has failed.
    let refused_at = |place: usize| refused.filter(|refused| refused.document == place);
    let matches_at = |place: usize| match (sent[place].kind, refused_at(place)) {
        (StatementKind::Insert, _) | (_, None) => sent[place].kind.matches(),
        (kind, Some(refused)) => refused.before.clamp(1, kind.matches()),
    };
    let is_changed =
        |place: usize| refused_at(place).is_none_or(|refused| refused.before >= sent[place].kind.matches());
    let matched: usize = (0..sent.len()).filter(|place| held[*place]).map(matches_at).sum();
    let unmodified = matched.saturating_sub(totals.modified);
    let could_be = sent[..count].iter().filter(|one| one.kind == StatementKind::InTwo).count();
    let others =
        (count..sent.len()).any(|place| held[place] && sent[place].kind == StatementKind::InTwo && is_changed(place));
    let is_known = matched == totals.matched && totals.modified <= matched && unmodified <= could_be;
    if !is_known || unmodified > 0 && others {
        let is_none_held = totals.matched == 0 && totals.inserted == 0;
        return BatchOutcome { is_all_that_is_held: is_none_held, is_unclear: true, ..BatchOutcome::default() };
    }
    let is_all_that_is_held = totals.matched == matches(&sent[..count]) && are_inserted;
    BatchOutcome { count, modified: changes - unmodified, is_all_that_is_held, ..BatchOutcome::default() }
}

/// The totals of an answer.
struct Totals {
    matched: usize,
    modified: usize,
    inserted: usize,
}

impl Totals {
    fn of(answer: &WriteAnswer) -> Self {
        let number = |n: i64| usize::try_from(n).unwrap_or(0);
        let inserted = answer.upserted.len();
        // What is inserted counts among the matches.
        Self { matched: number(answer.n).saturating_sub(inserted), modified: number(answer.modified), inserted }
    }
}

/// Returns true if one statement does everything to each. Then the number of statements that match
/// shows nothing.
fn is_short(sent: &[SentStatements]) -> bool {
    sent.iter().all(|one| one.kind != StatementKind::InTwo)
}

/// Statements that match their documents.
fn matches(sent: &[SentStatements]) -> usize {
    sent.iter().map(|one| one.kind.matches()).sum()
}

/// Statements that do nothing but lock: each of them modifies its document.
fn locks_apart(sent: &[SentStatements]) -> usize {
    sent.iter().filter(|one| one.kind == StatementKind::InTwo).count()
}

fn inserts(sent: &[SentStatements]) -> usize {
    sent.iter().filter(|one| one.kind == StatementKind::Insert).count()
}

/// The places of the statements that insert, in the command.
pub(super) fn places_of_inserts(sent: &[SentStatements]) -> impl Iterator<Item = usize> + '_ {
    let starts = sent.iter().scan(0, |next, one| {
        let start = *next;
        *next += one.all();
        Some(start)
    });
    sent.iter().zip(starts).filter(|(one, _)| one.kind == StatementKind::Insert).map(|(_, start)| start)
}

/// A statement that the server has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RefusedStatement {
    document: usize,
    /// Number of statements for this document that stand before it.
    before: usize,
}

impl RefusedStatement {
    /// The statement at this place of the command.
    fn at(sent: &[SentStatements], place: usize) -> Self {
        let mut before = place;
        for (document, one) in sent.iter().enumerate() {
            if before < one.all() {
                return Self { document, before };
            }
            before -= one.all();
        }
        Self { document: sent.len(), before }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BatchOutcome, RefusedStatement, SentStatements, StatementKind, StatementKind::*, WriteAnswer, outcome_of_all,
        outcome_of_some, places_of_inserts,
    };
    use crate::error::Error;

    fn answer(n: i64, modified: i64, refused: Option<usize>) -> WriteAnswer {
        let errors = refused.map(|place| (place, Error::invalid(2, "refused"))).into_iter().collect();
        WriteAnswer { n, modified, is_update: true, upserted: Vec::new(), errors }
    }

    /// Each with so many questions behind it.
    fn asked(ways: &[StatementKind], questions: usize) -> Vec<SentStatements> {
        ways.iter().map(|kind| SentStatements { kind: *kind, questions }).collect()
    }

    fn some(ways: &[StatementKind], held: &[bool], answer: &WriteAnswer) -> (usize, usize, bool, bool) {
        some_asked(ways, 0, held, answer)
    }

    fn some_asked(
        ways: &[StatementKind],
        questions: usize,
        held: &[bool],
        answer: &WriteAnswer,
    ) -> (usize, usize, bool, bool) {
        let BatchOutcome { count, modified, is_all_that_is_held, is_unclear, .. } =
            outcome_of_some(&asked(ways, questions), held, answer);
        (count, modified, is_all_that_is_held, is_unclear)
    }

    #[test]
    fn totals_of_a_command_that_has_done_everything() {
        let counts = |ways: &[StatementKind], n, modified| {
            outcome_of_all(&asked(ways, 0), &answer(n, modified, None)).map(|done| (done.count, done.modified))
        };
        assert_eq!(counts(&[Fused, Fused, Remove], 3, 3), Some((3, 3)));
        assert_eq!(counts(&[Fused, Fused, Remove], 3, 2), None, "one has matched and was not changed");
        assert_eq!(counts(&[InTwo, Remove, InTwo], 5, 5), Some((3, 3)));
        assert_eq!(counts(&[InTwo, Remove, InTwo], 5, 3), Some((3, 1)), "both have stayed as they were");
        assert_eq!(counts(&[InTwo, Remove, InTwo], 3, 3), None);
        assert_eq!(outcome_of_all(&asked(&[InTwo], 0), &answer(1, 1, Some(1))), None);
    }

    #[test]
    fn a_document_that_is_not_held_ends_what_is_done() {
        let ways = [InTwo, InTwo, InTwo];
        let held = [true, false, true];
        assert_eq!(some(&ways, &held, &answer(4, 4, None)), (1, 1, false, false));
        assert_eq!(some(&ways, &held, &answer(4, 3, None)), (0, 0, false, true), "one of two, whichever");
        assert_eq!(some(&ways, &held, &answer(4, 2, None)), (0, 0, false, true));
        assert_eq!(some(&ways, &[true, false, false], &answer(2, 1, None)), (1, 0, true, false));
        assert_eq!(some(&[Remove, InTwo, Remove], &held, &answer(2, 2, None)), (1, 1, false, false));
        assert_eq!(some(&[Fused, Fused, Fused], &held, &answer(3, 2, None)), (1, 1, false, false));
    }

    #[test]
    fn a_document_whose_change_was_refused_is_held_and_not_changed() {
        let ways = [InTwo, InTwo, InTwo];
        assert_eq!(some(&ways, &[true, true, false], &answer(3, 3, Some(3))), (1, 1, false, false));
        assert_eq!(some(&ways, &[true, true, false], &answer(3, 2, Some(3))), (1, 0, false, false));
        assert_eq!(some(&ways, &[true, false, false], &answer(2, 2, Some(2))), (1, 1, true, false), "not locked");
    }

    #[test]
    fn matches_that_are_not_those_of_what_is_held_are_unclear() {
        let ways = [InTwo, InTwo];
        assert_eq!(some(&ways, &[true, true], &answer(3, 3, None)), (0, 0, false, true), "one lock, no change");
        assert_eq!(some(&ways, &[false, false], &answer(2, 2, None)), (0, 0, false, true), "taken by others since");
        assert_eq!(some(&ways, &[false, false], &answer(0, 0, None)), (0, 0, true, false));
    }

    #[test]
    fn places_of_statements_are_those_of_their_documents() {
        let places = |sent: &[SentStatements], places: &[usize]| -> Vec<(usize, usize)> {
            places.iter().map(|place| RefusedStatement::at(sent, *place)).map(|at| (at.document, at.before)).collect()
        };
        let sent = asked(&[InTwo, Remove, InTwo], 0);
        assert_eq!(places(&sent, &[0, 1, 2, 3, 4]), [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]);
        let sent = asked(&[Fused, InTwo], 1);
        assert_eq!(places(&sent, &[0, 1, 2, 3, 4]), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn questions_that_find_nothing_count_for_nothing() {
        let counts = |ways: &[StatementKind], n, modified| {
            outcome_of_all(&asked(ways, 2), &answer(n, modified, None)).map(|done| (done.count, done.modified))
        };
        assert_eq!(counts(&[Fused, Fused], 2, 2), Some((2, 2)));
        assert_eq!(counts(&[Fused, Fused], 3, 2), None, "a question that has matched has not failed");
        assert_eq!(counts(&[InTwo, InTwo], 4, 3), Some((2, 1)));
        assert_eq!(counts(&[InTwo, InTwo], 5, 4), None);
    }

    /// The document in front of a question that has failed is locked and changed, and goes alone.
    #[test]
    fn a_document_whose_question_fails_is_given_back() {
        let fused = [Fused, Fused, Fused];
        assert_eq!(some_asked(&fused, 1, &[true, true, false], &answer(2, 2, Some(3))), (1, 1, false, false));
        let two = [InTwo, InTwo, InTwo];
        assert_eq!(some_asked(&two, 1, &[true, true, false], &answer(4, 4, Some(5))), (1, 1, false, false));
        // One of the two has stayed as it was, whichever.
        assert_eq!(some_asked(&two, 1, &[true, true, false], &answer(4, 3, Some(5))), (0, 0, false, true));
        // Its change was refused: it was not made.
        assert_eq!(some_asked(&two, 1, &[true, true, false], &answer(3, 2, Some(4))), (1, 0, false, false));
        // A rival holds the first: what stands behind it is given back.
        assert_eq!(some_asked(&two, 1, &[false, true, false], &answer(2, 2, Some(5))), (0, 0, false, false));
    }

    /// The answer to a command in which these statements have inserted a document.
    fn inserting(n: i64, modified: i64, places: &[usize], refused: Option<usize>) -> WriteAnswer {
        let upserted = places.iter().map(|place| (*place, bson::Bson::Null)).collect();
        WriteAnswer { upserted, ..answer(n, modified, refused) }
    }

    #[test]
    fn inserts_are_those_that_the_answer_names() {
        let short = asked(&[Fused, Insert, Remove, Insert], 0);
        assert_eq!(places_of_inserts(&short).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(places_of_inserts(&asked(&[InTwo, Insert, Insert], 1)).collect::<Vec<_>>(), [3, 5]);
        let counts =
            |sent: &[SentStatements], answer| outcome_of_all(sent, &answer).map(|done| (done.count, done.modified));
        assert_eq!(counts(&short, inserting(4, 2, &[1, 3], None)), Some((4, 2)));
        assert_eq!(counts(&short, inserting(3, 1, &[1, 3], None)), None, "one was not changed");
        let long = asked(&[InTwo, Insert, Remove], 0);
        assert_eq!(counts(&long, inserting(4, 3, &[2], None)), Some((3, 2)));
        assert_eq!(counts(&long, inserting(4, 2, &[2], None)), Some((3, 1)), "one has stayed as it was");
    }

    #[test]
    fn inserts_behind_a_document_that_is_not_held_are_taken_back() {
        let some = |ways: &[StatementKind], held: &[bool], answer: &WriteAnswer| {
            let BatchOutcome { count, modified, is_all_that_is_held, is_unclear, .. } =
                outcome_of_some(&asked(ways, 0), held, answer);
            (count, modified, is_all_that_is_held, is_unclear)
        };
        let short = [Fused, Insert, Fused, Insert];
        let held = [true, true, false, true];
        assert_eq!(some(&short, &held, &inserting(3, 1, &[1, 3], None)), (2, 1, false, false));
        // The last insert was refused.
        assert_eq!(some(&short, &[true, true, true, false], &inserting(3, 2, &[1], Some(3))), (3, 2, true, false));
        let long = [InTwo, Insert, InTwo, Insert];
        assert_eq!(some(&long, &held, &inserting(4, 2, &[2, 5], None)), (2, 1, false, false));
        assert_eq!(some(&long, &held, &inserting(4, 1, &[2, 5], None)), (2, 0, false, false));
        assert_eq!(some(&long, &[true, true, true, false], &inserting(5, 3, &[2], Some(5))), (3, 1, true, false));
        // The first is gone, and has changed hands.
        assert_eq!(some(&long, &[false, true, false, false], &inserting(3, 2, &[2], None)), (0, 0, false, true));
    }
}
