//! The read lease: a client that is alone sends queries without a probe (decision 0066).
//!
//! Before a query, a client has to look for what other clients have decided and not finished. Where
//! it is the only client, all of that is its own, and known to it. While it holds a read lease, a
//! client that registers waits before it locks anything, for longer than the lease is held.
//!
//! 1. The client's record says that it may hold a lease: newcomers see that.
//! 2. The client reads which other records are open. If none is, the lease is held for
//!    [`state::LENGTH`] from the moment at which it sent the read, and renewed by reading again
//!    ([`keeper`]).
//! 3. Each collection is settled once in a lease and a server process: from then on nothing is
//!    pending there that is decided, but for what this client has decided itself.
//! 4. A query is sent without a probe where nothing of that is left, and believed if, when its
//!    answer has come, the lease is still held, the server process the same, and no transaction of
//!    this client has begun to be decided there meanwhile. A statement that finds and locks the
//!    first document in an order is such a query, too (decision 0072).
//!
//! A query beside what own transactions have left, or are being decided, has rules of its own
//! (decision 0077, `command/access_paths/beside_own_changes.rs`).
//!
//! | file | content |
//! | --- | --- |
//! | this one | whether a query may be sent without a probe, and its answer be believed |
//! | [`keeper`] | the task that takes the lease, renews it, and lets it go |
//! | [`state`] | the lease as the client knows it, and the rules about it |
//! | [`demand`] | whether a lease is worth its price |
//! | [`collections`] | collections as the lease knows them: settled, and how long they have probes |
//! | [`decisions`] | this client's transactions that are being decided |
//! | [`beside_own_changes`] | the right to send a query beside what they have left |
//! | [`stored`] | the commands on client records; how long a newcomer waits |
//!
//! The lease rests on clocks. Commits do not rest on it: a validation looks for itself, and so do
//! queries for what is going to be written, but for the statement named above.

mod beside_own_changes;
mod collections;
mod decisions;
mod demand;
mod keeper;
mod state;
mod stored;

use std::sync::{Arc, Weak};

use bson::Document;
use protocol::TxId;
use tokio::runtime::Handle;

use self::state::{Lease, ReadPermission};
pub(crate) use self::{
    beside_own_changes::{ConcurrentDecisions, PermitBeside},
    decisions::{CollectionChanges, FoundBy},
    state::{DecisionInProgress, Permit, ReadLease},
    stored::{Newcomer, outwait},
};
use super::pending::Pending;
use crate::{
    coordinator::{
        finishing::finisher::Finisher,
        log::txlog::TxLog,
        request::{id_span::IdSpan, own_key::OwnKey, query_options::QueryOptions},
        server::Server,
    },
    options::{ClientOptions, Namespace},
};

/// Queries without a probe: whether one may be sent, and its answer be believed. Its client owns it
/// alone; it goes with its client.
pub(crate) struct Unprobed {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    finisher: Finisher,
    pending: Arc<Pending>,
    read_lease: Arc<ReadLease>,
    options: Arc<ClientOptions>,
    /// The client's runtime, in which the lease is kept.
    runtime: Handle,
    /// Itself, for the task that keeps the lease.
    this: Weak<Self>,
}

impl Unprobed {
    pub(crate) fn new(
        server: Arc<Server>,
        log: Arc<dyn TxLog>,
        finisher: Finisher,
        pending: Arc<Pending>,
        read_lease: Arc<ReadLease>,
        options: Arc<ClientOptions>,
    ) -> Arc<Self> {
        let runtime = Handle::current();
        Arc::new_cyclic(|this| {
            let this = Weak::clone(this);
            Self { server, log, finisher, pending, read_lease, options, runtime, this }
        })
    }

    /// A decision of this client about a transaction that has written this is under way.
    pub(crate) fn deciding(&self, id: TxId, written: Vec<CollectionChanges>) -> DecisionInProgress {
        self.read_lease
            .deciding(id, written, |ns, id| self.finisher.is_left_in(ns, id) || self.finisher.has_refused(ns))
    }

    /// Ends the lease: the outcome of a decision is not known.
    pub(crate) fn lose_lease(&self) {
        self.read_lease.lose();
    }

    /// Returns true if a query may be sent without a probe, apart from the state of its
    /// collections.
    pub(crate) fn may_be_unprobed(&self, ns: &Namespace, options: &QueryOptions) -> bool {
        let is_out = options.staleness.is_some() || options.is_always_probed;
        if is_out || !self.options.read_lease || self.options.is_published() || !self.server.is_bound() {
            return false;
        }
        let lease = self.read_lease.asked();
        if lease == Lease::Wanted {
            self.this.upgrade().iter().for_each(|this| keeper::start(this, ns));
        }
        lease == Lease::Held
    }

    /// Could [`Self::permit`] give one for this collection, if nothing is left there?
    pub(crate) fn may_be_permitted(&self, ns: &Namespace) -> bool {
        self.read_lease.may_be_asked(ns)
    }

