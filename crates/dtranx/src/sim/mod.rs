//! Whole clusters on one thread, from one seed: a network that loses, repeats and reorders, disks
//! that lose what was not synced, servers that crash and are restarted, events between the machines
//! of a server that arrive late, clocks that go wrong, clients that read, scan, write and retry.
//!
//! Every run is checked: the committed transactions are strictly serializable, no acknowledged
//! commit is lost, none is there by half, nothing is locked or remembered at the end, and the log
//! is empty again.
//!
//! - [`simulate`]: one run.
//! - [`options`]: how wild it is.
//! - `world`: the loop of events.
//! - `effects`: carries out a node's commands.
//! - `passing`: delivers events between its machines.
//! - `server`: a node with its disk, at a `place`.
//! - `group`, `member`: servers that are groups of members; in tests alone, as the machine of a
//!   member is.
//! - `group_counts`: what happened to groups, counted; in tests alone too.
//! - `client`, `turns`, `snapshots`, `moves`: what clients do.
//! - `history`, `check`: what happened, and whether it may have.

mod check;
mod client;
mod disk;
mod effects;
#[cfg(test)]
mod group;
#[cfg(test)]
mod group_counts;
mod history;
#[cfg(test)]
mod member;
mod moves;
pub mod options;
mod passing;
mod place;
mod server;
mod snapshots;
mod turns;
mod workload;
mod world;

#[cfg(test)]
mod tests;

pub use options::SimOptions;

/// Counts of the events of a simulated run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Transactions that clients know to be committed.
    pub committed: usize,
    /// Transactions that clients know not to be committed.
    pub refused: usize,
    /// Committed transactions whose outcome clients do not know.
    pub unknown_committed: usize,
    /// Aborted transactions whose outcome clients do not know.
    pub unknown_aborted: usize,
    /// Requests without an answer whose outcome a later life of the server has answered.
    pub told: usize,
    /// Snapshots that were made and read to their end.
    pub snapshots: usize,
    /// Transactions that clients know to have moved a range.
    pub moved: usize,
    /// Number of crashes of servers.
    pub crashes: usize,
    /// Number of events that happened.
    pub events: u64,
    /// The most sealed segments that any server had at once.
    pub most_segments: usize,
    /// Counts of what happened to the servers that are groups.
    #[cfg(test)]
    pub(crate) groups: group_counts::GroupCounts,
}

/// Fault that a run has shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct Failure {
    /// The seed: the same seed and options fail in the same way.
    pub seed: u64,
    /// Property that the run has broken, and how.
    pub what: String,
}

/// Runs a cluster from `seed`, and checks what it did.
///
/// # Errors
/// The property that the run has broken, with its seed.
pub fn simulate(seed: u64, options: &SimOptions) -> Result<Report, Failure> {
    run_cluster(seed, options, None)
}

/// Like [`simulate`], and calls `trace` with every event and command, a line each: to look at a
/// failure.
///
/// # Errors
/// The property that the run has broken, with its seed.
pub fn simulate_traced(seed: u64, options: &SimOptions, trace: &mut dyn FnMut(&str)) -> Result<Report, Failure> {
    run_cluster(seed, options, Some(trace))
}

fn run_cluster(seed: u64, options: &SimOptions, trace: Option<&mut dyn FnMut(&str)>) -> Result<Report, Failure> {
    let fail = |what| Failure { seed, what };
    let mut world = world::World::new(seed, options, trace);
    world.run_to_end().map_err(fail)?;
    check::check(&world).map_err(fail)
}
