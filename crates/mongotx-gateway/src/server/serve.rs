//! One connection, from its first byte to its last.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, WriteHalf},
    time::timeout,
};

use super::{
    OpenConnection, Server,
    answer::{answer, refuse},
    read::{ReadError, await_message, is_stranger, longest_bytes, read_message},
    reader::Reader,
};
use crate::{
    command,
    connection::{self, Connection, Peer},
    options::Limits,
    wire::WireError,
};

/// A stream of bytes to and from a client.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Socket for T {}

/// Serves a connection until it ends, for whatever reason.
pub(super) async fn serve(server: &Arc<Server>, socket: impl Socket, peer: Peer, open: &OpenConnection) {
    let connection = Arc::new(server.connection(peer));
    tracing::info!(connection = connection.id(), peer = %connection.peer(), "a client connected");
    let (reader, mut writer) = tokio::io::split(socket);
    let mut reader = Reader::new(reader);
    let end = tokio::select! {
        end = converse(server, &connection, open, &mut reader, &mut writer) => end,
        () = server.ending.cancelled() => ConnectionEnd::Closing,
        () = open.evicted.cancelled() => ConnectionEnd::Evicted,
        () = open.revoked.cancelled() => ConnectionEnd::Revoked,
    };
    tracing::info!(connection = connection.id(), reason = %end, "a connection has ended");
    connection.set_gone();
    command::connection_closed(&server.context, &connection).await;
}

/// Reason why a connection ended.
#[derive(Debug, thiserror::Error)]
enum ConnectionEnd {
    #[error("the gateway is closing")]
    Closing,
    #[error("it has not logged in, and others need its place (--max-connections)")]
    Evicted,
    #[error("its user was changed or removed")]
    Revoked,
    #[error("too many logins have failed")]
    Refused,
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("an answer was not taken in time (--answer-timeout)")]
    Deaf,
    #[error("an answer could not be sent: {0}")]
    Write(#[from] io::Error),
}

/// Reads and answers message by message. Returns only errors: a connection always ends for a
/// reason.
async fn converse<S: Socket>(
    server: &Server,
    connection: &Arc<Connection>,
    open: &OpenConnection,
    reader: &mut (impl AsyncBufRead + Unpin),
    writer: &mut WriteHalf<S>,
) -> ConnectionEnd {
    let first_message = server.context.tuning().limits.first_message;
    let mut silence = Some((first_message, "--first-message-timeout"));
    loop {
        let one = async {
            tokio::select! {
                biased;
                // A message that has begun is answered even so.
                here = await_message(reader, silence) => here?,
                () = server.closing.cancelled() => return Err(ConnectionEnd::Closing),
            }
            open.spoke();
            let tuning = server.context.tuning();
            let limits = &tuning.limits;
            let mut held = server.context.memory.hold();
            let longest = longest_bytes(&server.context, connection);
            let (header, payload) = read_message(reader, limits.message, longest, &mut held).await?;
            let bytes = match payload {
                Ok(payload) => {
                    let answering = pin!(answer(&server.context, connection, header, payload, &mut held));
                    watching(connection, reader, answering).await?
                }
                Err(skipped) => refuse(header, &skipped)?,
            };
            if let Some(bytes) = bytes {
                timeout(limits.answer, send(writer, &bytes)).await.map_err(|_| ConnectionEnd::Deaf)??;
            }
            Ok(())
        };
        if let Err(end) = one.await {
            return end;
        }
        if server.closing.is_cancelled() {
            return ConnectionEnd::Closing;
        }
        if connection.end() == connection::ForcedEnd::AfterAnswer {
            return ConnectionEnd::Refused;
        }
        let is_stranger = is_stranger(&server.context, connection);
        open.note_user(connection.user().as_deref());
        silence = longest_silence(&server.context.tuning().limits, is_stranger);
    }
}

/// Time that a connection may be silent, and the option that sets it.
fn longest_silence(limits: &Limits, is_stranger: bool) -> Option<(Duration, &'static str)> {
    let idle = limits.idle.map(|limit| (limit, "--idle-timeout"));
    let login = limits.login.filter(|_| is_stranger).map(|limit| (limit, "--login-timeout"));
    idle.into_iter().chain(login).min()
}

/// Sends an answer to its last byte: with TLS, what is written may still wait to be encrypted and
/// sent.
async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// Waits for an answer, and notices when the client does not: a command may then be given up, which
/// it decides itself.
async fn watching<T>(
    connection: &Connection,
    reader: &mut (impl AsyncBufRead + Unpin),
    mut answering: Pin<&mut impl Future<Output = T>>,
) -> T {
    tokio::select! {
        answered = &mut answering => return answered,
        // Bytes here are the next message, which waits.
        next = reader.fill_buf() => if next.map_or(true, <[u8]>::is_empty) { connection.set_gone() },
    }
    answering.await
}
