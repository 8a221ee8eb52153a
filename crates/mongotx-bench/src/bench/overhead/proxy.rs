//! A proxy that only forwards messages, the least cost of any gateway. `mongotx-bench bench-proxy`,
//! hidden, a process of its own as the gateway is.
//!
//! Each client connection has one to the server. Messages are read whole and written on, in both
//! directions at once: a server may answer several times.

use std::io;

use clap::Args;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{
    failure::{Failure, Status},
    say,
};

/// The longest message that MongoDB has.
const LONGEST_BYTES: usize = 48_000_000;
/// A message begins with its length.
const LENGTH_BYTES: usize = 4;

/// Options of the command `mongotx-bench bench-proxy`.
#[derive(Args, Clone)]
pub(crate) struct ProxyOptions {
    /// The server's address: host and port
    server: String,
}

/// Forwards until the process is ended.
pub(crate) async fn run_proxy(options: ProxyOptions) -> Result<Status, Failure> {
    let failed = |error: io::Error| Failure::new(format!("bench-proxy: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    say::line(&format!("listening on mongodb://{address}/?directConnection=true"));
    loop {
        let (client, _) = listener.accept().await.map_err(failed)?;
        let server = options.server.clone();
        tokio::spawn(async move {
            // An end of either side ends the other, and is not reported.
            let _ = forward(client, &server).await;
        });
    }
}

async fn forward(client: TcpStream, server: &str) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    for side in [&client, &server] {
        side.set_nodelay(true)?;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = messages(from_client, to_server) => ended,
        ended = messages(from_server, to_client) => ended,
    }
}

async fn messages(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut message = Vec::new();
    loop {
        message.clear();
        message.resize(LENGTH_BYTES, 0);
        from.read_exact(&mut message).await?;
        let length = message.first_chunk().map_or(0, |length| u32::from_le_bytes(*length)) as usize;
        if !(LENGTH_BYTES..=LONGEST_BYTES).contains(&length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of a length that MongoDB does not have"));
        }
        message.resize(length, 0);
        from.read_exact(&mut message[LENGTH_BYTES..]).await?;
        to.write_all(&message).await?;
    }
}
