//! State that the gateway keeps between commands: sessions, cursors, and metrics; and how it is
//! cleaned up.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use crate::{
    activity::{ClientIdentity, connection_of, connections::Connections, transactions::Transactions},
    clock::Clock,
    cursor::{CursorLimits, CursorTable},
    fail_points::FailPoints,
    metrics::{AbortReason, Metrics},
    options::SessionLimits,
    session::{
        Lsid,
        end::AbortListeners,
        entry::SessionEntry,
        records::Records,
        table::{Limits, SessionTable},
    },
};

/// Sessions and cursors, and what is counted.
pub struct State {
    limits: RwLock<SessionLimits>,
    pub(crate) sessions: SessionTable,
    pub(crate) cursors: CursorTable,
    pub(crate) fail_points: FailPoints,
    pub(crate) records: Records,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    /// The open connections, with their activity.
    pub(crate) connections: Arc<Connections>,
    /// Open transactions, as others may see them.
    pub(crate) transactions: Arc<Transactions>,
}

/// Result of an attempt to interrupt a command.
pub(crate) enum Interrupted {
    /// The command runs in a session, which is being interrupted: its client.
    Notified(Arc<ClientIdentity>),
    /// The command cannot be interrupted.
    Cannot,
    /// The command is another user's.
    NotAllowed,
    /// No command of this number runs here.
    NotHere,
}

impl State {
    /// The state of a gateway that has just started.
    pub(crate) fn new(limits: SessionLimits, records: Records, clock: Clock) -> Self {
        let (sessions, cursors) = of_tables(limits);
        Self {
            limits: RwLock::new(limits),
            sessions: SessionTable::new(sessions),
            cursors: CursorTable::new(cursors),
            fail_points: FailPoints::default(),
            records,
            clock,
            metrics: Metrics::default(),
            connections: Arc::default(),
            transactions: Arc::default(),
        }
    }

    /// The receivers of the news that a transaction has ended.
    pub(crate) fn abort_listeners(&self) -> AbortListeners<'_> {
        AbortListeners { metrics: &self.metrics, transactions: &self.transactions }
    }

    /// The limits as they are now.
    pub(crate) fn limits(&self) -> SessionLimits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets new limits. Sessions and cursors beyond them stay until they end by themselves.
    pub(crate) fn limit(&self, limits: SessionLimits) {
        let (sessions, cursors) = of_tables(limits);
        self.sessions.limit(sessions);
        self.cursors.limit(cursors);
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Kills a session: closes its cursors, stops what runs in it, and rolls back what is open
    /// there.
    pub(crate) async fn kill_session(&self, lsid: &Lsid) {
        self.cursors.kill_of_session(lsid);
        if let Some(entry) = self.sessions.find(lsid) {
            self.stop(&entry, AbortReason::SessionEnded).await;
            self.sessions.release(entry);
        }
    }

    /// Kills a user's sessions, by the user's digest.
    pub(crate) async fn kill_sessions_of_user(&self, user: &[u8]) {
        self.cursors.kill_of_user(user);
        self.stop_all(|entry| entry.lsid.user == user, AbortReason::SessionEnded).await;
    }

    /// Kills every session and its cursors, and counts open transactions as ended for this reason.
    pub(crate) async fn kill_all_sessions(&self, reason: AbortReason) {
        self.cursors.kill_of_sessions();
        self.stop_all(|_| true, reason).await;
    }

    /// Interrupts a command that runs, by its number, as the end of its session would.
    pub(crate) fn interrupt(&self, opid: i64, is_allowed: impl Fn(&ClientIdentity) -> bool) -> Interrupted {
        let Some(doing) = self.connections.find(connection_of(opid)) else { return Interrupted::NotHere };
        let Some(running) = doing.running().filter(|running| running.opid(doing.connection) == opid) else {
            return Interrupted::NotHere;
        };
        let who = doing.who();
        if !is_allowed(&who) {
            return Interrupted::NotAllowed;
        }
        let user = who.user.as_ref().map(|user| user.digest()).unwrap_or_default();
        let entry = Lsid::in_command(running.request.body(), user).and_then(|lsid| self.sessions.find(&lsid));
        let Some(entry) = entry else { return Interrupted::Cannot };
        entry.interrupt();
        Interrupted::Notified(who)
    }

    async fn stop_all(&self, is_meant: impl Fn(&SessionEntry) -> bool, reason: AbortReason) {
        for entry in self.sessions.names(is_meant).iter().filter_map(|lsid| self.sessions.find(lsid)) {
            self.stop(&entry, reason).await;
            self.sessions.release(entry);
        }
    }

    /// Stops what runs in a session, and rolls back what is open there.
    async fn stop(&self, entry: &SessionEntry, reason: AbortReason) {
        if let Some((number, shown)) = entry.stop().await {
            self.abort_listeners().report(&entry.lsid, number, reason, None, Some(shown));
        }
    }

    /// Ends everything that has expired by now: transactions that were open for too long, and
    /// unused sessions and cursors.
    pub(crate) async fn sweep(&self, now: Instant) {
        let limit = self.limits().transaction_lifetime;
        // A session in which a command runs is skipped until the command ends.
        let is_old =
            |entry: &SessionEntry| entry.try_check_out().is_some_and(|work| work.is_open_for_longer(now, limit));
        for entry in self.sessions.names(is_old).iter().filter_map(|lsid| self.sessions.find(lsid)) {
            if let Some(mut work) = entry.try_check_out()
                && work.is_open_for_longer(now, limit)
            {
                let shown = work.roll_back().await;
                let number = work.machine.newest();
                work.overdue = Some(number);
                self.abort_listeners().report(&entry.lsid, number, AbortReason::Lifetime, None, shown);
                self.cursors.kill_of_transactions(&entry.lsid);
            }
        }
        for entry in self.sessions.expire(now) {
            self.cursors.kill_of_session(&entry.lsid);
            self.stop(&entry, AbortReason::SessionEnded).await;
        }
        self.cursors.expire(now);
    }
}

fn of_tables(limits: SessionLimits) -> (Limits, CursorLimits) {
    let SessionLimits { sessions, session_timeout, cursors, cursor_timeout, .. } = limits;
    let of_cursors = CursorLimits { cursors, timeout: cursor_timeout, longest: session_timeout };
    (Limits { sessions, timeout: session_timeout }, of_cursors)
}
