//! A limit for a whole test: whatever it waits for in vain, the run fails, and says what was waited
//! for.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The test must have ended, and with it this, before the time is up.
pub(crate) struct Limit {
    _alive: Sender<()>,
}

impl Limit {
    /// A limit for the test on this thread, many times what it needs on a slow machine, and what it
    /// waits for.
    pub(crate) fn of(seconds: u64, what: &'static str) -> Self {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let (alive, over) = channel::<()>();
        thread::spawn(move || {
            if over.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
                // Not by a panic, which would not end the test's own thread.
                let _ = writeln!(std::io::stderr(), "{test}: still no {what} after {seconds} s");
                std::process::exit(101);
            }
        });
        Self { _alive: alive }
    }
}
