//! State and services that every command may use, and the tasks in the background that keep them:
//! the library's client, the server, sessions, users, metrics.

use std::{
    sync::{Arc, PoisonError, RwLock, Weak},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Mutex, Semaphore},
    time::MissedTickBehavior,
};

use crate::{
    access::{Roster, Users},
    activity_record::ActivityRecord,
    clock::Clock,
    members::{self, Members},
    memory::Memory,
    metrics::Metrics,
    options::{GatewayOptions, Limits, Tuning},
    session::records::Records,
    state::State,
    upstream::Upstream,
};

/// Commands that ask the server at a time whether more members have what was written: fewer than it
/// has connections for.
const CONCERN_TURNS: usize = 4;
/// Filters of `currentOp` that the server evaluates at a time: who needs no role for it shall not
/// occupy the way to the server.
const FILTER_TURNS: usize = 4;
/// Pause between two sweeps of expired transactions, sessions and cursors.
const LOOK: Duration = Duration::from_secs(1);
/// Every how many looks old records of writes are looked for.
const LOOKS_FOR_RECORDS: u64 = 60;

/// The gateway's parts that outlive every connection.
pub struct Context {
    /// MongoTx itself: every command that reads or writes documents goes through it.
    pub client: mongotx::Client,
    /// The backing server as it is, for commands that MongoTx need not touch.
    pub upstream: Upstream,
    /// The replica set that drivers see, where it may have several members.
    pub(crate) members: Option<Members>,
    /// Sessions, cursors and open transactions.
    pub tx: State,
    /// Memory of requests, answers and cursors.
    pub(crate) memory: Arc<Memory>,
    /// Turns of the commands that wait for more members than usual (`command/parts/concern_wait`).
    pub(crate) concern_turns: Semaphore,
    /// Turns of the filters of `currentOp` (`command/current_op`).
    pub(crate) filter_turns: Semaphore,
    /// Users who may log in. `None`: logging in is not needed.
    pub(crate) users: Option<Roster>,
    /// Options with which the gateway was started. Those that can be changed later are in
    /// `Context::tuning`.
    pub options: GatewayOptions,
    tuning: RwLock<Arc<Tuning>>,
    /// Time at which the gateway was started.
    pub started: Instant,
    /// This gateway's record of its open transactions in the store.
    activity: Mutex<ActivityRecord>,
}

/// Shows the limits of clients in the metrics.
fn tell_limits(metrics: &Metrics, tuning: &Tuning) {
    let Tuning { limits, sessions, .. } = tuning;
    let seconds = |limit: Duration| usize::try_from(limit.as_secs()).ok().filter(|_| limit < Duration::MAX);
    metrics.limited("max-connections", Some(limits.connections));
    metrics.limited("max-connections-per-address", limits.connections_per_address);
    metrics.limited("max-sessions", Some(sessions.sessions));
    metrics.limited("max-cursors", Some(sessions.cursors));
    metrics.limited("max-snapshot-read-mib", Some(sessions.validated_read_bytes >> 20));
    metrics.limited("max-memory-mib", Some(limits.memory_bytes >> 20));
    metrics.limited("max-upstream-connections", Some(limits.upstream));
    metrics.limited("first-message-timeout", seconds(limits.first_message));
    metrics.limited("message-timeout", seconds(limits.message));
    metrics.limited("answer-timeout", seconds(limits.answer));
    metrics.limited("idle-timeout", limits.idle.and_then(seconds));
    metrics.limited("login-timeout", limits.login.and_then(seconds));
    metrics.limited("upstream-wait", seconds(limits.upstream_wait));
    metrics.limited("session-timeout", seconds(sessions.session_timeout));
    metrics.limited("transaction-lifetime", seconds(sessions.transaction_lifetime));
    metrics.limited("cursor-timeout", seconds(sessions.cursor_timeout));
    metrics.limited("lock-wait-ms", usize::try_from(tuning.lock_wait.as_millis()).ok());
}

/// Address of a gateway, as its own page and records show it.
fn address(options: &GatewayOptions) -> String {
    match (&options.listen, &options.unix) {
        (Some(address), _) => address.to_string(),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => "mongotx".to_owned(),
    }
}

