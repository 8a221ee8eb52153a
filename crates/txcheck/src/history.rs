//! A recorded history: every step in the order in which it was answered, and the values that the
//! readers saw.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::plan::Item;

/// A transaction: 0, 1, …; shown as T1, T2, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tx(pub usize);

impl fmt::Display for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0 + 1)
    }
}

/// The value that one write leaves: the transaction and its step, so that no two writes leave the
/// same. 203 is the value of the third step of T2; 0 is the initial value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u32);

impl Value {
    /// Value of every item before the first write.
    pub const INITIAL: Self = Self(0);

    /// The value that the `step`th step (0, 1, …) of `tx` writes.
    pub fn of(tx: Tx, step: usize) -> Self {
        Self((tx.0 as u32 + 1) * 100 + step as u32 + 1)
    }

    /// Transaction that wrote the value; `None` for the initial one.
    pub fn writer(self) -> Option<Tx> {
        (self.0 as usize / 100).checked_sub(1).map(Tx)
    }
}

/// All values of an item, in the order in which they were written.
pub type Log = Vec<Value>;

/// Result of one step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read by id, and what it found.
    Read(Item, Option<Log>),
    /// A read by predicate, and all that it found.
    Scan(BTreeMap<Item, Log>),
    /// A value was written to an item.
    Wrote(Item, Value),
    /// An item was inserted with a value.
    Inserted(Item, Value),
    /// An item was deleted by a step.
    Deleted(Item),
    /// A write found nothing to change (or an insert, that the item is there).
    NoMatch(Item),
    /// The step was refused, and its transaction rolled back.
    Refused(String),
    /// The transaction's commit was acknowledged.
    Committed,
    /// The transaction was rolled back, as planned.
    Aborted,
}

/// The recorded history of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The items there in the beginning.
    pub initial: BTreeSet<Item>,
    /// Every step with its result, in order.
    pub events: Vec<(Tx, Event)>,
    /// Content of every item at the end.
    pub last: BTreeMap<Item, Log>,
}

impl History {
    /// The place of the event that ended `tx`, if it committed.
    pub fn committed_at(&self, tx: Tx) -> Option<usize> {
        self.events.iter().position(|(who, event)| *who == tx && *event == Event::Committed)
    }

    /// Returns true if the transaction has committed.
    pub fn is_committed(&self, tx: Tx) -> bool {
        self.committed_at(tx).is_some()
    }

    /// The place of the event that ended `tx`, however it ended; the end of the history if none
    /// did.
    pub fn ended_at(&self, tx: Tx) -> usize {
        let ends = |event: &Event| matches!(event, Event::Committed | Event::Aborted | Event::Refused(_));
        self.events.iter().position(|(who, event)| *who == tx && ends(event)).unwrap_or(self.events.len())
    }

    /// The transactions that were refused something.
    pub fn refused(&self) -> impl Iterator<Item = Tx> {
        self.events.iter().filter(|(_, event)| matches!(event, Event::Refused(_))).map(|(tx, _)| *tx)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(item, Some(log)) => write!(f, "R({item}) = {}", Shown(log)),
            Self::Read(item, None) => write!(f, "R({item}) = nothing"),
            Self::Scan(found) => {
                f.write_str("P() =")?;
                found.iter().try_for_each(|(item, log)| write!(f, " {item}{}", Shown(log)))
            }
            Self::Wrote(item, value) => write!(f, "W({item}) := {}", value.0),
            Self::Inserted(item, value) => write!(f, "I({item}) := {}", value.0),
            Self::Deleted(item) => write!(f, "D({item})"),
            Self::NoMatch(item) => write!(f, "no match for {item}"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Committed => f.write_str("C"),
            Self::Aborted => f.write_str("A"),
        }
    }
}

struct Shown<'a>(&'a Log);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|value| value.0)).finish()
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|(tx, event)| writeln!(f, "  {tx} {event}"))?;
        f.write_str("  in the end")?;
        self.last.iter().try_for_each(|(item, log)| write!(f, " {item}{}", Shown(log)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_knows_its_writer() {
        assert_eq!((Value::of(Tx(1), 2), Value::of(Tx(1), 2).writer()), (Value(203), Some(Tx(1))));
        assert_eq!(Value::INITIAL.writer(), None);
    }

    #[test]
    fn a_history_reads_like_one() {
        let history = History {
            initial: [Item('A')].into(),
            events: vec![
                (Tx(0), Event::Read(Item('A'), Some(vec![Value(0)]))),
                (Tx(0), Event::Wrote(Item('A'), Value(102))),
                (Tx(0), Event::Committed),
            ],
            last: [(Item('A'), vec![Value(0), Value(102)])].into(),
        };
        assert_eq!(history.to_string(), "  T1 R(A) = [0]\n  T1 W(A) := 102\n  T1 C\n  in the end A[0, 102]");
    }
}
