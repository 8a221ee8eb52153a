//! The expression that fails at an object with a reserved field, and the words that it fails with.

use bson::{Bson, Document, doc};

use crate::{error::Error, names::RESERVED};

/// Text that the server's error quotes in front of the field's name.
const MARK: &str = "MongoTx stores nothing with the reserved field ";

/// `then`, or an error (241, ConversionFailure) if this object has a reserved field: only a number
/// can be converted, and what is tried names the field.
pub(crate) fn unless_reserved(object: &str, then: Bson) -> Document {
    let branch = |name: &&str| {
        let there = doc! {"$ne": [{"$type": format!("{object}.{name}")}, "missing"]};
        doc! {"case": there, "then": *name}
    };
    let branches: Vec<Document> = RESERVED.iter().map(branch).collect();
    let found = doc! {"$switch": {"branches": branches, "default": Bson::Null}};
    let refusal = doc! {"$toInt": {"$concat": [MARK, "$$reserved"]}};
    let chosen = doc! {"$cond": [{"$eq": ["$$reserved", Bson::Null]}, then, refusal]};
    doc! {"$let": {"vars": {"reserved": found}, "in": chosen}}
}

/// The reserved field that a statement was refused for, if an error of the server says that.
pub fn refused_field(message: &str) -> Option<Error> {
    let (_, behind) = message.split_once(MARK)?;
    let field = RESERVED.iter().find(|name| behind.starts_with(*name))?;
    Some(Error::Reserved { field: (*field).to_owned(), at: " and cannot be stored".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_words_name_the_field() {
        for name in RESERVED {
            let message = format!("Failed to parse number '{MARK}{name}' in $convert with no onError value");
            let refused = refused_field(&message).unwrap().to_string();
            assert!(refused.contains(name), "{refused}");
        }
        assert_eq!(refused_field("Failed to parse number 'x' in $convert with no onError value"), None);
        assert_eq!(refused_field(MARK), None);
    }
}
