//! Names of change stamps ([`super::changes`]): a collection, and which of its documents.

use std::{collections::HashSet, fmt};

use protocol::id::{collection_number, stored_hash};

use crate::{coordinator::request::own_key::OwnKey, options::Namespace};

/// Number of buckets into which the stamps divide a collection's documents.
const BUCKETS: u64 = 16;
/// Digits of a collection's number.
const DIGITS: usize = 8;

/// The name of a change stamp. As text it is a field of a record's `changes`: eight hexadecimal
/// digits for the collection, and what
/// [`TagScope`] adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tag {
    collection: u32,
    scope: TagScope,
}

/// Names of several change stamps.
pub(crate) type Tags = HashSet<Tag>;

/// The documents of the collection that a tag is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum TagScope {
    /// All documents of the collection: the digits stand alone.
    Whole,
    /// Documents in the bucket of this number: `0` to `f` is added.
    Bucket(u8),
    /// Documents in any bucket: `*` is added. A decision about many documents sets this stamp in
    /// place of their buckets'.
    AnyBucket,
}

impl Tag {
    /// The tag of everything in a collection.
    pub(crate) fn of(ns: &Namespace) -> Self {
        Self { collection: collection_number(&ns.db, &ns.coll), scope: TagScope::Whole }
    }

    /// The tag of the documents of the same collection that share a bucket with this one.
    pub(crate) fn in_bucket_of(self, document: &OwnKey) -> Self {
        let hash = match document {
            OwnKey::Whole(number) => stored_hash(&number.to_le_bytes()),
            OwnKey::Bytes(bytes) => stored_hash(bytes),
        };
        Self { scope: TagScope::Bucket(((hash ^ (hash >> 32)) % BUCKETS) as u8), ..self }
    }

    /// The tag of documents in any bucket of the same collection.
    pub(crate) fn in_any_bucket(self) -> Self {
        Self { scope: TagScope::AnyBucket, ..self }
    }

    /// The tag of everything in the same collection.
    pub(crate) fn of_whole(self) -> Self {
        Self { scope: TagScope::Whole, ..self }
    }

    /// The tag with this name in a record; `None` for any other text. A record with a name of
    /// another form is refused: leaving it out could hide a change, so a new form needs a new
    /// version of the stored format.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (collection, scope) = name.split_at_checked(DIGITS)?;
        let is_number = collection.bytes().all(|digit| digit.is_ascii_hexdigit());
        let scope = match scope {
            "" => TagScope::Whole,
            "*" => TagScope::AnyBucket,
            bucket if bucket.len() == 1 => TagScope::Bucket(u8::from_str_radix(bucket, 16).ok()?),
            _ => return None,
        };
        let collection = u32::from_str_radix(collection, 16).ok().filter(|_| is_number)?;
        Some(Self { collection, scope })
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collection, scope } = self;
        match scope {
            TagScope::Whole => write!(out, "{collection:08x}"),
            TagScope::Bucket(bucket) => write!(out, "{collection:08x}{bucket:x}"),
            TagScope::AnyBucket => write!(out, "{collection:08x}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_of_the_name_is_the_tag_and_of_other_names_none() {
        let whole = Tag::of(&Namespace::new("d", "c"));
        for tag in [whole, whole.in_any_bucket(), whole.in_bucket_of(&OwnKey::Whole(5))] {
            assert_eq!(Tag::parse(&tag.to_string()), Some(tag), "{tag}");
        }
        for name in ["", "0123456", "0123456x", "012345678x", "01234567g", "0123456é", "+1234567"] {
            assert_eq!(Tag::parse(name), None, "{name}");
        }
    }
}
