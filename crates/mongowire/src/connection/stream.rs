//! The bytes of a connection, over TCP, a Unix socket or TLS. Messages in them are in
//! `crate::wire`.

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncBufRead, AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

use crate::settings::{Address, Settings};

/// Idle time after which a keep-alive probe is sent to the peer, as MongoDB does.
const KEEPALIVE: Duration = Duration::from_secs(120);
/// First capacity, in bytes, of the memory for a message, which grows as bytes come: a header that
/// announces 48 MB costs nothing yet.
pub(super) const FIRST_BYTES: usize = 64 * 1024;

/// The socket of a connection, with TLS or without.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Opens the TCP or unix socket of the settings, with TLS if they ask for it.
    pub(super) async fn open(settings: &Settings) -> io::Result<Self> {
        match &settings.address {
            Address::Unix(path) => Ok(Self::Unix(UnixStream::connect(path).await?)),
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                set_socket_options(&stream);
                match &settings.tls {
                    Some(tls) => shake_hands(tls, host, stream).await,
                    None => Ok(Self::Tcp(stream)),
                }
            }
        }
    }

    /// Returns true if the peer has sent nothing unexpected, neither bytes nor an end. Reads the
    /// socket itself: what the runtime knows of it may be older than the end of a server.
    pub(super) fn is_quiet(&self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
            Self::Tls(stream) => SockRef::from(stream.get_ref().0),
        };
        let looked = socket.peek(&mut [MaybeUninit::uninit()]);
        matches!(looked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

async fn shake_hands(tls: &TlsConnector, host: &str, stream: TcpStream) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{host}: {error}")))?;
    Ok(Stream::Tls(Box::new(tls.connect(name, stream).await?)))
}

/// Sets the socket's options: small messages are sent at once, and keep-alive probes are on. A
/// socket that takes neither option works nevertheless.
pub fn set_socket_options(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let socket = SockRef::from(stream);
    if let Err(error) = socket.set_tcp_nodelay(true).and_then(|()| socket.set_tcp_keepalive(&keepalive)) {
        tracing::debug!(%error, "a socket does not take its options");
    }
}

/// Reads exactly as many bytes as a message says it has.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut stream: &[u8] = b"payload of one message, and the next";
/// assert_eq!(mongowire::read_payload(&mut stream, 7).await?, b"payload");
/// let ended = mongowire::read_payload(&mut stream, 1_000).await.unwrap_err();
/// assert_eq!(ended.kind(), std::io::ErrorKind::UnexpectedEof);
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`], and those of the reader.
pub async fn read_payload<R: AsyncBufRead + Unpin>(reader: &mut R, bytes: usize) -> io::Result<Vec<u8>> {
    let mut payload = Vec::with_capacity(bytes.min(FIRST_BYTES));
    let limit = u64::try_from(bytes).unwrap_or(u64::MAX);
    reader.take(limit).read_to_end(&mut payload).await?;
    if payload.len() < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(payload) }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
