//! Explorations of the model: the protocol holds under every plan, and every deliberate breakage is
//! found.
//!
//! With `MODEL_DEEP=1` in the environment the plans that grow fastest have all their faults;
//! without, one less, so that all of it takes a minute or two.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod beside_own_changes;
mod breakages;
mod checkpoint;
mod expect;
mod explore;
mod modules;
mod plans;
mod read_lease;
mod reading;
mod replicas;
mod unchanged_reads;
mod unique;
mod validation;

use std::sync::LazyLock;

use mimalloc::MiMalloc;

/// Millions of small states are cloned: the system's allocator takes a quarter of the time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

static DEEP: LazyLock<bool> = LazyLock::new(|| std::env::var_os("MODEL_DEEP").is_some_and(|value| value != "0"));

/// Budget of a fault: one less unless long explorations are switched on (`MODEL_DEEP`).
fn deep(times: u8) -> u8 {
    times - u8::from(!*DEEP)
}
