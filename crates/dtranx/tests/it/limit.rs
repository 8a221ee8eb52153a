//! [`Limit`]: a time limit for a whole test. At its end the run fails with a message that names
//! what the test waits for.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Time limit of a test; it ends when this is dropped at the test's end.
pub(crate) struct Limit {
    _alive: Sender<()>,
}

impl Limit {
    /// Starts the limit for the test on this thread. It should be many times what the test needs on
    /// a slow machine; `what` names what the test waits for.
    pub(crate) fn of(seconds: u64, what: &'static str) -> Self {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let (alive, over) = channel::<()>();
        thread::spawn(move || {
            if over.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
                // A panic would end this thread only, and not the test's own one.
                let _ = writeln!(std::io::stderr(), "{test}: still no {what} after {seconds} s");
                std::process::exit(101);
            }
        });
        Self { _alive: alive }
    }
}
