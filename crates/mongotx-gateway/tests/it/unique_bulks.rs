//! Commands of several statements that upsert, or that change keys of a unique index: how many
//! commands the server gets, and the replies beside a replica set.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bson::{Document, doc};
use mongotx::ClientOptions;
use mongotx_gateway::GatewayOptions;

use crate::{
    common::{
        commands::{Client, Session, code, is_ok},
        soon,
    },
    side_by_side::pair::Pair,
};

/// Makes the statement about one of ten documents.
type Kind = fn(i32) -> Document;

/// Of the documents 1 to 10, each has ten times its `_id` as `k`.
const UPSERTS_THAT_INSERT: Kind = |id| doc! {"q": {"_id": 100 + id}, "u": {"$set": {"k": 1_000 + id}}, "upsert": true};
const UPSERTS_THAT_UPDATE: Kind = |id| doc! {"q": {"_id": id}, "u": {"$set": {"k": 10 * id + 1}}, "upsert": true};
const MIXED_UPSERTS: Kind = |id| if id % 2 == 0 { UPSERTS_THAT_INSERT(id) } else { UPSERTS_THAT_UPDATE(id) };
const BY_KEY_THAT_INSERT: Kind = |id| doc! {"q": {"k": 1_000 + id}, "u": {"$inc": {"n": 1}}, "upsert": true};
const BY_KEY_THAT_UPDATE: Kind = |id| doc! {"q": {"k": 10 * id}, "u": {"$inc": {"n": 1}}, "upsert": true};
const REPLACEMENTS_OF_THE_SAME_KEY: Kind = |id| doc! {"q": {"_id": id}, "u": {"k": 10 * id, "r": 1}};
const REPLACEMENTS: Kind = |id| doc! {"q": {"_id": id}, "u": {"k": 10 * id + 1}};
const SETS: Kind = |id| doc! {"q": {"_id": id}, "u": {"$set": {"k": 10 * id + 1}}};
const SETS_OF_THE_SAME: Kind = |id| doc! {"q": {"_id": id}, "u": {"$set": {"k": 10 * id, "r": 1}}};

const KINDS: [(&str, Kind); 9] = [
    ("upserts by _id that insert", UPSERTS_THAT_INSERT),
    ("upserts by _id that update", UPSERTS_THAT_UPDATE),
    ("upserts by _id, in turns", MIXED_UPSERTS),
    ("upserts by k that insert", BY_KEY_THAT_INSERT),
    ("upserts by k that update", BY_KEY_THAT_UPDATE),
    ("replacements, the key stays", REPLACEMENTS_OF_THE_SAME_KEY),
    ("replacements, another key", REPLACEMENTS),
    ("$set of the key", SETS),
    ("$set of the same key", SETS_OF_THE_SAME),
];

fn update(kind: Kind, ordered: bool) -> Document {
    doc! {"update": "c", "updates": (1..=10).map(kind).collect::<Vec<_>>(), "ordered": ordered}
}

fn documents() -> Document {
    let document = |id: i32| doc! {"_id": id, "k": 10 * id, "n": 0};
    doc! {"insert": "c", "documents": (1..=10).map(document).collect::<Vec<_>>()}
}

fn index() -> Document {
    doc! {"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k", "unique": true}]}
}

/// A gateway that sends nothing of its own accord, with the ten documents.
async fn quiet(test: &str, is_unique: bool) -> Client {
    let client = ClientOptions { sweep: false, lease: Duration::from_secs(600), ..GatewayOptions::default().client };
    let options = GatewayOptions { client, ..GatewayOptions::default() };
    let client = Client::with_options(local_mongod::unique_db(test), options).await;
    if is_unique {
        client.ok(index()).await;
    }
    client.ok(documents()).await;
    client
}

/// The number of commands that the server has got, when it gets no more.
async fn settled(client: &Client) -> BTreeMap<String, u64> {
    let mut before = client.sent();
    loop {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let now = client.sent();
        if now == before {
            return now;
        }
        before = now;
    }
}

