//! The reading side of a connection: buffered, without a buffer of its own while nothing comes.
//!
//! Most connections are idle most of the time. Bytes are read into a buffer on the stack, and what
//! has come is kept until it is consumed; so a connection that waits for its next message holds no
//! buffer, and one that reads makes no more calls than with one.

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// The most bytes of one reading that are buffered.
const BUFFER_BYTES: usize = 8 * 1024;

/// A stream that is read with a buffer.
pub(super) struct Reader<R> {
    stream: R,
    /// Bytes that have come, of which the first `consumed` are consumed. Empty, without any memory,
    /// when all are.
    buffered: Vec<u8>,
    consumed: usize,
}

impl<R> Reader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffered: Vec::new(), consumed: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncBufRead for Reader<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.buffered.is_empty() {
            let mut bytes = [MaybeUninit::uninit(); BUFFER_BYTES];
            let mut bytes = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut bytes))?;
            this.buffered = bytes.filled().to_vec();
        }
        Poll::Ready(Ok(&this.buffered[this.consumed..]))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        let this = self.get_mut();
        this.consumed += bytes;
        if this.consumed >= this.buffered.len() {
            (this.buffered, this.consumed) = (Vec::new(), 0);
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Reader<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A read that would fill a buffer needs none.
        if self.buffered.is_empty() && into.remaining() >= BUFFER_BYTES {
            return Pin::new(&mut self.stream).poll_read(cx, into);
        }
        let here = ready!(self.as_mut().poll_fill_buf(cx))?;
        let bytes = here.len().min(into.remaining());
        into.put_slice(&here[..bytes]);
        self.consume(bytes);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

    use super::Reader;

    #[tokio::test]
    async fn what_is_read_is_what_was_written_however_it_is_asked_for() {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let sent: Vec<u8> = (0..60_000_u32).map(|byte| byte as u8).collect();
        client.write_all(&sent).await.unwrap();
        drop(client);
        let mut reader = Reader::new(server);
        let mut read = Vec::new();
        for bytes in [1, 16, 8_000, 20_000, 3] {
            let mut some = vec![0; bytes];
            reader.read_exact(&mut some).await.unwrap();
            read.extend(some);
            let here = reader.fill_buf().await.unwrap();
            let bytes = here.len().min(5);
            read.extend(here[..bytes].to_vec());
            reader.consume(bytes);
        }
        reader.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, sent);
        assert!(reader.fill_buf().await.unwrap().is_empty(), "the end");
    }

    #[tokio::test]
    async fn nothing_is_held_while_nothing_is_there() {
        let (mut client, server) = tokio::io::duplex(1_024);
        let mut reader = Reader::new(server);
        for _ in 0..2 {
            client.write_all(&[7; 100]).await.unwrap();
            assert_eq!(reader.fill_buf().await.unwrap().len(), 100);
            reader.consume(40);
            assert_eq!(reader.fill_buf().await.unwrap().len(), 60);
            reader.consume(60);
            assert_eq!(reader.buffered.capacity(), 0);
            let waiting = tokio::time::timeout(std::time::Duration::ZERO, reader.fill_buf());
            assert!(waiting.await.is_err(), "nothing has come");
            assert_eq!(reader.buffered.capacity(), 0);
        }
    }
}
