//! A server that greets and then does what a test says.

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use mongowire::{
    Address, Settings,
    wire::{HEADER_BYTES, Header, op_msg},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) struct Fake {
    listener: TcpListener,
}

impl Fake {
    pub(crate) async fn new() -> (Self, Settings) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Self { listener }, Settings::new(Address::Tcp("127.0.0.1".to_owned(), address.port())))
    }

    /// A client that has connected and has not had an answer to its handshake.
    pub(crate) async fn accept(&self) -> Client {
        Client { stream: self.listener.accept().await.unwrap().0 }
    }

    /// A client that has connected and to which the server has answered that it is a primary.
    pub(crate) async fn greet(&self) -> Client {
        let mut client = self.accept().await;
        let (hello, id) = client.question().await.unwrap();
        assert_eq!(hello.get_i32("hello").unwrap(), 1);
        client.answer(&rawdoc! {"isWritablePrimary": true, "ok": 1.0}, id).await;
        client
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    /// The next command and its number; `None` at the end.
    pub(crate) async fn question(&mut self) -> Option<(RawDocumentBuf, i32)> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).await.ok()?;
        let header = Header::decode(&header).unwrap();
        let mut payload = vec![0; header.payload_bytes()];
        self.stream.read_exact(&mut payload).await.ok()?;
        Some((op_msg::decode_answer(&header, &payload).unwrap(), header.request_id))
    }

    pub(crate) async fn answer(&mut self, answer: &RawDocument, to: i32) {
        self.stream.write_all(&bytes(answer, to)).await.unwrap();
    }
}

/// Bytes of the message that answers the message numbered `to`.
pub(crate) fn bytes(answer: &RawDocument, to: i32) -> Vec<u8> {
    op_msg::encode(&op_msg::Parts { request_id: 1, response_to: to, flags: 0, body: answer, sequences: &[] })
}
