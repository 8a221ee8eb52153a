//! Work that is not given up half done.

use std::sync::Arc;

use crate::{
    coordinator::Core,
    error::{Error, ErrorKind, Result},
    scoped,
};

/// Runs `work` in a task of its own, which goes on when the caller's future is dropped. It carries
/// the caller's comment. `what`: the work, for errors.
pub(super) async fn to_its_end<T: Send + 'static>(
    core: &Arc<Core>,
    what: &str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let task = match scoped::comment() {
        Some(comment) => core.runtime.spawn(scoped::with_comment(comment, work)),
        None => core.runtime.spawn(work),
    };
    task.await.unwrap_or_else(|stopped| Err(Error::new(ErrorKind::Closed, format!("{what} was stopped: {stopped}"))))
}
