//! `/metrics` and `/healthz` over HTTP, beside the clients' own connections.
//!
//! Requests here cannot delay clients: there are few connections at a time, each has a few seconds
//! from its first byte to its last, and an answer is made in memory before it is sent.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bson::rawdoc;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{context::Context, metrics::Kept, state::State};

/// Connections at the same time. One more is closed at once.
const MOST_CONNECTIONS: usize = 16;
/// Greatest time from a connection's first byte to its last.
const LONGEST: Duration = Duration::from_secs(10);
/// How long the server may take for a ping.
const PING_LIMIT: Duration = Duration::from_secs(2);
/// After it could not accept a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// Content type of the OpenMetrics text format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A socket on which metrics are asked for.
pub(crate) struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// # Errors
    /// There is no listening there.
    pub(crate) async fn listen(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await? })
    }

    /// Address of the endpoint, with the port that was taken.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Answers until the gateway closes.
    pub(crate) async fn serve(self, context: Arc<Context>, closing: CancellationToken) {
        let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = closing.cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let Ok(permit) = Arc::clone(&free).try_acquire_owned() else { continue };
                    let (context, closing) = (Arc::clone(&context), closing.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = timeout(LONGEST, converse(stream, context)) => {}
                            () = closing.cancelled() => {}
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection for metrics can be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, context: Arc<Context>) {
    let service = service_fn(move |request| {
        let context = Arc::clone(&context);
        async move { Ok::<_, Infallible>(answer(&context, &request).await) }
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = conversation.await {
        tracing::debug!(%error, "a connection for metrics has ended");
    }
}

async fn answer(context: &Context, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return reply(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".to_owned());
    }
    match request.uri().path() {
        "/metrics" => {
            let State { metrics, sessions, cursors, .. } = &context.tx;
            let (sessions, sessions_evicted) = (sessions.count(), sessions.evicted());
            let kept = Kept { sessions, sessions_evicted, cursors: cursors.count() };
            reply(StatusCode::OK, METRICS_TYPE, metrics.to_text(&kept))
        }
        "/healthz" => match server_answers(context).await {
            Ok(()) => reply(StatusCode::OK, PLAIN, "ok\n".to_owned()),
            Err(why) => reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
        },
        _ => reply(StatusCode::NOT_FOUND, PLAIN, "there are /metrics and /healthz\n".to_owned()),
    }
}

/// A ping, within its limit. The reason does not name the server: anybody may ask here.
async fn server_answers(context: &Context) -> Result<(), &'static str> {
    let ping = rawdoc! {"ping": 1, "$db": "admin"};
    match timeout(PING_LIMIT, context.upstream.run_command("admin", &ping, &[])).await {
        Ok(Ok(reply)) if reply.is_ok() => Ok(()),
        Ok(_) => Err("the server cannot be used"),
        Err(_) => Err("the server does not answer in time"),
    }
}

fn reply(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
