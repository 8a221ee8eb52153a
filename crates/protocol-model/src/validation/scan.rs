//! One read, by the steps between which other transactions can act: a document by its `_id`, a scan
//! of a collection, or a scan in the own view.
//!
//! 1. Pending documents of others whose safe or unsafe version matches, one after the other in the
//!    order of the index on `_xTxId`.
//! 2. Safe versions that match, in the order of an index on the value: a document can be moved past
//!    the cursor. In the own view: each document's visible version, in the order of the collection.
//! 3. The statuses of the transactions found in 1, one record after the other. If one of them is
//!    decided, its documents are cleaned, and all begins again.
//!
//! A key of a unique index is looked for among safe versions and then among the pending ones of
//! others, and 3 follows. If one document has it, that is the answer. These two looks do not prove
//! that no document has it, because they miss a document that is finished between them: then 1 to 3
//! follow, and if a transaction was decided.
//!
//! A document by its `_id` is fetched with its lock; if it is locked, 3 follows. The unsafe version
//! that was fetched before the writer was decided is never the answer: the writer may have changed
//! it again before its commit.

use protocol::TxStatus;

use super::{
    breakage::Breakage,
    command::{Command, Phase},
    plan::Plan,
    query::{Docs, Fold, Query, value, with},
    state::State,
};

/// Result of a read, with the rivals that it has met.
#[derive(Clone, Copy, Debug)]
pub struct ScanResult {
    /// Documents that the read has answered.
    pub result: Docs,
    /// Active rivals that hold what matches in one of their versions.
    pub active: u8,
    /// The active rivals whose unsafe version may have another answer.
    pub changing: u8,
    /// True if the read has met a lock.
    pub met: bool,
}

/// Positions in the order of an index: documents are numbered within each of its values.
const DOCS: usize = 4;

impl Command {
    fn look_for_key(&mut self, state: &State, t: usize) {
        let is_safe = self.phase == Phase::Keyed;
        for (doc, stored) in state.now.docs.iter().enumerate() {
            let held = stored.pending.filter(|(writer, _)| *writer != t);
            let shown = if is_safe { Some(stored.safe) } else { held.map(|(_, pending)| pending) };
            if shown.is_some_and(|shown| with(doc, shown) & self.query.bits != 0) && value(self.found, doc) == 0 {
                self.found |= with(doc, stored.safe) & self.query.bits;
                self.rivals |= held.map_or(0, |(rival, _)| 1 << rival);
            }
        }
        self.scanned = true;
        self.phase = if is_safe { Phase::KeyedPending } else { Phase::Asking };
    }

    fn fetch(&mut self, state: &State, t: usize) {
        let doc = (0..DOCS).find(|doc| value(self.query.bits, *doc) != 0).unwrap_or(0);
        let stored = &state.now.docs[doc];
        self.found = with(doc, stored.safe);
        if let Some((rival, pending)) = stored.pending.filter(|(writer, _)| *writer != t) {
            self.pending = with(doc, pending);
            self.rivals |= 1 << rival;
        }
        self.scanned = true;
        self.phase = Phase::Asking;
    }

    fn probe(&mut self, plan: &Plan, state: &State, t: usize, from: usize) {
        let pending = state.now.docs.iter().enumerate().filter_map(|(doc, stored)| {
            let (rival, pending) = stored.pending.filter(|(rival, _)| *rival != t)?;
            let matches = with(doc, stored.safe | pending) & self.query.bits != 0;
            let at = rival * DOCS + doc;
            (matches && at >= from).then_some(at)
        });
        if let Some(at) = pending.min() {
            self.rivals |= 1 << (at / DOCS);
            self.phase = Phase::Probing(at + 1);
        } else if self.scanned || plan.one_by_one && self.rivals != 0 {
            self.phase = Phase::Asking;
        } else {
            self.phase = Phase::Scanning(0);
        }
    }

    fn scan(&mut self, plan: &Plan, state: &State, t: usize, from: usize) {
        let docs = state.now.docs.iter().enumerate();
        let entry = |doc, values: u8| (usize::from(values / 2) * DOCS + doc, with(doc, values));
        let entries = docs.map(|(doc, stored)| match self.own {
            false => entry(doc, stored.safe),
            true => (doc, with(doc, state.value_for(t, doc))),
        });
        let is_full = self.query.fold == Fold::First && self.found != 0 && !self.own;
        let next = entries.filter(|_| !is_full).filter(|(at, found)| *at >= from && found & self.query.bits != 0).min();
        if let Some((at, found)) = next {
            self.found |= found;
            self.phase = Phase::Scanning(at + 1);
        } else {
            self.scanned = true;
            let probed = !plan.has(Breakage::ProbeAfterScan);
            self.phase = if probed { Phase::Asking } else { Phase::Probing(0) };
        }
    }

    fn ask(&mut self, plan: &Plan, state: &mut State, t: usize) {
        let Some(rival) = self.unasked() else { return };
        let remembered = state.runs[t].known >> rival & 1 == 1;
        if remembered || state.durable_status(plan, rival) == TxStatus::Active {
            self.active |= 1 << rival;
            if plan.has(Breakage::StatusRemembered) {
                state.runs[t].known |= 1 << rival;
            }
        } else {
            self.decided |= 1 << rival;
        }
    }

    fn unasked(&self) -> Option<usize> {
        let left = self.rivals & !self.active & !self.decided;
        (left != 0).then(|| left.trailing_zeros() as usize)
    }

    /// Concludes the read, once all statuses are known.
    fn conclude(mut self, plan: &Plan, state: &mut State) -> Result<ScanResult, Self> {
        if self.query.point && plan.has(Breakage::EarlierVersionMapped) {
            let committed =
                self.decided != 0 && state.status(plan, self.decided.trailing_zeros() as usize) == TxStatus::Committed;
            self.found = if committed { self.pending } else { self.found };
        } else if self.decided != 0 {
            for doc in 0..state.now.docs.len() {
                let holder = state.now.docs[doc].pending;
                if holder.is_some_and(|(rival, _)| self.decided >> rival & 1 == 1) {
                    state.clean(plan, doc);
                }
            }
            return Err(Self::new(plan, self.query, self.own));
        }
        let is_concluded = self.found != 0 || plan.has(Breakage::NothingByKeyConcluded);
        if self.by_key && !is_concluded {
            return Err(Self::at(self.query, self.own, Phase::Probing(0)));
        }
        if !self.scanned {
            return Err(Self { phase: Phase::Scanning(0), ..self });
        }
        let result = self.query.answer(self.found);
        let same = self.query.point && self.query.answer(self.pending) == result;
        let changing = if same { 0 } else { self.active };
        Ok(ScanResult { result, active: self.active, changing, met: self.rivals != 0 })
    }

    /// One step of the read for transaction `t`.
    pub fn step(mut self, plan: &Plan, state: &mut State, t: usize) -> Result<ScanResult, Self> {
        match self.phase {
            Phase::Fetching => self.fetch(state, t),
            Phase::Keyed | Phase::KeyedPending => self.look_for_key(state, t),
            Phase::Probing(from) => self.probe(plan, state, t, from),
            Phase::Scanning(from) => self.scan(plan, state, t, from),
            Phase::Asking => self.ask(plan, state, t),
        }
        if self.phase == Phase::Asking && self.unasked().is_none() {
            return self.conclude(plan, state);
        }
        Err(self)
    }
}

/// Returns true if a query reads documents of collections to which the transaction has written.
pub fn is_own_view(plan: &Plan, state: &State, t: usize, query: Query) -> bool {
    plan.collections(query.bits) & plan.collections(state.runs[t].own.docs) != 0
}
