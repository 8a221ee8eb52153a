//! Small pages over HTTP on a socket of their own: limits of connections and of time here, and in
//! [`guard`] which requests browsers may send.
//!
//! With the feature `http` it is public, for the page of `mongotx-bench demo --web`, and no part of
//! what a version of the crate promises.
#![cfg_attr(not(feature = "http"), allow(unreachable_pub, reason = "public with the feature `http`"))]

pub mod guard;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// An answer, made in memory before it is sent.
pub type Answer = Response<Full<Bytes>>;

/// Limits of all connections of a socket together, and of the time of each.
#[derive(Clone, Copy, Debug)]
pub struct SocketLimits {
    /// Connections at the same time. One more is closed at once.
    pub connections: usize,
    /// Greatest time from a connection's first byte to its last.
    pub longest: Duration,
}

/// Limits on the requests of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Conversation {
    /// Purpose of the connection, in the log.
    pub what: &'static str,
    /// Greatest time for the head of a request, and for the silence before it.
    pub slowest: Duration,
    /// True if a connection may bring more than one request.
    pub keeps_alive: bool,
}

/// Serves connections, each in a task of its own, until `closing` is cancelled.
pub async fn accept<F>(
    what: &'static str,
    listener: &TcpListener,
    limits: SocketLimits,
    closing: &CancellationToken,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(limits.connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Ok(permit) = Arc::clone(&free).try_acquire_owned() else { continue };
                let (served, closing) = (serve(stream, peer), closing.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = timeout(limits.longest, served) => {}
                        () = closing.cancelled() => {}
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection for {what} can be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers the requests of one connection until it ends.
pub async fn converse<F>(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    manner: Conversation,
    answer: impl Fn(Request<Incoming>) -> F,
) where
    F: Future<Output = Answer>,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(manner.slowest)
        .keep_alive(manner.keeps_alive)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = conversation.await {
        tracing::debug!(%error, "a connection for {} has ended", manner.what);
    }
}

/// An answer with this body, of this type.
pub fn reply(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
