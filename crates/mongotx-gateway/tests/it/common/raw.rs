//! A client that writes whatever bytes it likes.

use std::net::SocketAddr;

use bson::{Document, RawDocumentBuf};
use mongotx_gateway::wire::{HEADER_BYTES, Header, op_msg};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::soon;

/// A connection whose messages a test writes.
pub struct Raw {
    pub stream: TcpStream,
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        Self { stream: soon(TcpStream::connect(address)).await.unwrap() }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        // The gateway may have closed the connection in the middle of it.
        let _ = soon(self.stream.write_all(bytes)).await;
    }

    /// The next message, or `None` when the gateway has closed the connection.
    pub async fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_BYTES];
        soon(self.stream.read_exact(&mut header)).await.ok()?;
        let header = Header::decode(&header).unwrap();
        let mut payload = vec![0; header.payload_bytes()];
        soon(self.stream.read_exact(&mut payload)).await.ok()?;
        Some((header, payload))
    }

    /// The document of the next answer.
    pub async fn answer(&mut self) -> Option<Document> {
        let (header, payload) = self.receive().await?;
        let body = op_msg::decode_answer(&header, &payload).unwrap();
        Some(Document::try_from(&*body).unwrap())
    }

    /// Sends a command, and returns its answer. `None`: the gateway has closed the connection.
    pub async fn ask(&mut self, command: Document) -> Option<Document> {
        self.send(&message(&command, 0)).await;
        self.answer().await
    }

    /// The next byte, or `None` when the gateway has closed the connection.
    pub async fn receive_byte(&mut self) -> Option<u8> {
        soon(self.stream.read_u8()).await.ok()
    }

    /// Returns true if the gateway has closed the connection and sent nothing more.
    pub async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(soon(self.stream.read(&mut byte)).await, Ok(0) | Err(_))
    }
}

/// A command as a message.
pub fn message(command: &Document, flags: u32) -> Vec<u8> {
    let body = RawDocumentBuf::try_from(command).unwrap();
    op_msg::encode(&op_msg::Parts { request_id: 77, response_to: 0, flags, body: &body, sequences: &[] })
}

/// An old query, as drivers send their first `isMaster`.
pub fn old_query(namespace: &str, query: &Document) -> Vec<u8> {
    let query = RawDocumentBuf::try_from(query).unwrap();
    let mut payload = vec![0, 0, 0, 0];
    payload.extend(namespace.as_bytes());
    payload.extend([0, 0, 0, 0, 0]);
    payload.extend((-1_i32).to_le_bytes());
    payload.extend(query.as_bytes());
    framed(2004, &payload)
}

/// A message of any kind.
pub fn framed(op_code: i32, payload: &[u8]) -> Vec<u8> {
    let length = i32::try_from(HEADER_BYTES + payload.len()).unwrap();
    let header = [length, 77, 0, op_code].into_iter().flat_map(i32::to_le_bytes);
    header.chain(payload.iter().copied()).collect()
}
