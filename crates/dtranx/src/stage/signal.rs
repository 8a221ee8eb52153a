//! Signals that wake a sleeping thread when there is work, without a lock on the way.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};

/// One thread's bell. Ringing costs a look at a flag unless the thread sleeps.
#[derive(Debug, Default)]
pub struct Signal {
    sleeping: AtomicBool,
    thread: OnceLock<Thread>,
    /// For a thread that sleeps in a system call of its own.
    poll: OnceLock<mio::Waker>,
}

impl Signal {
    /// A bell for a thread that has not been started.
    pub fn new() -> Self {
        Self::default()
    }

    /// The thread sleeps by waiting for sockets, and is woken through them.
    pub(crate) fn wakes_poll(&self, waker: mio::Waker) {
        // Set once, by the one stage of the thread that has sockets.
        let _ = self.poll.set(waker);
    }

    /// This thread answers the bell.
    pub(crate) fn answer_here(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// Wakes the thread if it sleeps. Call it after putting something where the thread will look.
    pub fn ring(&self) {
        // Pairs with the fence in `about_to_sleep`: either we see the flag, or the thread sees what
        // we put there.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::AcqRel) {
            if let Some(poll) = self.poll.get() {
                // An error means that the thread's poll is gone, and the thread with it.
                let _ = poll.wake();
            } else if let Some(thread) = self.thread.get() {
                thread.unpark();
            }
        }
    }

    /// Announces sleep: from now on ringing wakes. The thread then looks for work once more before
    /// it sleeps.
    pub(crate) fn about_to_sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }
}