async fn sent_for(client: &Client, work: impl Future<Output = ()>) -> BTreeMap<String, u64> {
    let before = client.sent();
    work.await;
    let since = settled(client).await.into_iter();
    since
        .map(|(name, count)| (name.clone(), count - before.get(&name).copied().unwrap_or(0)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// The commands for these statements, in a transaction that has begun.
async fn inside(client: &Client, kind: Kind) -> BTreeMap<String, u64> {
    let session = Session::new();
    client.ok(session.first(doc! {"insert": "other", "documents": [{}]})).await;
    let sent = sent_for(client, async {
        let reply = client.ok(session.next(update(kind, true))).await;
        assert_eq!(reply.get_i32("n").unwrap(), 10, "{reply}");
    });
    let sent = sent.await;
    client.run_on("admin", session.abort()).await;
    settled(client).await;
    sent
}

/// The commands for these statements, outside a transaction, until all of it is finished.
async fn outside(client: &Client, kind: Kind) -> BTreeMap<String, u64> {
    let sent = sent_for(client, async {
        let reply = client.ok(update(kind, true)).await;
        assert_eq!(reply.get_i32("n").unwrap(), 10, "{reply}");
    });
    let sent = sent.await;
    client.ok(doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}).await;
    client.ok(documents()).await;
    settled(client).await;
    sent
}

/// Ten statements by `_id`, or by a key of a unique index.
#[tokio::test]
async fn ten_statements_are_one_command_behind_a_question() {
    for is_unique in [false, true] {
        let client = quiet("unique_bulks", is_unique).await;
        inside(&client, SETS).await;
        for (name, kind) in KINDS.into_iter().filter(|(name, _)| is_unique || !name.contains("by k")) {
            let (inside, outside) = (inside(&client, kind).await, outside(&client, kind).await);
            let is_upsert = name.contains("upserts");
            let expected: &[(&str, u64)] = if is_upsert { &[("find", 1), ("update", 1)] } else { &[("update", 1)] };
            assert_eq!(written(&inside), commands(expected), "{name}, inside: {inside:?}");
            // The statements, the decision, and finishing; with a unique index they are a
            // transaction.
            let updates = if is_unique { 3 } else { 1 };
            assert_eq!(outside["update"], updates, "{name}, outside: {outside:?}");
            assert!(outside.get("find").is_none_or(|finds| *finds <= 2), "{name}, outside: {outside:?}");
        }
        client.shutdown().await.unwrap();
    }
}

/// Without looks at what the collection is, of which one is made every few seconds.
fn written(sent: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let is_look = |name: &String| ["count", "listCollections", "listIndexes"].contains(&name.as_str());
    sent.clone().into_iter().filter(|(name, _)| !is_look(name)).collect()
}

fn commands(some: &[(&str, u64)]) -> BTreeMap<String, u64> {
    some.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// Numbers that look random, the same ones in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> i32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit) as i32
    }

    /// A statement about one of a few documents, which gives it one of a few keys. `n` makes it
    /// differ from all others: a replica set counts a replacement that changes nothing, and MongoTx
    /// does not.
    fn statement(&mut self, n: i32) -> Document {
        let (id, k) = (1 + self.below(8), 10 * (1 + self.below(10)));
        match self.below(12) {
            0..=2 => doc! {"q": {"_id": id}, "u": {"$set": {"k": k, "n": n}}},
            3 => doc! {"q": {"_id": id}, "u": {"$set": {"k": k}, "$push": {"l": n}}},
            4 => doc! {"q": {"_id": id}, "u": {"k": k, "n": n}},
            5 => doc! {"q": {"_id": id}, "u": {"k": k, "n": n}, "upsert": true},
            6 => doc! {"q": {"_id": id}, "u": {"$set": {"k": k, "n": n}}, "upsert": true},
            7 => doc! {"q": {"_id": id}, "u": {"$setOnInsert": {"k": k}, "$inc": {"n": 1}}, "upsert": true},
            8 => doc! {"q": {"k": k}, "u": {"$inc": {"n": 1}, "$setOnInsert": {"_id": 20 + id}}, "upsert": true},
            9 => doc! {"q": {"k": k}, "u": {"_id": id, "k": k, "n": n}, "upsert": true},
            10 => doc! {"q": {"_id": id}, "u": {"$inc": {"k": 10, "n": 1}}},
            _ => doc! {"q": {"_id": id}, "u": {"$unset": {"n": ""}}},
        }
    }
}

/// Sends the command of a transaction to both. Where a statement is refused, a replica set also
/// names what was upserted before; the transaction is over, and nothing of that stays.
async fn refused_alike(pair: &mut Pair, command: Document) -> Document {
    let (ours, mut theirs) = pair.ask(command.clone()).await;
    if theirs.contains_key("writeErrors") {
        theirs.remove("upserted");
    }
    assert_eq!(ours, theirs, "{command}\nours:   {ours}\ntheirs: {theirs}");
    ours
}

/// Bulks with errors in the middle, ordered and not, inside transactions and outside, one after the
/// other.
#[tokio::test]
async fn replies_are_those_of_a_replica_set() {
    for seed in 1..=3 {
        let mut pair = Pair::start("cmp_unique_bulks").await;
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        pair.same(index()).await;
        for round in 0..70 {
            let count = 2 + random.below(7);
            let statements: Vec<Document> = (0..count).map(|place| random.statement(100 * round + place)).collect();
            let command = doc! {"update": "c", "updates": statements, "ordered": random.below(2) == 0};
            if random.below(2) == 0 {
                pair.same(command).await;
            } else {
                let session = Session::new();
                pair.same(session.first(doc! {"find": "c", "filter": {"_id": 7}})).await;
                let reply = refused_alike(&mut pair, session.next(command)).await;
                if !reply.contains_key("writeErrors") && is_ok(&reply) {
                    pair.same(session.next(doc! {"find": "c", "sort": {"_id": 1}})).await;
                }
                pair.same(if random.below(4) == 0 { session.abort() } else { session.commit() }).await;
            }
            pair.same(doc! {"find": "c", "sort": {"_id": 1}}).await;
            if random.below(4) == 0 {
                let id = 1 + random.below(30);
                pair.same(doc! {"delete": "c", "deletes": [{"q": {"_id": id}, "limit": 1}]}).await;
            }
        }
    }
}

/// A client that waits `wait` for documents that are held, with the ten documents.
async fn patient(db: String, wait: Duration) -> Client {
    let client = ClientOptions { write_wait: wait, ..GatewayOptions::default().client };
    Client::with_options(db, GatewayOptions { client, ..GatewayOptions::default() }).await
}

async fn keys(client: &Client) -> Vec<(i32, i32)> {
    client.all("c").await.iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i32("k").unwrap())).collect()
}

