//! Numbers that the stages publish, for status and metrics.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::core::tranx_service::TranxService;
use crate::core::{ClientId, Epoch, Incarnation, ServerId};
use crate::log::LogSpace;
use crate::stage::Counters;
use crate::wire::{ConnectionStats, GroupStatus, ServerStatus};

use super::roster::Roster;

/// One server's numbers. Each is written by one stage.
pub(super) struct ServerStats {
    pub(super) server: ServerId,
    pub(super) medium: String,
    pub(super) started: Instant,
    pub(super) counters: Counters,
    /// Incarnation of the server; 0 until it may accept clients.
    incarnation: AtomicU64,
    next_client: AtomicU64,
    /// Size of the log from which on no transaction is begun that writes, in bytes.
    pub(super) log_limit_bytes: u64,
    log_segments: AtomicU64,
    log_bytes: AtomicU64,
    low_water: AtomicU64,
    coordinating: AtomicU64,
    participating: AtomicU64,
    in_doubt: AtomicU64,
    asking: AtomicU64,
    pub(super) locking: AtomicU64,
    pub(super) lock_waiting: AtomicU64,
    anomalies: AtomicU64,
    /// True if the node takes part: it does, unless it is new.
    has_joined: AtomicBool,
    /// Epoch that the server is in.
    epoch: AtomicU64,
    /// Bytes of what was replaced and is kept for snapshots, and the end of the first epoch that
    /// can be read.
    kept_bytes: AtomicU64,
    kept_from: AtomicU64,
    pub(super) clients: AtomicU64,
    pub(super) cached_reads: AtomicU64,
    pub(super) committed: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Written by the network stage.
    connections: Mutex<ConnectionStats>,
    /// In a group: number of the member that leads, as far as this one knows; 0 if it knows none.
    leader: AtomicU8,
    /// In a group: term in which this member's node has begun; 0 if it has none.
    term: AtomicU64,
    /// In a group: its members, as the stage `group` knows them, and how far they are, if this one
    /// leads. The number counts the changes of the former.
    members: Mutex<Members>,
    rosters: AtomicU64,
    /// Time until which a follower's log counts as full, in milliseconds of the stages' clock.
    full_member_until_ms: AtomicU64,
}

/// The members of a group.
#[derive(Default)]
struct Members {
    roster: Option<Arc<Roster>>,
    status: Option<GroupStatus>,
}

/// Time for which a follower counts as full after it has said so, in milliseconds: it says so with
/// each acknowledgement, and one that is gone says nothing.
const FULL_MS: u64 = 2_000;

/// The numbers of a server whose engine may be started anew: those of the engine that runs.
#[derive(Clone)]
pub(super) struct CurrentStats(Arc<Mutex<Arc<ServerStats>>>);

impl CurrentStats {
    pub(super) fn new(stats: Arc<ServerStats>) -> Self {
        Self(Arc::new(Mutex::new(stats)))
    }

    pub(super) fn get(&self) -> Arc<ServerStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, stats: Arc<ServerStats>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }
}

