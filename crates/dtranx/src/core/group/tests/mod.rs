//! The machine of a group's members, by the histories of decision 0075 that break simpler ones.
//!
//! Members are `A`, `B` and `C`. What they send waits until a test delivers it, and what they write
//! is synced when a test says so.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod changes;
mod commit;
mod cut;
mod elections;
mod life;
mod members;
mod rejoin;
mod rig;
mod rounds;
mod term;

use super::*;
use rig::{A, B, C, Rig, at, batch, id, log};
