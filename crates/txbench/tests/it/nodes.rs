//! Nodes that a commit waits for, on a replica set of three: when all are there, while one is down,
//! and when it is back.

use std::time::{Duration, Instant};

use bson::doc;
use futures_util::future::join_all;
use txbench::{
    BenchError,
    error::{OpError, OpResult},
    server::Bench,
    targets::{
        Acknowledged, Connection, Deployment, Durability, Find, Session, Target, TxOptions, Update,
        registry::{Entry, TARGETS, TargetName},
    },
};

const DOCS: &str = "docs";
/// No commit may take longer than this where one node is missing.
const LIMIT: Duration = Duration::from_secs(20);

/// All on MongoDB but the published layout, whose decisions are on one node, and the gateway, whose
/// decisions are on most of them.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let is_meant = |entry: &&Entry| !["mongotx-published", "gateway"].contains(&entry.traits.name);
    TARGETS.iter().copied().filter(is_meant).filter(|entry| !entry.traits.on_dtranx)
}

/// The gateway waits for the majority, and refuses other numbers of nodes.
async fn check_gateway(bench: &Bench) {
    let gateway = "gateway".parse::<TargetName>().unwrap().entry();
    let target = connect(gateway, bench, &db(gateway), "").await.unwrap();
    target.create(DOCS, &[]).await.unwrap();
    target.load(DOCS, vec![doc! {"_id": 0, "n": 0}, doc! {"_id": 1, "n": 0}]).await.unwrap();
    let mut session = target.session().await.unwrap();
    increment(&mut *session, Acknowledged::Majority).await.unwrap();
    let Err(OpError::Fatal(error)) = increment(&mut *session, Acknowledged::Nodes(3)).await else {
        panic!("it cannot wait for three nodes");
    };
    let said = error.to_string();
    assert!(said.contains("gateway") && said.contains("--write-concern majority"), "{said}");
    target.settle().await.unwrap();
    assert_eq!(values(&*target).await, [1, 1]);
    target.close().await.unwrap();
}

/// Connects the target to a database of this name, with these further options.
async fn connect(entry: &Entry, bench: &Bench, db: &str, options: &str) -> Result<Box<dyn Target>, BenchError> {
    (entry.connect)(Connection::new(format!("{}{options}", bench.uri), db, 4)).await
}

/// Adds one to both documents.
async fn increment(session: &mut dyn Session, nodes: Acknowledged) -> OpResult<()> {
    let durability = Some(Durability { nodes, journaled: true });
    session.begin(&TxOptions { durability, ..TxOptions::default() }).await?;
    for id in 0..2 {
        let update = Update { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": 1}} };
        session.update(DOCS, update).await?;
    }
    session.commit().await
}

async fn values(target: &dyn Target) -> Vec<i32> {
    let found = target.session().await.unwrap().find(DOCS, Find::new(doc! {})).await.unwrap();
    found.iter().map(|found| found.get_i32("n").unwrap()).collect()
}

fn db(entry: &Entry) -> String {
    format!("nodes_{}", entry.traits.name)
}

/// Begins on all nodes.
async fn begin_on(entry: &Entry, bench: &Bench) {
    let target = connect(entry, bench, &db(entry), "").await.unwrap();
    target.create(DOCS, &[]).await.unwrap();
    target.load(DOCS, vec![doc! {"_id": 0, "n": 0}, doc! {"_id": 1, "n": 0}]).await.unwrap();
    let mut session = target.session().await.unwrap();
    for nodes in [Acknowledged::Nodes(2), Acknowledged::Nodes(3), Acknowledged::Majority] {
        increment(&mut *session, nodes).await.unwrap();
    }
    target.settle().await.unwrap();
    assert_eq!(values(&*target).await, [3, 3], "{}", entry.traits.name);
    target.close().await.unwrap();
}

/// Goes on while a node is down. Returns the values that are there afterwards.
async fn go_on_without_a_node(entry: &Entry, bench: &Bench) -> Vec<i32> {
    let name = entry.traits.name;
    let target = connect(entry, bench, &db(entry), "&wTimeoutMS=3000").await.unwrap();
    let mut session = target.session().await.unwrap();
    let start = Instant::now();
    let answer = increment(&mut *session, Acknowledged::Nodes(3)).await;
    let Err(OpError::Unknown(error)) = answer else { panic!("{name}: {answer:?}") };
    let said = error.to_string().replace(['"', ' '], "");
    assert!(said.contains("w:3,j:true"), "{name}: {error}");
    assert!(start.elapsed() < LIMIT, "{name}: {:?}", start.elapsed());
    // A transaction is seen as a whole or not at all. Two nodes go on.
    session.rollback().await.unwrap();
    target.settle().await.unwrap();
    let patient = connect(entry, bench, &db(entry), "").await.unwrap();
    let seen = values(&*patient).await;
    assert!(seen.iter().all(|n| [3, 4].contains(n)), "{name}: {seen:?}");
    assert!(seen[0] == seen[1] || name == "plain", "{name}: {seen:?}");
    increment(&mut *patient.session().await.unwrap(), Acknowledged::Majority).await.unwrap();
    patient.settle().await.unwrap();
    assert_eq!(patient.leftovers(&[DOCS]).await.unwrap(), None, "{name}");
    let after = values(&*patient).await;
    assert_eq!(after, [seen[0] + 1, seen[1] + 1], "{name}");
    after
}

/// Goes on when the node is back: nothing is lost, nothing is done twice, and all nodes are needed
/// and there.
async fn go_on_with_all_nodes(entry: &Entry, bench: &Bench, before: &[i32]) {
    let name = entry.traits.name;
    // It has to get what it has missed.
    let target = connect(entry, bench, &db(entry), "&wTimeoutMS=120000").await.unwrap();
    assert_eq!(values(&*target).await, before, "{name}");
    increment(&mut *target.session().await.unwrap(), Acknowledged::Nodes(3)).await.unwrap();
    target.settle().await.unwrap();
    assert_eq!(values(&*target).await, [before[0] + 1, before[1] + 1], "{name}");
    assert_eq!(target.leftovers(&[DOCS]).await.unwrap(), None, "{name}");
    target.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_on_as_many_nodes_as_asked_or_its_outcome_is_unknown() {
    let bench = Bench::start(Deployment::ReplicaSet(3)).await.unwrap();
    assert_eq!((bench.node_count(), bench.servers().len()), (3, 3));
    let usage = bench.usage().await.unwrap();
    assert!(usage.cpu_us.is_some() && usage.written_bytes.is_some());
    let published = "mongotx-published".parse::<TargetName>().unwrap().entry();
    let refused = connect(published, &bench, "published", "").await.err().unwrap().to_string();
    assert!(refused.contains("mongotx-published") && refused.contains("3 nodes"), "{refused}");
    check_gateway(&bench).await;
    for entry in entries() {
        begin_on(entry, &bench).await;
    }

    let hello = bench.admin.database("admin").run_command(doc! {"hello": 1}).await.unwrap();
    let primary = hello.get_str("primary").unwrap().to_owned();
    let secondary = bench.servers().iter().find(|server| !primary.ends_with(&server.port().to_string())).unwrap();
    secondary.kill().unwrap();
    // All at the same time: each waits for the time limit once at least.
    let left = join_all(entries().map(|entry| go_on_without_a_node(entry, &bench))).await;

    secondary.restart().await.unwrap();
    for (entry, before) in entries().zip(left) {
        go_on_with_all_nodes(entry, &bench, &before).await;
    }
}
