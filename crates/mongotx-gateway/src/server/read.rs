//! One message off a connection, within its time and its size.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt},
    time::{error::Elapsed, timeout},
};

use crate::wire::{HEADER_BYTES, Header, WireError};

/// Memory is taken as bytes come, beginning with so much: a header that announces 48 MB costs nothing yet.
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
    #[error("silent for too long")]
    Idle,
    #[error("a message took too long to arrive")]
    Slow(#[from] Elapsed),
}

/// Waits for the first byte of a message, which stays to be read. Dropping the future loses nothing.
pub(super) async fn await_message<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    limit: Option<Duration>,
) -> Result<(), ReadError> {
    let first = match limit {
        Some(limit) => timeout(limit, reader.fill_buf()).await.map_err(|_| ReadError::Idle)??,
        None => reader.fill_buf().await?,
    };
    if first.is_empty() { Err(ReadError::Closed) } else { Ok(()) }
}

/// Reads a message whose first byte is there.
pub(super) async fn read_message<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    limit: Duration,
) -> Result<(Header, Vec<u8>), ReadError> {
    timeout(limit, async {
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header).await?;
        let header = Header::decode(&header)?;
        let payload = read_payload(reader, header.payload_bytes()).await?;
        Ok((header, payload))
    })
    .await?
}

/// Exactly so many bytes.
pub(crate) async fn read_payload<R: AsyncBufRead + Unpin>(reader: &mut R, bytes: usize) -> io::Result<Vec<u8>> {
    let mut payload = Vec::with_capacity(bytes.min(FIRST_BYTES));
    let limit = u64::try_from(bytes).unwrap_or(u64::MAX);
    reader.take(limit).read_to_end(&mut payload).await?;
    if payload.len() < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(payload) }
}
