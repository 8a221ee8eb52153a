//! Reads the answer to a command of several prepared writes, which has totals only.
//!
//! Each statement takes its lock if and only if it matches (a removal, the first of two) or changes
//! its document (the only one of a change). So if the totals are those of a command that has done
//! everything, it has. Otherwise another read has found out which documents are held. Of two
//! statements the second matches what the first has locked, unless it was refused, or others have
//! ended the transaction in between: the matches show that. The totals show which documents were
//! *modified* only if all were, or none, or if all that are held count.

use crate::coordinator::server::WriteAnswer;

/// The statements that lock a document and change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One statement that locks and changes, or does neither.
    Fused,
    /// One statement that locks for removal.
    Remove,
    /// Two statements: one locks and copies, the other changes the copy.
    InTwo,
}

impl Way {
    fn statements(self) -> usize {
        match self {
            Self::Fused | Self::Remove => 1,
            Self::InTwo => 2,
        }
    }
}

/// Outcome of several prepared writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
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
}

impl Done {
    fn all(ways: &[Way], modified: usize) -> Self {
        Self { count: ways.len(), modified, is_all_that_is_held: true, is_unclear: false, is_full: false }
    }
}

/// Outcome, if everything was done. `None`: a read has to find out which documents are held.
pub(super) fn of_all(ways: &[Way], answer: &WriteAnswer) -> Option<Done> {
    let (n, modified) = totals(answer);
    if !answer.errors.is_empty() {
        return None;
    }
    if is_short(ways) {
        return (modified == ways.len()).then(|| Done::all(ways, modified));
    }
    (n == statements(ways)).then(|| Done::all(ways, modified.saturating_sub(locks_apart(ways))))
}

/// Outcome, if not everything was done; `held`: which of the documents are.
pub(super) fn of_some(ways: &[Way], held: &[bool], answer: &WriteAnswer) -> Done {
    let (n, modified) = totals(answer);
    let refused = answer.errors.first().map(|(place, _)| document_at(ways, *place));
    let first = held.iter().take_while(|held| **held).count();
    let count = refused.map_or(first, |refused| first.min(refused));
    if is_short(ways) {
        return Done {
            count,
            modified: count,
            is_all_that_is_held: modified == count,
            is_unclear: false,
            is_full: false,
        };
    }
    // Statements of those that are held. The refused one was locked, if it is, and not changed.
    let is_refused = |place: &usize| refused == Some(*place);
    let all_held = (0..ways.len()).filter(|place| held[*place]);
    let matched: usize = all_held.map(|place| if is_refused(&place) { 1 } else { ways[place].statements() }).sum();
    let matched_first = statements(&ways[..count]);
    let unmodified = matched.saturating_sub(modified);
    let could_be: usize = (0..count).filter(|place| ways[*place] == Way::InTwo).count();
    let others = (count..ways.len()).any(|place| held[place] && ways[place] == Way::InTwo && !is_refused(&place));
    if matched != n || modified > matched || (unmodified > 0 && others) || unmodified > could_be {
        return Done { count: 0, modified: 0, is_all_that_is_held: n == 0, is_unclear: true, is_full: false };
    }
    let is_all_that_is_held = n == matched_first;
    Done { count, modified: count - unmodified, is_all_that_is_held, is_unclear: false, is_full: false }
}

fn totals(answer: &WriteAnswer) -> (usize, usize) {
    let number = |n: i64| usize::try_from(n).unwrap_or(0);
    (number(answer.n), number(answer.modified))
}

/// Returns true if all have one statement each. Then the number of statements that match shows
/// nothing.
fn is_short(ways: &[Way]) -> bool {
    !ways.contains(&Way::InTwo)
}

fn statements(ways: &[Way]) -> usize {
    ways.iter().map(|way| way.statements()).sum()
}

/// Statements that do nothing but lock: each of them modifies its document.
fn locks_apart(ways: &[Way]) -> usize {
    ways.iter().map(|way| way.statements() - 1).sum()
}

/// The document of the statement at this place.
fn document_at(ways: &[Way], place: usize) -> usize {
    let mut behind = 0;
    let is_before = |way: &&Way| {
        behind += way.statements();
        behind <= place
    };
    ways.iter().take_while(is_before).count()
}

#[cfg(test)]
mod tests {
    use super::{Done, Way, Way::*, WriteAnswer, document_at, of_all, of_some};
    use crate::error::Error;

    fn answer(n: i64, modified: i64, refused: Option<usize>) -> WriteAnswer {
        let errors = refused.map(|place| (place, Error::invalid(2, "refused"))).into_iter().collect();
        WriteAnswer { n, modified, upserted: Vec::new(), errors }
    }

    fn some(ways: &[Way], held: &[bool], answer: &WriteAnswer) -> (usize, usize, bool, bool) {
        let Done { count, modified, is_all_that_is_held, is_unclear, .. } = of_some(ways, held, answer);
        (count, modified, is_all_that_is_held, is_unclear)
    }

    #[test]
    fn totals_of_a_command_that_has_done_everything() {
        let counts = |ways: &[Way], n, modified| {
            of_all(ways, &answer(n, modified, None)).map(|done| (done.count, done.modified))
        };
        assert_eq!(counts(&[Fused, Fused, Remove], 3, 3), Some((3, 3)));
        assert_eq!(counts(&[Fused, Fused, Remove], 3, 2), None, "one has matched and was not changed");
        assert_eq!(counts(&[InTwo, Remove, InTwo], 5, 5), Some((3, 3)));
        assert_eq!(counts(&[InTwo, Remove, InTwo], 5, 3), Some((3, 1)), "both have stayed as they were");
        assert_eq!(counts(&[InTwo, Remove, InTwo], 3, 3), None);
        assert_eq!(of_all(&[InTwo], &answer(1, 1, Some(1))), None);
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
        let ways = [InTwo, Remove, InTwo];
        assert_eq!([0, 1, 2, 3, 4].map(|place| document_at(&ways, place)), [0, 0, 1, 2, 2]);
    }
}
