//! What the gateway keeps between commands: sessions, cursors, and what is counted; and how what is over is ended.

use std::time::Instant;

use crate::{
    clock::Clock,
    cursor::{CursorLimits, CursorTable},
    fail_points::FailPoints,
    metrics::{AbortReason, Metrics},
    options::SessionLimits,
    session::{
        Lsid, end,
        records::Records,
        slot::Slot,
        table::{Limits, SessionTable},
    },
};

/// Sessions and cursors, and what is counted.
pub struct State {
    pub(crate) limits: SessionLimits,
    pub(crate) sessions: SessionTable,
    pub(crate) cursors: CursorTable,
    pub(crate) fail_points: FailPoints,
    pub(crate) records: Records,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

impl State {
    /// The state of a gateway that has just started.
    pub(crate) fn new(limits: SessionLimits, records: Records) -> Self {
        let sessions = Limits { sessions: limits.sessions, timeout: limits.session_timeout };
        let cursors =
            CursorLimits { cursors: limits.cursors, timeout: limits.cursor_timeout, longest: limits.session_timeout };
        Self {
            limits,
            sessions: SessionTable::new(sessions),
            cursors: CursorTable::new(cursors),
            fail_points: FailPoints::default(),
            records,
            clock: Clock::default(),
            metrics: Metrics::default(),
        }
    }

    /// Kills a session: closes its cursors, stops what runs in it, and rolls back what is open there.
    pub(crate) async fn kill(&self, lsid: &Lsid) {
        self.cursors.kill_of_session(lsid);
        if let Some(slot) = self.sessions.find(lsid) {
            self.stop(&slot, AbortReason::SessionEnded).await;
            self.sessions.release(slot);
        }
    }

    /// Kills a user's sessions, by the user's digest.
    pub(crate) async fn kill_of_user(&self, user: &[u8]) {
        self.cursors.kill_of_user(user);
        self.stop_all(|slot| slot.lsid.user == user, AbortReason::SessionEnded).await;
    }

    /// Kills every session and its cursors, and counts open transactions as ended for this reason.
    pub(crate) async fn kill_every(&self, reason: AbortReason) {
        self.cursors.kill_of_sessions();
        self.stop_all(|_| true, reason).await;
    }

    async fn stop_all(&self, is_meant: impl Fn(&Slot) -> bool, reason: AbortReason) {
        for slot in self.sessions.names(is_meant).iter().filter_map(|lsid| self.sessions.find(lsid)) {
            self.stop(&slot, reason).await;
            self.sessions.release(slot);
        }
    }

    /// Stops what runs in a session, and rolls back what is open there.
    async fn stop(&self, slot: &Slot, reason: AbortReason) {
        if let Some(number) = slot.kill().await {
            end::tell(&self.metrics, &slot.lsid, number, reason, None);
        }
    }

    /// Ends what is over at this moment: transactions that were open for too long, sessions and cursors that nobody uses.
    pub(crate) async fn sweep(&self, now: Instant) {
        let limit = self.limits.transaction_lifetime;
        // Where a command runs, its end is waited for.
        let is_old = |slot: &Slot| slot.try_check_out().is_some_and(|work| work.is_open_for_longer(now, limit));
        for slot in self.sessions.names(is_old).iter().filter_map(|lsid| self.sessions.find(lsid)) {
            if let Some(mut work) = slot.try_check_out()
                && work.is_open_for_longer(now, limit)
            {
                work.roll_back().await;
                end::tell(&self.metrics, &slot.lsid, work.machine.newest(), AbortReason::Lifetime, None);
                self.cursors.kill_of_transactions(&slot.lsid);
            }
        }
        for slot in self.sessions.expire(now) {
            self.cursors.kill_of_session(&slot.lsid);
            self.stop(&slot, AbortReason::SessionEnded).await;
        }
        self.cursors.expire(now);
    }
}
