//! What every target of the registry must do, according to what it says it is.

mod alone;
mod concurrent;
mod faults;
mod queries;
mod rig;
mod transactions;