/// A rival holds the fifth document: what stands before it is done, as if each were sent alone, and
/// nothing behind it. Sent again, nothing is done twice.
#[tokio::test]
async fn a_document_that_is_held_stops_the_command_there() {
    for ordered in [true, false] {
        let client = patient(local_mongod::unique_db("unique_held"), Duration::from_millis(20)).await;
        client.ok(index()).await;
        client.ok(documents()).await;
        let (holder, session) = (Session::new(), Session::new());
        client.ok(holder.first(doc! {"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$inc": {"n": 1}}}]})).await;
        assert_eq!(code(&client.run_command(session.write(update(SETS, ordered))).await), 112);
        let done = |last: i32| (1..=10).map(|id| (id, 10 * id + i32::from(id <= last))).collect::<Vec<_>>();
        assert_eq!(keys(&client).await, done(4), "{ordered}");
        assert!(is_ok(&client.run_on("admin", holder.commit()).await));
        let again = client.ok(session.again(update(SETS, ordered))).await;
        assert_eq!((again.get_i32("n").unwrap(), again.get_i32("nModified").unwrap()), (10, 10), "{again}");
        assert_eq!(again.get_array("retriedStmtIds").unwrap().len(), 4);
        assert_eq!(keys(&client).await, done(10));
        let third = client.ok(session.again(update(SETS, ordered))).await;
        assert_eq!((third.get_i32("n").unwrap(), third.get_array("retriedStmtIds").unwrap().len()), (10, 10));
        client.shutdown().await.unwrap();
    }
}

/// The session is killed while the server stands still: all of the statements are made or none, and
/// a retry makes none of them again.
#[tokio::test]
async fn a_command_that_was_not_answered_is_made_as_a_whole_or_not_at_all() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let client = Client::in_front_of(server.uri(), "unique_lost".to_owned(), GatewayOptions::default()).await;
    client.ok(index()).await;
    client.ok(documents()).await;
    for (round, kind) in [SETS, REPLACEMENTS_OF_THE_SAME_KEY, SETS].into_iter().enumerate() {
        let (session, before) = (Session::new(), keys(&client).await);
        server.pause().unwrap();
        let writing = client.run_command(session.write(update(kind, round != 1)));
        let breaking = async {
            // Whatever it has sent by then.
            tokio::time::sleep(Duration::from_millis(100 * round as u64)).await;
            client.ok(doc! {"killSessions": [session.lsid.clone()]}).await;
            server.resume().unwrap();
        };
        let (stopped, ()) = soon(async { tokio::join!(writing, breaking) }).await;
        assert!(!is_ok(&stopped), "{stopped}");
        assert_eq!(code(&client.run_command(session.again(update(kind, round != 1))).await), 11_601);
        settled(&client).await;
        let found = keys(&client).await;
        let made: Vec<(i32, i32)> = (1..=10).map(|id| (id, 10 * id + i32::from(round != 1))).collect();
        assert!(found == made || found == before, "{found:?}");
    }
    client.shutdown().await.unwrap();
}

