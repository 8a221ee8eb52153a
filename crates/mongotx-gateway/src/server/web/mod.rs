//! A page for operators, over HTTP on a socket of its own: transactions and commands in flight,
//! which transaction waits for which, locks of dead clients, rates and latencies; and buttons that
//! abort and repair.
//!
//! | file | content |
//! | --- | --- |
//! | this one | connections, and the part that answers each request |
//! | `login` | users of the gateway, by HTTP Basic |
//! | `page` | the page itself, and its files: nothing comes from anywhere else |
//! | `activity_json` | activity at this gateway, as JSON |
//! | `store` | the clients that the store knows, as JSON, looked at every other second while a page is open |
//! | `actions` | the actions of the buttons |
//!
//! Which requests a browser may send here is in `http::guard`.
//!
//! Requests to the page hold no client of the gateway up: there are few connections at a time,
//! requests are short and have little time, and every list is bounded.

mod actions;
mod activity_json;
mod login;
mod page;
mod store;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};

use self::{login::Logins, store::Store};
use super::{Server, serve::Socket, tls};
use crate::{
    access::User,
    connection::Peer,
    http::{
        Answer, Conversation, SocketLimits, accept, converse,
        guard::{self, Origin},
        reply,
    },
};

/// Limits of all connections together, and the time that one may be open. A browser opens another
/// one.
const LIMITS: SocketLimits = SocketLimits { connections: 64, longest: Duration::from_secs(300) };
/// Time limit of a request's head, and of its body; a connection may be silent as long between two
/// requests.
const SLOWEST: Duration = Duration::from_secs(10);
/// The longest body of a request.
const MOST_BYTES: usize = 4 * 1024;
/// The longest that a request may take.
const LONGEST_ACT: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

/// A socket on which the page is served.
pub(crate) struct Web {
    listener: TcpListener,
    address: SocketAddr,
}

/// State that all connections for the page share.
struct PageState {
    server: Arc<Server>,
    names: Vec<String>,
    /// Token that only pages of this gateway know.
    token: String,
    logins: Logins,
    store: Store,
}

/// A refused request: its status, and the reason.
type Refusal = (StatusCode, String);

impl Web {
    /// # Errors
    /// The gateway cannot listen at the address.
    pub(crate) async fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Address of the page, with the port that was taken.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the page until the gateway closes.
    pub(crate) async fn serve(self, server: Arc<Server>) {
        let closing = server.closing.clone();
        let names = server.context.options.web_names.clone();
        let token = format!("{:032x}", rand::random::<u128>());
        let desk = Arc::new(PageState { server, names, token, logins: Logins::default(), store: Store::default() });
        let here = self.address;
        let admit = |stream, peer| admit(stream, peer, here, Arc::clone(&desk));
        accept("the page", &self.listener, LIMITS, &closing, admit).await;
    }
}

async fn admit(stream: TcpStream, peer: SocketAddr, here: SocketAddr, desk: Arc<PageState>) {
    match desk.server.tls() {
        None => serve(stream, peer, desk).await,
        Some(tls) => {
            let named = Peer::Tcp(peer, here);
            if let Some(stream) = tls::shake_hands(&tls, stream, &named, SLOWEST).await {
                serve(stream, peer, desk).await;
            }
        }
    }
}

async fn serve(socket: impl Socket, peer: SocketAddr, desk: Arc<PageState>) {
    let manner = Conversation { what: "the page", slowest: SLOWEST, keeps_alive: true };
    let answer = |request| {
        let desk = Arc::clone(&desk);
        async move { desk.answer(request, peer).await }
    };
    converse(socket, manner, answer).await;
}

