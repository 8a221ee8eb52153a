//! How many servers keep the data, and what a write has to wait for because of it.
//!
//! One server keeps the order of what it was told in its log, and the journaled decision covers what came before it. Several
//! servers have no common log: a primary that is cut off goes on answering for a while, and what it alone has is gone
//! when it comes back. So there everything that a decision rests on, and everything that follows from one, waits for the
//! majority: registrations, prepared writes, fences, decisions, finished documents, and records that are read to be acted on.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use bson::{Bson, Document, doc};

/// How long one write waits for the majority. A primary that has lost it steps down much earlier.
const LONGEST_WAIT_MS: i32 = 30_000;

/// Whether several servers keep the data.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Set once and for all: a set of one may be given more members while the client runs.
    several: AtomicBool,
    /// The connection epochs of the client's records.
    epochs: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Nodes {
    /// This epoch ends when the set grows: what was written before waited for one server only.
    pub(crate) fn ends(&self, epoch: &Arc<AtomicU64>) {
        if let Ok(mut epochs) = self.epochs.lock() {
            epochs.push(Arc::clone(epoch));
        }
    }

    /// Several servers keep the data, or it is a router, behind which they may.
    pub(crate) fn are_several(&self) -> bool {
        self.several.load(SeqCst)
    }

    /// An answer to `hello`.
    pub(crate) fn note(&self, hello: &Document) {
        if are_several(hello)
            && !self.several.swap(true, SeqCst)
            && let Ok(epochs) = self.epochs.lock()
        {
            for epoch in epochs.iter() {
                epoch.fetch_add(1, SeqCst);
            }
        }
    }

    /// What a change waits for that somebody will be told about, or that others act on.
    pub(crate) fn durable(&self) -> Document {
        match self.are_several() {
            true => doc! {"w": "majority", "j": true, "wtimeout": LONGEST_WAIT_MS},
            false => doc! {"w": 1, "j": true},
        }
    }

    /// Lets a command wait for the majority, where there is one to wait for.
    pub(crate) fn on_majority(&self, command: &mut Document) {
        if self.are_several() {
            command.insert("writeConcern", self.durable());
        }
    }

    /// Lets a query answer only if the server is the primary still: one that was cut off does not know what the others have.
    pub(crate) fn only_from_primary(&self, query: &mut Document) {
        if self.are_several() {
            query.insert("readConcern", doc! {"level": "linearizable"});
            query.insert("maxTimeMS", LONGEST_WAIT_MS);
        }
    }

    /// Lets an index be built when the majority has built it: the default is to wait for every member, also for those that are
    /// away. One server knows no such option.
    pub(crate) fn with_quorum(&self, create_indexes: &mut Document) {
        if self.are_several() {
            create_indexes.insert("commitQuorum", "majority");
        }
    }
}

fn are_several(hello: &Document) -> bool {
    let count = |field: &str| hello.get_array(field).map_or(0, Vec::len);
    let routed = hello.get("msg").and_then(Bson::as_str) == Some("isdbgrid");
    routed || count("hosts") + count("passives") > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_one_becomes_a_set_of_several_and_stays_it() {
        let alone = doc! {"setName": "rs0", "hosts": ["a:1"]};
        let grown = doc! {"setName": "rs0", "hosts": ["a:1"], "passives": ["b:1"]};
        let (nodes, epoch) = (Nodes::default(), Arc::new(AtomicU64::new(7)));
        nodes.note(&alone);
        nodes.ends(&epoch);
        assert!(!nodes.are_several());
        nodes.note(&grown);
        assert_eq!((nodes.are_several(), epoch.load(SeqCst)), (true, 8));
        nodes.note(&grown);
        nodes.note(&alone);
        assert_eq!((nodes.are_several(), epoch.load(SeqCst)), (true, 8), "it is no news, and is not taken back");
    }

    #[test]
    fn routers_count_as_several_and_standalones_as_one() {
        let by = |hello| {
            let nodes = Nodes::default();
            nodes.note(&hello);
            nodes.are_several()
        };
        assert!(by(doc! {"msg": "isdbgrid"}));
        assert!(!by(doc! {"isWritablePrimary": true}));
    }

    #[test]
    fn one_server_is_asked_for_nothing_that_it_does_not_know() {
        let (one, mut command) = (Nodes::default(), doc! {"x": 1});
        one.on_majority(&mut command);
        one.only_from_primary(&mut command);
        one.with_quorum(&mut command);
        assert_eq!(command, doc! {"x": 1});
        assert_eq!(one.durable(), doc! {"w": 1, "j": true});
    }
}
