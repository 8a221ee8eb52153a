//! The number of servers that keep the data, and the write concern that follows from it.
//!
//! One server keeps the order of its writes in its log, and the journaled decision covers what came
//! before it. Several servers have no common log: a primary that is cut off goes on answering for a
//! while, and what it alone has is gone when it comes back. So there everything that a decision
//! rests on, and everything that follows from one, waits for the majority: registrations, prepared
//! writes, fences, decisions, finished documents, and records that are read to be acted on.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use bson::{Bson, Document, doc, oid::ObjectId};

/// Time that one write waits for the majority. A primary that has lost it steps down much earlier.
const LONGEST_WAIT_MS: i32 = 30_000;

/// Server processes that are remembered. More than this many restarts, and an early one would not
/// be known again.
const MAX_PROCESSES: usize = 64;

/// Number of servers that keep the data: one, or several.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Set once and for all: a set of one may be given more members while the client runs.
    several: AtomicBool,
    processes: Mutex<Processes>,
    /// The connection epochs of the client's records.
    epochs: Mutex<Vec<Arc<AtomicU64>>>,
}

/// The server processes that have said that they take writes.
#[derive(Debug)]
enum Processes {
    /// Ids of the processes that followed each other, the latest last.
    InTurn(Vec<ObjectId>),
    /// A server sends no id, or one answers again that another had replaced: a proxy leads to
    /// several of them.
    Unknown,
}

impl Default for Processes {
    fn default() -> Self {
        Self::InTurn(Vec::new())
    }
}

impl Processes {
    /// Notes the server process that has answered. True if it may be another one than before.
    fn note(&mut self, id: Option<ObjectId>, is_late: bool) -> bool {
        let Self::InTurn(known) = self else { return false };
        match id {
            Some(id) if known.last() == Some(&id) || is_late && known.contains(&id) => false,
            Some(id) if !known.contains(&id) => {
                known.push(id);
                let many = known.len().saturating_sub(MAX_PROCESSES);
                known.drain(..many);
                known.len() > 1
            }
            _ => {
                *self = Self::Unknown;
                true
            }
        }
    }
}

impl Nodes {
    /// Registers an epoch that ends when the set grows: what was written before waited for one
    /// server only.
    pub(crate) fn ends(&self, epoch: &Arc<AtomicU64>) {
        if let Ok(mut epochs) = self.epochs.lock() {
            epochs.push(Arc::clone(epoch));
        }
    }

    /// Several servers keep the data, or it is a router, behind which they may.
    pub(crate) fn are_several(&self) -> bool {
        self.several.load(SeqCst)
    }

    /// All that takes writes is one server process, until the connection epochs end: it has said
    /// which one it is (decision 0039).
    pub(crate) fn is_one_process(&self) -> bool {
        !self.are_several() && matches!(&*self.processes(), Processes::InTurn(known) if !known.is_empty())
    }

    /// Id of the one server process that all connections lead to; `None`: not known, or several.
    pub(crate) fn process(&self) -> Option<ObjectId> {
        match &*self.processes() {
            Processes::InTurn(known) if !self.are_several() => known.last().copied(),
            Processes::InTurn(_) | Processes::Unknown => None,
        }
    }

    /// An answer to `hello`, which has just come over a connection that is going to be used.
    pub(crate) fn note(&self, hello: &Document) {
        self.hear(hello, false);
    }

    /// Notes an answer to the driver's own `hello`. It may come late, so an older process in it
    /// means nothing.
    pub(crate) fn note_heartbeat(&self, hello: &Document) {
        self.hear(hello, true);
    }

    fn hear(&self, hello: &Document, is_late: bool) {
        let has_grown = are_several(hello) && !self.several.swap(true, SeqCst);
        // Members of a set are processes of their own; what their epochs rest on is the majority.
        let is_replaced =
            !self.are_several() && takes_writes(hello) && self.processes().note(process_id(hello), is_late);
        if (has_grown || is_replaced)
            && let Ok(epochs) = self.epochs.lock()
        {
            for epoch in epochs.iter() {
                epoch.fetch_add(1, SeqCst);
            }
        }
    }

