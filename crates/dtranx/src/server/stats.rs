//! Numbers that the stages publish, for status and metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::core::tranx_service::TranxService;
use crate::core::{ClientId, Epoch, Incarnation, ServerId};
use crate::log::LogSpace;
use crate::stage::Counters;
use crate::wire::{ConnectionStats, ServerStatus};

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
            epoch: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            kept_from: AtomicU64::new(0),
            clients: AtomicU64::new(0),
            cached_reads: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            connections: Mutex::default(),
        }
    }

    pub(super) fn open(&self, incarnation: Incarnation) {
        self.incarnation.store(incarnation.0, Ordering::Release);
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
        }
    }
}
