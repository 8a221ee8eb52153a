//! From one message of a client to the answer: reads it, runs its command, and encodes the reply.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use futures_util::FutureExt;

use super::read::{Skipped, longest_bytes};
use crate::{
    command,
    connection::{Connection, ForcedEnd},
    context::Context,
    dispatch,
    error::{CommandError, code},
    failure::{Failure, PANICKED},
    memory::{HeldMemory, MemoryFull},
    reply::Reply,
    request::Request,
    wire::{self, Envelope, Header, Incoming, OpCode, ReplyFormat, WireError, op_msg::MORE_TO_COME},
};

/// Messages of this size are decoded and encoded on a thread of their own, not on one that serves
/// other connections.
const LARGE_BYTES: usize = 256 * 1024;

/// Replies of this size are sent even when there is no memory left: what they say matters, such as
/// that a write was made.
const SMALL_BYTES: usize = 64 * 1024;

/// The numbers of the messages that the gateway sends.
static NEXT_ID: AtomicI32 = AtomicI32::new(1);

/// Runs the command of a message. Returns the bytes to send back, if any.
pub(super) async fn answer(
    context: &Context,
    connection: &Arc<Connection>,
    header: Header,
    payload: Vec<u8>,
    held: &mut HeldMemory,
) -> Result<Option<Vec<u8>>, WireError> {
    let plain = wire::plain_bytes(&header, &payload);
    let longest = longest_bytes(context, connection);
    if plain > longest {
        return Err(WireError::Stranger(longest));
    }
    held.grow(plain.saturating_sub(payload.len())).map_err(|full| WireError::Memory(full.to_string()))?;
    let large = plain > LARGE_BYTES;
    let Incoming { reply_format, answer_wanted, request } =
        aside(large, move || wire::decode(&header, &payload)).await.unwrap_or(Err(WireError::Malformed(PANICKED)))?;
    // `currentOp` may share the request for a moment.
    let (reply, request) = match request.map(Arc::new) {
        Ok(request) => (run_guarded(context, connection, &request).await, Some(request)),
        Err(error) => (error.into(), None),
    };
    if connection.end() == ForcedEnd::Now {
        return Err(WireError::Cut);
    }
    if !answer_wanted {
        return Ok(None);
    }
    let reply = match hold(&reply, held) {
        Ok(()) => reply,
        Err(full) => not_sent(context, connection, request.as_deref(), reply, full, held).boxed().await,
    };
    let id = next_id();
    let large = reply.body().as_bytes().len() > LARGE_BYTES;
    let bytes = aside(large, move || wire::encode(reply.body(), id, header.request_id, reply_format)).await;
    bytes.map(Some).ok_or(WireError::Malformed(PANICKED))
}

/// Takes the memory of a reply.
///
/// # Errors
/// The reply is large, and there is not so much left.
fn hold(reply: &Reply, held: &mut HeldMemory) -> Result<(), MemoryFull> {
    let bytes = reply.body().as_bytes().len();
    if bytes > SMALL_BYTES {
        return held.grow(bytes);
    }
    held.grow_anyway(bytes);
    Ok(())
}

/// The answer to a command for whose reply there is no memory: an error if nothing has come of the
/// command, and otherwise the reply, which is at most one document that a write has found, or what
/// was refused of it.
async fn not_sent(
    context: &Context,
    connection: &Connection,
    request: Option<&Request>,
    reply: Reply,
    full: MemoryFull,
    held: &mut HeldMemory,
) -> Reply {
    let failure = Failure::new(code::EXCEEDED_MEMORY_LIMIT.number, full.to_string());
    let is_undone = match request {
        Some(request) => command::undo_read(context, connection, request, &reply, &failure).await,
        None => true,
    };
    if is_undone {
        return failure.into();
    }
    held.grow_anyway(reply.body().as_bytes().len());
    reply
}

/// The answer to a message that was not kept, if it wants one.
pub(super) fn refuse(header: Header, skipped: &Skipped) -> Result<Option<Vec<u8>>, WireError> {
    let envelope = match header.op_code {
        OpCode::Msg if u32::from_le_bytes(skipped.first) & MORE_TO_COME != 0 => return Ok(None),
        OpCode::Msg => Envelope::Msg { checksum: false },
        OpCode::Query => Envelope::Reply,
        OpCode::Compressed | OpCode::Reply => return Err(WireError::Memory(skipped.full.to_string())),
    };
    let reply = Reply::from(CommandError::new(code::EXCEEDED_MEMORY_LIMIT, skipped.full.to_string()));
    let reply_format = ReplyFormat { envelope, compressor: None };
    Ok(Some(wire::encode(reply.body(), next_id(), header.request_id, reply_format)))
}

fn next_id() -> i32 {
    NEXT_ID.fetch_add(1, Relaxed)
}

/// Runs a command. A panic in it, which would be a defect, ends the command and nothing else.
async fn run_guarded(context: &Context, connection: &Connection, request: &Arc<Request>) -> Reply {
    let running = dispatch::answer_request(context, connection, request);
    AssertUnwindSafe(running).catch_unwind().await.unwrap_or_else(|_| {
        let name = request.name();
        tracing::error!(command = name, "a command panicked");
        CommandError::new(code::INTERNAL_ERROR, format!("{name}: {PANICKED}")).into()
    })
}

/// Runs `work` here, or aside when it is large. `None`: it panicked there.
async fn aside<T: Send + 'static>(large: bool, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if large { tokio::task::spawn_blocking(work).await.ok() } else { Some(work()) }
}
