//! Targets that are broken on purpose, for the tests of what finds that out: a workload's check
//! that passes on one of these is no check. They stand in [`super::registry::HIDDEN`], and are in
//! no help.
//!
//! All are the plain driver; every tenth write of a process, in the order in which writes are made,
//! is the one that a fault hits. One is not broken but busy: every second transaction of a process
//! is refused where it begins, which is what rivals do, and does not depend on who comes first.

mod session;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use bson::Document;
use futures_util::future::BoxFuture;

use self::session::FaultySession;
use super::{
    Connection, Feature, Index, Isolation, Session, Target, Traits,
    entry::{Connect, Entry},
    plain,
};
use crate::error::BenchError;

/// Ways in which a target is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Every tenth write is answered and not made.
    Lost,
    /// Every tenth update is made twice.
    Twice,
    /// A rollback keeps what was written.
    Kept,
    /// Every second transaction has a conflict before it has written.
    Busy,
}

/// A target that loses writes.
pub static LOST: Entry = entry("faulty-lost", "loses one in ten writes", |connection| {
    Box::pin(async { Ok(Box::new(Faulty::connect(connection, Fault::Lost).await?) as Box<dyn Target>) })
});

/// A target that repeats updates.
pub static TWICE: Entry = entry("faulty-twice", "makes one in ten updates twice", |connection| {
    Box::pin(async { Ok(Box::new(Faulty::connect(connection, Fault::Twice).await?) as Box<dyn Target>) })
});

/// A target that rolls nothing back.
pub static KEPT: Entry = entry("faulty-kept", "keeps what was rolled back", |connection| {
    Box::pin(async { Ok(Box::new(Faulty::connect(connection, Fault::Kept).await?) as Box<dyn Target>) })
});

/// Has conflicts, and loses nothing.
pub static BUSY: Entry = entry("faulty-busy", "refuses every second transaction", |connection| {
    Box::pin(async { Ok(Box::new(Faulty::connect(connection, Fault::Busy).await?) as Box<dyn Target>) })
});

const fn entry(name: &'static str, about: &'static str, connect: Connect) -> Entry {
    Entry {
        traits: Traits {
            name,
            about,
            transactional: true,
            needs_replica_set: false,
            on_dtranx: false,
            isolations: &[Isolation::ReadCommitted, Isolation::RepeatableRead],
            waits: false,
            commit_waits: false,
            unjournaled: true,
            features: Feature::ALL,
        },
        connect,
    }
}

struct Faulty {
    plain: Box<dyn Target>,
    fault: Fault,
    /// Writes so far; transactions begun, where these are refused.
    count: Arc<AtomicU64>,
}

impl Faulty {
    async fn connect(connection: Connection, fault: Fault) -> Result<Self, BenchError> {
        Ok(Self { plain: (plain::ENTRY.connect)(connection).await?, fault, count: Arc::default() })
    }
}

impl Target for Faulty {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        self.plain.create(collection, indexes)
    }

    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        self.plain.load(collection, documents)
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            Ok(Box::new(FaultySession::new(self.plain.session().await?, self.fault, Arc::clone(&self.count)))
                as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.plain.commands()
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        self.plain.settle()
    }

    fn leftovers<'a>(&'a self, collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        self.plain.leftovers(collections)
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        self.plain.close()
    }
}
