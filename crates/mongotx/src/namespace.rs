//! Full names of collections, `db.coll`. Which names a server allows is not checked here.

use std::fmt;

/// The full name of a collection, `db.coll`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// Name of the database, as the server has it.
    pub db: String,
    /// Name of the collection within the database.
    pub coll: String,
}

impl Namespace {
    pub(crate) fn new(db: &str, coll: &str) -> Self {
        Self { db: db.to_owned(), coll: coll.to_owned() }
    }

    /// Reads `db.coll`. The name of the collection may contain dots. `None` when one of the names
    /// is empty.
    ///
    /// ```
    /// use mongotx::Namespace;
    ///
    /// let namespace = Namespace::parse_namespace("shop.orders.2026").unwrap();
    /// assert_eq!((namespace.db.as_str(), namespace.coll.as_str()), ("shop", "orders.2026"));
    /// assert_eq!(namespace.to_string(), "shop.orders.2026");
    /// assert!(Namespace::parse_namespace("shop").is_none());
    /// ```
    pub fn parse_namespace(text: &str) -> Option<Self> {
        text.split_once('.')
            .filter(|(db, coll)| !db.is_empty() && !coll.is_empty())
            .map(|(db, coll)| Self::new(db, coll))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}
