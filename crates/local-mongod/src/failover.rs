//! Control of a replica set's members in tests: which one is primary, and how far the others follow
//! it.
//!
//! A primary that is cut off is made in three steps, each of which ends before the next one begins:
//! the secondaries take nothing over any more ([`ReplicaSet::stop_replication`]), the test writes,
//! another member becomes primary ([`ReplicaSet::fail_over_to`]). Once replication goes on, the old
//! primary drops what it alone had.

use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Document, Timestamp, doc};

use crate::error::Error;
use crate::options::ServerOptions;
use crate::ready::{self, ask};
use crate::replica_set::{ReplicaSet, host, not_ready};
use crate::server::Server;

/// For how many seconds a member that stepped down does not become primary by itself.
const FROZEN_SECONDS: i32 = 600;
/// A member may need a minute until it looks for another source.
const CATCH_UP: Duration = Duration::from_secs(180);
/// For how long a member waits for one that it replicates from and that does not answer. It would
/// be a minute for the first answer, longer than the tests wait.
const PATIENCE: [&str; 3] =
    ["oplogInitialFindMaxSeconds=2", "oplogRetriedFindMaxSeconds=2", "oplogNetworkTimeoutBufferSeconds=1"];
/// Lets fail points be set.
const TEST_COMMANDS: &str = "enableTestCommands=1";
/// Holds a member before it takes over what the primary has written.
const FAIL_POINT: &str = "stopReplProducer";

impl ReplicaSet {
    /// Options of a set whose replication can be stopped, and whose members soon look for another
    /// source where one stands still.
    pub fn breakable() -> ServerOptions {
        let parameters = [TEST_COMMANDS].into_iter().chain(PATIENCE);
        let set = ServerOptions::replica_set().in_memory();
        parameters.fold(set, |options, parameter| options.arg("--setParameter").arg(parameter))
    }

    /// Returns true if its replication can be stopped.
    pub(crate) fn is_breakable(&self) -> bool {
        self.members().iter().any(|member| member.options().args.iter().any(|arg| arg == TEST_COMMANDS))
    }

