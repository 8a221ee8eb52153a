//! Cost of one command for the client: processor time and latency of the library's, beside a raw
//! connection's, `mongowire`'s and the official driver's, in turns, on one standalone server.
//!
//! ```sh
//! cargo bench -p mongotx --bench command
//! ```
//!
//! The command is a `find` of one small document by its `_id`. *Raw* sends bytes that were made
//! before and does not look at what comes back: no client can cost less. `MONGOTX_BENCH_SECONDS` is
//! the length of a turn (1), `MONGOTX_BENCH_ROUNDS` the number of turns (5).
#![allow(clippy::unwrap_used, missing_docs, reason = "a program of its own")]

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use benchkit::measure::machine::own_cpu_us;
use bson::{Document, RawDocumentBuf, doc, rawdoc};
use futures_util::future::join_all;
use mongodb::options::ClientOptions as DriverOptions;
use mongowire::{Pool, PoolLimits, Settings, wire::op_msg};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const DB: &str = "bench";
const CLIENTS: [usize; 3] = [1, 8, 32];
const LIMIT: Duration = Duration::from_secs(60);
/// Commands between two looks at the clock.
const STEP: u64 = 16;

/// Client whose reads are measured.
#[derive(Clone, Copy)]
enum Side {
    Raw,
    Wire,
    Library,
    Driver,
}

const SIDES: [(Side, &str); 4] = [
    (Side::Raw, "raw connection"),
    (Side::Wire, "mongowire"),
    (Side::Library, "library, find_one"),
    (Side::Driver, "official driver, find_one"),
];

#[derive(Clone)]
struct Clients {
    port: u16,
    pool: Arc<Pool>,
    library: mongotx::Client,
    driver: mongodb::Client,
}

/// Processor time and latency of one side.
#[derive(Clone, Copy, Default)]
struct Sum {
    commands: u64,
    processor: Duration,
    /// Sum of the time that all clients waited for answers.
    waited: Duration,
}

fn main() {
    let number = |name: &str, default: u32| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let time = Duration::from_secs(number("MONGOTX_BENCH_SECONDS", 1).into());
    let rounds = number("MONGOTX_BENCH_ROUNDS", 5);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = local_mongod::Server::standalone().await.unwrap();
        let clients = Clients::connect(&server).await;
        println!("{:>7}  {:<26} {:>12} {:>8} {:>12}", "clients", "", "processor us", "x raw", "latency us");
        for many in CLIENTS {
            let mut sums = [Sum::default(); SIDES.len()];
            for (side, _) in SIDES {
                turn(&clients, side, many, time / 4).await;
            }
            for _ in 0..rounds {
                for (n, (side, _)) in SIDES.into_iter().enumerate() {
                    sums[n].add(turn(&clients, side, many, time).await);
                }
            }
            let raw = sums[0].processor_us();
            for (sum, (_, name)) in sums.iter().zip(SIDES) {
                let (processor, latency) = (sum.processor_us(), sum.latency_us());
                println!("{many:>7}  {name:<26} {processor:>12.1} {:>8.2} {latency:>12.1}", processor / raw);
            }
        }
    });
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.commands += other.commands;
        self.processor += other.processor;
        self.waited += other.waited;
    }

    fn processor_us(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.commands.max(1) as f64
    }

    fn latency_us(&self) -> f64 {
        self.waited.as_secs_f64() * 1e6 / self.commands.max(1) as f64
    }
}

impl Clients {
    async fn connect(server: &local_mongod::Server) -> Self {
        let uri = format!("{}&maxPoolSize=32", server.uri());
        let driver = mongodb::Client::with_uri_str(&uri).await.unwrap();
        let documents: Vec<Document> = (0..100).map(|n| doc! {"_id": n, "n": 1, "note": "x".repeat(40)}).collect();
        driver.database(DB).collection("c").insert_many(documents).await.unwrap();
        let settings = Settings::from_driver_options(&DriverOptions::parse(&uri).await.unwrap()).unwrap();
        let limits = PoolLimits { most: 32, wait: LIMIT, idle: None };
        let pool = Arc::new(Pool::new(settings, limits, Arc::new(AtomicU64::new(0))));
        let options = mongotx::ClientOptions { sweep: false, ..mongotx::ClientOptions::default() };
        let library = mongotx::Client::connect_with(&uri, options).await.unwrap();
        Self { port: server.port(), pool, library, driver }
    }

    /// Sends reads until the time is over; returns their number.
    async fn ask(&self, side: Side, id: i32, until: Instant) -> u64 {
        let mut asked = 0;
        let mut raw = Raw::connect(self.port, id).await;
        let find = find(id);
        let (library, driver) = (self.library.database(DB), self.driver.database(DB));
        let (library, driver) = (library.collection::<Document>("c"), driver.collection::<Document>("c"));
        while Instant::now() < until {
            for _ in 0..STEP {
                match side {
                    Side::Raw => raw.ask().await,
                    Side::Wire => {
                        drop(self.pool.get().await.unwrap().run_command(Some(DB), &find, &[], LIMIT).await.unwrap())
                    }
                    Side::Library => assert!(library.find_one(doc! {"_id": id}).await.unwrap().is_some()),
                    Side::Driver => assert!(driver.find_one(doc! {"_id": id}).await.unwrap().is_some()),
                }
            }
            asked += STEP;
        }
        asked
    }
}

fn find(id: i32) -> RawDocumentBuf {
    rawdoc! {"find": "c", "filter": {"_id": id}, "limit": 1, "singleBatch": true}
}

/// A TCP connection that sends prepared bytes and does not parse the answers.
struct Raw {
    stream: TcpStream,
    message: Vec<u8>,
    answer: Vec<u8>,
}

impl Raw {
    async fn connect(port: u16, id: i32) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        mongowire::set_socket_options(&stream);
        let nothing = RawDocumentBuf::new();
        let body = find(id);
        let (database, appended) = (Some(DB), &*nothing);
        let command = op_msg::Command { request_id: 1, database, body: &body, appended, sequences: &[] };
        let mut message = Vec::new();
        op_msg::encode_command(&command, &mut message);
        Self { stream, message, answer: vec![0; 64 * 1024] }
    }

    async fn ask(&mut self) {
        self.stream.write_all(&self.message).await.unwrap();
        let mut read = 0;
        while read < 4 || read < i32::from_le_bytes(*self.answer.first_chunk().unwrap()) as usize {
            read += self.stream.read(&mut self.answer[read..]).await.unwrap();
        }
    }
}

async fn turn(clients: &Clients, side: Side, many: usize, time: Duration) -> Sum {
    let (start, before) = (Instant::now(), processor());
    let tasks = (0..many).map(|n| {
        let clients = clients.clone();
        tokio::spawn(async move { clients.ask(side, n as i32, start + time).await })
    });
    let commands = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    Sum { commands, processor: processor() - before, waited: start.elapsed() * many as u32 }
}

/// The processor time of this process so far; the server is another one.
fn processor() -> Duration {
    Duration::from_micros(own_cpu_us().unwrap().try_into().unwrap())
}
