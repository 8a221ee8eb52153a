//! Records that are closed, as looks have found them.
//!
//! A closed record decides nothing any more, so its stamps stay as they are until it is removed. A
//! look does not read records that an earlier look has found closed, but takes their stamps over:
//! clients that have ended cost the others nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use protocol::ClientId;

use super::{
    changes::{RecordScan, Stamps},
    moment::Moment,
};
use crate::coordinator::stored::own_collections::RETENTION_SECONDS;

/// Records that a look has found closed, and when: what comes after need not ask for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosedRecords {
    pub(super) records: HashMap<ClientId, ClosedRecord>,
    /// A moment by which looks had found all these notices to be over.
    pub(super) over_since: Option<Moment>,
    /// True if notices that are over were too many to be remembered.
    pub(super) is_full: bool,
}

/// A record that was closed when it was found, and its last change stamps.
#[derive(Clone, Debug)]
pub(super) struct ClosedRecord {
    found: Moment,
    pub(super) stamps: Arc<Stamps>,
    pub(super) is_notice: bool,
}

/// Closed records that are remembered: one command names all of them.
pub(super) const MOST_CLOSED: usize = 256;
/// Closed records are removed by then.
pub(super) const CLOSED_FOR: Duration = Duration::from_secs(RETENTION_SECONDS as u64 * 3 / 2);

impl ClosedRecords {
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.records.keys().copied()
    }

    /// These records, those that a look sent at `asked` has found closed besides, and without those
    /// that the server has removed since.
    pub(super) fn with(&self, scan: &RecordScan, asked: Moment) -> Self {
        let is_there = |found: Moment| found.until(asked) < CLOSED_FOR;
        let mut all = self.clone();
        all.records.retain(|_, record| is_there(record.found));
        if !scan.over.is_empty() {
            // The look is answered.
            all.over_since = Some(Moment::now());
        }
        for client in scan.over.iter().chain(&scan.closed) {
            let is_notice = scan.over.contains(client);
            if is_notice {
                all.make_room();
            }
            if all.records.len() < MOST_CLOSED {
                let stamps = scan.changes.0.get(client).cloned().unwrap_or_default();
                all.records.entry(*client).or_insert(ClosedRecord { found: asked, stamps, is_notice });
            }
        }
        all.is_full = scan.over.iter().any(|notice| !all.records.contains_key(notice));
        all
    }

    /// Makes room for a notice: a record that has decided something is read again, if need be.
    fn make_room(&mut self) {
        if self.records.len() >= MOST_CLOSED {
            let record = self.records.iter().find(|(_, record)| !record.is_notice).map(|(client, _)| *client);
            record.and_then(|record| self.records.remove(&record));
        }
    }
}
