//! Waits until a started mongod can be used.
//!
//! 1. It answers on its port, and the process id it answers with is the one that was started: when
//!    two processes pick the same port at the same moment, another mongod may answer.
//! 2. A replica set is initiated, unless its data says that it was.
//! 3. A replica set's only node is primary.
//!
//! At each step mongod may end instead, and then its own words are the error.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use child_processes::Process;
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;

use crate::error::Error;
use crate::logs::last_words;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(50);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const ALREADY_INITIALIZED: i32 = 23;

/// A mongod that was started: what is expected of it, and where it writes.
pub(crate) struct Started {
    /// The port that it is to listen on.
    pub(crate) port: u16,
    /// Name of the replica set that it is to be by itself.
    pub(crate) replica_set: Option<&'static str>,
    /// Path of its output before it has read its options.
    pub(crate) console: PathBuf,
    /// Path of the server's log.
    pub(crate) log: PathBuf,
}

/// Waits until mongod can be used, or says why it cannot.
pub(crate) async fn wait_until_ready(process: &mut Process, started: &Started) -> Result<(), Error> {
    let mut wait = Wait { process, started, deadline: Instant::now() + LIMIT };
    wait.until_it_listens().await?;
    let client = connect(started.port).await?;
    let outcome = wait.until_it_serves(&client).await;
    client.shutdown().immediate(true).await;
    outcome
}

struct Wait<'a> {
    process: &'a mut Process,
    started: &'a Started,
    deadline: Instant,
}

impl Wait<'_> {
    async fn until_it_listens(&mut self) -> Result<(), Error> {
        while !is_listening(self.started.port) {
            self.once_more("no server listens on the port").await?;
        }
        Ok(())
    }

    async fn until_it_serves(&mut self, client: &Client) -> Result<(), Error> {
        self.until_it_answers(client).await?;
        if let Some(name) = self.started.replica_set {
            self.until_initiated(client, name).await?;
            self.until_primary(client).await?;
        }
        Ok(())
    }

    // Step 1.
    async fn until_it_answers(&mut self, client: &Client) -> Result<(), Error> {
        let pid = i64::from(self.process.pid());
        loop {
            let last = match ask(client, doc! { "serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0 }).await {
                Ok(status) if number(&status, "pid") == Some(pid) => return Ok(()),
                Ok(status) => format!("another mongod has the port: {:?}", status.get("pid")),
                Err(why) => why.to_string(),
            };
            self.once_more(&last).await?;
        }
    }

    // Step 2.
    async fn until_initiated(&mut self, client: &Client, name: &str) -> Result<(), Error> {
        let host = format!("127.0.0.1:{}", self.started.port);
        let config = doc! { "_id": name, "members": [{ "_id": 0, "host": host }] };
        loop {
            let last = match ask(client, doc! { "replSetInitiate": config.clone() }).await {
                Ok(_) => return Ok(()),
                Err(Unanswered::Refused { code: ALREADY_INITIALIZED, .. }) => return Ok(()),
                Err(why) => why.to_string(),
            };
            self.once_more(&last).await?;
        }
    }

    // Step 3.
    async fn until_primary(&mut self, client: &Client) -> Result<(), Error> {
        loop {
            let last = match ask(client, doc! { "hello": 1 }).await {
                Ok(hello) if matches!(hello.get_bool("isWritablePrimary"), Ok(true)) => return Ok(()),
                Ok(_) => "not primary yet".to_owned(),
                Err(why) => why.to_string(),
            };
            self.once_more(&last).await?;
        }
    }

    /// Pauses before another attempt, unless mongod has ended or the time is over.
    async fn once_more(&mut self, last: &str) -> Result<(), Error> {
        if let Some(status) = self.process.exit_status()? {
            return Err(Error::Died { status, log: self.last_words() });
        }
        if Instant::now() >= self.deadline {
            return Err(Error::NotReady { limit: LIMIT, last: last.to_owned(), log: self.last_words() });
        }
        tokio::time::sleep(POLL).await;
        Ok(())
    }

    fn last_words(&self) -> String {
        last_words(&self.started.console, &self.started.log)
    }
}

/// A refusal takes no time on the local machine, so that this does not hold up the runtime.
fn is_listening(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), POLL).is_ok()
}

/// A client of one node, whatever it is in its set.
pub(crate) async fn connect(port: u16) -> Result<Client, Error> {
    let limits = "serverSelectionTimeoutMS=5000&connectTimeoutMS=5000";
    Ok(Client::with_uri_str(format!("mongodb://127.0.0.1:{port}/?directConnection=true&{limits}")).await?)
}

/// Reason why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("refused with code {code}: {message}")]
    Refused { code: i32, message: String },
    #[error("no answer within {ANSWER_LIMIT:?}")]
    Late,
    #[error("{0}")]
    Failed(mongodb::error::Error),
}

/// A command's answer within a time limit.
pub(crate) async fn ask(client: &Client, command: Document) -> Result<Document, Unanswered> {
    let admin = client.database("admin");
    let answer = tokio::time::timeout(ANSWER_LIMIT, admin.run_command(command)).await.map_err(|_| Unanswered::Late)?;
    answer.map_err(|error| match &*error.kind {
        ErrorKind::Command(refusal) => Unanswered::Refused { code: refusal.code, message: refusal.message.clone() },
        _ => Unanswered::Failed(error),
    })
}

/// A whole number, whichever of the three types a server chose for it.
fn number(document: &Document, key: &str) -> Option<i64> {
    let field = document.get(key)?;
    #[expect(clippy::cast_possible_truncation, reason = "process ids are far below the limit of exact doubles")]
    let from_double = field.as_f64().map(|double| double as i64);
    field.as_i64().or_else(|| field.as_i32().map(i64::from)).or(from_double)
}
