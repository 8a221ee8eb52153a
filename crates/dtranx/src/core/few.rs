//! Lists in clients' requests: one with more elements than any request may have is refused while it
//! is read. An empty key takes one byte in a message and four words in memory, so that a frame full
//! of them would become half a gigabyte.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Most elements of a list in a request. It is more than a transaction may have, which is told so
/// in words.
pub(crate) const MAX_LISTED: usize = 16_384;

/// Reads a list of keys, or of what has one each.
pub(crate) fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    few_counted(from, |_| 1)
}

/// Reads a list of which each element counts for so many.
pub(crate) fn few_counted<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
    count: impl Fn(&T) -> usize,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(List { count, element: PhantomData })
}

struct List<T, C> {
    count: C,
    element: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, C: Fn(&T) -> usize> Visitor<'de> for List<T, C> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_LISTED} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let (mut list, mut count) = (Vec::new(), 0);
        while let Some(element) = from.next_element()? {
            count += (self.count)(&element);
            if count > MAX_LISTED {
                return Err(A::Error::invalid_length(count, &self));
            }
            list.push(element);
        }
        Ok(list)
    }
}
