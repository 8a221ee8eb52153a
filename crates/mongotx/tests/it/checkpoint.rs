//! Checkpoints: copies of the databases as they are stored, made while one holds, are of one moment
//! and have no locks, even if clients die, join or wake meanwhile. (With processes that are killed:
//! `mongotx-cli`, `tests/it/checkpoint.rs`.)

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc};
use mongotx::{ChangeStreams, Client, ClientOptions, ErrorKind, Step};

use crate::common::{
    ghost,
    hooks::Gate,
    until,
    verify::{assert_documents_clean, is_clean},
    world::{COLLECTIONS, World},
};

const ACCOUNTS: i32 = 8;
const LEASE_MS: u64 = 900;

async fn world(name: &str) -> World {
    world_on(local_mongod::shared_standalone().await.unwrap(), name).await
}

async fn world_on(server: &local_mongod::Server, name: &str) -> World {
    let world = World::new(&server.uri(), name);
    let raw = world.raw().await.database(&world.db);
    for coll in COLLECTIONS {
        let all: Vec<Document> = (0..ACCOUNTS).map(|id| doc! {"_id": id, "n": 100}).collect();
        raw.collection(coll).insert_many(all).await.unwrap();
    }
    world
}

/// The sum of both collections, read one after the other as they are stored, and whether a document
/// was locked.
async fn copy(world: &World) -> (i64, bool) {
    let (mut sum, mut is_locked) = (0, false);
    for coll in COLLECTIONS {
        for document in world.stored(&world.db, coll).await {
            sum += i64::from(document.get_i32("n").unwrap_or(0));
            is_locked |= !is_clean(&document);
        }
        // Time for others to get in between.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (sum, is_locked)
}

const ALL: i64 = 2 * 100 * ACCOUNTS as i64;

async fn transfer(world: &World, client: &Client, n: u64) -> mongotx::Result<()> {
    let [a, b] = COLLECTIONS.map(|name| world.collection(client, name));
    let mut session = client.session();
    session.begin()?;
    let id = (n % ACCOUNTS as u64) as i32;
    a.update_one(doc! {"_id": id}, doc! {"$inc": {"n": -1}}).session(&mut session).await?;
    b.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session).await?;
    session.commit().await
}

/// Clients that transfer from one collection to the other until they are stopped.
struct Crew {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<u64>>,
}

impl Crew {
    async fn start(world: &World, clients: usize) -> Self {
        Self::start_with(world, clients, world.options(LEASE_MS)).await
    }

    async fn start_with(world: &World, clients: usize, options: ClientOptions) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for which in 0..clients {
            let (world, stop, done) = (world.clone(), Arc::clone(&stop), Arc::clone(&done));
            let client = Client::connect_with(&world.uri, options.clone()).await.unwrap();
            tasks.push(tokio::spawn(async move {
                let mut moved = 0;
                for n in which as u64.. {
                    if stop.load(SeqCst) {
                        break;
                    }
                    match transfer(&world, &client, n).await {
                        Ok(()) => {
                            moved += 1;
                            done.fetch_add(1, SeqCst);
                        }
                        Err(error) => assert_ne!(error.kind(), ErrorKind::Indeterminate, "{error}"),
                    }
                }
                client.shutdown().await.unwrap();
                moved
            }));
        }
        Self { stop, done, tasks }
    }

    async fn has_done(&self, more: u64) {
        let before = self.done.load(SeqCst);
        until("transfers", async || (self.done.load(SeqCst) >= before + more).then_some(())).await;
    }

    async fn end(self) -> u64 {
        self.stop.store(true, SeqCst);
        let mut moved = 0;
        for task in self.tasks {
            moved += task.await.unwrap();
        }
        moved
    }
}

#[tokio::test]
async fn copies_are_of_one_moment_and_have_no_locks() {
    copies_are_of_one_moment(world("checkpoint").await).await;
}

#[tokio::test]
async fn copies_of_a_replica_set_are_of_one_moment_and_have_no_locks() {
    copies_are_of_one_moment(world_on(local_mongod::shared_replica_set().await.unwrap(), "checkpoint_set").await).await;
}