/// Two gateways upsert the same keys by bulks, outside transactions and inside: each key is there
/// once, and no increment is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_that_upsert_the_same_keys_make_each_once() {
    const ROUNDS: i32 = 12;
    const KEYS: i32 = 15;
    let db = local_mongod::unique_db("unique_sums");
    let wait = Duration::from_secs(5);
    let gateways = [Arc::new(patient(db.clone(), wait).await), Arc::new(patient(db, wait).await)];
    gateways[0].ok(index()).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (task, gateway) in (0..6).zip(gateways.iter().cycle().cloned()) {
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                upsert_some(&gateway, task, round, KEYS).await;
            }
        });
    }
    soon(tasks.join_all()).await;
    assert_eq!(keys(&gateways[0]).await, (0..KEYS).map(|key| (key, key)).collect::<Vec<_>>());
    let sum: i32 = gateways[0].all("c").await.iter().map(|one| one.get_i32("n").unwrap()).sum();
    assert_eq!(sum, 6 * ROUNDS * 6);
}

/// Increases six keys by one, by `_id` or by the key, as a driver does: again, until it is made.
async fn upsert_some(gateway: &Client, task: i32, round: i32, all: i32) {
    let upsert = |place: i32| {
        let key = (task * 4 + round * 7 + place) % all;
        match (task + round) % 2 {
            0 => doc! {"q": {"_id": key}, "u": {"$set": {"k": key}, "$inc": {"n": 1}}, "upsert": true},
            _ => doc! {"q": {"k": key}, "u": {"$setOnInsert": {"_id": key}, "$inc": {"n": 1}}, "upsert": true},
        }
    };
    let command = doc! {"update": "c", "updates": (0..6).map(upsert).collect::<Vec<_>>(), "ordered": round % 3 != 0};
    let session = Session::new();
    let mut attempts = 0;
    if task < 2 {
        loop {
            let written = gateway.run_command(session.first(command.clone())).await;
            if is_ok(&written) && is_ok(&gateway.run_on("admin", session.commit()).await) {
                return;
            }
            attempts += 1;
            assert!(attempts < 1_000, "{written}");
            tokio::time::sleep(Duration::from_millis(5 + u64::from(task.unsigned_abs()))).await;
        }
    }
    let mut reply = gateway.run_command(session.write(command.clone())).await;
    while !is_ok(&reply) {
        assert!(code(&reply) == 112 && attempts < 1_000, "{reply}");
        attempts += 1;
        reply = gateway.run_command(session.again(command.clone())).await;
    }
    assert_eq!((reply.get_i32("n").unwrap(), reply.contains_key("writeErrors")), (6, false), "{reply}");
}

/// What a transaction cannot store is refused document by document: the others are inserted, and no
/// second time when the command is sent again.
#[tokio::test]
async fn document_that_cannot_be_stored_is_refused_by_itself() {
    let client = quiet("gw_unique_refused", true).await;
    let session = Session::new();
    let empty = bson::Timestamp { time: 0, increment: 0 };
    let inserts = doc! {"insert": "c", "documents": [{"k": 500, "t": empty}, {"k": 501}], "ordered": false};
    let first = client.run_command(session.write(inserts.clone())).await;
    let errors = first.get_array("writeErrors").unwrap();
    let refused = errors[0].as_document().unwrap();
    assert_eq!((refused.get_i32("index").unwrap(), refused.get_i32("code").unwrap()), (0, 263), "{first}");
    assert_eq!((errors.len(), first.get_i32("n").unwrap(), is_ok(&first)), (1, 1, true), "{first}");
    let again = client.run_command(session.again(inserts)).await;
    assert_eq!(again.get_i32("n").unwrap(), 1, "{again}");
    let added = client.all("c").await.into_iter().filter(|document| document.get_i32("k").unwrap() >= 500);
    assert_eq!(added.count(), 1);
    let ordered = doc! {"insert": "c", "documents": [{"k": 502}, {"k": 503, "t": empty}, {"k": 504}]};
    let reply = client.run_command(ordered).await;
    assert_eq!((reply.get_i32("n").unwrap(), reply.get_array("writeErrors").unwrap().len()), (1, 1), "{reply}");
}