impl Context {
    pub(crate) fn new(
        client: mongotx::Client,
        upstream: Upstream,
        users: Option<Users>,
        clock: Clock,
        options: GatewayOptions,
    ) -> Self {
        let records = Records::new(&client, &options.client.tx_database, options.sessions.session_timeout);
        let tx = State::new(options.sessions, records, clock);
        let tuning = options.tuning();
        tell_limits(&tx.metrics, &tuning);
        tx.metrics.limited("max-transaction-documents", Some(options.client.max_documents));
        let memory = Memory::new(options.limits.memory_bytes, tx.metrics.memory_bytes.clone());
        let users = users.map(Roster::new);
        let members = options.replica_set.as_ref().and_then(Members::of);
        let activity = ActivityRecord::new(&options.client.tx_database, address(&options));
        let (activity, started) = (Mutex::new(activity), Instant::now());
        let [concern_turns, filter_turns] = [CONCERN_TURNS, FILTER_TURNS].map(Semaphore::new);
        let tuning = RwLock::new(Arc::new(tuning));
        Self {
            client,
            upstream,
            members,
            tx,
            memory,
            concern_turns,
            filter_turns,
            users,
            options,
            tuning,
            started,
            activity,
        }
    }

    /// The present values of the options that can be changed.
    pub(crate) fn tuning(&self) -> Arc<Tuning> {
        Arc::clone(&self.tuning.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets new values of the options that can be changed.
    pub(crate) fn tune(&self, mut tuning: Tuning) {
        // The pool of connections to the server keeps its size.
        let Limits { upstream, upstream_wait, .. } = self.options.limits;
        tuning.limits = Limits { upstream, upstream_wait, ..tuning.limits };
        tell_limits(&self.tx.metrics, &tuning);
        self.tx.limit(tuning.sessions);
        self.memory.limit(tuning.limits.memory_bytes);
        *self.tuning.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tuning);
    }

    /// Joins the set, and looks at its members as long as the gateway lives.
    pub(crate) async fn watch_members(self: &Arc<Self>) {
        let Some(members) = &self.members else { return };
        members.join(&self.upstream, &self.options.client.tx_database).await;
        let weak: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(members::LOOK).await;
                let Some(context) = weak.upgrade() else { return };
                let Some(members) = &context.members else { return };
                if !members.look(&context.upstream, &context.options.client.tx_database).await {
                    return;
                }
            }
        });
    }

    /// Leaves the replica set that this gateway shows itself as a member of: another member is the
    /// primary from now on.
    pub(crate) async fn leave_set(&self) {
        if let Some(members) = &self.members {
            members.leave(&self.upstream, &self.options.client.tx_database).await;
        }
    }

    /// Address of the gateway, as its own page and records show it.
    pub(crate) fn address(&self) -> String {
        address(&self.options)
    }

    /// Removes the record of open transactions from the store.
    pub(crate) async fn forget_activity(&self) {
        self.activity.lock().await.remove(&self.upstream).await;
    }

    /// Keeps what was counted in each second, as long as the gateway lives.
    fn tick_in_background(self: &Arc<Self>) {
        let weak: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut seconds = tokio::time::interval(Duration::from_secs(1));
            seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                seconds.tick().await;
                let Some(context) = weak.upgrade() else { return };
                context.tx.metrics.tick();
            }
        });
    }

    /// Ends expired sessions, cursors and transactions, and writes to the store what is open, as
    /// long as the gateway lives.
    pub(crate) fn sweep_in_background(self: &Arc<Self>) {
        self.tick_in_background();
        let weak: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            for look in 1_u64.. {
                tokio::time::sleep(LOOK).await;
                let Some(context) = weak.upgrade() else { return };
                context.tx.sweep(Instant::now()).await;
                context.activity.lock().await.write(&context.tx, &context.upstream).await;
                if look.is_multiple_of(LOOKS_FOR_RECORDS) {
                    context.tx.records.sweep().await;
                }
            }
        });
    }
}
