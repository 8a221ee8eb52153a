//! Ranges of keys, and their ends.

use std::ops::{Bound, Deref};

use serde::{Deserialize, Serialize};

use super::item::Key;

/// The keys from `start` up to and without `end`; without an `end`, all from `start` on.
///
/// A scan that stopped at a limit has read the range up to and with the last key that it returned:
/// [`KeyRange::through`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyRange {
    /// The first key of the range.
    pub start: Key,
    /// The end of the range; `None`: it has no end.
    pub end: Option<KeyBound>,
}

/// End of a range: before or after a key. A key after which none of the same length comes need not
/// be spelled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyBound {
    /// The range ends before this key.
    Before(Key),
    /// The range ends with this key.
    Through(Key),
}

impl KeyRange {
    /// The range of every key.
    pub const fn all() -> Self {
        Self { start: Key::smallest(), end: None }
    }

    /// The range from `start` up to and without `end`.
    pub const fn until(start: Key, end: Key) -> Self {
        Self { start, end: Some(KeyBound::Before(end)) }
    }

    /// The range from `start` up to and with `last`.
    pub const fn through(start: Key, last: Key) -> Self {
        Self { start, end: Some(KeyBound::Through(last)) }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: Key) -> Self {
        let mut end = prefix.as_bytes().to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = end.pop().and_then(|last| {
            end.push(last + 1);
            Key::new(end).ok().map(KeyBound::Before)
        });
        Self { start: prefix, end }
    }

    /// Returns true if the key is in the range.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start
            && match &self.end {
                None => true,
                Some(KeyBound::Before(end)) => key < end,
                Some(KeyBound::Through(last)) => key <= last,
            }
    }

    /// Returns true if no key can be in the range.
    pub fn is_empty(&self) -> bool {
        match &self.end {
            None => false,
            Some(KeyBound::Before(end)) => *end <= self.start,
            Some(KeyBound::Through(last)) => *last < self.start,
        }
    }

    /// The smallest key behind the range, if there is one.
    pub(crate) fn behind(&self) -> Option<Key> {
        match &self.end {
            None => None,
            Some(KeyBound::Before(end)) => Some(end.clone()),
            Some(KeyBound::Through(last)) => last.successor(),
        }
    }

    /// Returns true if a key may be in both ranges.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let begins_in = |a: &Self, b: &Self| !a.is_empty() && b.contains(&a.start);
        begins_in(self, other) && !other.is_empty() || begins_in(other, self) && !self.is_empty()
    }

    /// Bounds of the range, for an ordered map; `None` if it is empty (an ordered map may panic on
    /// those).
    pub fn bounds(&self) -> Option<(Bound<&Key>, Bound<&Key>)> {
        let end = match &self.end {
            None => Bound::Unbounded,
            Some(KeyBound::Before(end)) => Bound::Excluded(end),
            Some(KeyBound::Through(last)) => Bound::Included(last),
        };
        (!self.is_empty()).then_some((Bound::Included(&self.start), end))
    }

    /// Bytes that the range takes in a message, about.
    pub(crate) fn bytes(&self) -> usize {
        let end = match &self.end {
            None => 0,
            Some(KeyBound::Before(key) | KeyBound::Through(key)) => key.as_bytes().len(),
        };
        self.start.as_bytes().len() + end
    }
}

/// Ranges in order, no two of which have a key in common, or have none between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ranges(Vec<KeyRange>);

impl Ranges {
    /// Returns true if a key is in one of the ranges.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.at(key).is_some_and(|range| range.contains(key))
    }

    /// Returns true if every key of a range is in these.
    pub(crate) fn cover(&self, range: &KeyRange) -> bool {
        range.is_empty() || self.at(&range.start).is_some_and(|around| !around.ends_before(range))
    }

    /// The last range that begins with the key or before it.
    fn at(&self, key: &Key) -> Option<&KeyRange> {
        let behind = self.0.partition_point(|range| range.start <= *key);
        behind.checked_sub(1).and_then(|at| self.0.get(at))
    }
}

impl KeyRange {
    /// Returns true if a key behind this range may be in `other`.
    fn ends_before(&self, other: &Self) -> bool {
        let Some(behind) = self.behind() else { return false };
        other.behind().is_none_or(|other| behind < other)
    }
}

