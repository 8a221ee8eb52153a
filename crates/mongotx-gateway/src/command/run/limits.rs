//! What ends a command before its handler does: its time limit, and the end of its session.

use std::time::Duration;

use crate::failure::{Answer, Failure, codes};

/// The handler's answer, unless its time is over or its session is killed first.
pub(crate) async fn within_limits<T>(
    limit: Option<Duration>,
    interruption: Option<impl Future<Output = ()> + Send>,
    work: impl Future<Output = Answer<T>>,
) -> Answer<T> {
    let time_is_over = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let is_killed = async {
        match interruption {
            Some(interruption) => interruption.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        answer = work => answer,
        () = time_is_over => Err(Failure::new(codes::MAX_TIME_EXPIRED, "operation exceeded time limit")),
        () = is_killed => Err(Failure::new(codes::INTERRUPTED, "operation was interrupted")),
    }
}
