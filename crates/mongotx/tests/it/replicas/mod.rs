//! Three nodes that keep the data: primaries that step down with what only they have, members that
//! are killed and paused.
//!
//! | file | |
//! | --- | --- |
//! | [`lost`] | a decision, a prepared write, a plain write that only the old primary has; A, then B, then A again |
//! | [`stopped`] | a primary that stands still while another one is elected, and goes on afterwards |
//! | [`away`] | one of three members is down |
//! | [`finished`] | documents that only the old primary has finished |
//! | [`unique`] | inserts under unique indexes, which no process keeps apart alone |
//! | [`bank`] | transfers under all of it, and the properties afterwards |
//!
//! One set for all of them, which they use one after the other.

mod away;
mod bank;
mod finished;
mod lost;
mod stopped;
mod unique;

use std::{ops::Deref, time::Duration};

use bson::{Document, doc};
use local_mongod::{ReplicaSet, Server};
use mongodb::options::WriteConcern;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::common::{until, world::World};

/// Longest time that the members may need to follow one primary again.
const LONGEST_CATCH_UP: Duration = Duration::from_secs(180);

static SET: OnceCell<ReplicaSet> = OnceCell::const_new();
static TURN: Mutex<()> = Mutex::const_new(());

/// The set, as long as this test uses it.
pub(crate) struct Turn(&'static ReplicaSet, #[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Deref for Turn {
    type Target = ReplicaSet;

    fn deref(&self) -> &ReplicaSet {
        self.0
    }
}

/// The set, complete, when the tests before are done with it.
pub(crate) async fn set() -> Turn {
    let turn = TURN.lock().await;
    let start = || async { ReplicaSet::start_with(3, &ReplicaSet::breakable()).await };
    let set = Turn(SET.get_or_try_init(start).await.unwrap(), turn);
    set.heal().await;
    // A member that was taken back by the test before may need a minute to find the primary that it
    // follows.
    tokio::time::timeout(LONGEST_CATCH_UP, set.until_all_have_a_mark("between_tests")).await.expect("all follow");
    set
}

impl Turn {
    /// Undoes whatever a test did to the members.
    pub(crate) async fn heal(&self) {
        for member in self.members() {
            if member.pid().is_none() {
                member.restart().await.unwrap();
            }
            member.resume().unwrap();
        }
        self.go_on_replicating().await.unwrap();
        self.wait().await.unwrap();
    }

    /// Waits until every member has all that the primary has, and what else one had is taken back.
    pub(crate) async fn until_all_follow(&self, world: &World) {
        self.until_all_have_a_mark(&world.db).await;
    }

    async fn until_all_have_a_mark(&self, db: &str) {
        let client = mongodb::Client::with_uri_str(&self.uri()).await.unwrap();
        let marks = client.database(db).collection("marks");
        let everybody = WriteConcern::nodes(self.members().len() as u32);
        until("everybody to follow", async || marks.insert_one(doc! {}).write_concern(everybody.clone()).await.ok())
            .await;
    }

    /// A member that is not the primary, and the primary.
    pub(crate) async fn roles(&self) -> (&Server, &Server) {
        let primary = self.primary().await.unwrap();
        let other = self.members().iter().find(|member| member.port() != primary.port()).unwrap();
        (primary, other)
    }
}

/// The data of one member, whatever the others know.
pub(crate) async fn alone(member: &Server) -> mongodb::Client {
    let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", member.port());
    mongodb::Client::with_uri_str(uri).await.unwrap()
}

/// Waits until one member has such a document.
pub(crate) async fn until_has(member: &Server, db: &str, coll: &str, filter: Document) {
    let there = alone(member).await.database(db).collection::<Document>(coll);
    until("a document on one member", async || there.find_one(filter.clone()).await.ok().flatten()).await;
}

/// Waits until a member has heard that it is not the primary any more.
pub(crate) async fn until_steps_down(member: &Server) {
    let admin = alone(member).await.database("admin");
    until("a primary to step down", async || {
        let hello = admin.run_command(doc! {"hello": 1}).await.ok()?;
        (!hello.get_bool("isWritablePrimary").ok()?).then_some(())
    })
    .await;
}
