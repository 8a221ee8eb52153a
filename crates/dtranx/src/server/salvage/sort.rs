//! Decides which keys are sure, and writes the file.
//!
//! A key that the log has is sure at the value of its last commit in order. A key that only the
//! items have is sure at the item's value, unless
//! - its newest entry may be lost in a damaged file of the items;
//! - records may be missing before the first one of the log;
//! - the log has a gap, and the item may be of a transaction in it or behind it: its value at the
//!   moment before the gap is gone then. An item of a transaction that was complete when segments
//!   were removed is not, if the gap is later than that.
//!
//! No key is sure that a transaction in doubt writes. In the log of a member of a group, the first
//! entry that is not known to be committed is such a gap.

use std::io::{self, Write};

use super::log::Records;
use super::scratch::{Scratch, Written};
use super::{Moment, Named, SalvageError, Salvaged};
use crate::backup::{Content, Mark, Writer};
use crate::core::{Epoch, Item, Key, TranxId, Value};
use crate::damage::{Damage, Damages};
use crate::log::Surveyed;
use crate::server::ServerConfig;
use crate::server::data_folders::DataFolders;
use crate::storage::remains::Between;
use crate::storage::{stored_item, stored_key};

/// Everything that was read of a server, from which the file is written.
pub(super) struct Sorter<'a> {
    pub(super) config: &'a ServerConfig,
    pub(super) folders: DataFolders,
    pub(super) scratch: &'a Scratch,
    pub(super) records: Records<'a>,
    pub(super) surveyed: Surveyed,
    /// Stored keys of items whose newest entries may be lost.
    pub(super) unsure: Vec<Between>,
}

/// A key with its newest entries in the log and in the items.
struct Found {
    key: Key,
    log: Option<Written>,
    item: Option<Item>,
}

