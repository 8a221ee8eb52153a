//! A program from its command to its exit status: the runtime, the command, and the error text for
//! people.

use std::{future::Future, num::NonZeroUsize, thread};

use crate::failure::{Failure, Status};

/// Carries a command out in a runtime of its own, and ends the process with its exit status.
/// `threads`: threads that carry out tasks; `None`: one for each core.
///
/// It ends at once: a thread that blocks must not keep the process, and the driver panics when it
/// says goodbye to the server in a runtime that shuts down.
pub fn end_with(threads: Option<NonZeroUsize>, work: impl Future<Output = Result<Status, Failure>>) -> ! {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads.get());
    }
    let status = match builder.enable_all().build() {
        Ok(runtime) => {
            let status = runtime.block_on(work).unwrap_or_else(|failure| failure.report());
            std::process::exit(status.into());
        }
        Err(error) => Failure::new(format!("cannot start: {error}")).report(),
    };
    std::process::exit(status.into());
}

/// Half of the cores that this process may use, at least one.
///
/// A gateway takes less processor time for a command than its server and its client do. With one
/// thread for each core of a machine that they share, its threads wake each other for single
/// commands, and each finds fewer of them at a time.
pub fn half_of_the_cores() -> NonZeroUsize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN)
}
