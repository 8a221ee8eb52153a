//! State of this client's change streams. What events tell, and how they are written and read, is
//! in `crate::command::events`.

use std::sync::{Arc, atomic::AtomicBool};

use tokio::sync::watch;

use crate::{
    clock::{Clock, LogicalClock},
    coordinator::own_collections::EVENTS,
    options::{ClientOptions, Namespace},
};

/// Positions, limits and waiters of this client's change streams.
pub(crate) struct Events {
    pub(crate) ns: Namespace,
    /// The largest number that this client has committed. Callers that wait for events watch it.
    pub(crate) latest: watch::Sender<i64>,
    /// Is the sequence known to be there?
    pub(crate) has_sequence: AtomicBool,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Events {
    pub(crate) fn new(options: &ClientOptions) -> Self {
        Self {
            ns: Namespace::new(&options.tx_database, EVENTS),
            latest: watch::Sender::new(0),
            has_sequence: AtomicBool::new(false),
            clock: options.clock.clone().unwrap_or_else(|| Arc::new(LogicalClock::default())),
        }
    }
}
