//! Several clients at once, in an order that no test decides: what a serial interleaving of whole
//! operations cannot show are races between two commands of one operation. The judges look at what
//! happened, whatever it was.
//!
//! | file | what |
//! | --- | --- |
//! | `lists` | transactions that append to lists and read them, judged by `adya` and by counting |
//! | `rules` | read-modify-write, counters, upserts, writes that depend on a count: rules that must hold |
//! | `ranges` | documents that come and go under queries of a range: sums and counts of one moment |
//! | `processes` | the same lists by clients that are processes of their own, killed and paused at random |
//! | `single` | single statements outside transactions, the same load on MongoTx and on the server alone |
//!
//! With a document taken for removed because no rival holds it *any more* (decision 0017), the
//! lists at repeatable read and at both levels were red within their two seconds. With records that
//! take a decision although they are fenced, the lists of processes were.
//!
//! `MONGOTX_HISTORIES_SECONDS=600 cargo test -p mongotx --test it -- histories` goes on for ten
//! minutes a test; 2 seconds are the rule.

mod lists;
mod processes;
mod ranges;
mod rules;
mod single;

use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection};

use crate::{quiet, random::Random};

/// Transactions that are to be acknowledged before a run ends, on a slow machine too, and the
/// longest that is waited for them.
const ENOUGH: usize = 40;
const LIMIT: Duration = Duration::from_secs(90);

/// Duration of a run.
fn seconds() -> Duration {
    let asked = std::env::var("MONGOTX_HISTORIES_SECONDS").ok();
    Duration::from_secs(asked.map_or(2, |seconds| seconds.parse().expect("MONGOTX_HISTORIES_SECONDS is no number")))
}

/// The time at which a test stops.
#[derive(Clone, Copy)]
struct End {
    asked: Instant,
    limit: Instant,
}

impl End {
    fn of_run() -> Self {
        let asked = Instant::now() + seconds();
        Self { asked, limit: asked + LIMIT }
    }

    /// Returns true if the run is over, with this number of transactions acknowledged.
    fn is_reached(self, committed: usize) -> bool {
        let now = Instant::now();
        now >= self.limit || now >= self.asked && committed >= ENOUGH
    }
}

/// Pauses after this number of refusals in a row. Transactions that have all read what all of them
/// want to write are in each other's way until one of them is alone.
async fn step_aside(refusals: u32, random: &mut Random) {
    let most = 10 << refusals.min(6);
    tokio::time::sleep(Duration::from_millis(random.below(most) as u64)).await;
}

/// One client, and the collection that all of them work on.
struct Member {
    client: Client,
    coll: Collection<Document>,
}

/// Returns `count` clients and one empty collection.
async fn crew(count: usize) -> Vec<Member> {
    let patient = || ClientOptions { write_wait: Duration::from_secs(300), ..quiet::options() };
    let mut crew: Vec<Member> = Vec::new();
    for _ in 0..count {
        let client = quiet::connect(patient()).await;
        let coll = match crew.first() {
            None => quiet::collection(&client, 0).await,
            Some(first) => quiet::through(&client, &first.coll),
        };
        crew.push(Member { client, coll });
    }
    crew
}

/// Checks that every document is clean, with nothing in flight.
async fn assert_clean(crew: &[Member]) {
    for Member { client, .. } in crew {
        assert!(client.flush(Duration::from_secs(120)).await);
    }
    let (client, ns) = (&crew[0].client, crew[0].coll.namespace());
    assert_eq!(client.locked_documents(ns, 10).await.unwrap().len(), 0);
    let server = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let marked = ["_xTxId", "_sTxIds", "_unsafe"].map(|field| doc! {field: {"$exists": true}});
    let stored = server.database(&ns.db).collection::<Document>(&ns.coll);
    assert_eq!(stored.count_documents(doc! {"$or": marked.to_vec()}).await.unwrap(), 0);
}
