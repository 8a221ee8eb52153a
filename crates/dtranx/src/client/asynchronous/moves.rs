//! Ranges that move to another server while the cluster runs (decision 0082): one transaction after
//! the other, each of a part of the range with what it holds.

use std::time::{Duration, Instant};

use super::AsyncClient;
use super::pause::pause;
use crate::backoff::Backoff;
use crate::client::reply::unexpected;
use crate::client::retry::{Next, Retry};
use crate::client::state::TransactionState;
use crate::client::{Error, Result};
use crate::core::{Item, Key, KeyRange, Moving, ScanRead, ServerId};
use crate::wire::{Ask, Reply};

/// Most items that one transaction moves. They are among its writes and among what it has found.
const STEP_ITEMS: usize = 400;
/// Size of the items from which on one transaction moves no further one, in bytes.
const STEP_BYTES: usize = 2 << 20;
/// Rounds in a row that may move nothing, because others move the same ranges.
const IDLE_ROUNDS: u32 = 100;
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));

/// Work that moved a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeMoved {
    /// Number of items that have moved.
    pub items: u64,
    /// Number of transactions that have moved them.
    pub transactions: u64,
}

impl AsyncClient {
    /// Moves all keys of a range to a server, while the cluster works with them. `progress` is
    /// called after each transaction. Transactions that touch the part of the range which is moving
    /// at that moment are tried again by their clients; between two of its transactions the call
    /// waits for as long as the last one took. If the call ends early, a part of the range
    /// has moved, and a further call moves the rest.
    ///
    /// # Errors
    /// The cluster spreads its keys by their hashes; a server does not answer; or a transaction in
    /// doubt holds a part of the range for too long. [`Error::Unknown`]: the last part may have
    /// moved.
    pub async fn move_range(
        &self,
        range: &KeyRange,
        to: ServerId,
        mut progress: impl FnMut(&RangeMoved),
    ) -> Result<RangeMoved> {
        self.inner.link(to)?;
        let (mut done, mut idle, mut backoff) = (RangeMoved::default(), 0, PAUSES);
        loop {
            let begun = Instant::now();
            let map = self.map().await?;
            let Some((part, from)) = map.pieces(range).into_iter().find(|(_, holder)| *holder != to) else {
                return Ok(done);
            };
            let moving = Moving { moves: map.moves_of(&part).saturating_add(1), range: part, from, to };
            match self.move_part(moving).await? {
                Some(items) => {
                    done.items += items;
                    done.transactions += 1;
                    (idle, backoff) = (0, PAUSES);
                    progress(&done);
                    // What was refused because of the move is tried again meanwhile.
                    pause(begun.elapsed()).await;
                }
                None if idle == IDLE_ROUNDS => {
                    let why = "others move parts of the range all the time".to_owned();
                    return Err(Error::Unavailable { server: from, why });
                }
                None => {
                    idle += 1;
                    pause(backoff.next_by_chance()).await;
                }
            }
        }
    }

    /// Moves the first part of a range that one server holds. Returns the number of its items;
    /// `None` if the server does not hold it any more.
    async fn move_part(&self, whole: Moving) -> Result<Option<u64>> {
        let mut retry = Retry::new(&self.inner.options);
        let mut earlier = None;
        loop {
            let mut tranx = self.begin();
            let Some((moving, found)) = self.first_part(&whole).await? else { return Ok(None) };
            let items = found.len() as u64;
            fill(&mut tranx.state, moving, found);
            tranx.state.earlier = earlier;
            earlier = loop {
                let refusal = match tranx.commit_surely().await {
                    Ok(_) => return Ok(Some(items)),
                    Err(Error::Refused(refusal)) => refusal,
                    Err(error) => return Err(error),
                };
                match retry.refused(refusal) {
                    Next::CommitAgain(wait, earlier) => {
                        tranx.state.earlier = Some(earlier);
                        pause(wait).await;
                    }
                    Next::BeginAgain(wait, _, earlier) => {
                        pause(wait).await;
                        break Some(earlier);
                    }
                    Next::GiveUp(error) => return Err(error),
                }
            };
        }
    }

    /// The items that the next transaction moves, and their range.
    async fn first_part(&self, whole: &Moving) -> Result<Option<(Moving, Vec<(Key, Item)>)>> {
        let ask = Ask::Scan { range: whole.range.clone(), items: STEP_ITEMS as u32 };
        let (mut items, mut complete) = match self.inner.start(whole.from, ask)?.reply().await? {
            Reply::Found { items, complete } => (items, complete),
            Reply::NotHere(_) => return Ok(None),
            other => return Err(unexpected(whole.from, &other)),
        };
        let mut bytes = 0;
        let fits = items.iter().position(|(key, item)| {
            let is_beyond = bytes >= STEP_BYTES;
            bytes += key.as_bytes().len() + item.value.as_bytes().len();
            is_beyond
        });
        if let Some(fits) = fits {
            items.truncate(fits);
            complete = false;
        }
        let mut moving = whole.clone();
        if let Some((last, _)) = items.last().filter(|_| !complete) {
            moving.range = KeyRange::through(moving.range.start, last.clone());
        }
        Ok(Some((moving, items)))
    }
}

/// Makes a transaction one that moves a range, with what was found in it.
fn fill(state: &mut TransactionState, moving: Moving, found: Vec<(Key, Item)>) {
    let versions = found.iter().map(|(key, item)| (key.clone(), item.version)).collect();
    state.scans.push(ScanRead { range: moving.range.clone(), found: versions });
    state.writes = found.into_iter().map(|(key, item)| (key, Some(item.value))).collect();
    state.moving = Some(moving);
}
