//! A small run: clients that take turns as the server lets them, until all operations are done, or
//! each client has done a given number.

use std::collections::BTreeMap;

use clap::Parser;
use tokio::task::JoinSet;
use txbench::{
    error::OpError,
    targets::{Acknowledged, Connection, Durability, Session, registry::TargetName},
    workload::{Check, Client, ClientId, Done, Totals, bank::BankOptions, registry::WorkloadOptions},
};

use crate::bank::faults::{Fault, Faulty};

/// Attempts of one transaction.
const ATTEMPTS: u32 = 400;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: BankOptions,
}

/// Condition on which clients stop.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    AtTheEnd,
    /// After so many transactions each.
    After(u64),
}

pub(crate) struct Run<'a> {
    pub(crate) target: &'a str,
    pub(crate) clients: u32,
    pub(crate) options: &'a [&'a str],
    pub(crate) fault: Fault,
    pub(crate) stop: Stop,
}

/// Totals and checks of one run of the bank.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) check: Check,
    pub(crate) committed: u64,
    pub(crate) unknown: u64,
    pub(crate) violations: u64,
    pub(crate) kinds: BTreeMap<&'static str, u64>,
}

impl Run<'_> {
    pub(crate) async fn go(self) -> RunResult {
        let name: TargetName = self.target.parse().unwrap();
        let uri = match name.traits().needs_replica_set {
            true => local_mongod::shared_replica_set().await.unwrap().uri(),
            false => local_mongod::shared_standalone().await.unwrap().uri(),
        };
        let connection = Connection {
            durability: Durability { nodes: Acknowledged::Nodes(1), journaled: true },
            ..Connection::new(uri, local_mongod::unique_db("bank"), self.clients)
        };
        let target = (name.entry().connect)(connection).await.unwrap();
        let command = Command::parse_from([&["bank"], self.options].concat());
        let workload = command.options.make().unwrap();
        workload.load(&*target, 1, &|_, _| {}).await.unwrap();
        let mut clients = JoinSet::new();
        for index in 0..self.clients {
            let client = workload.client(ClientId { index, of: self.clients, seed: u64::from(index) }).unwrap();
            let session = Faulty::new(target.session().await.unwrap(), self.fault);
            clients.spawn(work(client, Box::new(session), self.stop));
        }
        let mut all = Worked::default();
        for worked in clients.join_all().await {
            all.add(worked);
        }
        target.settle().await.unwrap();
        assert_eq!(target.leftovers(&workload.collections()).await.unwrap(), None);
        let mut session = target.session().await.unwrap();
        let totals = Totals { committed: all.committed, unknown: all.unknown, ..Totals::default() };
        let check = workload.check(&mut *session, &totals).await;
        target.close().await.unwrap();
        let Worked { committed, unknown, violations, kinds } = all;
        RunResult { check, committed, unknown, violations, kinds }
    }
}

#[derive(Default)]
struct Worked {
    committed: u64,
    unknown: u64,
    violations: u64,
    kinds: BTreeMap<&'static str, u64>,
}

impl Worked {
    fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.unknown += other.unknown;
        self.violations += other.violations;
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }
}

async fn work(mut client: Box<dyn Client>, mut session: Box<dyn Session>, stop: Stop) -> Worked {
    let mut worked = Worked::default();
    let limit = if let Stop::After(limit) = stop { limit } else { u64::MAX };
    for _ in 0..limit {
        let kind = client.choose().kind;
        match tried(&mut *client, &mut *session).await {
            Some(Ok(Done::Finished)) => break,
            Some(Ok(_)) => {
                worked.committed += 1;
                *worked.kinds.entry(kind).or_default() += 1;
            }
            Some(Err(())) => worked.unknown += 1,
            None => {}
        }
    }
    client.finish(&mut *session).await.unwrap();
    worked.violations = client.violations();
    worked
}

/// The result of one operation. `Err`: in doubt; `None`: given up.
async fn tried(client: &mut dyn Client, session: &mut dyn Session) -> Option<Result<Done, ()>> {
    for attempt in 0..ATTEMPTS {
        match client.attempt(session).await {
            Ok(done) => return Some(Ok(done)),
            Err(OpError::Unknown(_)) => return Some(Err(())),
            Err(OpError::Fatal(error)) => panic!("{error}"),
            Err(OpError::Conflict(_) | OpError::Duplicate) => {
                session.rollback().await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(u64::from(attempt.min(5)))).await;
            }
        }
    }
    None
}
