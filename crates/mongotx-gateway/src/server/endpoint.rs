//! `/metrics` and `/healthz` over HTTP, beside the clients' own connections.
//!
//! Requests here cannot delay clients: there are few connections at a time, each has a few seconds
//! from its first byte to its last, and an answer is made in memory before it is sent.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bson::rawdoc;
use hyper::{Method, Request, StatusCode, body::Incoming};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    http::{Answer, Conversation, SocketLimits, accept, converse, reply},
    metrics::KeptCounts,
    state::State,
    upstream::Lane,
};

/// Limits of all connections together, and the greatest time from one's first byte to its last.
const LIMITS: SocketLimits = SocketLimits { connections: 16, longest: Duration::from_secs(10) };
/// Time limit of a ping to the server.
const PING_LIMIT: Duration = Duration::from_secs(2);
/// Content type of the OpenMetrics text format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The socket that serves metrics over HTTP.
pub(crate) struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// # Errors
    /// The gateway cannot listen at the address.
    pub(crate) async fn listen(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await? })
    }

    /// Address of the endpoint, with the port that was taken.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Answers until the gateway closes.
    pub(crate) async fn serve(self, context: Arc<Context>, closing: CancellationToken) {
        accept("metrics", &self.listener, LIMITS, &closing, |stream, _| {
            let context = Arc::clone(&context);
            async move {
                let manner = Conversation { what: "metrics", slowest: LIMITS.longest, keeps_alive: false };
                converse(stream, manner, |request| {
                    let context = Arc::clone(&context);
                    async move { answer(&context, &request).await }
                })
                .await;
            }
        })
        .await;
    }
}

async fn answer(context: &Context, request: &Request<Incoming>) -> Answer {
    const PLAIN: &str = "text/plain; charset=utf-8";
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return reply(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".to_owned());
    }
    match request.uri().path() {
        "/metrics" => {
            let State { metrics, sessions, cursors, .. } = &context.tx;
            let (sessions, sessions_evicted) = (sessions.count(), sessions.evicted());
            let kept = KeptCounts { sessions, sessions_evicted, cursors: cursors.count() };
            reply(StatusCode::OK, METRICS_TYPE, metrics.to_text(&kept))
        }
        "/healthz" => match server_answers(context).await {
            Ok(()) => reply(StatusCode::OK, PLAIN, "ok\n".to_owned()),
            Err(why) => reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
        },
        _ => reply(StatusCode::NOT_FOUND, PLAIN, "there are /metrics and /healthz\n".to_owned()),
    }
}

/// A ping, within its limit. The error does not name the server: any client may send this request.
async fn server_answers(context: &Context) -> Result<(), &'static str> {
    let ping = rawdoc! {"ping": 1, "$db": "admin"};
    match timeout(PING_LIMIT, context.upstream.run_command_on(Lane::Own, "admin", &ping, &[])).await {
        Ok(Ok(reply)) if reply.is_ok() => Ok(()),
        Ok(_) => Err("the server cannot be used"),
        Err(_) => Err("the server does not answer in time"),
    }
}