impl ServerStats {
    pub(super) fn new(server: ServerId, medium: String, counters: Counters, log_limit_bytes: u64) -> Self {
        Self {
            server,
            medium,
            started: Instant::now(),
            counters,
            incarnation: AtomicU64::new(0),
            next_client: AtomicU64::new(1),
            log_limit_bytes,
            log_segments: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            low_water: AtomicU64::new(0),
            coordinating: AtomicU64::new(0),
            participating: AtomicU64::new(0),
            in_doubt: AtomicU64::new(0),
            asking: AtomicU64::new(0),
            locking: AtomicU64::new(0),
            lock_waiting: AtomicU64::new(0),
            anomalies: AtomicU64::new(0),
            has_joined: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            kept_from: AtomicU64::new(0),
            clients: AtomicU64::new(0),
            cached_reads: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            connections: Mutex::default(),
            leader: AtomicU8::new(0),
            term: AtomicU64::new(0),
            members: Mutex::default(),
            rosters: AtomicU64::new(0),
            full_member_until_ms: AtomicU64::new(0),
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the members of the group.
    pub(super) fn note_roster(&self, roster: Roster) {
        self.members().roster = Some(Arc::new(roster));
        self.rosters.fetch_add(1, Ordering::Release);
    }

    /// The members of the group, once they are known.
    pub(super) fn roster(&self) -> Option<Arc<Roster>> {
        self.members().roster.clone()
    }

    /// Number of the changes of the members so far.
    pub(super) fn rosters(&self) -> u64 {
        self.rosters.load(Ordering::Acquire)
    }

    /// Notes how far the members of the group are, if this one leads.
    pub(super) fn note_group(&self, status: Option<GroupStatus>) {
        self.members().status = status;
    }

    /// Notes which member of the group leads; `None`: it is not known.
    pub(super) fn note_leader(&self, member: Option<u8>) {
        self.leader.store(member.unwrap_or(0), Ordering::Relaxed);
    }

    /// Notes the term in which this member's node begins.
    pub(super) fn note_life(&self, term: u64) {
        self.term.store(term, Ordering::Release);
    }

    /// Term in which this member leads and serves.
    pub(super) fn life(&self) -> Option<u64> {
        Some(self.term.load(Ordering::Acquire)).filter(|term| *term > 0 && self.is_open())
    }

    /// Number of the member that leads, if it is known.
    pub(super) fn leader(&self) -> Option<u8> {
        Some(self.leader.load(Ordering::Relaxed)).filter(|member| *member > 0)
    }

    /// Notes that a follower's log has grown to its limit.
    pub(super) fn note_full_member(&self, now_ms: u64) {
        self.full_member_until_ms.store(now_ms + FULL_MS, Ordering::Relaxed);
    }

    /// Returns true if the log of a follower has grown to its limit.
    pub(super) fn is_member_full(&self) -> bool {
        let now_ms = self.started.elapsed().as_millis() as u64;
        now_ms < self.full_member_until_ms.load(Ordering::Relaxed)
    }

    /// Returns true if the own log has grown to its limit.
    pub(super) fn is_log_full(&self) -> bool {
        self.log_bytes() >= self.log_limit_bytes
    }

    /// Returns true if the own log may be kept as it is: three quarters of its limit are not
    /// reached.
    pub(super) fn has_room_to_pin(&self) -> bool {
        self.log_bytes() < self.log_limit_bytes / 4 * 3
    }

    pub(super) fn open(&self, incarnation: Incarnation) {
        self.incarnation.store(incarnation.0, Ordering::Release);
    }

    /// Returns true once the server may accept clients.
    pub(super) fn is_open(&self) -> bool {
        self.incarnation.load(Ordering::Acquire) != 0
    }

    /// A name for a new client, once the server may accept clients.
    pub(super) fn name_client(&self) -> Option<ClientId> {
        match self.incarnation.load(Ordering::Acquire) {
            0 => None,
            incarnation => {
                let number = self.next_client.fetch_add(1, Ordering::Relaxed);
                Some(ClientId { incarnation: Incarnation(incarnation), number })
            }
        }
    }

    /// Both the appending and the collecting stage report it: when their reports meet, the older
    /// one may stay until the next change.
    pub(super) fn note_space(&self, space: LogSpace) {
        self.log_segments.store(space.segments, Ordering::Relaxed);
        self.log_bytes.store(space.bytes, Ordering::Relaxed);
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// Notes whether the node takes part.
    pub(super) fn note_joined(&self, has_joined: bool) {
        self.has_joined.store(has_joined, Ordering::Release);
    }

    /// Returns true if the node takes part.
    pub(super) fn has_joined(&self) -> bool {
        self.has_joined.load(Ordering::Acquire)
    }

    /// Snapshots of the epochs before this one can be read from now on.
    pub(super) fn enter(&self, epoch: Epoch) {
        self.epoch.store(epoch.0, Ordering::Release);
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    pub(super) fn note_kept(&self, bytes: u64, from: Epoch) {
        self.kept_bytes.store(bytes, Ordering::Relaxed);
        self.kept_from.store(from.0, Ordering::Relaxed);
    }

    pub(super) fn note_connections(&self, connections: ConnectionStats) {
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = connections;
    }

    pub(super) fn note(&self, tranx: &TranxService) {
        let set = |gauge: &AtomicU64, value: u64| gauge.store(value, Ordering::Relaxed);
        set(&self.low_water, tranx.coordinator.low_water());
        set(&self.coordinating, tranx.coordinator.unfinished() as u64);
        let parts = tranx.participant.tally();
        set(&self.participating, parts.unfinished as u64);
        set(&self.in_doubt, parts.in_doubt as u64);
        set(&self.asking, parts.handed_over as u64);
        set(&self.anomalies, tranx.participant.anomalies());
    }

    pub(super) fn status(&self, peers: Vec<ServerId>) -> ServerStatus {
        let get = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        ServerStatus {
            server: self.server,
            uptime_ms: self.started.elapsed().as_millis() as u64,
            medium: self.medium.clone(),
            log_segments: get(&self.log_segments),
            log_bytes: get(&self.log_bytes),
            low_water: get(&self.low_water),
            coordinating: get(&self.coordinating),
            participating: get(&self.participating),
            in_doubt: get(&self.in_doubt),
            asking: get(&self.asking),
            locking: get(&self.locking),
            lock_waiting: get(&self.lock_waiting),
            anomalies: get(&self.anomalies),
            epoch: Epoch(get(&self.epoch)),
            snapshots_from: Epoch(get(&self.kept_from)),
            snapshot_bytes: get(&self.kept_bytes),
            clients: get(&self.clients),
            cached_reads: get(&self.cached_reads),
            committed: get(&self.committed),
            refused: get(&self.refused),
            connections: *self.connections.lock().unwrap_or_else(PoisonError::into_inner),
            peers,
            readings: self.counters.read(),
            group: self.members().status.clone(),
        }
    }
}
