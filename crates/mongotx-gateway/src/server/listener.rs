//! Sockets on which connections are accepted: TCP and Unix.

use std::{
    io::{Error, ErrorKind, Result},
    net::SocketAddr,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mongowire::set_socket_options;
use tokio::net::{TcpListener, UnixListener};

use super::Server;
use crate::connection::Peer;

/// Pause after a failure to accept: mostly there are too many open files, and looking at once again
/// does not help.
const PAUSE: Duration = Duration::from_millis(100);
/// A socket that accepts connections.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

impl Listener {
    /// A listener for TCP connections.
    pub(crate) async fn tcp(address: SocketAddr) -> Result<Self> {
        Ok(Self::Tcp(TcpListener::bind(address).await?))
    }

    /// Listens on a Unix socket, which only this user can connect to. A file that a dead process
    /// has left is replaced.
    pub(crate) fn unix(path: &Path) -> Result<Self> {
        remove_abandoned(path)?;
        let listener = UnixListener::bind(path)?;
        let _file = SocketFile(path.to_owned());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        Ok(Self::Unix { listener, _file })
    }

    /// Address of the listener, if it is a TCP address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix { .. } => None,
        }
    }

    /// Accepts connections until the gateway closes.
    pub(crate) async fn serve(self, server: Arc<Server>) {
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&server) => accepted,
                () = server.closing.cancelled() => return,
            };
            if let Err(error) = accepted {
                tracing::warn!(%error, "no connection can be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn accept(&self, server: &Arc<Server>) -> Result<()> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                set_socket_options(&stream);
                let here = stream.local_addr()?;
                server.admit_tcp(stream, Peer::Tcp(peer, here));
            }
            Self::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                server.admit(stream, Peer::Unix);
            }
        }
        Ok(())
    }
}

/// The file of a socket goes with its listener.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes a socket on which no process listens. Anything else at that place is left alone, and an
/// error.
fn remove_abandoned(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(Error::new(ErrorKind::AlreadyExists, "the file exists and is no socket"));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(Error::new(ErrorKind::AddrInUse, "another process listens on it")),
    }
}
