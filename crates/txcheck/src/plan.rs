//! Plans of transactions, written as strings: `R(A) W(A,B) P() C`.
//!
//! | word | step |
//! | --- | --- |
//! | `R(A)` | read A by its id |
//! | `W(A)` | write A, whatever it holds |
//! | `U(A)` | write A if it still is what this transaction has read last |
//! | `I(A)` | insert A; an item that a plan inserts does not exist in the beginning, all others do |
//! | `D(A)` | delete A |
//! | `P()` | read everything by a predicate |
//! | `C`, `A` | commit, roll back; the last word of a plan |
//!
//! `R(A,B)` is short for `R(A) R(B)`: each is a step of its own, and rivals may step in between.

use std::{collections::BTreeSet, fmt};

/// A thing that is read and written: one capital letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item(pub char);

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read an item by its id.
    Read(Item),
    /// Write an item, whatever it holds.
    Write(Item),
    /// Write if unchanged since the transaction's last read of it.
    WriteIfSame(Item),
    /// Insert an item that does not exist.
    Insert(Item),
    /// Delete an item by its id.
    Delete(Item),
    /// Read all items by a predicate.
    Scan,
    /// Commit the transaction, which ends it.
    Commit,
    /// Roll the transaction back, which ends it.
    Abort,
}

/// The steps of one transaction; the last one ends it.
pub type Plan = Vec<Op>;

/// Why a plan cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The word is not in the table above.
    #[error("{0:?} is not a step; steps are R(A) W(A,B) U(A) I(A) D(A) P() C A")]
    Word(String),
    /// The plan does not end with `C` or `A`, or has one of them before its end.
    #[error("the plan {0:?} must have C or A at its end, and nowhere else")]
    End(String),
    /// The item is inserted after a deletion: the order of its versions would be unknown.
    #[error("the item {0} is inserted more than once and deleted too")]
    Reborn(Item),
}

/// Reads the plans of transactions that will run against each other.
///
/// # Errors
/// A [`ParseError`].
pub fn parse_plans(texts: &[&str]) -> Result<Vec<Plan>, ParseError> {
    let plans: Vec<Plan> = texts.iter().map(|text| parse_plan(text)).collect::<Result<_, _>>()?;
    let all = || plans.iter().flatten();
    for item in inserted(&plans) {
        let inserts = all().filter(|op| **op == Op::Insert(item)).count();
        if inserts > 1 && all().any(|op| *op == Op::Delete(item)) {
            return Err(ParseError::Reborn(item));
        }
    }
    Ok(plans)
}

fn parse_plan(text: &str) -> Result<Plan, ParseError> {
    let mut plan = Plan::new();
    for word in text.split_whitespace() {
        plan.extend(parse_word(word).ok_or_else(|| ParseError::Word(word.to_owned()))?);
    }
    let ends = |op: &Op| matches!(op, Op::Commit | Op::Abort);
    if plan.iter().position(ends).is_none_or(|at| at + 1 != plan.len()) {
        return Err(ParseError::End(text.to_owned()));
    }
    Ok(plan)
}

fn parse_word(word: &str) -> Option<Vec<Op>> {
    match word {
        "C" => return Some(vec![Op::Commit]),
        "A" => return Some(vec![Op::Abort]),
        "P()" => return Some(vec![Op::Scan]),
        _ => {}
    }
    let (verb, items) = word.strip_suffix(')')?.split_once('(')?;
    let op = match verb {
        "R" => Op::Read,
        "W" => Op::Write,
        "U" => Op::WriteIfSame,
        "I" => Op::Insert,
        "D" => Op::Delete,
        _ => return None,
    };
    items.split(',').map(|item| parse_item(item).map(op)).collect()
}

fn parse_item(text: &str) -> Option<Item> {
    let mut letters = text.chars();
    let letter = letters.next().filter(char::is_ascii_uppercase)?;
    letters.next().is_none().then_some(Item(letter))
}

/// Items that a plan inserts.
pub fn inserted(plans: &[Plan]) -> BTreeSet<Item> {
    let inserts = plans.iter().flatten().filter_map(|op| match op {
        Op::Insert(item) => Some(*item),
        _ => None,
    });
    inserts.collect()
}

/// The items that are there in the beginning.
pub fn initial(plans: &[Plan]) -> BTreeSet<Item> {
    let absent = inserted(plans);
    let named = plans.iter().flatten().filter_map(|op| match op {
        Op::Read(item) | Op::Write(item) | Op::WriteIfSame(item) | Op::Delete(item) => Some(*item),
        Op::Insert(_) | Op::Scan | Op::Commit | Op::Abort => None,
    });
    named.filter(|item| !absent.contains(item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Item = Item('A');
    const B: Item = Item('B');

    #[test]
    fn a_list_of_items_is_a_step_for_each() {
        let plans = parse_plans(&["R(A) W(A,B) P() C"]).unwrap();
        assert_eq!(plans, [vec![Op::Read(A), Op::Write(A), Op::Write(B), Op::Scan, Op::Commit]]);
    }

    #[test]
    fn an_item_that_is_inserted_is_not_there_in_the_beginning() {
        let plans = parse_plans(&["R(A,C) C", "I(C) D(B) A"]).unwrap();
        assert_eq!(initial(&plans), [A, B].into());
        assert_eq!(inserted(&plans), [Item('C')].into());
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        for word in ["X(A)", "R", "R()", "R(a)", "R(AB)", "P(A)", "R(A"] {
            assert_eq!(parse_plans(&[&format!("{word} C")]), Err(ParseError::Word(word.to_owned())), "{word}");
        }
        for text in ["", "R(A)", "C R(A)", "R(A) C A"] {
            assert_eq!(parse_plans(&[text]), Err(ParseError::End(text.to_owned())), "{text}");
        }
        assert_eq!(parse_plans(&["I(A) C", "I(A) D(A) C"]), Err(ParseError::Reborn(A)));
    }
}
