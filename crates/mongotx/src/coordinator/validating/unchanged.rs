//! A validation does not read again what no write has changed since it was read (decision 0068).
//!
//! A transaction at snapshot remembers when it began: the last look at the change stamps, and the
//! moment in what this client itself changes. At its commit a later look is taken, with all locks
//! held. What it has read is unchanged if all of this holds:
//!
//! 1. This client has changed nothing of it since: no decision, no plain write, none that is lost.
//!    Decisions that have changed only fields on which the read does not rest do not count
//!    (decision 0069). A read that is no fetch by `_id` also rests on all fields of all indexes: a
//!    document that moves in an index while that is scanned may be missed.
//! 2. No other client whose record was open at one of the looks has ever decided anything there,
//!    and none that has opened and closed its record in between.
//! 3. No other client has given notice that it writes outside transactions there, or that was over
//!    before the first look.
//! 4. One server process has answered both looks and everything in between.
//! 5. The server itself removes nothing there, and MongoTx writes nothing there without counting
//!    it: the collection has no TTL index, is no view and no other collection in which nothing can
//!    be locked, and none with records of clients or gateways. (What is known of that, and of the
//!    indexes of 1, is not older than a notice that was over at the first look: decision 0071.)
//! 6. The answer was found by a query, and was not taken on trust ([`Entry::is_answered`]).
//!
//! 2 is more than that the stamps are the same: answers that a read lease has allowed
//! ([`crate::coordinator::queries::read_lease`]), which rest on clocks, are right as well where no
//! other client has ever decided anything.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::looks::Looks;
use crate::{
    coordinator::{
        catalog::{Catalog, Collection},
        log::txlog::TxLog,
        read_set::{Entry, Read, ReadSet},
        request::fields::Fields,
        server::Server,
        stamps::{
            begin_point::BeginPoint,
            change_look::{ChangeLook, SameServer},
            tag::{Tag, Tags},
        },
        stored::own_collections::holds_records,
    },
    options::Namespace,
};

/// State with which the reads of a transaction are compared at its commit: when it began, and which
/// of the collections that it has read cannot change without a trace.
pub(crate) struct ReadBaseline {
    begin_point: BeginPoint,
    /// Collections of which something can change without a trace.
    traceless: HashSet<Namespace>,
    /// Fields of the indexes of the others.
    indexed: HashMap<Namespace, Fields>,
}

/// Footprint of reads: the change stamps of what was read, each with the fields on which the reads
/// rest.
pub(crate) type Footprint = HashSet<(Tag, Fields)>;

/// A look behind reads that were sent with a write, and were answered as before.
pub(crate) struct LookBehind {
    pub(crate) later: Arc<ChangeLook>,
    /// Change stamps of the reads that were sent.
    pub(crate) asked: Tags,
    /// Stamps and fields on which the reads rest that seemed unchanged.
    pub(crate) unasked: Footprint,
}

/// Compares what transactions have read with what has been changed since.
pub(crate) struct Unchanged {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    catalog: Arc<Catalog>,
    looks: Arc<Looks>,
    tx_database: String,
}

impl Unchanged {
    pub(crate) fn new(
        server: Arc<Server>,
        log: Arc<dyn TxLog>,
        catalog: Arc<Catalog>,
        looks: Arc<Looks>,
        tx_database: &str,
    ) -> Self {
        Self { server, log, catalog, looks, tx_database: tx_database.to_owned() }
    }

    /// The beginning of a transaction, taken before it reads anything. `None`: no look has been
    /// answered yet, more notices are over than are remembered, or several servers keep the data.
    pub(crate) fn begin_point(&self) -> Option<BeginPoint> {
        let own = self.server.own_changes().now();
        // The look was answered before the transaction's reads from here on are sent.
        let look = self.looks.last().filter(|look| self.server.is_bound() && !look.forgets_notices())?;
        Some(BeginPoint { look, own })
    }

    /// For the validation of a transaction that has begun at `begin_point`, and made these reads.
    pub(crate) async fn baseline(&self, begin_point: BeginPoint, reads: &ReadSet) -> ReadBaseline {
        let (mut traceless, mut indexed) = (HashSet::new(), HashMap::new());
        for ns in reads.collections() {
            // Without an answer it is read again, which says why.
            let known = self.catalog.look_up(ns).await;
            let leaves_traces = |known: &Arc<Collection>| {
                known.unlockable.is_none() && known.indexes.iter().all(|index| index.expiry().is_none())
            };
            match known.ok().filter(leaves_traces) {
                Some(known) if !holds_records(ns, &self.tx_database) => {
                    indexed.insert(ns.clone(), Fields::of_indexes(&known.indexes));
                }
                _ => drop(traceless.insert(ns.clone())),
            }
        }
        ReadBaseline { begin_point, traceless, indexed }
    }

    /// Returns true if everything that rests on this is as it was, as far as this later look and
    /// the client's own memory show.
    pub(crate) fn is_unchanged(&self, baseline: &ReadBaseline, footprint: &Footprint, later: &ChangeLook) -> bool {
        let stamps: Tags = footprint.iter().map(|(tag, _)| *tag).collect();
        let (before, known) = (&baseline.begin_point.look, self.log.own_changes(&stamps));
        let by_others = before.changed_by_others(later, &known, &stamps, SameServer::Connections);
        !before.may_be_written_around(later, &stamps, |notice| self.server.plain.is_own(notice))
            && [before, later].iter().all(|look| look.is_silent(&known, &stamps))
            && by_others == Some(false)
            && self.server.is_bound()
            // Own changes are compared last: one that was decided or written during this check was
            // counted before it took effect.
            && self.server.own_changes().are_none(footprint, baseline.begin_point.own)
    }
}

impl ReadBaseline {
    /// Returns true if a change of this collection leaves a trace.
    pub(crate) fn traces(&self, ns: &Namespace) -> bool {
        !self.traceless.contains(ns)
    }

    /// Returns true if every change that matters to this read leaves a trace, and the read was
    /// answered.
    pub(crate) fn traces_all_of(&self, entry: &Entry) -> bool {
        entry.is_answered && entry.collections.iter().all(|ns| self.traces(ns))
    }

    /// The fields on which this read rests.
    pub(crate) fn fields_of(&self, entry: &Entry) -> Fields {
        let (Read::Find(query), [ns]) = (&entry.read, &entry.collections[..]) else { return Fields::All };
        let fields = Fields::of_query(query);
        match self.indexed.get(ns) {
            _ if query.is_fetch() => fields,
            Some(indexed) => fields.and(indexed),
            None => Fields::All,
        }
    }
}
