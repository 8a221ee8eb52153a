//! `mongotx checkpoint` with gateways that are killed and clients that transfer: copies of every
//! kind are exact, and can be put back on another server.

use crate::common;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use common::{mongotx, run_mongotx, status_and_output, until};
use futures_util::TryStreamExt;
use local_mongod::{Server, ServerOptions};
use mongodb::{
    Client,
    bson::{Document, doc},
};

const ACCOUNTS: i32 = 12;
const CLIENTS: i32 = 6;
const START: i64 = 1_000;
const COLLECTIONS: [&str; 2] = ["accounts", "ledger"];
const RESERVED: [&str; 6] = ["_xTxId", "_unsafe", "_sTxIds", "_insert", "_remove", "_slot"];

/// A gateway process in front of the server.
struct Gateway {
    child: Child,
    uri: String,
}

impl Gateway {
    fn start(server: &Server) -> Self {
        let uri = server.uri();
        let args = ["serve", "--uri", &uri, "--listen", "127.0.0.1:0", "--log-level", "error"];
        let mut child = mongotx(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, uri: line.trim().strip_prefix("listening on ").unwrap().to_owned() }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients that transfer through gateways, one of which is killed again and again.
struct Bank {
    server: Server,
    stop: Arc<AtomicBool>,
    /// Ids of the transfers that were acknowledged.
    acknowledged: Arc<Mutex<Vec<String>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Bank {
    async fn open(options: ServerOptions) -> Self {
        let server = options.start().await.unwrap();
        let accounts: Vec<Document> = (0..ACCOUNTS).map(|id| doc! {"_id": id, "balance": START}).collect();
        let driver = server.client().await.unwrap();
        driver.database("bank").collection("accounts").insert_many(accounts).await.unwrap();
        Self { server, stop: Arc::default(), acknowledged: Arc::default(), tasks: Vec::new() }
    }

    /// Begins the clients' work. `gateway`: finds the one that runs now.
    fn begin(&mut self, gateway: &Arc<Mutex<Gateway>>) {
        for which in 0..CLIENTS {
            let (stop, acknowledged) = (Arc::clone(&self.stop), Arc::clone(&self.acknowledged));
            let gateway = Arc::clone(gateway);
            self.tasks.push(tokio::spawn(async move {
                let (mut at, mut client) = (String::new(), None);
                for n in 0.. {
                    if stop.load(SeqCst) {
                        return;
                    }
                    let uri = gateway.lock().unwrap().uri.clone();
                    if uri != at || client.is_none() {
                        let found = Client::with_uri_str(format!("{uri}/?serverSelectionTimeoutMS=500")).await;
                        (at, client) = (uri, found.ok());
                    }
                    let Some(client) = &client else { continue };
                    let id = format!("{which}-{n}");
                    if transfer(client, which + n, &id).await.is_ok() {
                        acknowledged.lock().unwrap().push(id);
                    }
                }
            }));
        }
    }

    fn acknowledged(&self) -> Vec<String> {
        self.acknowledged.lock().unwrap().clone()
    }

    async fn has_done(&self, more: usize) {
        let before = self.acknowledged().len();
        for _ in 0..1_200 {
            if self.acknowledged().len() >= before + more {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{more} more transfers were not made");
    }

    async fn end(&mut self) {
        self.stop.store(true, SeqCst);
        for task in self.tasks.drain(..) {
            task.await.unwrap();
        }
    }
}

async fn transfer(client: &Client, n: i32, id: &str) -> mongodb::error::Result<()> {
    let bank = client.database("bank");
    let (from, to) = (n.rem_euclid(ACCOUNTS), (n * 5 + 1).rem_euclid(ACCOUNTS));
    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    let accounts = bank.collection::<Document>("accounts");
    accounts.update_one(doc! {"_id": from}, doc! {"$inc": {"balance": -1}}).session(&mut session).await?;
    accounts.update_one(doc! {"_id": to}, doc! {"$inc": {"balance": 1}}).session(&mut session).await?;
    let entry = doc! {"_id": id, "from": from, "to": to};
    bank.collection("ledger").insert_one(entry).session(&mut session).await?;
    session.commit_transaction().await
}

/// A copy of the application's databases: a plain tool's, which reads one collection after the
/// other.
async fn dump(uri: &str) -> BTreeMap<&'static str, Vec<Document>> {
    let bank = Client::with_uri_str(uri).await.unwrap().database("bank");
    let mut all = BTreeMap::new();
    for name in COLLECTIONS {
        let found = bank.collection::<Document>(name).find(doc! {}).await.unwrap().try_collect().await.unwrap();
        all.insert(name, found);
        // Time for others to get in between.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    all
}

async fn restore(copy: &BTreeMap<&'static str, Vec<Document>>, server: &Server) {
    let bank = server.client().await.unwrap().database("bank");
    for (name, documents) in copy {
        bank.collection::<Document>(name).insert_many(documents).await.unwrap();
    }
}

/// Checks that every account has what the ledger says, nothing acknowledged is missing, and nothing
/// has a lock.
async fn assert_exact(uri: &str, acknowledged: &[String], what: &str) {
    let copy = dump(uri).await;
    let mut wanted: BTreeMap<i32, i64> = (0..ACCOUNTS).map(|id| (id, START)).collect();
    for entry in &copy["ledger"] {
        *wanted.get_mut(&entry.get_i32("from").unwrap()).unwrap() -= 1;
        *wanted.get_mut(&entry.get_i32("to").unwrap()).unwrap() += 1;
    }
    let balances = copy["accounts"].iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i64("balance").unwrap()));
    assert_eq!(balances.collect::<BTreeMap<_, _>>(), wanted, "{what}");
    let there: Vec<&str> = copy["ledger"].iter().map(|entry| entry.get_str("_id").unwrap()).collect();
    let missing: Vec<&String> = acknowledged.iter().filter(|id| !there.contains(&id.as_str())).collect();
    assert!(missing.is_empty(), "{what}: {missing:?}");
    let locked = copy.values().flatten().find(|one| RESERVED.iter().any(|field| one.contains_key(field)));
    assert_eq!(locked, None, "{what}");
}

/// A `mongotx checkpoint` with a command that runs until the test ends it.
struct Holding {
    child: Child,
    go_on: ChildStdin,
}

impl Holding {
    fn begin(server: &Server) -> Self {
        let uri = server.uri();
        let args = ["checkpoint", "--uri", &uri, "--hold", "60s", "--", "sh", "-c", "echo held; read line"];
        let command = &mut mongotx(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let go_on = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line != "held\n" {
            panic!("{:?}", status_and_output(&child.wait_with_output().unwrap()));
        }
        Self { child, go_on }
    }

    fn end(mut self) -> (i32, String) {
        self.go_on.write_all(b"\n").unwrap();
        drop(self.go_on);
        status_and_output(&self.child.wait_with_output().unwrap())
    }
}

/// Repairs until the leases of the clients that were alive are over.
fn repair(server: &Server) {
    until("nothing is locked", || {
        let (status, said) = run_mongotx(["doctor", "--repair", "--uri", &server.uri()]);
        status == 0 && said.contains("No document is locked.")
    });
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else if entry.file_name() != "mongod.lock" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_every_kind_are_exact_under_load_with_kills() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut bank = Bank::open(ServerOptions::standalone().dbpath(&data)).await;
    let gateway = Arc::new(Mutex::new(Gateway::start(&bank.server)));
    bank.begin(&gateway);

    // Dumps of the server itself and through the gateway, while a checkpoint holds. A gateway was
    // killed right before.
    for n in 0..2 {
        bank.has_done(30).await;
        if n == 0 {
            let next = Gateway::start(&bank.server);
            drop(std::mem::replace(&mut *gateway.lock().unwrap(), next));
            bank.has_done(5).await;
        }
        let holding = Holding::begin(&bank.server);
        let acknowledged = bank.acknowledged();
        let plain = dump(&bank.server.uri()).await;
        let uri = gateway.lock().unwrap().uri.clone();
        assert_exact(&uri, &acknowledged, "through the gateway").await;
        let (status, said) = holding.end();
        assert_eq!(status, 0, "{said}");
        let other = Server::standalone().await.unwrap();
        restore(&plain, &other).await;
        assert_exact(&other.uri(), &acknowledged, "put back on another server").await;
        let (status, said) = run_mongotx(["doctor", "--uri", &other.uri()]);
        assert_eq!(status, 0, "{said}");
    }

    // Files, copied while the server is locked, without a checkpoint: another server, and the
    // repair.
    bank.has_done(20).await;
    let admin = bank.server.client().await.unwrap().database("admin");
    admin.run_command(doc! {"fsync": 1, "lock": true}).await.unwrap();
    let acknowledged = bank.acknowledged();
    let copied = folder.path().join("copied");
    copy_folder(&data, &copied);
    admin.run_command(doc! {"fsyncUnlock": 1}).await.unwrap();
    let other = ServerOptions::standalone().dbpath(&copied).start().await.unwrap();
    repair(&other);
    assert_exact(&other.uri(), &acknowledged, "files").await;

    bank.end().await;
    drop(gateway);
    repair(&bank.server);
    assert_exact(&bank.server.uri(), &bank.acknowledged(), "where it was").await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_and_reported() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let uri = server.uri();
    let database = local_mongod::unique_db("checkpoint_tx");
    let checkpoint = |hold: &'static str, command: &[&'static str]| {
        let args = ["checkpoint", "--uri", &uri, "--tx-database", &database, "--hold", hold];
        run_mongotx(args.into_iter().chain(command.iter().copied()))
    };
    let (status, said) = checkpoint("1s", &["--", "sleep", "600"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("The time is over (--hold)"), "{said}");
    let (status, said) = checkpoint("60s", &["--", "sh", "-c", "exit 3"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("The command has failed"), "{said}");
    let (status, said) = checkpoint("1s", &[]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("none was decided"), "{said}");
    let (status, said) = checkpoint("60s", &["--", "/no/such/program"]);
    assert_eq!(status, 2, "{said}");
    let (status, said) = checkpoint("7h", &[]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("--hold") && said.contains("at most 6 h"), "{said}");
}
