//! Collections in which transactions can lock nothing, each with the reason: the server's own,
//! MongoTx's own, and those whose documents are not stored one by one or not kept.

use bson::Document;

use crate::{coordinator::stored::own_collections::TXS, options::Namespace};

const SYSTEM: &str = "system.";
const BUCKETS: &str = "system.buckets.";
const SERVERS: [&str; 3] = ["admin", "config", "local"];

/// Not even a single write, or a drop: it would destroy what others keep there.
pub(super) fn never_written(ns: &Namespace, tx_database: &str) -> Option<&'static str> {
    if ns.db == tx_database && ns.coll == TXS {
        return Some("it holds the records of clients, on which every transaction depends");
    }
    ns.coll.starts_with(BUCKETS).then_some("it is the storage of a time series: write to that, or drop it")
}

/// Reason why documents cannot be locked in a collection of this name, whether it exists or not.
pub(super) fn unlockable_name(ns: &Namespace, tx_database: &str) -> Option<String> {
    if let Some(reason) = never_written(ns, tx_database) {
        return Some(reason.to_owned());
    }
    if SERVERS.contains(&ns.db.as_str()) {
        return Some(format!("the database {:?} belongs to the server", ns.db));
    }
    ns.coll.starts_with(SYSTEM).then(|| "it belongs to the server".to_owned())
}

/// Reason why documents cannot be locked in a collection of this kind, as the server lists it.
pub(super) fn unlockable_kind(kind: &str, options: &Document) -> Option<String> {
    let reason = match kind {
        "timeseries" => "it is a time series, whose measurements cannot be changed one by one",
        "view" => "it is a view",
        "collection" if options.get_bool("capped").unwrap_or(false) => {
            "it is capped: the server removes its oldest documents, locked ones too"
        }
        "collection" if options.contains_key("expireAfterSeconds") => {
            "it is clustered and expires: the server removes documents by their _id, locked ones too"
        }
        "collection" => return None,
        other => return Some(format!("it is a {other}")),
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished() {
        let reason = |db: &str, coll: &str| unlockable_name(&Namespace::new(db, coll), "mongotx");
        for (db, coll) in [("a", "system.js"), ("a", "system.buckets.t"), ("admin", "c"), ("mongotx", "txs")] {
            assert!(reason(db, coll).is_some(), "{db}.{coll}");
        }
        for (db, coll) in [("a", "txs"), ("a", "systems"), ("mongotx", "c"), ("administration", "c")] {
            assert_eq!(reason(db, coll), None, "{db}.{coll}");
        }
    }
}