impl FromIterator<KeyRange> for Ranges {
    /// The keys of all of these ranges.
    fn from_iter<T: IntoIterator<Item = KeyRange>>(ranges: T) -> Self {
        let mut all: Vec<KeyRange> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        all.sort_by(|left, right| left.start.cmp(&right.start));
        let mut joined: Vec<KeyRange> = Vec::with_capacity(all.len());
        for range in all {
            match joined.last_mut().filter(|last| last.behind().is_none_or(|behind| range.start <= behind)) {
                Some(last) if last.ends_before(&range) => last.end = range.end,
                Some(_) => {}
                None => joined.push(range),
            }
        }
        Self(joined)
    }
}

impl Deref for Ranges {
    type Target = [KeyRange];

    fn deref(&self) -> &[KeyRange] {
        &self.0
    }
}

impl From<Ranges> for Vec<KeyRange> {
    fn from(ranges: Ranges) -> Self {
        ranges.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn key(bytes: &'static [u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    #[test]
    fn prefix_ends_before_next_key_of_other_prefix() {
        let range = KeyRange::prefix(key(b"a\xff"));
        assert!(range.contains(&key(b"a\xff")) && range.contains(&key(b"a\xff\xff\xff")));
        assert!(!range.contains(&key(b"b")) && !range.contains(&key(b"a\xfe")));
        assert_eq!(KeyRange::prefix(key(b"\xff\xff")).end, None);
        assert_eq!(KeyRange::prefix(key(b"")), KeyRange::all());
    }

    #[test]
    fn meets_is_true_of_ranges_with_a_key_in_common() {
        let range = |start, end| KeyRange::until(key(start), key(end));
        assert!(range(b"a", b"c").meets(&range(b"b", b"d")) && range(b"b", b"d").meets(&range(b"a", b"c")));
        assert!(range(b"a", b"z").meets(&range(b"b", b"c")) && range(b"a", b"b").meets(&KeyRange::all()));
        assert!(!range(b"a", b"b").meets(&range(b"b", b"c")) && !range(b"b", b"c").meets(&range(b"a", b"b")));
        assert!(!range(b"b", b"b").meets(&KeyRange::all()) && !KeyRange::all().meets(&range(b"b", b"b")));
    }

    #[test]
    fn bounds_empty_range_has_none() {
        assert_eq!(KeyRange::until(key(b"b"), key(b"a")).bounds(), None);
        assert_eq!(KeyRange::until(key(b"a"), key(b"a")).bounds(), None);
        assert!(KeyRange::through(key(b"a"), key(b"a")).bounds().is_some());
        assert!(KeyRange::through(key(b"a"), key(b"a")).contains(&key(b"a")));
    }

    #[test]
    fn ranges_are_joined_where_no_key_is_between_them() {
        let until = |start, end| KeyRange::until(key(start), key(end));
        let of = |ranges: &[KeyRange]| Vec::from(ranges.iter().cloned().collect::<Ranges>());
        assert_eq!(of(&[until(b"c", b"d"), until(b"a", b"b"), until(b"b", b"c")]), [until(b"a", b"d")]);
        assert_eq!(of(&[until(b"a", b"z"), until(b"b", b"c"), until(b"x", b"x")]), [until(b"a", b"z")]);
        let through = KeyRange::through(key(b"a"), key(b"b"));
        assert_eq!(of(&[through.clone(), until(b"b\0", b"d")]), [until(b"a", b"d")]);
        let apart = [through, until(b"b\0\0", b"d")];
        assert_eq!(of(&apart), apart);
        let all = KeyRange::all();
        assert_eq!(of(&[until(b"a", b"b"), all.clone(), all.clone()]), [all]);
    }

    #[test]
    fn ranges_contain_and_cover_what_is_in_one_of_them() {
        let until = |start, end| KeyRange::until(key(start), key(end));
        let ranges: Ranges =
            [until(b"b", b"d"), until(b"f", b"h"), KeyRange::through(key(b"p"), key(b"q"))].into_iter().collect();
        let contained =
            [&b"a"[..], b"b", b"c", b"d", b"e", b"f", b"h", b"p", b"q", b"q\0"].map(|k| ranges.contains(&key(k)));
        assert_eq!(contained, [false, true, true, false, false, true, false, true, true, false]);
        assert!(
            ranges.cover(&until(b"b", b"d")) && ranges.cover(&until(b"c", b"c\0")) && ranges.cover(&until(b"z", b"y"))
        );
        assert!(ranges.cover(&until(b"p", b"q\0")) && !ranges.cover(&until(b"p", b"q\0\0")));
        assert!(
            !ranges.cover(&until(b"c", b"f"))
                && !ranges.cover(&KeyRange::all())
                && !Ranges::default().cover(&until(b"b", b"c"))
        );
    }
}
