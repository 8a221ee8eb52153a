//! The task that finishes what is due. Several finishes are under way at a time; what the server
//! refuses is kept and tried again, and while the server is away each one tries again by itself.

use std::{sync::Arc, time::Duration};

use protocol::TxId;
use tokio::{task::JoinHandle, time::Instant};

use super::{
    FINISH_WAIT, FinisherState, MOMENT,
    backlog::{Flight, NextStep},
    commands::{LeftDocuments, finish_all, left_documents, split},
    work::Part,
};
use crate::{backoff::Backoff, coordinator::log::txlog::TxLog, error::ErrorKind};

/// Pauses between two attempts while the server is away.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// Runs as long as the client, and until everything is finished that it has left.
pub(super) async fn dispatch(state: Arc<FinisherState>) {
    loop {
        match state.next() {
            NextStep::Fly(flights) => {
                for flight in flights {
                    tokio::spawn(fly(Arc::clone(&state), flight));
                }
            }
            NextStep::TryAgain(parts) => drop(tokio::spawn(try_again(Arc::clone(&state), parts))),
            NextStep::Sleep(None) => state.wake.notified().await,
            NextStep::Sleep(Some(until)) => drop(tokio::time::timeout_at(until, state.wake.notified()).await),
            NextStep::End => return,
        }
    }
}

/// Finds out whether rivals have read this client's record for the status of a document's holder (a
/// rival that reads a document by its `_id` finishes nothing). The look goes on when no caller
/// waits for it: stopped half-way, it would take its connection along.
fn look_for_rivals(state: &Arc<FinisherState>) -> JoinHandle<()> {
    let looking = Arc::clone(state);
    tokio::spawn(async move {
        let asked = looking.log.was_asked().await;
        let mut backlog = looking.backlog();
        backlog.has_looked();
        match asked {
            Ok(true) => {
                backlog.met_by_rivals(Instant::now());
                looking.wake.notify_one();
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "the client records could not be looked at"),
        }
    })
}

async fn fly(state: Arc<FinisherState>, mut flight: Flight) {
    if !flight.is_urgent && state.backlog().looks_now(Instant::now()) {
        // Finishing does not wait long for a server that has only the records.
        let _ = tokio::time::timeout(MOMENT, look_for_rivals(&state)).await;
    }
    finish_parts(&state, std::mem::take(&mut flight.parts)).await;
    state.backlog().ended(&flight);
    state.done.notify_waiters();
    state.wake.notify_one();
}

/// While the server is away, this goes on for as long as the client lives: a number that is not
/// finished would keep its record open. What the server refuses is kept; the others are done.
async fn finish_parts(state: &Arc<FinisherState>, parts: Vec<Part>) {
    let mut backoff = PAUSES;
    let id = parts.first().map(|part| part.work.id.id());
    let epoch = async || match id {
        Some(id) => epoch_before(&*state.log, id).await,
        None => 0,
    };
    let (mut before_it, mut process) = (epoch().await, None);
    for attempt in 1.. {
        let locked = || parts.iter().map(Part::locked).sum::<usize>();
        let before = locked();
        process = state.server.nodes.process();
        match finish_all(&state.server, &left_documents(&parts)).await {
            Ok(_) if process.is_some() && state.server.nodes.process() != process => {
                tracing::debug!(attempt, "finishing is tried again: the server was started again meanwhile");
            }
            Ok(finished) => {
                // Rivals may have finished the others; so may a transaction of this client that has
                // taken a document over and has not noted it yet.
                if attempt == 1 && finished < before.min(locked()) && state.backlog().looks_now(Instant::now()) {
                    drop(look_for_rivals(state));
                }
                break;
            }
            Err(error) if error.kind() == ErrorKind::Unavailable && !state.backlog().is_shut() => {
                tracing::debug!(%error, attempt, "finishing waits for the server");
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let mut backlog = state.backlog();
                return parts.iter().for_each(|part| backlog.close(&part.work));
            }
            Err(_) if parts.len() > 1 => return finish_each(state, parts).await,
            Err(error) => {
                tracing::warn!(%error, "a document of a decided transaction cannot be finished");
                return finish_apart(state, parts).await;
            }
        }
        tokio::time::sleep(backoff.next_pause()).await;
        before_it = epoch().await;
    }
    for part in parts {
        state.clean(part, before_it, process).await;
    }
}

/// The connection epoch in which documents are going to be finished. What is finished in one that
/// has not been answered proves nothing: the record of `id` would be given up for it, with whatever
/// else is open in it.
pub(super) async fn epoch_before(log: &dyn TxLog, id: TxId) -> u64 {
    // The first answer over a connection shows nothing about the epoch that began with it.
    for _ in 0..2 {
        let epoch = log.answered_epoch();
        if epoch != 0 {
            return epoch;
        }
        // The documents are not to wait for that, if their server answers and the other connection
        // cannot be made.
        if !matches!(tokio::time::timeout(FINISH_WAIT, log.barrier(id.client)).await, Ok(Ok(_))) {
            tracing::debug!(transaction = %id, "its record could not be read before it is finished");
        }
    }
    log.answered_epoch()
}

/// The server refuses something of one of them; the others do not wait until it gives in.
async fn finish_each(state: &Arc<FinisherState>, parts: Vec<Part>) {
    for part in parts {
        Box::pin(finish_parts(state, vec![part])).await;
    }
}

/// Finishes each document by itself, because the server refuses one of them. No transaction of this
/// client waits for the rest.
async fn finish_apart(state: &FinisherState, parts: Vec<Part>) {
    for part in parts {
        for held in split(&part.held) {
            let left = [LeftDocuments { id: part.work.id, committed: part.work.committed, held: &held }];
            if let Err(error) = finish_all(&state.server, &left).await {
                tracing::debug!(%error, transaction = %part.work.id.id(), "this document cannot be finished");
            }
        }
        state.keep(part);
    }
}

/// Tries again to finish the parts that the server has refused, each by itself.
async fn try_again(state: Arc<FinisherState>, parts: Vec<Part>) {
    let mut left = Vec::new();
    for part in parts {
        let epoch = epoch_before(&*state.log, part.work.id.id()).await;
        let process = state.server.nodes.process();
        match finish_all(&state.server, &left_documents(std::slice::from_ref(&part))).await {
            Ok(_) => {
                if let Some(epoch) = part.work.part_is_clean(epoch, process) {
                    state.log.clean(part.work.id.id(), epoch).await;
                }
            }
            Err(_) => left.push(part),
        }
    }
    state.backlog().keep_again(left, Instant::now());
    state.wake.notify_one();
}
