//! Checks of requests to a page, and headers by which browsers refuse the requests of others. Pure.
//!
//! A browser on the machine of an operator also shows pages of strangers, and these can make it
//! send requests here. So:
//!
//! - A request has to name this host by an address, as `localhost`, or by a name that the gateway
//!   was given: a stranger's name that was made to lead here (DNS rebinding) is none of them.
//! - Only the page itself gets answers, and no request of another origin is carried out; a request
//!   that changes something has to bring a token besides, which only this gateway's own page knows.
//! - No other page may frame this one, and this one loads nothing from elsewhere and runs no script
//!   but its own.

use std::net::Ipv6Addr;

use hyper::{
    HeaderMap,
    header::{self, HeaderName, HeaderValue},
};
use subtle::ConstantTimeEq;

/// The header that brings the token.
pub const TOKEN: &str = "x-mongotx-token";

/// Headers of every answer, for browsers.
const SEALS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action \
         'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The origin that a request was sent to, as the browser sees it.
pub struct Origin(String);

impl Origin {
    /// The origin of a request, by the host that it names: an address, this machine, or one of
    /// these names.
    ///
    /// # Errors
    /// In words, for a host that is not this one's.
    pub fn of(headers: &HeaderMap, is_secure: bool, names: &[String]) -> Result<Self, &'static str> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).ok_or("the request names no host")?;
        if hosts.next().is_some() || !is_own(host, names) {
            return Err("the host's name is not one of this gateway's (--web-names)");
        }
        Ok(Self(format!("{}://{}", if is_secure { "https" } else { "http" }, host.to_ascii_lowercase())))
    }

    /// Checks that no page of another origin has made the request.
    ///
    /// # Errors
    /// In words, for a request that one has made.
    pub fn check_own(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        const STRANGE: &str = "the request was made by a page of another origin";
        let is_own = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(&self.0));
        if !headers.get(header::ORIGIN).is_none_or(is_own) {
            return Err(STRANGE);
        }
        match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(STRANGE),
        }
    }
}

/// Returns true if a host is named by an address, as this machine, or by one of these names.
fn is_own(host: &str, names: &[String]) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port));
    }
    let (name, port) = host.find(':').map_or((host, ""), |at| host.split_at(at));
    if !(port.is_empty() || is_port(port)) {
        return false;
    }
    let is_named = |own: &str| own.eq_ignore_ascii_case(name);
    name.parse::<std::net::Ipv4Addr>().is_ok() || is_named("localhost") || names.iter().any(|own| is_named(own))
}

fn is_port(port: &str) -> bool {
    port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Checks that a request brings the page's token.
///
/// # Errors
/// In words, for a request without it.
pub fn check_token(headers: &HeaderMap, token: &str) -> Result<(), &'static str> {
    let brought = headers.get(TOKEN).map(HeaderValue::as_bytes).unwrap_or_default();
    if bool::from(brought.ct_eq(token.as_bytes())) {
        Ok(())
    } else {
        Err("the request does not bring the token of the page; load it again")
    }
}

/// Adds the headers that restrict what browsers do with an answer.
pub fn seal(headers: &mut HeaderMap) {
    for (name, value) in &SEALS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let named = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(named).collect()
    }

    #[test]
    fn hosts_are_addresses_this_machine_or_names_that_were_given() {
        let names = ["db.example".to_owned()];
        for host in ["127.0.0.1:1", "10.0.0.1", "[::1]:5", "[::1]", "localhost:1", "LOCALHOST", "db.example:27017"] {
            assert!(is_own(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:1",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "xdb.example",
            "[::1",
            "[x]:1",
            "[::1]x",
            "localhost:x",
            "localhost:1:2",
            "db.example.",
            "127.0.0.1:99999",
            "user@127.0.0.1",
        ] {
            assert!(!is_own(host, &names), "{host}");
        }
        assert!(Origin::of(&headers(&[]), false, &names).is_err());
        let twice: HeaderMap = [("host", "localhost"), ("host", "evil.example")].iter().fold(
            HeaderMap::new(),
            |mut all, (name, value)| {
                all.append(HeaderName::from_static(name), HeaderValue::from_static(value));
                all
            },
        );
        assert!(Origin::of(&twice, false, &names).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let here = Origin::of(&headers(&[("host", "localhost:81")]), false, &[]).unwrap();
        for own in [
            &[][..],
            &[("origin", "http://localhost:81")],
            &[("origin", "http://LOCALHOST:81"), ("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
        ] {
            assert!(here.check_own(&headers(own)).is_ok(), "{own:?}");
        }
        for other in [
            ("origin", "http://localhost:82"),
            ("origin", "https://localhost:81"),
            ("origin", "null"),
            ("origin", ""),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(here.check_own(&headers(&[other])).is_err(), "{other:?}");
        }
    }

    #[test]
    fn only_the_pages_own_token_counts() {
        assert!(check_token(&headers(&[(TOKEN, "abc")]), "abc").is_ok());
        for brought in [&[][..], &[(TOKEN, "abd")], &[(TOKEN, "")], &[(TOKEN, "abcd")]] {
            assert!(check_token(&headers(brought), "abc").is_err(), "{brought:?}");
        }
    }
}
