//! Duties of every target of the registry, by its own description.

mod alone;
mod concurrent;
mod faults;
mod queries;
mod rig;
mod transactions;
