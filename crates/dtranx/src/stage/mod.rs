//! The runtime of the stages (SEDA, section 3.1): bounded lock-free queues, batches, threads with
//! stages and a core that are fixed at the start, and counters that show it all.
//!
//! **Where this differs from the paper.** An event lies in the slot of its queue: there is nothing
//! to allocate, so the paper's pool of events is the queue itself; what hangs on an event (buffers
//! for messages) is reused where it is made. One queue has one lock-free ring, not several: each
//! has one consumer, and rings spread only producers.
//!
//! # Why stages never wait for each other in a circle
//!
//! 1. No stage waits for room. What does not fit into a queue stays with its sender ([`Outlet`]),
//!    in order.
//! 2. A stage that still has something to hand on takes nothing from its *entry* queue (new
//!    requests) and does no work that only its clock calls for, but goes on taking from its
//!    *internal* queues (answers of other stages). So every stage always consumes what others send
//!    it.
//! 3. Internal events come only from admitted requests, each of which causes a bounded number.
//!    Requests are admitted at the entry queues: a request that meets a full one is refused
//!    ([`Inlet::offer`]), and its client is answered so; a message from another server is dropped,
//!    and sent again by its sender.
//!
//! By 1 and 2 no stage waits while there is anything to do; by 3 what senders keep is bounded.

mod binding;
mod counters;
mod queue;
mod signal;
mod topology;
mod worker;

pub use binding::{Binding, Layout, layout};
pub use counters::{Counters, QueueReading, Readings, StageReading};
pub use queue::{Inlet, Outlet, Source, queue};
pub use signal::Signal;
pub(crate) use topology::cores;
pub use worker::{Crew, Stage, StageError, Worker};
