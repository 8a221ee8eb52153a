//! Activity: what connections and transactions are doing, for `currentOp`, the log and the page.
//!
//! | file | |
//! | --- | --- |
//! | this one | a connection: its client, and the command that runs on it |
//! | [`connections`] | all connections |
//! | [`shape`] | a command without its values (pure) |
//! | [`transactions`] | open transactions, by their sessions and by their ids |
//!
//! A running command leaves only a reference to itself; everything shown of it is computed when it
//! is looked at.

pub(crate) mod connections;
pub(crate) mod shape;
pub(crate) mod transactions;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Instant,
};

use bson::Document;
use mongotx::Watch;

use crate::{access::UserName, request::Request};

/// Numbers of the commands of one connection, before they begin again. (The number of a command is
/// still one that JavaScript can hold.)
const COMMANDS: i64 = 1 << 20;

/// A client, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientIdentity {
    /// Number of the connection, unique in this gateway.
    pub(crate) connection: i64,
    /// Network address of the client.
    pub(crate) host: String,
    /// Name of the application (`appName`), if the client has said one.
    pub(crate) application: Option<String>,
    /// Driver of the client, with its version.
    pub(crate) driver: Option<String>,
    /// The user that the client has logged in as.
    pub(crate) user: Option<UserName>,
}

/// Prints the client, as in `ann@admin, application "shop", 10.0.0.7:51234`.
impl fmt::Display for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}, ")?;
        }
        if let Some(application) = &self.application {
            write!(f, "application {application:?}, ")?;
        }
        f.write_str(&self.host)
    }
}

impl ClientIdentity {
    /// Takes the client's description of itself from its first message.
    pub(crate) fn says(&mut self, metadata: &Document) {
        let text = |of: &str, field: &str| {
            let part = metadata.get_document(of).ok()?;
            Some(part.get_str(field).ok()?.to_owned())
        };
        self.application = text("application", "name").filter(|name| !name.is_empty());
        self.driver = text("driver", "name").map(|name| match text("driver", "version") {
            Some(version) => format!("{name} {version}"),
            None => name,
        });
    }
}

/// Activity of one connection: its client, and the command that runs.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    pub(crate) connection: i64,
    pub(crate) since: Instant,
    who: Mutex<Arc<ClientIdentity>>,
    running: Mutex<Option<RunningCommand>>,
    begun: AtomicU32,
    /// Shows for which transaction the running command waits.
    pub(crate) watch: Watch,
}

/// A command that is running.
#[derive(Clone, Debug)]
pub(crate) struct RunningCommand {
    pub(crate) request: Arc<Request>,
    pub(crate) since: Instant,
    /// Number of the command among those of its connection.
    number: u32,
}

/// A command is shown as running as long as this lives.
pub(crate) struct ShownCommand<'a>(&'a ConnectionActivity);

impl Drop for ShownCommand<'_> {
    fn drop(&mut self) {
        *locked(&self.0.running) = None;
    }
}

impl ConnectionActivity {
    pub(crate) fn new(connection: i64, host: String) -> Self {
        let who = ClientIdentity { connection, host, ..ClientIdentity::default() };
        Self {
            connection,
            since: Instant::now(),
            who: Mutex::new(Arc::new(who)),
            running: Mutex::default(),
            begun: AtomicU32::new(0),
            watch: Watch::default(),
        }
    }

    /// The client and its user.
    pub(crate) fn who(&self) -> Arc<ClientIdentity> {
        Arc::clone(&locked(&self.who))
    }

    /// Changes the description of the client, of which more or something else is known.
    pub(crate) fn change_who(&self, change: impl FnOnce(&mut ClientIdentity)) {
        change(Arc::make_mut(&mut locked(&self.who)));
    }

    /// Shows a command as running until the returned value is dropped.
    pub(crate) fn runs(&self, request: &Arc<Request>, since: Instant) -> ShownCommand<'_> {
        let number = self.begun.fetch_add(1, Relaxed);
        *locked(&self.running) = Some(RunningCommand { request: Arc::clone(request), since, number });
        ShownCommand(self)
    }

    /// Returns true if a command runs now.
    pub(crate) fn is_running(&self) -> bool {
        locked(&self.running).is_some()
    }

    /// The command that runs now.
    pub(crate) fn running(&self) -> Option<RunningCommand> {
        locked(&self.running).clone()
    }
}

impl RunningCommand {
    /// The number of the command at this gateway (`opid`). It is used again after a million
    /// commands of the same connection.
    pub(crate) fn opid(&self, connection: i64) -> i64 {
        connection.saturating_mul(COMMANDS).saturating_add(i64::from(self.number) % COMMANDS)
    }
}

/// The number of the connection on which a command of this number runs, or ran.
pub(crate) fn connection_of(opid: i64) -> i64 {
    opid.div_euclid(COMMANDS)
}

/// No code panics while it holds one of these locks.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_command_is_shown_as_long_as_it_runs() {
        let doing = ConnectionActivity::new(7, "here".to_owned());
        let request = Arc::new(Request::of(&doc! {"ping": 1, "$db": "d"}).unwrap());
        let shown = doing.runs(&request, Instant::now());
        let opid = doing.running().unwrap().opid(7);
        assert_eq!((doing.running().unwrap().request.name().to_owned(), connection_of(opid)), ("ping".to_owned(), 7));
        drop(shown);
        assert!(doing.running().is_none());
        let _next = doing.runs(&request, Instant::now());
        assert_ne!(doing.running().unwrap().opid(7), opid);
    }

    #[test]
    fn a_client_is_named_by_what_is_known_of_it() {
        let mut who = ClientIdentity { host: "10.0.0.7:5".to_owned(), ..ClientIdentity::default() };
        assert_eq!(who.to_string(), "10.0.0.7:5");
        who.says(&doc! {"application": {"name": "sh\"op"}, "driver": {"name": "d", "version": "1.2"}});
        who.user = Some(UserName { database: "admin".to_owned(), name: "ann".to_owned() });
        assert_eq!(who.to_string(), "ann@admin, application \"sh\\\"op\", 10.0.0.7:5");
        assert_eq!(who.driver.as_deref(), Some("d 1.2"));
    }
}
