//! Changing options of a collection and of its indexes: `collMod`. Waiting for writers afterwards,
//! where that is needed, is in [`crate::coordinator::schema`].
//!
//! An index is changed where the option is stored: `hidden` on the index that answers queries, the
//! expiry on the one by which the server removes unlocked documents ([`sd2v::index`]). An index
//! that is to expire gets that one now.

use bson::{Bson, Document, doc};
use sd2v::index::{Index, interpret_beside};

use super::{Catalog, adopt, collections::with_options, indexes::find_index, list_stored};
use crate::{
    error::{Error, Result},
    options::Namespace,
};

/// Number of MongoDB's error code `InvalidOptions`.
const INVALID_OPTIONS: i32 = 72;
/// The longest time after which an index can let documents expire.
const LONGEST_EXPIRY: i64 = i32::MAX as i64;
const EXPIRY: &str = "expireAfterSeconds";

impl Catalog {
    /// Returns what was changed of an index: `expireAfterSeconds_old`, `hidden_new` and so on.
    pub(crate) async fn modify(&self, ns: &Namespace, options: &Document) -> Result<Document> {
        let answer = self.server.run_directly(&ns.db, with_options("collMod", ns, options)?).await?;
        Ok(answer.into_iter().filter(|(field, _)| field.ends_with("_old") || field.ends_with("_new")).collect())
    }

    /// `change`: the option `index`. What is malformed goes to the server, which refuses it.
    pub(crate) async fn modify_index(&self, ns: &Namespace, options: &Document, change: &Document) -> Result<Document> {
        for option in ["unique", "prepareUnique"] {
            if change.contains_key(option) {
                return Err(Error::unsupported(format!(
                    "the option {option:?} of an index of {ns} cannot be changed: MongoTx stores unique indexes in another form; drop \
                     the index and make it anew as a unique one"
                )));
            }
        }
        let stored = list_stored(&self.server, ns).await?.unwrap_or_default();
        let is_well_formed = !stored.is_empty() && change.contains_key("name") != change.contains_key("keyPattern");
        let expiry = change.get(EXPIRY).map(seconds);
        if !is_well_formed || expiry == Some(None) {
            return self.modify(ns, options).await;
        }
        let indexes = interpret_beside(self.look_up(ns).await?.collation.as_ref(), &stored);
        let asked = change.get("name").or_else(|| change.get("keyPattern")).unwrap_or(&Bson::Null);
        let there: Vec<&Index> = indexes.iter().filter(|index| index.is_stored()).collect();
        let index = find_index(ns, &there, asked)?.clone();
        let expiry = expiry.flatten().map(|seconds| check_expiry(&index, seconds)).transpose()?;
        let apart = expiry.filter(|_| index.expiring() != Some(index.stored_name.clone()));
        let mut rest: Document = change
            .clone()
            .into_iter()
            .filter(|(option, _)| !["name", "keyPattern"].contains(&option.as_str()))
            .collect();
        if apart.is_some() {
            rest.remove(EXPIRY);
        }
        let others = options.len() > 1 || !rest.is_empty() || apart.is_none();
        let mut answer = Document::new();
        if others {
            rest.insert("name", &index.stored_name);
            let mut options = options.clone();
            options.insert("index", rest);
            answer = self.modify(ns, &options).await?;
        }
        if let Some(seconds) = apart {
            answer.extend(self.change_expiry(ns, &index, seconds).await?);
        }
        Ok(answer)
    }

    /// Changes the expiry of an index, which is stored beside it, or is to be.
    async fn change_expiry(&self, ns: &Namespace, index: &Index, seconds: i64) -> Result<Document> {
        let name = match index.expiring() {
            Some(stored) => stored,
            // No document is ever locked there: it is stored as it is.
            None if self.look_up(ns).await?.unlockable.is_some() => index.stored_name.clone(),
            None => {
                adopt::create(&self.server, ns, vec![index.to_expire(seconds)]).await?;
                return Ok(doc! {"expireAfterSeconds_new": seconds});
            }
        };
        self.modify(ns, &doc! {"index": {"name": name, EXPIRY: seconds}}).await
    }
}

/// A number of seconds, its fraction cut off. `None`: it is no number.
fn seconds(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        Bson::Double(n) => Some(*n as i64),
        Bson::Decimal128(n) => n.to_string().parse::<f64>().ok().map(|n| n as i64),
        _ => None,
    }
}

/// As the server, which cuts off what is too long.
fn check_expiry(index: &Index, seconds: i64) -> Result<i64> {
    let refused = |message: &str| Err(Error::invalid(INVALID_OPTIONS, message));
    match index.key() {
        _ if seconds < 0 => refused("TTL index 'expireAfterSeconds' option cannot be less than 0"),
        key if key.len() > 1 => refused("TTL indexes are single-field indexes, compound indexes do not support TTL"),
        key if key.contains_key("_id") => refused("the _id field does not support TTL indexes"),
        _ => Ok(seconds.min(LONGEST_EXPIRY)),
    }
}