    /// The right to send such a query of these collections without a probe, if there is one.
    pub(crate) async fn permit(&self, collections: &[&Namespace]) -> Option<Permit> {
        let process = self.server.nodes.process()?;
        for ns in collections {
            if self.has_left(ns) || !self.is_settled(ns, self.read_lease.permission(ns, process)).await {
                return None;
            }
        }
        let permit = self.read_lease.permit(collections, process);
        // A transaction that is decided is handed to the finisher before it counts as being decided
        // no more: so the finisher is checked last.
        let is_clean = !collections.iter().any(|ns| self.finisher.has_committed(ns));
        permit.filter(|_| is_clean)
    }

    /// Returns true if this client has left something in the collection that it has committed. If
    /// more than one query meets that, it is finished now, so that the next ones need no probe.
    fn has_left(&self, ns: &Namespace) -> bool {
        let has_left = self.finisher.has_committed(ns);
        if self.read_lease.meets(ns, has_left) {
            self.finisher.urge(ns);
        }
        has_left
    }

    /// Returns true if the answer to such a query, which has just come, is to be believed.
    pub(crate) fn is_believed(&self, permit: Permit, collections: &[&Namespace]) -> bool {
        let is_same_process = self.server.is_bound() && self.server.nodes.process() == Some(permit.process);
        let is_believed = self.read_lease.answers(permit, collections) && is_same_process;
        self.count(is_believed);
        is_believed
    }

    /// Returns true if transactions of this client are being decided, or have left something, that
    /// have written to this collection.
    pub(crate) fn has_own(&self, ns: &Namespace) -> bool {
        self.read_lease.is_deciding(ns) || self.finisher.has_committed(ns)
    }

    /// Returns true if a query beside what is left was in vain in this collection a moment ago.
    pub(crate) fn was_in_vain(&self, ns: &Namespace) -> bool {
        self.read_lease.was_in_vain(ns)
    }

    /// The right to send a query of this collection without a probe beside what transactions of
    /// this client have left there, if that makes no difference to which documents it finds
    /// (decision 0077, P1 and P2). `found_by`: the fields on which that depends.
    pub(crate) async fn permit_beside(&self, ns: &Namespace, found_by: FoundBy) -> Option<PermitBeside> {
        let process = self.server.nodes.process()?;
        // What is over was handed to the finisher before.
        let over = self.read_lease.begun_and_over(ns);
        if let Some(by) = over.filter(|_| !self.finisher.has_committed(ns)) {
            self.read_lease.nothing_is_left(ns, by);
        }
        let permission = self.read_lease.permission_beside(ns, process);
        if !self.is_settled(ns, permission).await {
            return None;
        }
        let permit = self.read_lease.permit_beside(ns, process, found_by, |id| self.finisher.is_left_in(ns, id));
        // What the server has refused is left, and is not known to the finisher as such. Last: it
        // may have been refused meanwhile.
        permit.filter(|_| !self.finisher.has_refused(ns))
    }

    /// The decisions beside which such a query was carried out, if its answer is to be believed:
    /// that has come by now, and has the documents with these keys (decision 0077, A1 and A3).
    /// `None` as a key: it equals others. `span`: where a query by `_id` alone has looked.
    pub(crate) fn begun_beside(
        &self,
        permit: &PermitBeside,
        ns: &Namespace,
        shown: &[Option<OwnKey>],
        span: &IdSpan,
    ) -> Option<ConcurrentDecisions> {
        let is_same_process = self.server.is_bound() && self.server.nodes.process() == Some(permit.process);
        let meanwhile = self.read_lease.begun_beside(permit, ns).filter(|_| is_same_process)?;
        meanwhile.have_written_to_one(shown, span).then_some(meanwhile)
    }

    /// Notes whether a query beside what is left was answered so.
    pub(crate) fn note_beside(&self, ns: &Namespace, is_answered: bool) {
        self.count(is_answered);
        self.read_lease.note_beside(ns, is_answered);
    }

    /// Counts a query without a probe by whether its answer was believed.
    fn count(&self, is_believed: bool) {
        let counters = &self.server.counters;
        counters.add(if is_believed { &counters.unprobed } else { &counters.unprobed_in_vain }, 1);
    }

    /// Step 3 of the read lease: settles the collection if need be. True: it is settled.
    async fn is_settled(&self, ns: &Namespace, permission: ReadPermission<'_>) -> bool {
        let settling = match permission {
            ReadPermission::Granted => return true,
            ReadPermission::Refused => return false,
            ReadPermission::AfterSettling(settling) => settling,
        };
        let is_settled = match self.pending.settle_now(ns, &Document::new(), &QueryOptions::default(), None).await {
            Ok(settled) => settled.unfinished.is_empty(),
            Err(error) => {
                // The query says it in the user's terms.
                tracing::debug!(%ns, %error, "a collection could not be settled for a read lease");
                false
            }
        };
        settling.ended(is_settled);
        is_settled
    }

    /// Takes no lease any more, and lets the last one go.
    pub(crate) async fn end_read_lease(&self) {
        self.read_lease.close(self.options.commit_timeout).await;
    }
}
