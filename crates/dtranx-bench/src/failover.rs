//! A group of DTranx whose members are killed, one at a time; measures the pause until the next
//! commit.
//!
//! A marker is counted up before and after each kill: what was acknowledged must be there.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use dtranx::{
    client::{AsyncClient, ClientOptions, Error, greet},
    wire::Welcome,
};
use tokio::time::sleep;

use crate::{
    error::BenchError,
    rival::{Dtranx, until_ready},
    settings::Settings,
    workload::{counter, value},
};

const NAME: &str = "dtranx";
const MARKER: &str = "marker";
const MEMBERS: u16 = 3;
/// Time limit of a pause, and of the start of a member.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a member's answer to a greeting.
const GREETING_LIMIT: Duration = Duration::from_secs(2);
/// Time between two looks at whether a member answers a greeting.
const POLL: Duration = Duration::from_millis(20);
/// Time for which a member that was started again follows before the next one is killed: it reads
/// its log, is called by the others, and gets what it lacks.
const FOLLOWS: Duration = Duration::from_secs(2);

/// The member that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The member that leads the group when it is killed.
    Leader,
    /// A member that follows the leader's log.
    Follower,
}

/// A group, with a client.
pub(crate) struct Failover {
    servers: Dtranx,
    client: AsyncClient,
    /// Value of the marker that was acknowledged last.
    acknowledged: i64,
}

impl Failover {
    /// Starts a group with nothing in it.
    pub(crate) async fn start() -> Result<Self, BenchError> {
        let servers = Dtranx::start(MEMBERS, &Settings { is_group: true, ..Settings::default() })?;
        let connect =
            async || AsyncClient::connect(servers.addresses(), ClientOptions::default()).await.map_err(failed);
        until_ready(NAME, async || connect().await.map(drop)).await?;
        let client = connect().await?;
        let mut started = Self { servers, client, acknowledged: 0 };
        started.mark().await?;
        Ok(started)
    }

    /// Kills a member, and measures from then until a commit is acknowledged that was begun since.
    /// Starts the member again.
    pub(crate) async fn lose(&mut self, lost: Lost) -> Result<Duration, BenchError> {
        self.mark().await?;
        let leader = self.leader().await?;
        let members = self.servers.addresses().len();
        let at = if lost == Lost::Leader { leader } else { (leader + 1) % members };
        self.servers.kill_one(at)?;
        let began = Instant::now();
        self.mark().await?;
        let pause = began.elapsed();
        self.servers.start_one(at)?;
        let address = self.servers.addresses()[at];
        until(async || greeting(address).is_ok()).await?;
        sleep(FOLLOWS).await;
        self.check().await?;
        Ok(pause)
    }

    /// Place of the member that serves clients.
    async fn leader(&self) -> Result<usize, BenchError> {
        let serves = |address: &SocketAddr| matches!(greeting(*address), Ok(Welcome::Client { .. }));
        let mut found = None;
        until(async || {
            found = self.servers.addresses().iter().position(serves);
            found.is_some()
        })
        .await?;
        found.ok_or_else(|| BenchError::store(NAME, "no member leads"))
    }

    /// Counts the marker up, durably. A write whose outcome is unknown is made again.
    async fn mark(&mut self) -> Result<(), BenchError> {
        let (began, next) = (Instant::now(), self.acknowledged + 1);
        loop {
            match self.client.put(MARKER, value(next, 8)).await {
                Ok(_) => break,
                Err(Error::Unknown(_) | Error::Unavailable { .. }) if began.elapsed() < LIMIT => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.acknowledged = next;
        Ok(())
    }

    /// Checks that the marker has the value that was acknowledged last.
    async fn check(&self) -> Result<(), BenchError> {
        let found = self.client.get(MARKER).await.map_err(failed)?;
        if found.as_deref().and_then(counter) == Some(self.acknowledged) {
            return Ok(());
        }
        let what = format!("the marker is {found:?}, and {} was acknowledged", self.acknowledged);
        Err(BenchError::Broken { store: NAME, what })
    }
}

/// Waits until this is so.
async fn until(mut holds: impl AsyncFnMut() -> bool) -> Result<(), BenchError> {
    let began = Instant::now();
    while !holds().await {
        if began.elapsed() >= LIMIT {
            return Err(BenchError::store(NAME, format!("a group has no leader again after {LIMIT:?}")));
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Answer of a member to a client's greeting.
fn greeting(address: SocketAddr) -> Result<Welcome, String> {
    greet(address, None, GREETING_LIMIT)
}

fn failed(error: Error) -> BenchError {
    BenchError::store(NAME, error)
}
