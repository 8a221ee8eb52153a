//! The workload and the target that `docs/workbench.md` adds, as they stand there: they compile,
//! and do what it says.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may panic; the examples are those of a library")]

mod deferred;
mod deposits;

use clap::Parser;
use local_mongod::{shared_standalone, unique_db};
use txbench::{targets, workload};

use self::{
    targets::{Connection, Session, registry::Entry, registry::HIDDEN},
    workload::{Broken, Check, ClientId, Totals, registry::WorkloadOptions},
};

const PAGE: &str = include_str!("../../../../../docs/workbench.md");

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: deposits::DepositsOptions,
}

/// Makes so many deposits by each of two clients, and returns the result of the check.
async fn deposits(entry: &Entry, count: u32) -> Check {
    let workload = Command::parse_from(["deposits", "--accounts", "5"]).options.make().unwrap();
    let uri = shared_standalone().await.unwrap().uri();
    let target = (entry.connect)(Connection::new(uri, unique_db(entry.traits.name), 2)).await.unwrap();
    workload.load(&*target, 1, &|_, _| {}).await.unwrap();
    for index in 0..2 {
        let mut client = workload.client(ClientId { index, of: 2, seed: u64::from(index) }).unwrap();
        let mut session: Box<dyn Session> = target.session().await.unwrap();
        for _ in 0..count {
            client.choose();
            client.attempt(&mut *session).await.unwrap();
        }
    }
    target.settle().await.unwrap();
    let totals = Totals { committed: u64::from(2 * count), ..Totals::default() };
    workload.check(&mut *target.session().await.unwrap(), &totals).await
}

#[tokio::test]
async fn the_example_workload_holds_on_the_example_target_and_is_broken_on_a_broken_one() {
    deposits(&deferred::ENTRY, 10).await.unwrap();
    deposits(&targets::mongotx::CLIENT_RECORD, 10).await.unwrap();
    let lost = HIDDEN.iter().find(|entry| entry.traits.name == "faulty-lost").unwrap();
    let broken = deposits(lost, 10).await.unwrap_err();
    assert!(matches!(&broken, Broken::Promise(what) if what.contains("18 deposits are there")), "{broken}");
}

#[test]
fn the_page_shows_what_is_compiled_here() {
    for source in [include_str!("deposits/mod.rs"), include_str!("deferred/mod.rs")] {
        assert!(PAGE.contains(&format!("```rust\n{source}```\n")), "docs/workbench.md does not show\n{source}");
    }
}