    /// Waits until the set has a primary, and returns it.
    ///
    /// # Errors
    /// [`Error::NotReady`] when there is none within a minute.
    pub async fn primary(&self) -> Result<&Server, Error> {
        let deadline = Instant::now() + ready::LIMIT;
        loop {
            for member in self.members().iter().filter(|member| member.pid().is_some()) {
                let hello = answer_of(member, doc! {"hello": 1}).await;
                if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                    return Ok(member);
                }
            }
            if Instant::now() >= deadline {
                return Err(not_ready("no member is primary".to_owned()));
            }
            tokio::time::sleep(ready::POLL).await;
        }
    }

    /// From now on no secondary takes anything over from the primary; `next`, which may have to
    /// become it, knows as much as the others, or more. Of a [`ReplicaSet::breakable`] set.
    ///
    /// # Errors
    /// [`Error::NotReady`] with the server's words.
    pub async fn stop_replication(&self, next: &Server) -> Result<(), Error> {
        let primary = self.primary().await?.port();
        let others = self.members().iter().filter(|member| member.port() != next.port());
        let others = others.filter(|member| member.pid().is_some() && member.port() != primary);
        let others: Vec<&Server> = others.collect();
        for member in &others {
            answer_in_the_end(member, doc! {"configureFailPoint": FAIL_POINT, "mode": "alwaysOn"}).await?;
        }
        for member in others {
            until_as_far_as(next, member).await?;
        }
        answer_in_the_end(next, doc! {"configureFailPoint": FAIL_POINT, "mode": "alwaysOn"}).await.map(drop)
    }

    /// Lets all members replicate what they have missed.
    ///
    /// # Errors
    /// As [`ReplicaSet::stop_replication`].
    pub async fn go_on_replicating(&self) -> Result<(), Error> {
        for member in self.members().iter().filter(|member| member.pid().is_some()) {
            answer_in_the_end(member, doc! {"configureFailPoint": FAIL_POINT, "mode": "off"}).await?;
        }
        Ok(())
    }

    /// Waits until every running member has all that the primary has now, and has taken back what
    /// it alone had. (A member that follows a primary of a later term has done that before.)
    ///
    /// # Errors
    /// [`Error::NotReady`] when that takes more than three minutes.
    pub async fn until_all_follow(&self) -> Result<(), Error> {
        let deadline = Instant::now() + CATCH_UP;
        let ahead = applied(self.primary().await?).await?;
        for member in self.members().iter().filter(|member| member.pid().is_some()) {
            while applied(member).await? < ahead {
                if Instant::now() >= deadline {
                    return Err(not_ready(format!("{} does not follow the primary", host(member))));
                }
                tokio::time::sleep(ready::POLL).await;
            }
        }
        Ok(())
    }

    /// The primary steps down at once, whatever the others have, and `next` becomes primary. It has
    /// to know as much as the other members but the old primary.
    ///
    /// # Errors
    /// [`Error::NotReady`] when that takes more than a minute.
    pub async fn fail_over_to(&self, next: &Server) -> Result<(), Error> {
        let old = self.primary().await?;
        if old.port() != next.port() {
            let down = doc! {"replSetStepDown": FROZEN_SECONDS, "secondaryCatchUpPeriodSecs": 0, "force": true};
            answer_of(old, down).await?;
        }
        self.elect(&[next]).await
    }

    /// The primary steps down at once, and any other member becomes primary that can.
    ///
    /// # Errors
    /// As [`ReplicaSet::fail_over_to`].
    pub async fn fail_over(&self) -> Result<(), Error> {
        let old = self.primary().await?;
        let down = doc! {"replSetStepDown": FROZEN_SECONDS, "secondaryCatchUpPeriodSecs": 0, "force": true};
        answer_of(old, down).await?;
        let others: Vec<&Server> = self.members().iter().filter(|member| member.port() != old.port()).collect();
        self.elect(&others).await
    }

    /// Makes one of these the primary, also if it stepped down before, and also if there is no
    /// primary.
    ///
    /// # Errors
    /// As [`ReplicaSet::fail_over_to`].
    pub async fn elect(&self, candidates: &[&Server]) -> Result<(), Error> {
        let deadline = Instant::now() + ready::LIMIT;
        for next in candidates.iter().copied().cycle() {
            // Refused by members that are no secondaries at the moment.
            let _ = answer_of(next, doc! {"replSetFreeze": 0}).await;
            let asked = answer_of(next, doc! {"replSetStepUp": 1}).await;
            if asked.is_ok() {
                // Elected. It would first take over what the old primary has, and serve after that.
                let _ = answer_of(next, doc! {"replSetAbortPrimaryCatchUp": 1}).await;
                let _ = answer_of(next, doc! {"configureFailPoint": FAIL_POINT, "mode": "off"}).await;
            }
            let hello = answer_of(next, doc! {"hello": 1}).await;
            if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(not_ready(format!("{} does not become primary: {asked:?}", host(next))));
            }
            tokio::time::sleep(ready::POLL).await;
        }
        Err(not_ready("no member was to become primary".to_owned()))
    }
}

/// One member's answer, whatever it is in its set.
async fn answer_of(member: &Server, command: Document) -> Result<Document, Error> {
    let client: Client = ready::connect(member.port()).await?;
    let answer = ask(&client, command.clone()).await;
    client.shutdown().immediate(true).await;
    answer.map_err(|why| not_ready(format!("{}: {command}: {why}", host(member))))
}

/// Sends a command as [`answer_of`] does, and repeats it for at most a minute: a member that takes
/// back what it alone had breaks its connections.
async fn answer_in_the_end(member: &Server, command: Document) -> Result<Document, Error> {
    let deadline = Instant::now() + ready::LIMIT;
    loop {
        match answer_of(member, command.clone()).await {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(ready::POLL).await,
            answer => return answer,
        }
    }
}

/// Waits until `next` has applied all that `other` has, which takes nothing over any more but may
/// still apply what it has fetched before. (A member does not vote for one that knows less than
/// itself.)
async fn until_as_far_as(next: &Server, other: &Server) -> Result<(), Error> {
    let deadline = Instant::now() + ready::LIMIT;
    let mut last = None;
    loop {
        let (ahead, follows) = (applied(other).await?, applied(next).await?);
        if last == Some(ahead) && follows >= ahead {
            return Ok(());
        }
        last = Some(ahead);
        if Instant::now() >= deadline {
            return Err(not_ready(format!("{} knows less than {}", host(next), host(other))));
        }
        tokio::time::sleep(ready::POLL).await;
    }
}

/// The last write that the member has applied: the term of the primary that made it, and its time.
async fn applied(member: &Server) -> Result<(i64, Timestamp), Error> {
    let status = answer_in_the_end(member, doc! {"replSetGetStatus": 1}).await?;
    let applied = status.get_document("optimes").and_then(|times| times.get_document("appliedOpTime"));
    let last = applied.and_then(|applied| Ok((applied.get_i64("t")?, applied.get_timestamp("ts")?)));
    last.map_err(|_| not_ready(format!("{} does not say what it has applied", host(member))))
}
