//! One message to its answer.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use futures_util::FutureExt;

use crate::{
    connection::{Connection, End},
    context::Context,
    dispatch,
    error::{CommandError, code},
    reply::Reply,
    request::Request,
    wire::{self, Header, Incoming, WireError},
};

/// Messages of this size are decoded and encoded on a thread of their own, not on one that serves other connections.
const LARGE_BYTES: usize = 256 * 1024;

/// The numbers of the messages that the gateway sends.
static NEXT_ID: AtomicI32 = AtomicI32::new(1);

/// The bytes to send back, if any.
pub(super) async fn answer(
    context: &Context,
    connection: &Arc<Connection>,
    header: Header,
    payload: Vec<u8>,
) -> Result<Option<Vec<u8>>, WireError> {
    let large = wire::plain_bytes(&header, &payload) > LARGE_BYTES;
    let Incoming { form, answer_wanted, request } =
        aside(large, move || wire::decode(&header, &payload)).await.unwrap_or(Err(WireError::Malformed(PANICKED)))?;
    let reply = match request {
        Ok(request) => run(context, connection, request).await,
        Err(error) => error.into(),
    };
    if connection.end() == End::Now {
        return Err(WireError::Cut);
    }
    if !answer_wanted {
        return Ok(None);
    }
    let id = NEXT_ID.fetch_add(1, Relaxed);
    let large = reply.body().as_bytes().len() > LARGE_BYTES;
    let bytes = aside(large, move || wire::encode(reply.body(), id, header.request_id, form)).await;
    bytes.map(Some).ok_or(WireError::Malformed(PANICKED))
}

/// What is told where the gateway itself has failed.
pub(crate) const PANICKED: &str = "a defect of the gateway itself; please report the message that led to it";

/// Runs a command. A panic in it, which would be a defect, ends the command and nothing else.
async fn run(context: &Context, connection: &Connection, request: Request) -> Reply {
    let name = request.name().to_owned();
    // On the heap: idle connections have no use for the room that commands need.
    let running = Box::pin(dispatch::run(context, connection, &request));
    AssertUnwindSafe(running).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(command = name, "a command panicked");
        CommandError::new(code::INTERNAL_ERROR, format!("{name}: {PANICKED}")).into()
    })
}

/// Runs `work` here, or aside when it is large. `None`: it panicked there.
async fn aside<T: Send + 'static>(large: bool, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if large { tokio::task::spawn_blocking(work).await.ok() } else { Some(work()) }
}