/// A copy has the events of the changes that are in it, and of no others.
#[tokio::test]
async fn copies_have_the_events_of_what_is_in_them() {
    let world = world("checkpoint_events").await;
    let options = ClientOptions { change_streams: ChangeStreams::All, ..world.options(LEASE_MS) };
    let crew = Crew::start_with(&world, 4, options).await;
    let tool = world.client(LEASE_MS).await;
    for _ in 0..3 {
        crew.has_done(10).await;
        let checkpoint = tool.checkpoint().await.unwrap();
        let events = world.stored(&world.tx_db(), "events").await;
        let of_b = |event: &Document| {
            event.get_document("ns").is_ok_and(|ns| ns.get_str("coll").is_ok_and(|coll| coll == "b"))
        };
        let events_of_b = events.iter().filter(|event| of_b(event)).count() as i64;
        let (sum_of_all, is_locked) = copy(&world).await;
        let moved: i64 =
            world.stored(&world.db, "b").await.iter().map(|b| i64::from(b.get_i32("n").unwrap())).sum::<i64>()
                - ALL / 2;
        assert_eq!((sum_of_all, is_locked, events_of_b), (ALL, false, moved));
        assert!(events.iter().all(is_clean), "an event has a lock");
        let ended = checkpoint.end().await.unwrap();
        assert_eq!((ended.broken, ended.late), (None, 0));
    }
    crew.end().await;
}

async fn copies_are_of_one_moment(world: World) {
    let crew = Crew::start(&world, 4).await;
    let tool = world.client(LEASE_MS).await;
    for _ in 0..3 {
        crew.has_done(20).await;
        let checkpoint = tool.checkpoint().await.unwrap();
        assert_eq!(copy(&world).await, (ALL, false));
        let before = crew.done.load(SeqCst);
        assert_eq!(copy(&world).await, (ALL, false));
        assert_eq!(crew.done.load(SeqCst), before, "decided meanwhile");
        let ended = checkpoint.end().await.unwrap();
        assert_eq!((ended.broken, ended.late), (None, 0));
    }
    // They go on.
    crew.has_done(20).await;
    let moved = crew.end().await;
    let moved_to: i64 = sum(&world, "b").await - ALL / 2;
    assert_eq!(moved_to, moved as i64);
    assert_documents_clean(&world, "at the end").await;
}

async fn sum(world: &World, coll: &str) -> i64 {
    world.stored(&world.db, coll).await.iter().map(|document| i64::from(document.get_i32("n").unwrap())).sum()
}

#[tokio::test]
async fn what_the_dead_have_left_is_finished_or_undone() {
    let world = world("checkpoint_dead").await;
    ghost::undecided(&world).await;
    ghost::unfinished(&world).await;
    let tool = world.client(LEASE_MS).await;
    let checkpoint = tool.checkpoint().await.unwrap();
    assert!(checkpoint.preparation().repaired > 0);
    assert!(!copy(&world).await.1);
    assert_eq!(checkpoint.end().await.unwrap().broken, None);
}

#[tokio::test]
async fn open_transactions_are_rolled_back_and_learn_it() {
    let world = world("checkpoint_open").await;
    let (client, tool) = (world.client(LEASE_MS).await, world.client(LEASE_MS).await);
    let a = world.collection(&client, "a");
    let mut session = client.session();
    session.begin().unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 7}}).session(&mut session).await.unwrap();
    let checkpoint = tool.checkpoint().await.unwrap();
    assert_eq!(checkpoint.preparation().fenced, 1);
    assert_eq!(copy(&world).await, (ALL, false));
    let error = session.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
    assert_eq!(checkpoint.end().await.unwrap().broken, None);
}

/// The client has seen no checkpoint before it inserted its record, and decides nothing
/// nevertheless.
#[tokio::test]
async fn who_registers_meanwhile_waits() {
    let world = world("checkpoint_joins").await;
    let (gate, hook) = Gate::at(Step::AfterRegister, 1, false);
    let client = world.client_with(LEASE_MS, hook).await;
    let tool = world.client(LEASE_MS).await;
    let (of_task, copied) = (world.clone(), Arc::new(AtomicBool::new(false)));
    let is_copied = Arc::clone(&copied);
    let joining = tokio::spawn(async move {
        transfer(&of_task, &client, 1).await.unwrap();
        assert!(is_copied.load(SeqCst), "decided while a checkpoint held");
        client.shutdown().await.unwrap();
    });
    gate.reached().await;
    let checkpoint = tool.checkpoint().await.unwrap();
    gate.open();
    assert_eq!(copy(&world).await, (ALL, false));
    copied.store(true, SeqCst);
    assert_eq!(checkpoint.end().await.unwrap().broken, None);
    joining.await.unwrap();
    assert_eq!(sum(&world, "b").await, ALL / 2 + 1);
}

