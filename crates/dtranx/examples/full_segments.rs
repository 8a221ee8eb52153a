//! Measures the time of an append that finds its segment full: with the next segment made then, and
//! with one made ahead by another thread.
//!
//! `cargo run -p dtranx --example full_segments -- FOLDER`, the folder on the disk that is
//! measured.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use dtranx::log::{Collector, Disk, LogError, LogOptions, Opened, TranxLog};

const SEGMENT_BYTES: u64 = 64 << 20;
const RECORD_BYTES: usize = 64 << 10;
const SEGMENTS: u64 = 8;

/// Times of durable appends, sorted: of those that went to the same segment as the one before, and
/// of the others.
#[derive(Default)]
struct Times {
    same: Vec<Duration>,
    next: Vec<Duration>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("where to? Give a folder that may be written to")?;
    for is_ahead in [false, true] {
        let folder = tempfile::tempdir_in(&folder)?;
        let mut times = measure(folder.path(), is_ahead)?;
        times.same.sort_unstable();
        times.next.sort_unstable();
        println!("{}", if is_ahead { "made ahead" } else { "made when the segment is full" });
        show("same segment", &times.same);
        show("next segment", &times.next);
    }
    Ok(())
}

fn show(what: &str, times: &[Duration]) {
    if let (Some(median), Some(longest)) = (times.get(times.len() / 2), times.last()) {
        println!("  {what}: {} appends, median {median:.1?}, longest {longest:.1?}", times.len());
    }
}

fn measure(folder: &Path, is_ahead: bool) -> Result<Times, LogError> {
    let options = LogOptions::new(1, SEGMENT_BYTES);
    let opened = TranxLog::open(Arc::new(Disk::open(folder)?), &options, |_, _| Ok(()))?;
    let Opened { mut log, collector, .. } = opened;
    thread::scope(|scope| {
        let (wanted, ask) = mpsc::channel();
        let maker = scope.spawn(move || make(&collector, &ask));
        let want_next = || {
            if is_ahead {
                // The maker ends after this, when `wanted` is dropped, unless it has failed.
                let _ = wanted.send(());
            }
        };
        let times = append(&mut log, want_next);
        drop(wanted);
        // It does not panic; what it could not make, appending could not either.
        drop(maker.join());
        times
    })
}

fn make(collector: &Collector, ask: &mpsc::Receiver<()>) -> Result<(), LogError> {
    ask.iter().try_for_each(|()| collector.make_ahead())
}

fn append(log: &mut TranxLog, want_next: impl Fn()) -> Result<Times, LogError> {
    let record = vec![7; RECORD_BYTES];
    let mut times = Times::default();
    want_next();
    while log.current().0 <= SEGMENTS {
        let (before, begun) = (log.current(), Instant::now());
        log.append(&record)?;
        log.persist()?;
        let took = begun.elapsed();
        if log.current() == before {
            times.same.push(took);
        } else {
            want_next();
            times.next.push(took);
        }
    }
    Ok(times)
}