impl PageState {
    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        let is_secure = self.server.tls().is_some();
        let mut answer = match self.checked(request, peer, is_secure).await {
            Ok(answer) => answer,
            Err((status, why)) => self.refused(status, &why),
        };
        guard::seal(answer.headers_mut());
        answer
    }

    fn refused(&self, status: StatusCode, why: &str) -> Answer {
        let mut refused = reply(status, PLAIN, format!("{why}\n"));
        if status == StatusCode::UNAUTHORIZED {
            let asks = HeaderValue::from_static("Basic realm=\"MongoTx\", charset=\"UTF-8\"");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, asks);
        }
        refused
    }

    async fn checked(&self, request: Request<Incoming>, peer: SocketAddr, is_secure: bool) -> Result<Answer, Refusal> {
        let origin = Origin::of(request.headers(), is_secure, &self.names).map_err(refusal)?;
        let path = request.uri().path().to_owned();
        if path != "/" || request.method() != Method::GET {
            origin.check_own(request.headers()).map_err(refusal)?;
        }
        let user = match &self.server.context.users {
            None => None,
            Some(users) => Some(self.logins.check(&self.server.context, users, request.headers(), peer).await?),
        };
        let is_action = *request.method() == Method::POST;
        if let Some(user) = &user {
            check_role(user, is_action)?;
        }
        let by = user.as_deref();
        match *request.method() {
            Method::GET | Method::HEAD => self.show(&path, request.uri().query(), by).await,
            Method::POST => {
                guard::check_token(request.headers(), &self.token).map_err(refusal)?;
                let body = read(request).await?;
                let acting = self.act(&path, &body, by, peer);
                let done = timeout(LONGEST_ACT, acting).await;
                done.unwrap_or_else(|_| {
                    let why = format!("it was not done within {LONGEST_ACT:?}; it may be going on");
                    Err((StatusCode::GATEWAY_TIMEOUT, why))
                })
            }
            _ => Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and POST".to_owned())),
        }
    }

    async fn show(&self, path: &str, query: Option<&str>, user: Option<&User>) -> Result<Answer, Refusal> {
        let context = &self.server.context;
        match path {
            "/" => Ok(reply(StatusCode::OK, "text/html; charset=utf-8", page::page(&context.address(), &self.token))),
            "/page.css" => Ok(reply(StatusCode::OK, "text/css; charset=utf-8", page::STYLE.to_owned())),
            "/page.js" => Ok(reply(StatusCode::OK, "text/javascript; charset=utf-8", page::script())),
            "/state" => {
                let since = query.and_then(|query| query.strip_prefix("since=")?.parse().ok()).unwrap_or(0);
                let clients = self.store.clients(context).await;
                let state = activity_json::state(context, since, user, &clients);
                Ok(reply(StatusCode::OK, JSON, state.to_string()))
            }
            _ => Err((StatusCode::NOT_FOUND, "there is nothing here".to_owned())),
        }
    }

    async fn act(&self, path: &str, body: &[u8], user: Option<&User>, peer: SocketAddr) -> Result<Answer, Refusal> {
        let bad = |why: String| (StatusCode::BAD_REQUEST, why);
        let by = actions::Operator { user: user.map(|user| user.name.to_string()).unwrap_or_default(), peer };
        let context = &self.server.context;
        let said =
            serde_json::from_slice(body).map_err(|error| bad(format!("the request is not understood: {error}")))?;
        let done = match path {
            "/abort" => actions::abort(context, &said, &by).await,
            "/end" => actions::end(context, &said, &by),
            "/holds" => actions::holds(context, &said).await,
            "/repair" => actions::repair(context, &by).await,
            _ => return Err((StatusCode::NOT_FOUND, "there is nothing here".to_owned())),
        };
        done.map(|done| reply(StatusCode::OK, JSON, done.to_string())).map_err(bad)
    }
}

/// Checks that the user may see the page, or, if `is_action`, end operations of others.
fn check_role(user: &User, is_action: bool) -> Result<(), Refusal> {
    let why = match is_action {
        true if user.is_root() => return Ok(()),
        false if user.may_monitor() => return Ok(()),
        true => "the buttons are for users with the role root",
        false => "the page is for users with the role root or clusterMonitor",
    };
    Err((StatusCode::FORBIDDEN, why.to_owned()))
}

/// The body of a request, if it is short.
async fn read(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    let body = Limited::new(request.into_body(), MOST_BYTES);
    match timeout(SLOWEST, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the request cannot be read: {error}"))),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the request takes too long".to_owned())),
    }
}

fn refusal(why: &'static str) -> Refusal {
    (StatusCode::FORBIDDEN, why.to_owned())
}
