//! Check-ins on real servers: every acknowledged one is counted, and a target that loses one is
//! found out.
use bson::{Document, doc};
use clap::Parser;
use txbench::{
    error::OpError,
    targets::{Connection, Find, Session, Target, Update, registry::TargetName},
    workload::{Broken, Client, ClientId, Done, Totals, Workload, checkin::CheckinOptions, registry::WorkloadOptions},
};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: CheckinOptions,
}

fn workload(options: &[&str]) -> Result<Box<dyn Workload>, txbench::BenchError> {
    Command::parse_from([&["checkin"], options].concat()).options.make()
}

async fn loaded(target: &str, workload: &dyn Workload) -> Box<dyn Target> {
    let name: TargetName = target.parse().unwrap();
    let server = match name.traits().needs_replica_set {
        true => local_mongod::shared_replica_set().await.unwrap(),
        false => local_mongod::shared_standalone().await.unwrap(),
    };
    let connection = Connection::new(server.uri(), local_mongod::unique_db("checkin"), 4);
    let target = (name.entry().connect)(connection).await.unwrap();
    workload.load(&*target, 1, &|_, _| {}).await.unwrap();
    target
}

/// Makes so many check-ins, each of which must be committed in the end.
async fn check_in(mut client: Box<dyn Client>, mut session: Box<dyn Session>, count: u32) -> Box<dyn Client> {
    for _ in 0..count {
        client.choose();
        let mut left = 300;
        loop {
            match client.attempt(&mut *session).await {
                Ok(done) => break assert_eq!(done, Done::Committed),
                Err(OpError::Conflict(_)) if left > 0 => left -= 1,
                Err(error) => panic!("{error}"),
            }
            session.rollback().await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    client
}

fn acknowledged(committed: u64) -> Totals {
    Totals { committed, ..Totals::default() }
}

/// Four clients on few points, so that they meet.
async fn all_are_counted(target: &str) {
    let workload = workload(&["--synthetic", "12", "--documents", "5"]).unwrap();
    let target = loaded(target, &*workload).await;
    let mut clients = tokio::task::JoinSet::new();
    for index in 0..4 {
        let client = workload.client(ClientId { index, of: 4, seed: u64::from(index) }).unwrap();
        clients.spawn(check_in(client, target.session().await.unwrap(), 25));
    }
    let clients = clients.join_all().await;
    assert_eq!(clients.iter().map(|client| client.violations()).sum::<u64>(), 0);
    target.settle().await.unwrap();
    assert_eq!(target.leftovers(&workload.collections()).await.unwrap(), None);
    let mut session = target.session().await.unwrap();
    workload.check(&mut *session, &acknowledged(100)).await.unwrap();
    target.close().await.unwrap();
}

#[tokio::test]
async fn check_ins_of_several_clients_are_all_counted() {
    for target in ["plain", "native", "mongotx"] {
        all_are_counted(target).await;
    }
}

#[tokio::test]
async fn a_search_returns_as_many_documents_as_asked_and_looks_farther_until_it_does() {
    for (radius, commands) in [("20000", 10), ("0.001", 60)] {
        let options = ["--synthetic", "500", "--documents", "7", "--radius-km", radius];
        let workload = workload(&options).unwrap();
        let target = loaded("plain", &*workload).await;
        let client = workload.client(ClientId { index: 0, of: 1, seed: 3 }).unwrap();
        let before = target.commands().get("find").copied().unwrap_or(0);
        let client = check_in(client, target.session().await.unwrap(), 10).await;
        let searches = target.commands()["find"] - before;
        assert!(if commands == 10 { searches == 10 } else { searches > commands }, "{radius} km: {searches}");
        assert_eq!(client.violations(), 0);
        target.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_check_in_that_is_lost_or_a_point_that_is_gone_is_found() {
    let workload = workload(&["--synthetic", "12", "--documents", "5"]).unwrap();
    let target = loaded("plain", &*workload).await;
    let client = workload.client(ClientId { index: 0, of: 1, seed: 3 }).unwrap();
    check_in(client, target.session().await.unwrap(), 10).await;
    let mut session = target.session().await.unwrap();
    workload.check(&mut *session, &acknowledged(10)).await.unwrap();
    let visited = session.find_one("points", Find::new(doc! {"checkins": {"$gt": 0}})).await.unwrap().unwrap();
    let one = |update: Document| Update { filter: doc! {"_id": visited.get("_id")}, update };
    session.update("points", one(doc! {"$inc": {"checkins": -1_i64}})).await.unwrap();
    let broken = workload.check(&mut *session, &acknowledged(10)).await.unwrap_err();
    assert!(matches!(&broken, Broken::Promise(what) if what.contains("9 check-ins are counted")), "{broken}");
    let in_doubt = Totals { committed: 9, unknown: 1, ..Totals::default() };
    workload.check(&mut *session, &in_doubt).await.unwrap();
    session.delete("points", doc! {"_id": 0_i64}).await.unwrap();
    let broken = workload.check(&mut *session, &acknowledged(10)).await.unwrap_err();
    assert!(matches!(&broken, Broken::Promise(what) if what.contains("11 points are there, 12")), "{broken}");
    target.close().await.unwrap();
}

#[tokio::test]
async fn points_of_a_file_are_loaded_and_too_few_are_refused() {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), "name,lat,lon\nA,1,2\nB,1.5,2\nC,50,60\n").unwrap();
    let points = ["--points", file.path().to_str().unwrap()];
    let refused = workload(&[&points[..], &["--documents", "4"]].concat()).err().unwrap().to_string();
    assert!(refused.contains("--documents: 4 are not there, only 3 points are"), "{refused}");
    let workload = workload(&[&points[..], &["--documents", "2"]].concat()).unwrap();
    let target = loaded("mongotx", &*workload).await;
    let client = workload.client(ClientId { index: 0, of: 1, seed: 1 }).unwrap();
    check_in(client, target.session().await.unwrap(), 20).await;
    let mut session = target.session().await.unwrap();
    workload.check(&mut *session, &acknowledged(20)).await.unwrap();
    let found = session.find("points", Find::new(doc! {"checkins": {"$gt": 0}})).await.unwrap();
    // Visits are of all three: C is never the second nearest. The chance that one is left out of
    // twenty visits is 1 in 1,000.
    assert_eq!(found.len(), 3);
    target.close().await.unwrap();
}
