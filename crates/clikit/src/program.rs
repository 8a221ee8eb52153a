//! A program from its command to its exit status: the runtime, the command, and the error text for
//! people.

use std::future::Future;

use crate::failure::{Failure, Status};

/// Carries a command out in a runtime of its own, and ends the process with its exit status.
///
/// It ends at once: a thread that blocks must not keep the process, and the driver panics when it
/// says goodbye to the server in a runtime that shuts down.
pub fn end_with(work: impl Future<Output = Result<Status, Failure>>) -> ! {
    let status = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let status = runtime.block_on(work).unwrap_or_else(|failure| failure.report());
            std::process::exit(status.into());
        }
        Err(error) => Failure::new(format!("cannot start: {error}")).report(),
    };
    std::process::exit(status.into());
}
