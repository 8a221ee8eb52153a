//! Ordered scans over all servers of a range, merged, with the transaction's own writes in them.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::database::unexpected;
use super::{Error, Result, Scanned, Transaction};
use crate::core::{Item, Key, KeyRange, LimitError, ScanRead, transaction::MAX_TRANSACTION_ITEMS};
use crate::wire::{Ask, Reply};

/// What all servers of a range have, up to where all of them were looked at.
struct Part {
    items: BTreeMap<Key, Item>,
    /// The last key up to which that is so; `None`: the whole range.
    through: Option<Key>,
}

impl Transaction {
    /// The keys of a range, in order, at most `limit`, as this transaction sees them.
    ///
    /// # Errors
    /// `limit` is 0 or beyond what a transaction may hold, or a server does not answer.
    pub fn scan(&mut self, range: KeyRange, limit: usize) -> Result<Scanned> {
        if limit == 0 || limit >= MAX_TRANSACTION_ITEMS {
            return Err(Error::Limit(LimitError::TooManyItems { items: limit }));
        }
        if range.is_empty() {
            return Ok(Scanned { items: Vec::new(), complete: true });
        }
        let (found, through) = self.look(&range, limit)?;
        let covered = match &through {
            Some(last) => KeyRange::through(range.start.clone(), last.clone()),
            None => range,
        };
        let items = self.overlaid(&covered, &found);
        let versions = found.iter().map(|(key, item)| (key.clone(), item.version)).collect();
        self.scans.push(ScanRead { range: covered, found: versions });
        self.scanned.extend(found);
        let complete = through.is_none() && items.len() <= limit;
        Ok(Scanned { items: items.into_iter().take(limit).collect(), complete })
    }

    /// Asks until there is enough or no more: what is stored, and how far that goes.
    fn look(&self, range: &KeyRange, limit: usize) -> Result<(BTreeMap<Key, Item>, Option<Key>)> {
        let mut found = BTreeMap::new();
        let mut rest = range.clone();
        loop {
            let part = self.look_once(&rest, limit - found.len())?;
            found.extend(part.items);
            let Some(through) = part.through else { return Ok((found, None)) };
            if found.len() >= limit {
                return Ok((found, Some(through)));
            }
            // The smallest key after it.
            let mut next = through.as_bytes().to_vec();
            next.push(0);
            match Key::new(next) {
                Ok(start) => rest.start = start,
                Err(_) => return Ok((found, Some(through))),
            }
        }
    }

    fn look_once(&self, range: &KeyRange, limit: usize) -> Result<Part> {
        let servers = self.client.inner.cluster.partition.servers_of(range);
        let ask = Ask::Scan { range: range.clone(), items: limit as u32 };
        let calls: Vec<_> =
            servers.into_iter().map(|server| self.client.start(server, ask.clone())).collect::<Result<_>>()?;
        let mut part = Part { items: BTreeMap::new(), through: None };
        for call in calls {
            let server = call.0;
            match self.client.finish(call)? {
                Reply::Found { items, complete } => {
                    let last = items.last().map(|(key, _)| key.clone()).filter(|_| !complete);
                    part.through = [part.through, last].into_iter().flatten().min();
                    part.items.extend(items);
                }
                other => return Err(unexpected(server, &other)),
            }
        }
        if let Some(through) = &part.through {
            part.items.retain(|key, _| key <= through);
        }
        // Several servers may have found more than was wanted.
        if part.items.len() > limit {
            part.through = part.items.keys().nth(limit - 1).cloned();
            part.items = part.items.into_iter().take(limit).collect();
        }
        Ok(part)
    }

    fn overlaid(&self, covered: &KeyRange, found: &BTreeMap<Key, Item>) -> Vec<(Bytes, Bytes)> {
        let mut seen: BTreeMap<&Key, Bytes> =
            found.iter().map(|(key, item)| (key, item.value.clone().into())).collect();
        for (key, value) in self.writes.iter().filter(|(key, _)| covered.contains(key)) {
            match value {
                Some(value) => seen.insert(key, value.clone().into()),
                None => seen.remove(key),
            };
        }
        seen.into_iter().map(|(key, value)| (Bytes::from(key.clone()), value)).collect()
    }
}
