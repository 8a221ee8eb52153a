//! The stage that transfers items (decision 0075, *A follower that is too far behind*). It may wait
//! for a disk, which the stage `group` must not.
//!
//! In a leader it reads the items, piece by piece, while the log is pinned by the stage `gc`. In a
//! member that lacks entries it writes them into folders beside those that count. What is said of
//! it passes the stage `group`, which knows the term; the pieces themselves go to the network.

mod giving;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use self::giving::{Giving, Step, Wanted};
use super::BATCH;
use crate::core::{Item, Key, KeyRange};
use crate::log::Beginning;
use crate::remark;
use crate::server::event::Garbage;
use crate::server::member_event::{FromTransfer, ToMember, Transfer};
use crate::server::stats::ServerStats;
use crate::server::transfer::{Taking, Target, TransferName};
use crate::stage::{Outlet, Source, Stage};
use crate::storage::{ScanLimit, Storage};
use crate::wire::{LastPiece, MemberMessage, PIECE_LIMIT_BYTES, Piece};

/// Greatest number of items in one piece.
const PIECE_ITEMS: usize = 1 << 14;

pub(in crate::server) struct TransferStage {
    giving: Giving,
    /// Folders for what is taken, and that which is being taken.
    target: Target,
    taking: Option<Taking>,
    storage: Arc<dyn Storage>,
    stats: Arc<ServerStats>,
    source: Source<Transfer>,
    outlets: Outlets,
}

/// Queues to which the stage hands on.
pub(in crate::server) struct Outlets {
    pub(in crate::server) group: Outlet<FromTransfer>,
    pub(in crate::server) to_members: Outlet<ToMember>,
    pub(in crate::server) gc: Outlet<Garbage>,
}

impl TransferStage {
    pub(in crate::server) fn new(
        target: Target,
        storage: Arc<dyn Storage>,
        stats: Arc<ServerStats>,
        source: Source<Transfer>,
        outlets: Outlets,
    ) -> Self {
        Self { giving: Giving::default(), target, taking: None, storage, stats, source, outlets }
    }

    fn handle(&mut self, event: Transfer, now_ms: u64) -> Result<(), String> {
        let step = match event {
            Transfer::Lacks { member, term } => self.lacks(member, term, now_ms),
            Transfer::Pinned { pin, from } => self.pinned(pin, from, now_ms),
            Transfer::Taken { member, name, through } => self.giving.taken(member, name, through, now_ms),
            Transfer::Reached { member, index, has_all } => self.giving.reached(member, index, has_all, now_ms),
            Transfer::Ended => self.giving.end(),
            Transfer::Piece { from, piece } => return self.take(from, &piece),
        };
        self.carry_out(step)
    }

    fn lacks(&mut self, member: u8, term: u64, now_ms: u64) -> Step {
        if !self.stats.has_room_to_pin() {
            return Step::Nothing;
        }
        let step = self.giving.lacks(member, term, now_ms);
        if step != Step::Nothing {
            let server = self.stats.server;
            remark::say(format_args!(
                "server {server}: member {member} lacks entries that are removed, and is given the items"
            ));
        }
        step
    }

    fn pinned(&mut self, pin: u64, from: Beginning, now_ms: u64) -> Step {
        let step = self.giving.pinned(pin, from, now_ms);
        if let Some(Wanted { member, name, .. }) = self.giving.wanted().filter(|_| step == Step::Send) {
            self.outlets.group.send(FromTransfer::Begun { member, from: name.before.index });
        }
        step
    }

    fn carry_out(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Nothing => {}
            Step::Pin(pin) => self.outlets.gc.send(Garbage::Pin { pin }),
            Step::Send => {
                if let Some(wanted) = self.giving.wanted() {
                    let piece = read(&*self.storage, &wanted).map_err(|error| error.to_string())?;
                    let to = wanted.member;
                    self.outlets.to_members.send(ToMember { to, message: MemberMessage::Piece(piece) });
                }
            }
            Step::Release(member) => {
                self.outlets.gc.send(Garbage::Release);
                self.outlets.group.send(FromTransfer::Over { member });
            }
        }
        Ok(())
    }

    /// Writes a piece of the leader's, and acknowledges it.
    fn take(&mut self, from: u8, piece: &Piece) -> Result<(), String> {
        let name = TransferName { term: piece.term, before: piece.before };
        let mut taking = match self.taking.take() {
            Some(taking) if taking.name() == name => taking,
            other => {
                // Its folder is emptied.
                drop(other);
                Taking::begin(&self.target, name).map_err(|error| error.to_string())?
            }
        };
        taking.take(piece).map_err(|error| error.to_string())?;
        if let Some(LastPiece { gc_payload, configured }) = taking.whole().cloned() {
            self.outlets.group.send(FromTransfer::Whole { name, gc_payload: gc_payload.to_vec(), configured });
        } else {
            let (term, before, through) = (name.term, name.before, taking.through().cloned());
            let message = MemberMessage::Taken { term, before, through };
            self.outlets.to_members.send(ToMember { to: from, message });
        }
        self.taking = Some(taking);
        Ok(())
    }
}

/// Reads the next piece of the items, as they are now.
fn read(storage: &dyn Storage, wanted: &Wanted<'_>) -> crate::storage::Result<Piece> {
    let &Wanted { name: TransferName { term, before }, after, from, .. } = wanted;
    let start = after.map_or_else(|| Some(Key::smallest()), Key::successor);
    let (mut items, mut is_last) = (Vec::new(), true);
    if let Some(start) = start {
        let limit = ScanLimit { items: PIECE_ITEMS, bytes: PIECE_LIMIT_BYTES };
        let found = storage.scan(&KeyRange { start, ..KeyRange::all() }, limit)?;
        (items, is_last) = (found.items, found.complete);
    }
    let size = |(key, item): &(Key, Item)| key.as_bytes().len() + item.value.as_bytes().len();
    // A scan ends with the item that reaches the limit.
    if items.len() > 1 && items.iter().map(size).sum::<usize>() > PIECE_LIMIT_BYTES {
        items.pop();
        is_last = false;
    }
    let gc_payload = || Bytes::copy_from_slice(&from.gc_payload);
    let last = is_last.then(|| LastPiece { gc_payload: gc_payload(), configured: from.configured.clone() });
    Ok(Piece { term, before, after: after.cloned(), items, last })
}

impl Stage for TransferStage {
    fn name(&self) -> &'static str {
        "transfer"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let mut batch = Vec::new();
        let handled = self.source.take(BATCH, &mut batch);
        for event in batch {
            self.handle(event, now_ms)?;
        }
        let step = self.giving.tick(self.stats.has_room_to_pin(), now_ms);
        self.carry_out(step)?;
        self.outlets.group.flush();
        self.outlets.to_members.flush();
        self.outlets.gc.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        let Outlets { group, to_members, gc } = &self.outlets;
        let are_clear = group.is_clear() && to_members.is_clear() && gc.is_clear();
        !self.source.is_empty() || !are_clear
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.giving.next_ms()
    }
}
