//! A replica set of several nodes on this machine.
//!
//! 1. All nodes are started; each answers.
//! 2. The first one initiates the set.
//! 3. One is primary, and all others have its data.
//!
//! Interrupted anywhere, all nodes end: each goes with its handle.

use std::time::Instant;

use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};

use crate::error::Error;
use crate::options::ServerOptions;
use crate::ready::{self, ask};
use crate::server::{REPLICA_SET, Server};

/// Replica sets have at most seven nodes that vote.
const MOST: u8 = 7;

/// A replica set of several nodes that this process started. Dropping it kills them and removes
/// their folders.
#[derive(Debug)]
pub struct ReplicaSet {
    members: Vec<Server>,
}

impl ReplicaSet {
    /// Starts a replica set of `nodes` nodes, at least one and at most seven, and waits until one
    /// is primary and the others have its data.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub async fn start(nodes: u8) -> Result<Self, Error> {
        Self::start_with(nodes, &ServerOptions::replica_set()).await
    }

    /// The same with options, which are the same for all nodes; a port and a folder of the data are
    /// not taken from them.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub async fn start_with(nodes: u8, options: &ServerOptions) -> Result<Self, Error> {
        let options = ServerOptions { replica_set: true, member: true, port: None, dbpath: None, ..options.clone() };
        let mut members = Vec::new();
        // One after the other: several that start at once take each other's time.
        for _ in 0..nodes.clamp(1, MOST) {
            members.push(options.clone().start().await?);
        }
        let set = Self { members };
        let client = ready::connect(set.members[0].port()).await?;
        let ready = set.initiate(&client).await;
        client.shutdown().immediate(true).await;
        ready.map(|()| set)
    }

    // Steps 2 and 3.
    async fn initiate(&self, client: &Client) -> Result<(), Error> {
        let members = self.members.iter().zip(0..);
        let members = members.map(|(member, id)| Bson::from(doc! {"_id": id, "host": host(member)}));
        // All members replicate from the primary, and learn soon which one that is and how far the
        // others are. With the defaults, every write to the majority takes two seconds while a
        // member stands still, and that is found after ten.
        let mut settings = doc! {"chainingAllowed": false, "heartbeatTimeoutSecs": 2, "heartbeatIntervalMillis": 250};
        if self.is_breakable() {
            // A new primary whose replication is stopped would wait for ever for what the old one
            // has besides, if it learns of that in time.
            settings.insert("catchUpTimeoutMillis", 0);
        }
        let config = doc! {"_id": REPLICA_SET, "members": members.collect::<Vec<Bson>>(), "settings": settings};
        let answer = ask(client, doc! {"replSetInitiate": config}).await;
        answer.map_err(|why| not_ready(format!("replSetInitiate: {why}")))?;
        self.wait_until_complete(client).await
    }

    /// Waits until one node is primary and all others are secondaries, also after a restart.
    ///
    /// # Errors
    /// [`Error::NotReady`], [`Error::Driver`].
    pub async fn wait(&self) -> Result<(), Error> {
        let running = self.members.iter().find(|member| member.pid().is_some()).ok_or(Error::NotRunning)?;
        let client = ready::connect(running.port()).await?;
        let complete = self.wait_until_complete(&client).await;
        client.shutdown().immediate(true).await;
        complete
    }

    async fn wait_until_complete(&self, client: &Client) -> Result<(), Error> {
        let deadline = Instant::now() + ready::LIMIT;
        loop {
            let last = match ask(client, doc! {"replSetGetStatus": 1}).await {
                Ok(status) => match states(&status) {
                    states if self.is_complete(&states) => return Ok(()),
                    states => states.join(", "),
                },
                Err(why) => why.to_string(),
            };
            if Instant::now() >= deadline {
                return Err(not_ready(last));
            }
            tokio::time::sleep(ready::POLL).await;
        }
    }

    fn is_complete(&self, states: &[String]) -> bool {
        let count = |wanted: &str| states.iter().filter(|state| *state == wanted).count();
        count("PRIMARY") == 1 && count("SECONDARY") == self.members.len() - 1
    }

    /// The connection string, with all nodes.
    pub fn uri(&self) -> String {
        let hosts: Vec<String> = self.members.iter().map(host).collect();
        format!("mongodb://{}/?replicaSet={REPLICA_SET}", hosts.join(","))
    }

    /// A new client, with the driver's defaults.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub async fn client(&self) -> Result<Client, Error> {
        Ok(Client::with_uri_str(self.uri()).await?)
    }

    /// The nodes, each to be killed, paused, restarted by itself.
    pub fn members(&self) -> &[Server] {
        &self.members
    }

    /// Process ids of the nodes that run.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(Server::pid).collect()
    }

    /// A node that is not primary at the moment.
    ///
    /// # Errors
    /// [`Error::NotRunning`] where there is none; [`Error::Driver`].
    pub async fn secondary(&self) -> Result<&Server, Error> {
        let client = self.client().await?;
        let hello = client.database("admin").run_command(doc! {"hello": 1}).await;
        client.shutdown().immediate(true).await;
        let hello = hello?;
        let primary = hello.get_str("primary").unwrap_or_default();
        let other = self.members.iter().find(|member| member.pid().is_some() && host(member) != primary);
        other.ok_or(Error::NotRunning)
    }
}

pub(crate) fn host(member: &Server) -> String {
    format!("127.0.0.1:{}", member.port())
}

pub(crate) fn not_ready(last: String) -> Error {
    Error::NotReady { limit: ready::LIMIT, last, log: String::new() }
}

/// The states of the nodes, as the server names them.
fn states(status: &Document) -> Vec<String> {
    let members = status.get_array("members").into_iter().flatten().filter_map(Bson::as_document);
    members.filter_map(|member| member.get_str("stateStr").ok().map(str::to_owned)).collect()
}
