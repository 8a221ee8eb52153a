//! Work that is not given up half done.

use std::sync::Arc;

use crate::{
    caller::Caller,
    coordinator::Core,
    error::{Error, ErrorKind, Result},
    scoped, waiting,
};

/// Runs `work` in a task of its own, which goes on when the caller's future is dropped. It carries
/// the caller's comment, and shows what it waits for where the caller would. `what`: the work, for
/// errors.
pub(super) async fn to_its_end<T: Send + 'static>(
    core: &Arc<Core>,
    what: &str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let work = waiting::shown_as_here(work);
    let task = match scoped::comment() {
        Some(comment) => core.runtime.spawn(scoped::with_comment(comment, work)),
        None => core.runtime.spawn(work),
    };
    task.await.unwrap_or_else(|stopped| Err(Error::new(ErrorKind::Closed, format!("{what} was stopped: {stopped}"))))
}

/// The same of work that may wait for long, and learns when nobody waits for it any more.
pub(super) async fn to_its_end_for<T: Send + 'static, W: Future<Output = Result<T>> + Send + 'static>(
    core: &Arc<Core>,
    what: &str,
    work: impl FnOnce(Caller) -> W,
) -> Result<T> {
    let (presence, caller) = Caller::present();
    let done = to_its_end(core, what, work(caller)).await;
    drop(presence);
    done
}