    /// No code panics while it holds this lock.
    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Write concern of a change that is going to be reported, or that other clients act on.
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

    /// Lets a query answer only if the server is the primary still: one that was cut off does not
    /// know what the others have.
    pub(crate) fn only_from_primary(&self, query: &mut Document) {
        if self.are_several() {
            query.insert("readConcern", doc! {"level": "linearizable"});
            query.insert("maxTimeMS", LONGEST_WAIT_MS);
        }
    }

    /// Lets an index be built when the majority has built it: the default is to wait for every
    /// member, also for those that are away. A single server refuses the option.
    pub(crate) fn with_quorum(&self, create_indexes: &mut Document) {
        if self.are_several() {
            create_indexes.insert("commitQuorum", "majority");
        }
    }
}

/// Members that take no writes, arbiters for instance, are processes of their own.
fn takes_writes(hello: &Document) -> bool {
    ["isWritablePrimary", "ismaster"].iter().any(|flag| hello.get_bool(flag).unwrap_or(false))
}

/// Id of the server process: another one for every start.
fn process_id(hello: &Document) -> Option<ObjectId> {
    hello.get_document("topologyVersion").ok()?.get_object_id("processId").ok()
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

    fn process(id: Option<u8>) -> Document {
        let mut hello = doc! {"isWritablePrimary": true};
        if let Some(id) = id {
            hello.insert("topologyVersion", doc! {"processId": ObjectId::from_bytes([id; 12]), "counter": 0_i64});
        }
        hello
    }

    #[test]
    fn the_epoch_ends_with_the_server_process() {
        let (nodes, epoch) = (Nodes::default(), Arc::new(AtomicU64::new(0)));
        nodes.ends(&epoch);
        assert!(!nodes.is_one_process(), "no server has answered yet");
        let after = |hello: &Document| {
            nodes.note(hello);
            (nodes.is_one_process(), epoch.load(SeqCst))
        };
        assert_eq!(after(&process(Some(1))), (true, 0));
        assert_eq!(after(&process(Some(1))), (true, 0));
        assert_eq!(after(&process(Some(2))), (true, 1));
        let mut secondary = process(Some(3));
        secondary.insert("isWritablePrimary", false);
        assert_eq!(after(&secondary), (true, 1), "it takes no writes");
        nodes.note_heartbeat(&process(Some(1)));
        assert_eq!((nodes.is_one_process(), epoch.load(SeqCst)), (true, 1), "reported late");
        assert_eq!(after(&process(Some(1))), (false, 2), "two processes answer in turns");
        assert_eq!(after(&process(Some(4))), (false, 2), "which one does is not known any more");
    }

    #[test]
    fn servers_that_tell_no_process_are_not_known_to_be_one() {
        let (nodes, epoch) = (Nodes::default(), Arc::new(AtomicU64::new(0)));
        nodes.ends(&epoch);
        nodes.note(&process(Some(1)));
        nodes.note(&process(None));
        assert_eq!((nodes.is_one_process(), epoch.load(SeqCst)), (false, 1));
        let nodes = Nodes::default();
        nodes.note(&process(None));
        assert!(!nodes.is_one_process());
    }

    #[test]
    fn several_servers_are_not_one_process() {
        let nodes = Nodes::default();
        let mut member = process(Some(1));
        nodes.note(&member);
        assert!(nodes.is_one_process());
        member.insert("hosts", vec!["a:1", "b:1"]);
        nodes.note(&member);
        assert!(!nodes.is_one_process());
        let epoch = Arc::new(AtomicU64::new(0));
        nodes.ends(&epoch);
        let mut next_primary = process(Some(2));
        next_primary.insert("hosts", vec!["a:1", "b:1"]);
        nodes.note(&next_primary);
        assert_eq!(epoch.load(SeqCst), 0, "another primary ends no epoch");
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
