//! Limits that end a command before its handler does: its time limit, the end of its session, and
//! the loss of its client.

use std::time::Duration;

use crate::{
    connection::Connection,
    failure::{Answer, Failure, codes},
};

/// Events that end a command before its handler does. An end drops what the command waits for, and
/// the server ends a read whose connection is closed.
pub(crate) struct CommandEnds<'a, K> {
    /// Time limit of the command (`maxTimeMS`).
    pub(crate) time: Option<Duration>,
    /// The interruption of the command: the end of its session, or `killOp`.
    pub(crate) interruption: Option<K>,
    /// The client of the command, if the command ends when that is gone, as one that changes
    /// nothing does.
    pub(crate) client: Option<&'a Connection>,
}

/// The handler's answer, unless something ends the command first.
pub(crate) async fn within_limits<T>(
    ends: CommandEnds<'_, impl Future<Output = ()> + Send>,
    work: impl Future<Output = Answer<T>>,
) -> Answer<T> {
    let CommandEnds { time, interruption, client } = ends;
    let time_is_over = async {
        match time {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let is_interrupted = async {
        match interruption {
            Some(interruption) => interruption.await,
            None => std::future::pending().await,
        }
    };
    let is_left = async {
        match client {
            Some(client) => client.gone().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        answer = work => answer,
        () = time_is_over => Err(Failure::new(codes::MAX_TIME_EXPIRED, "operation exceeded time limit")),
        () = is_interrupted => Err(Failure::new(codes::INTERRUPTED, "operation was interrupted")),
        () = is_left => Err(Failure::new(codes::CLIENT_DISCONNECT, "the client is gone: no answer is expected")),
    }
}