impl Sorter<'_> {
    /// Writes the file, and returns a report of what is in it.
    pub(super) fn write(mut self, mut damages: Damages, file: impl Write) -> Result<Salvaged, SalvageError> {
        self.check_items(&mut damages)?;
        let (in_doubt, doubtful) = self.settle()?;
        let mut newer = Named::default();
        self.scratch.newer().try_for_each(|key| key.map(|key| newer.push(key)))?;
        // Always marked: a log can have lost its end without a trace.
        let mark = Some(Mark { server: self.config.server });
        let mut writer = Writer::begin(file, &self.config.cluster.name, Epoch(0), mark)?;
        let (mut sure, mut uncertain) = (Content::default(), Content::default());
        for found in self.keys() {
            let found = found?;
            // The server's map is of the cluster as it was; clients may not write it.
            let Some(value) = found.value().filter(|_| found.key != Key::of_map()) else { continue };
            if self.is_sure(&found)? {
                sure.count(&found.key, value);
                writer.add(found.key.clone(), value.clone())?;
            } else {
                uncertain.count(&found.key, value);
                self.scratch.put_uncertain(&found.key, value)?;
            }
        }
        writer.begin_uncertain()?;
        for item in self.scratch.uncertain() {
            let (key, value) = item?;
            writer.add(key, value)?;
        }
        writer.end()?;
        let moment = self.surveyed.gap.map_or(Moment::Newest, Moment::Before);
        let Surveyed { segments, in_order: records, behind, .. } = self.surveyed;
        Ok(Salvaged { damages, segments, records, behind, moment, sure, uncertain, in_doubt, doubtful, newer })
    }

    /// Checks that every stored item makes sense, and that neither the items nor the GC log know
    /// more than the log: else the log has lost its end.
    fn check_items(&mut self, damages: &mut Damages) -> io::Result<()> {
        if let Some(what) = self.records.lost_end() {
            self.end_is_lost(what, damages);
        }
        let are_proofs = self.scratch.are_items_proofs();
        for stored in self.scratch.items() {
            let (key, value) = stored?;
            let item = match stored_item(&key, &value) {
                Ok((_, item)) => item,
                Err(error) => {
                    damages.push(Damage::of(self.folders.items(self.config).display(), error.to_string()));
                    continue;
                }
            };
            let version = item.version;
            if are_proofs && self.surveyed.gap.is_none() && self.shows_more(version)? {
                let what = format!(
                    "the items have been written by transaction {version}, whose commit the log does not have: its end \
                     is lost"
                );
                self.end_is_lost(what, damages);
            }
        }
        Ok(())
    }

    /// Returns true if an item of this transaction shows that the log has lost its end. What the
    /// log has no record of may also have been in its beginning, if that is lost.
    fn shows_more(&self, version: TranxId) -> io::Result<bool> {
        if self.surveyed.begins_late {
            self.records.contradict(version)
        } else {
            Ok(!self.records.vouch_for(version)?)
        }
    }

    /// Notes that the log has lost its end, unless a gap is known.
    fn end_is_lost(&mut self, what: String, damages: &mut Damages) {
        if self.surveyed.gap.is_none() {
            let damage = Damage::of(self.folders.log(self.config).display(), what);
            damages.push(damage.clone());
            self.surveyed.gap = Some(damage);
        }
    }

    /// Decides about each transaction in doubt. If an item shows that its writes were done, it is
    /// committed. Otherwise its keys are held back: its coordinator may have committed it. Returns
    /// those that are in doubt, and the keys that they write.
    fn settle(&self) -> io::Result<(Named<TranxId>, Named<Key>)> {
        let (mut tranxs, mut keys) = (Named::default(), Named::default());
        let has_gap = self.surveyed.gap.is_some();
        for found in self.records.in_doubt(has_gap) {
            let (tranx, writes) = found?;
            let mut is_done = false;
            for write in writes.iter().filter(|write| write.value.is_some()) {
                is_done |= self.item(&write.key)?.is_some_and(|item| item.version == tranx);
            }
            // With a gap, what it wrote may have been replaced, or the moment is before its commit.
            if is_done && !has_gap {
                self.scratch.commit(tranx, &writes)?;
                continue;
            }
            tranxs.push(tranx);
            for write in writes.into_iter().filter(|write| write.key != Key::of_map()) {
                self.scratch.hold(&write.key)?;
                keys.push(write.key);
            }
        }
        Ok((tranxs, keys))
    }

    fn item(&self, key: &Key) -> io::Result<Option<Item>> {
        let stored = stored_key(key);
        let found = self.scratch.item(&stored)?;
        Ok(found.and_then(|value| stored_item(&stored, &value).ok()).map(|(_, item)| item))
    }

    fn is_unsure(&self, stored: &[u8]) -> bool {
        self.unsure.iter().any(|keys| keys.contains(stored))
    }

    /// Returns all keys in order, with what the log and the items have of each.
    fn keys(&self) -> impl Iterator<Item = io::Result<Found>> {
        let only_items = self.scratch.items().filter_map(|stored| {
            let (key, item) = match stored {
                // What makes no sense was named before.
                Ok((key, value)) => stored_item(&key, &value).ok()?,
                Err(error) => return Some(Err(error)),
            };
            match self.scratch.in_log(&key) {
                Ok(None) => Some(Ok(Found { key, log: None, item: Some(item) })),
                Ok(Some(_)) => None,
                Err(error) => Some(Err(error)),
            }
        });
        let in_log = self.scratch.log().map(|found| found.map(|(key, log)| Found { key, log: Some(log), item: None }));
        merge(in_log, only_items)
    }

    /// Returns true if a key had this value at the moment of the file.
    fn is_sure(&self, found: &Found) -> io::Result<bool> {
        if self.scratch.is_held(&found.key)? {
            return Ok(false);
        }
        let Some(Item { version, .. }) = &found.item else { return Ok(true) };
        if self.surveyed.begins_late || self.is_unsure(&stored_key(&found.key)) {
            return Ok(false);
        }
        if self.surveyed.gap.is_none() {
            return Ok(true);
        }
        Ok(self.records.is_past_gc && self.records.is_complete(*version) && !self.scratch.is_behind(*version)?)
    }
}

impl Found {
    fn value(&self) -> Option<&Value> {
        match &self.log {
            Some(log) => log.value.as_ref(),
            None => self.item.as_ref().map(|item| &item.value),
        }
    }
}

/// Merges two sequences that have no key in common, in the order of the keys.
fn merge(
    one: impl Iterator<Item = io::Result<Found>>,
    other: impl Iterator<Item = io::Result<Found>>,
) -> impl Iterator<Item = io::Result<Found>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || {
        let is_first = match (one.peek(), other.peek()) {
            (Some(Ok(left)), Some(Ok(right))) => left.key < right.key,
            // An error ends the caller's work, wherever it is.
            (left, right) => right.is_none() || matches!(left, Some(Err(_))),
        };
        if is_first { one.next() } else { other.next() }
    })
}
