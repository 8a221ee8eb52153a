//! The page for Prometheus: a listener that answers every request with the same page, one at a
//! time.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::ServerError;
use super::stats::CurrentStats;
use crate::wire::ServerStatus;

const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(20);

/// The listener; it ends when this is dropped.
pub(super) struct Metrics {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    pub(super) fn serve(address: SocketAddr, stats: CurrentStats) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Io { action: format!("listen on {address} for metrics"), source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let ending = Arc::new(AtomicBool::new(false));
        let seen = ending.clone();
        let run = move || {
            while !seen.load(Ordering::Acquire) {
                match listener.accept() {
                    // A bad request gets no answer, and concerns no other.
                    Ok((stream, _)) => drop(answer(stream, &stats)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                    Err(_) => thread::sleep(PATIENCE),
                }
            }
        };
        let thread = thread::Builder::new().name("dtranx-metrics".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, stats: &CurrentStats) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // The request does not matter: there is one page.
    let _ = stream.read(&mut [0; 1024])?;
    let page = prometheus(&stats.get().status(Vec::new()));
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(page.as_bytes())
}

/// A server's numbers in Prometheus' text format.
pub fn prometheus(status: &ServerStatus) -> String {
    let mut page = String::new();
    let connections = &status.connections;
    let single = [
        ("dtranx_committed_total", "counter", status.committed),
        ("dtranx_refused_total", "counter", status.refused),
        ("dtranx_clients", "gauge", status.clients),
        ("dtranx_low_water", "gauge", status.low_water),
        ("dtranx_coordinating", "gauge", status.coordinating),
        ("dtranx_participating", "gauge", status.participating),
        ("dtranx_in_doubt", "gauge", status.in_doubt),
        ("dtranx_asking", "gauge", status.asking),
        ("dtranx_locking", "gauge", status.locking),
        ("dtranx_lock_waiting", "gauge", status.lock_waiting),
        ("dtranx_cached_reads_total", "counter", status.cached_reads),
        ("dtranx_anomalies_total", "counter", status.anomalies),
        ("dtranx_epoch", "gauge", status.epoch.0),
        ("dtranx_snapshots_from", "gauge", status.snapshots_from.0),
        ("dtranx_snapshot_bytes", "gauge", status.snapshot_bytes),
        ("dtranx_log_segments", "gauge", status.log_segments),
        ("dtranx_log_bytes", "gauge", status.log_bytes),
        ("dtranx_descriptors_limit", "gauge", connections.descriptors),
        ("dtranx_client_connections", "gauge", connections.client_connections),
        ("dtranx_client_connections_limit", "gauge", connections.most_client_connections),
        ("dtranx_client_bytes", "gauge", connections.client_bytes),
        ("dtranx_client_bytes_limit", "gauge", connections.most_client_bytes),
        ("dtranx_refused_clients_total", "counter", connections.refused_clients),
        ("dtranx_refused_requests_total", "counter", connections.refused_requests),
        ("dtranx_closed_strangers_total", "counter", connections.closed_strangers),
        ("dtranx_closed_slow_total", "counter", connections.closed_slow),
        ("dtranx_closed_idle_total", "counter", connections.closed_idle),
        ("dtranx_closed_unread_total", "counter", connections.closed_unread),
    ];
    for (name, kind, value) in single {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "# TYPE {name} {kind}\n{name} {value}");
    }
    let stages = &status.readings.stages;
    labelled(&mut page, "dtranx_stage_events_total", "counter", stages.iter().map(|s| ("stage", &s.name, s.handled)));
    labelled(&mut page, "dtranx_stage_batches_total", "counter", stages.iter().map(|s| ("stage", &s.name, s.batches)));
    labelled(&mut page, "dtranx_stage_busy_ns_total", "counter", stages.iter().map(|s| ("stage", &s.name, s.busy_ns)));
    let queues = &status.readings.queues;
    labelled(&mut page, "dtranx_queue_length", "gauge", queues.iter().map(|q| ("queue", &q.name, q.length)));
    labelled(&mut page, "dtranx_queue_longest", "gauge", queues.iter().map(|q| ("queue", &q.name, q.longest)));
    labelled(&mut page, "dtranx_queue_refused_total", "counter", queues.iter().map(|q| ("queue", &q.name, q.refused)));
    labelled(&mut page, "dtranx_queue_kept_total", "counter", queues.iter().map(|q| ("queue", &q.name, q.kept_back)));
    page
}

fn labelled<'a>(page: &mut String, name: &str, kind: &str, rows: impl Iterator<Item = (&'a str, &'a String, u64)>) {
    let _ = writeln!(page, "# TYPE {name} {kind}");
    for (label, of, value) in rows {
        let _ = writeln!(page, "{name}{{{label}=\"{of}\"}} {value}");
    }
}
