//! Users of the gateway log in to the page by HTTP Basic: a name and a password with each request,
//! checked as for commands.
//!
//! To check a password is slow on purpose, so that guessing is slow. A password that was right is
//! therefore known for some minutes, by a digest under a key of this process; and only a few are
//! checked at a time.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{HeaderMap, StatusCode, header};
use mongowire::scram::Mechanism;
use tokio::{sync::Semaphore, time::timeout};

use super::Refusal;
use crate::{
    access::{Roster, User, UserName},
    context::Context,
};

/// Time for which a correct password need not be checked again.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// The most passwords that are known to be correct.
const MOST_KNOWN: usize = 64;
/// Passwords that are checked at a time, and how long one more waits.
const MOST_CHECKS: usize = 2;
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Least time after which a wrong password is answered.
const PENALTY: Duration = Duration::from_secs(1);
/// The longest header, in bytes.
const LONGEST_BYTES: usize = 2 * 1024;

/// The database of a user name without one.
const DEFAULT_DATABASE: &str = "admin";

/// Users that have logged in, and when, by the digest of name and password.
type KnownLogins = HashMap<Vec<u8>, (Arc<User>, Instant)>;

/// Users that have logged in lately.
pub(super) struct Logins {
    key: [u8; 32],
    known: Mutex<KnownLogins>,
    checks: Arc<Semaphore>,
}

impl Default for Logins {
    fn default() -> Self {
        Self { key: rand::random(), known: Mutex::default(), checks: Arc::new(Semaphore::new(MOST_CHECKS)) }
    }
}

impl Logins {
    /// The user whose name and password a request brings.
    ///
    /// # Errors
    /// 401 for an unknown user, and for a wrong password; 503 when too many passwords are being
    /// checked.
    pub(super) async fn check(
        &self,
        context: &Context,
        users: &Roster,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Result<Arc<User>, Refusal> {
        let unauthorized = || (StatusCode::UNAUTHORIZED, "log in as a user of the gateway".to_owned());
        let brought = headers.get(header::AUTHORIZATION).ok_or_else(unauthorized)?.as_bytes();
        let digest = Mechanism::ScramSha256.hmac(&self.key, brought);
        if let Some(user) = self.known_user(&digest).filter(|user| users.is_current(user)) {
            return Ok(user);
        }
        let (name, password) = parse(brought).ok_or_else(unauthorized)?;
        let began = Instant::now();
        let user = self.find(users, name.clone(), password).await?;
        context.tx.metrics.login(user.is_some());
        let Some(user) = user else {
            tracing::warn!(%peer, user = ?name.to_string(), mechanism = "Basic", reason = "wrong user or password", "a login was refused");
            tokio::time::sleep(PENALTY.saturating_sub(began.elapsed())).await;
            return Err(unauthorized());
        };
        tracing::info!(%peer, user = ?name.to_string(), mechanism = "Basic", "logged in");
        self.know(digest, &user);
        Ok(user)
    }

    /// The user of that name, if the password is right. It takes the same time whether the user
    /// exists or not.
    async fn find(&self, users: &Roster, name: UserName, password: String) -> Result<Option<Arc<User>>, Refusal> {
        let users = users.now();
        self.in_turn(move || {
            let (user, credential) = users.find(Mechanism::ScramSha256, &name);
            let is_right = credential.is_of(Mechanism::ScramSha256, &name.name, &password);
            user.filter(|_| is_right)
        })
        .await
    }

    /// Runs a check on a thread of its own when fewer than [`MOST_CHECKS`] run. It keeps its turn
    /// to its end, also when its client hangs up and nobody waits for it any more.
    async fn in_turn<T: Send + 'static>(&self, check: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
        let busy = || (StatusCode::SERVICE_UNAVAILABLE, "too many log in at a time; try it again".to_owned());
        let turn = timeout(LONGEST_WAIT, Arc::clone(&self.checks).acquire_owned()).await;
        let turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let checked = tokio::task::spawn_blocking(move || {
            let checked = check();
            drop(turn);
            checked
        });
        checked.await.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "the password cannot be checked".to_owned()))
    }

    fn known_user(&self, digest: &[u8]) -> Option<Arc<User>> {
        let known = self.known();
        let (user, since) = known.get(digest)?;
        (since.elapsed() < KNOWN_FOR).then(|| Arc::clone(user))
    }

    fn know(&self, digest: Vec<u8>, user: &Arc<User>) {
        let mut known = self.known();
        known.retain(|_, (_, since)| since.elapsed() < KNOWN_FOR);
        if known.len() >= MOST_KNOWN {
            let oldest = known.iter().min_by_key(|(_, (_, since))| *since).map(|(digest, _)| digest.clone());
            oldest.map(|digest| known.remove(&digest));
        }
        known.insert(digest, (Arc::clone(user), Instant::now()));
    }

    /// No code panics while it holds this lock.
    fn known(&self) -> MutexGuard<'_, KnownLogins> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name and password. A user of another database than `admin` is named `DATABASE/NAME`.
fn parse(header: &[u8]) -> Option<(UserName, String)> {
    let text = std::str::from_utf8(header).ok().filter(|text| text.len() <= LONGEST_BYTES)?;
    let (scheme, encoded) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    let (database, name) = name.split_once('/').unwrap_or((DEFAULT_DATABASE, name));
    let name = UserName { database: database.to_owned(), name: name.to_owned() };
    name.check().ok()?;
    Some((name, password.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn basic(text: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(text))
    }

    /// A client that hangs up leaves its check running: the next one waits for it all the same.
    #[tokio::test]
    async fn checks_keep_their_turns_when_their_clients_hang_up() {
        let logins = Logins::default();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..MOST_CHECKS {
            let ended = Arc::clone(&ended);
            let check = logins.in_turn(move || ended.lock().unwrap().recv());
            assert!(check.now_or_never().is_none());
        }
        assert_eq!(logins.checks.available_permits(), 0);
        let mut next = Box::pin(logins.in_turn(|| 1));
        assert!(next.as_mut().now_or_never().is_none());
        drop(end);
        assert_eq!(next.await.unwrap(), 1);
    }

    #[test]
    fn names_may_have_a_database() {
        let parsed = |text: &str| parse(basic(text).as_bytes()).map(|(name, password)| (name.to_string(), password));
        assert_eq!(parsed("ann:s:ecret").unwrap(), ("ann@admin".to_owned(), "s:ecret".to_owned()));
        assert_eq!(parsed("shop/ann:").unwrap(), ("ann@shop".to_owned(), String::new()));
        assert_eq!(parsed("admin/a/b:x").unwrap(), ("a/b@admin".to_owned(), "x".to_owned()));
        for bad in ["", "ann", ":x", "a.b/ann:x", "/ann:x"] {
            assert!(parsed(bad).is_none(), "{bad}");
        }
        for bad in ["", "Basic", "Basic !", "Bearer YTpi", &basic(&"x".repeat(LONGEST_BYTES))] {
            assert!(parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
