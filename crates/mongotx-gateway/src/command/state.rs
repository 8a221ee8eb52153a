//! What the commands keep between calls, and its limits.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use super::{clock::Clock, durable, fail_point::FailPoints};
use crate::{
    context::Context,
    cursor::CursorTable,
    metrics::{
        Metrics,
        end::{self, AbortReason},
    },
    session::{
        slot::Slot,
        table::{Limits, SessionTable},
    },
};

/// How often what is over is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// Every how many looks old records of writes are looked for.
const LOOKS_FOR_RECORDS: u64 = 60;

/// Limits of sessions, transactions, cursors and validated reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions that are kept at a time.
    pub sessions: usize,
    /// How long a session is kept that nobody uses.
    pub session_timeout: Duration,
    /// How long a transaction may be open.
    pub transaction_lifetime: Duration,
    /// How long a cursor is kept that nobody uses.
    pub cursor_timeout: Duration,
    /// Documents that one read with read concern `snapshot` or `linearizable` outside transactions may answer: the gateway keeps all of
    /// them until they are fetched.
    pub validated_read_documents: usize,
    /// Bytes of documents that one such read may answer.
    pub validated_read_bytes: usize,
}

impl Default for SessionLimits {
    /// MongoDB's, but for the number of sessions: 10,000, 30 minutes, 60 seconds, 10 minutes. MongoDB has none for validated
    /// reads: 100,000 documents, 64 MiB.
    fn default() -> Self {
        Self {
            sessions: 10_000,
            session_timeout: Duration::from_secs(30 * 60),
            transaction_lifetime: Duration::from_secs(60),
            cursor_timeout: Duration::from_secs(10 * 60),
            validated_read_documents: 100_000,
            validated_read_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Sessions and cursors, and what is counted.
pub struct State {
    pub(crate) limits: SessionLimits,
    pub(crate) sessions: SessionTable,
    pub(crate) cursors: CursorTable,
    pub(crate) fail_points: FailPoints,
    pub(crate) records: durable::Records,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

impl State {
    /// Nothing yet.
    pub(crate) fn new(limits: SessionLimits) -> Self {
        let sessions = Limits { sessions: limits.sessions, timeout: limits.session_timeout };
        Self {
            limits,
            sessions: SessionTable::new(sessions),
            cursors: CursorTable::default(),
            fail_points: FailPoints::default(),
            records: durable::Records::default(),
            clock: Clock::default(),
            metrics: Metrics::default(),
        }
    }
}

/// Ends what is over, as long as the gateway lives.
pub(crate) fn sweep_in_background(context: &Arc<Context>) {
    let weak: Weak<Context> = Arc::downgrade(context);
    tokio::spawn(async move {
        for look in 1_u64.. {
            tokio::time::sleep(LOOK).await;
            let Some(context) = weak.upgrade() else { return };
            sweep(&context.tx, Instant::now()).await;
            if look.is_multiple_of(LOOKS_FOR_RECORDS) {
                durable::sweep(&context).await;
            }
        }
    });
}

/// Stops what runs in a session, and rolls back what is open there.
pub(crate) async fn kill(state: &State, slot: &Slot, reason: AbortReason) {
    if let Some(number) = slot.kill().await {
        end::tell(state, &slot.lsid, number, reason, None);
    }
}

/// What is over at this moment: transactions that were open for too long, sessions and cursors that nobody uses.
pub(crate) async fn sweep(state: &State, now: Instant) {
    for slot in state.sessions.all() {
        // Where a command runs, its end is waited for.
        if let Some(mut work) = slot.try_check_out()
            && work.roll_back_after(now, state.limits.transaction_lifetime).await
        {
            end::tell(state, &slot.lsid, work.machine.newest(), AbortReason::Lifetime, None);
            state.cursors.kill_of_transactions(&slot.lsid);
        }
    }
    for slot in state.sessions.expire(now) {
        state.cursors.kill_of_session(&slot.lsid);
        kill(state, &slot, AbortReason::SessionEnded).await;
    }
    state.cursors.expire(now, state.limits.cursor_timeout);
}
