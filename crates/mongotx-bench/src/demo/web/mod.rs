//! The page of `mongotx-bench demo --web`, on an address of this machine: the bank while it runs,
//! as the terminal shows it, with its accounts.
//!
//! It only shows: nothing can be changed through it. Connections are few and have little time
//! (`mongotx_gateway::http`), and every list in an answer is bounded.

use std::{net::SocketAddr, time::Duration};

use hyper::{Method, Request, StatusCode, body::Incoming};
use mongotx_gateway::http::{
    Answer, Conversation, SocketLimits, accept, converse,
    guard::{self, Origin},
    reply,
};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::live::Live;
use crate::{
    failure::{Context, Failure},
    say,
};

/// Limits of all connections together, and the time that one may be open. A browser opens another
/// one.
const LIMITS: SocketLimits = SocketLimits { connections: 16, longest: Duration::from_secs(300) };
/// Greatest time for the head of a request, and for the silence before it.
const SLOWEST: Duration = Duration::from_secs(10);

const PAGE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = include_str!("assets/page.js");

/// The page while it is served. Dropping it ends that.
pub(super) struct Web {
    _serving: DropGuard,
}

impl Web {
    /// Begins to serve the page, and prints its address.
    pub(super) async fn serve(address: SocketAddr, live: Live) -> Result<Self, Failure> {
        let cannot = format!("--web: cannot listen on {address}");
        let listener = TcpListener::bind(address).await.context(&cannot)?;
        let address = listener.local_addr().context(&cannot)?;
        say::line(&format!("In a browser: http://{address}/\n"));
        let closing = CancellationToken::new();
        let serving = closing.clone().drop_guard();
        tokio::spawn(async move {
            accept("the demo's page", &listener, LIMITS, &closing, |stream, _| {
                let live = live.clone();
                async move {
                    let manner = Conversation { what: "the demo's page", slowest: SLOWEST, keeps_alive: true };
                    converse(stream, manner, |request| {
                        let answered = answer(&request, &live);
                        async move { answered }
                    })
                    .await;
                }
            })
            .await;
        });
        Ok(Self { _serving: serving })
    }
}

/// An address as `--web` takes it.
///
/// # Errors
/// In words, for one that other machines can reach.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) => Err("the page has no log-in: use an address of the loopback interface (127.0.0.1)".to_owned()),
        Err(_) => Err("expected an address and a port, as 127.0.0.1:8080; port 0 takes a free one".to_owned()),
    }
}

fn answer(request: &Request<Incoming>, live: &Live) -> Answer {
    let mut answer = checked(request, live)
        .unwrap_or_else(|(status, why)| reply(status, "text/plain; charset=utf-8", format!("{why}\n")));
    guard::seal(answer.headers_mut());
    answer
}

fn checked(request: &Request<Incoming>, live: &Live) -> Result<Answer, (StatusCode, &'static str)> {
    let headers = request.headers();
    let origin = Origin::of(headers, false, &[])
        .map_err(|_| (StatusCode::FORBIDDEN, "the page is at an address of this machine, not at that name"))?;
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET"));
    }
    let path = request.uri().path();
    if path != "/" {
        origin.check_own(headers).map_err(|why| (StatusCode::FORBIDDEN, why))?;
    }
    let (kind, body) = match path {
        "/" => ("text/html; charset=utf-8", PAGE.to_owned()),
        "/page.css" => ("text/css; charset=utf-8", STYLE.to_owned()),
        "/page.js" => ("text/javascript; charset=utf-8", SCRIPT.to_owned()),
        "/state" => ("application/json", live.to_json().to_string()),
        _ => return Err((StatusCode::NOT_FOUND, "there is nothing here")),
    };
    Ok(reply(StatusCode::OK, kind, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_elsewhere() {
        let all = format!("{PAGE}{STYLE}{SCRIPT}").replace("http://www.w3.org/2000/svg", "");
        for elsewhere in ["http:", "https:", "@import", "url(", "innerHTML", "insertAdjacentHTML", "eval("] {
            assert!(!all.contains(elsewhere), "{elsewhere}");
        }
    }
}
