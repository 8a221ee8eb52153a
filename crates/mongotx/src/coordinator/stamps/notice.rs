//! Content of a notice: the collections in which a client writes outside transactions (decision
//! 0068). [`crate::coordinator::server::plain`] stores notices.
//!
//! It is the value of [`crate::coordinator::stored::own_collections::NOTICE`] in a document among
//! the client records: a list of collections, by the names of their change stamps; or `true`, which
//! stands for all of them, as does anything that this version cannot read; or `false`: the writes
//! are over.

use std::collections::BTreeSet;

use bson::{Bson, RawBsonRef};

use super::tag::Tag;

/// The collections that one notice is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// The collections of these tags, each of which stands for a whole collection.
    Of(BTreeSet<Tag>),
}

impl Scope {
    /// Content of a notice that is not over.
    pub(crate) fn parse(stored: RawBsonRef<'_>) -> Self {
        let collection = |name: RawBsonRef<'_>| Tag::parse(name.as_str()?).filter(|tag| *tag == tag.of_whole());
        let listed = stored.as_array().map(|list| list.into_iter().map(|name| collection(name.ok()?)).collect());
        match listed {
            Some(Some(tags)) => Self::Of(tags),
            _ => Self::All,
        }
    }

    /// Returns true if it is about what this change stamp stands for.
    pub(crate) fn concerns(&self, tag: Tag) -> bool {
        match self {
            Self::All => true,
            Self::Of(collections) => collections.contains(&tag.of_whole()),
        }
    }

    /// Returns true if it covers writes in this collection, or in any (`None`).
    pub(crate) fn covers(&self, collection: Option<Tag>) -> bool {
        collection.map_or(*self == Self::All, |tag| self.concerns(tag))
    }
}

impl From<&Scope> for Bson {
    fn from(scope: &Scope) -> Self {
        match scope {
            Scope::All => true.into(),
            Scope::Of(collections) => collections.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;
    use crate::{coordinator::request::own_key::OwnKey, options::Namespace};

    fn whole(name: &str) -> Tag {
        Tag::of(&Namespace::new("d", name))
    }

    fn parse(stored: impl Into<Bson>) -> Scope {
        let stored = bson::RawDocumentBuf::try_from(doc! {"plain": stored.into()}).unwrap();
        Scope::parse(stored.get("plain").unwrap().unwrap())
    }

    #[test]
    fn a_list_is_read_as_it_was_stored_and_anything_else_stands_for_all_collections() {
        let two = Scope::Of([whole("a"), whole("b")].into());
        assert_eq!((parse(&two), parse(&Scope::All)), (two, Scope::All));
        let one = whole("a").to_string();
        let listed = |other: &str| Bson::from(vec![one.clone(), other.to_owned()]);
        let no_names = [Bson::from(1), vec![Bson::from(1)].into(), one.clone().into()];
        // A name of some documents may be what a later version writes.
        for other in
            no_names.into_iter().chain([listed("other"), listed(&format!("{one}a")), listed(&format!("{one}*"))])
        {
            assert_eq!(parse(other.clone()), Scope::All, "{other}");
        }
        assert_eq!(Scope::parse(rawdoc! {"plain": {}}.get("plain").unwrap().unwrap()), Scope::All);
    }

    #[test]
    fn a_collection_is_concerned_by_all_of_its_stamps() {
        let scope = Scope::Of([whole("a")].into());
        for tag in [whole("a"), whole("a").in_any_bucket(), whole("a").in_bucket_of(&OwnKey::Whole(3))] {
            assert!(scope.concerns(tag) && Scope::All.concerns(tag), "{tag}");
        }
        assert!(!scope.concerns(whole("b")) && Scope::All.concerns(whole("b")));
        assert!(scope.covers(Some(whole("a"))) && !scope.covers(Some(whole("b"))) && !scope.covers(None));
        assert!(Scope::All.covers(None));
    }
}
