//! One connection to the backing server: a message goes, a message comes.

use std::{
    io,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
    time::Duration,
};

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use mongodb::options::ServerAddress;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::APP_NAME;
use crate::{
    request::Sequence,
    server::{prepare, read_payload},
    wire::{HEADER_BYTES, Header, WireError, op_msg},
};

/// How long connecting may take, the first handshake included.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// MongoDB's own.
const DEFAULT_PORT: u16 = 27017;

/// The connection is of no use, or the server does not speak the protocol.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("{0}")]
    Lost(#[from] io::Error),
    #[error("its answer cannot be understood: {0}")]
    Wire(#[from] WireError),
    #[error("no answer within {} s", CONNECT_LIMIT.as_secs())]
    Slow(#[from] tokio::time::error::Elapsed),
    #[error("it answers other messages than were asked")]
    OutOfStep,
}

/// A connection.
pub(super) struct Link {
    stream: Stream,
}

enum Stream {
    Tcp(BufReader<TcpStream>),
    Unix(BufReader<UnixStream>),
}

impl Link {
    /// Connects, and tells the server who is there.
    pub(super) async fn open(address: &ServerAddress) -> Result<Self, LinkError> {
        timeout(CONNECT_LIMIT, async {
            let stream = match address {
                ServerAddress::Unix { path } => Stream::Unix(BufReader::new(UnixStream::connect(path).await?)),
                ServerAddress::Tcp { host, port } => {
                    let stream = TcpStream::connect((host.as_str(), port.unwrap_or(DEFAULT_PORT))).await?;
                    prepare(&stream);
                    Stream::Tcp(BufReader::new(stream))
                }
                _ => return Err(io::Error::from(io::ErrorKind::Unsupported).into()),
            };
            let mut link = Self { stream };
            link.run(&hello(), &[]).await?;
            Ok(link)
        })
        .await?
    }

    /// Sends a command and waits for its answer. After an error, or when the future is dropped, the connection is of no
    /// use any more.
    pub(super) async fn run(
        &mut self,
        body: &RawDocument,
        sequences: &[Sequence],
    ) -> Result<RawDocumentBuf, LinkError> {
        match &mut self.stream {
            Stream::Tcp(stream) => exchange(stream, body, sequences).await,
            Stream::Unix(stream) => exchange(stream, body, sequences).await,
        }
    }

    /// Nothing has come that was not asked for: neither bytes nor an end.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match &self.stream {
            Stream::Tcp(stream) => stream.get_ref().try_read(&mut byte),
            Stream::Unix(stream) => stream.get_ref().try_read(&mut byte),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

async fn exchange<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    body: &RawDocument,
    sequences: &[Sequence],
) -> Result<RawDocumentBuf, LinkError> {
    static NEXT_ID: AtomicI32 = AtomicI32::new(1);
    let request_id = NEXT_ID.fetch_add(1, Relaxed);
    let message = op_msg::encode(&op_msg::Parts { request_id, response_to: 0, flags: 0, body, sequences });
    stream.write_all(&message).await?;
    stream.flush().await?;
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).await?;
    let header = Header::decode(&header)?;
    let payload = read_payload(stream, header.payload_bytes()).await?;
    if header.response_to != request_id {
        return Err(LinkError::OutOfStep);
    }
    Ok(op_msg::decode_answer(&header, &payload)?)
}

fn hello() -> RawDocumentBuf {
    rawdoc! {
        "hello": 1,
        "client": {
            "application": {"name": APP_NAME},
            "driver": {"name": "mongotx-gateway", "version": env!("CARGO_PKG_VERSION")},
            "os": {"type": std::env::consts::OS},
        },
        "$db": "admin",
    }
}