#[tokio::test]
async fn one_checkpoint_at_a_time_and_a_dropped_one_ends() {
    let world = world("checkpoint_one").await;
    let (one, two) = (world.client(LEASE_MS).await, world.client(LEASE_MS).await);
    let checkpoint = one.checkpoint().await.unwrap();
    let refused = two.checkpoint().await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().contains("another checkpoint"), "{refused}");
    drop(checkpoint);
    let _next = until("the dropped checkpoint has ended", async || two.checkpoint().await.ok()).await;
}

/// A commit that waits for longer than it may names in its error what holds it.
#[tokio::test]
async fn every_wait_ends() {
    let world = world("checkpoint_waits").await;
    let tool = world.client(LEASE_MS).await;
    let options = mongotx::ClientOptions { commit_timeout: Duration::from_millis(400), ..world.options(LEASE_MS) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    let checkpoint = tool.checkpoint().await.unwrap();
    let error = transfer(&world, &client, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("checkpoint"), "{error}");
    // Writes outside transactions are not held.
    world.collection(&client, "a").update_one(doc! {"_id": 1}, doc! {"$set": {"x": 1}}).await.unwrap();
    assert_eq!(checkpoint.end().await.unwrap().broken, None);
    transfer(&world, &client, 1).await.unwrap();
}

/// As if its holder had stood still for longer than it lives: others go on, and the holder says so.
#[tokio::test]
async fn a_hold_that_has_lapsed_is_reported() {
    let world = world("checkpoint_lapses").await;
    let (tool, client) = (world.client(LEASE_MS).await, world.client(LEASE_MS).await);
    let checkpoint = tool.checkpoint().await.unwrap();
    let hold = world.raw().await.database(&world.tx_db()).collection::<Document>("checkpoint");
    hold.update_one(doc! {"_id": "hold"}, doc! {"$currentDate": {"until": true}}).await.unwrap();
    transfer(&world, &client, 1).await.unwrap();
    let reason = checkpoint.until_broken().await;
    assert!(reason.contains("hold"), "{reason}");
    assert!(checkpoint.end().await.unwrap().broken.is_some());
}

/// A clock that was set back, or a hold that was written back: the decisions themselves show it.
#[tokio::test]
async fn what_was_decided_meanwhile_is_reported_though_the_hold_stands() {
    let world = world("checkpoint_jumps").await;
    let (tool, client) = (world.client(LEASE_MS).await, world.client(LEASE_MS).await);
    let checkpoint = tool.checkpoint().await.unwrap();
    let hold = world.raw().await.database(&world.tx_db()).collection::<Document>("checkpoint");
    let set = async |over: bool| hold.update_one(doc! {"_id": "hold"}, doc! {"$set": {"over": over}}).await.unwrap();
    set(true).await;
    transfer(&world, &client, 1).await.unwrap();
    set(false).await;
    let broken = checkpoint.end().await.unwrap().broken;
    assert!(broken.is_some_and(|reason| reason.contains("decided")));
}

/// A message that was on its way for long locks a document while the checkpoint holds.
#[tokio::test]
async fn late_locks_are_counted() {
    let world = world("checkpoint_late").await;
    let (tool, client) = (world.client(LEASE_MS).await, world.client(LEASE_MS).await);
    transfer(&world, &client, 1).await.unwrap();
    let owner = tool.clients().await.unwrap()[0].id;
    let checkpoint = tool.checkpoint().await.unwrap();
    let writer = doc! {"c": bson::oid::ObjectId::from_bytes(owner.0), "n": 99_i64};
    let late = doc! {"$set": {"_xTxId": writer, "_unsafe": {"_id": 3, "n": 5}}};
    let a = world.raw().await.database(&world.db).collection::<Document>("a");
    a.update_one(doc! {"_id": 3}, late).await.unwrap();
    let ended = checkpoint.end().await.unwrap();
    assert_eq!((ended.broken, ended.late), (None, 1));
}
