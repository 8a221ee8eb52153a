//! One message off a connection, within its time and its size.

use std::{io, time::Duration};

use mongowire::read_payload;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt},
    time::{error::Elapsed, timeout},
};

use crate::{
    connection::Connection,
    context::Context,
    memory::{HeldMemory, MemoryFull},
    wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, WireError},
};

/// Greatest size of a message before login.
const STRANGERS_BYTES: usize = 64 * 1024;

/// Memory is taken as bytes come, beginning with this many: a header that announces 48 MB costs
/// nothing yet.
const FIRST_BYTES: usize = 64 * 1024;

/// A connection that brings no more messages.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the client has closed the connection")]
    Closed,
    #[error("{0}")]
    Lost(#[from] io::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("silent for too long ({0})")]
    Idle(&'static str),
    #[error("a message took too long to arrive (--message-timeout)")]
    Slow(#[from] Elapsed),
}

/// A message for which there was no memory. Its bytes are gone.
#[derive(Debug)]
pub(super) struct Skipped {
    pub(super) full: MemoryFull,
    /// The first four bytes of its payload.
    pub(super) first: [u8; 4],
}

/// Greatest length of a message: short before the client has logged in.
pub(super) fn longest_bytes(context: &Context, connection: &Connection) -> usize {
    if is_stranger(context, connection) { STRANGERS_BYTES } else { MAX_MESSAGE_BYTES }
}

/// Returns true if the client has still to log in.
pub(super) fn is_stranger(context: &Context, connection: &Connection) -> bool {
    context.users.is_some() && connection.user().is_none()
}

/// Waits for the first byte of a message, which stays to be read. `limit`: for how long, and the
/// option that says so. Dropping the future loses nothing.
pub(super) async fn await_message<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    limit: Option<(Duration, &'static str)>,
) -> Result<(), ReadError> {
    let first = match limit {
        Some((limit, option)) => timeout(limit, reader.fill_buf()).await.map_err(|_| ReadError::Idle(option))??,
        None => reader.fill_buf().await?,
    };
    if first.is_empty() { Err(ReadError::Closed) } else { Ok(()) }
}

/// Reads a message whose first byte is there. `longest`: more bytes than that end the connection.
pub(super) async fn read_message<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    limit: Duration,
    longest: usize,
    held: &mut HeldMemory,
) -> Result<(Header, Result<Vec<u8>, Skipped>), ReadError> {
    timeout(limit, async {
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header).await?;
        let header = Header::decode(&header)?;
        if header.payload_bytes() > longest {
            return Err(WireError::Stranger(longest).into());
        }
        let payload = read_held(reader, header.payload_bytes(), held).await?;
        Ok((header, payload))
    })
    .await?
}

/// Reads exactly so many bytes, counted as they come. Where there is no memory for them they are
/// read and dropped.
async fn read_held<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    bytes: usize,
    held: &mut HeldMemory,
) -> io::Result<Result<Vec<u8>, Skipped>> {
    let mut payload = Vec::new();
    while payload.len() < bytes {
        let step = (bytes - payload.len()).min(payload.len().max(FIRST_BYTES));
        if let Err(full) = held.grow(step) {
            return skip(reader, &payload, bytes - payload.len()).await.map(|first| Err(Skipped { full, first }));
        }
        payload.reserve_exact(step);
        payload.append(&mut read_payload(reader, step).await?);
    }
    Ok(Ok(payload))
}

/// Reads what is left of a message, and answers the bytes at the message's beginning.
async fn skip<R: AsyncBufRead + Unpin>(reader: &mut R, read: &[u8], mut left: usize) -> io::Result<[u8; 4]> {
    let mut first: Vec<u8> = read.iter().take(4).copied().collect();
    while left > 0 {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = bytes.len().min(left);
        first.extend(bytes[..count].iter().take(4 - first.len()));
        reader.consume(count);
        left -= count;
    }
    first.resize(4, 0);
    Ok(first.try_into().unwrap_or_default())
}
