//! A gateway that shows itself as a replica set of one member: the official driver finds it by the
//! set's name, and uses sessions, transactions and retryable writes as with any set.

use std::{net::SocketAddr, time::Duration};

use bson::{Document, doc};
use mongodb::options::ClientOptions;
use mongotx_gateway::{Gateway, GatewayOptions, Limits, ReplicaSetFace, StartError};

use crate::common::{
    commands::{Client, Session, code, has_label},
    driver, options,
    proxy::Proxy,
    soon,
};

fn face(name: &str, advertise: Option<&str>) -> Option<ReplicaSetFace> {
    Some(ReplicaSetFace { name: name.to_owned(), advertise: advertise.map(str::to_owned) })
}

async fn start(replica_set: Option<ReplicaSetFace>) -> Result<Gateway, StartError> {
    let server = local_mongod::shared_standalone().await.unwrap();
    Gateway::start(GatewayOptions { replica_set, ..options(&server.uri(), Limits::default()) }).await
}

#[tokio::test]
async fn the_driver_finds_it_by_its_name_and_has_transactions() {
    let gateway = start(face("rs0", None)).await.unwrap();
    let address = gateway.address().unwrap();
    let client = driver(address, "replicaSet=rs0&").await;
    let hello = soon(client.database("admin").run_command(doc! {"hello": 1})).await.unwrap();
    assert_eq!(hello.get_str("me").unwrap(), address.to_string());
    let database = client.database(&local_mongod::unique_db("gw_face"));
    let coll = database.collection::<Document>("c");
    soon(coll.insert_many([doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 1}])).await.unwrap();
    let mut session = soon(client.start_session()).await.unwrap();
    for commits in [false, true] {
        soon(session.start_transaction()).await.unwrap();
        soon(coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": -1}}).session(&mut session)).await.unwrap();
        soon(coll.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut session)).await.unwrap();
        match commits {
            true => soon(session.commit_transaction()).await.unwrap(),
            false => soon(session.abort_transaction()).await.unwrap(),
        }
    }
    let of = async |id: i32| soon(coll.find_one(doc! {"_id": id})).await.unwrap().unwrap().get_i32("n").unwrap();
    assert_eq!((of(1).await, of(2).await), (0, 2));
    // A driver finds it also without the set's name, and by a direct connection.
    for other in ["", "directConnection=true&"] {
        soon(driver(address, other).await.database("admin").run_command(doc! {"ping": 1})).await.unwrap();
    }
}

#[tokio::test]
async fn another_name_is_not_found_and_neither_is_a_router() {
    for (shown, asked) in [(face("rs0", None), "rs1"), (None, "rs0")] {
        let gateway = start(shown).await.unwrap();
        let uri = format!("mongodb://{}/?replicaSet={asked}", gateway.address().unwrap());
        let mut options = ClientOptions::parse(uri).await.unwrap();
        options.server_selection_timeout = Some(Duration::from_secs(1));
        let client = mongodb::Client::with_options(options).unwrap();
        let refused = soon(client.database("admin").run_command(doc! {"ping": 1})).await.unwrap_err();
        assert!(matches!(*refused.kind, mongodb::error::ErrorKind::ServerSelection { .. }), "{refused}");
    }
}

/// Drivers go to the address that the gateway names, not to the one that they came by.
#[tokio::test]
async fn drivers_go_to_the_address_that_is_advertised() {
    let member = start(face("rs0", None)).await.unwrap();
    let there = member.address().unwrap().to_string();
    let other = start(face("rs0", Some(&there))).await.unwrap();
    let client = driver(other.address().unwrap(), "replicaSet=rs0&").await;
    let hello = soon(client.database("admin").run_command(doc! {"hello": 1})).await.unwrap();
    assert_eq!(hello.get_str("me").unwrap(), there);
    soon(client.database("admin").run_command(doc! {"ping": 1})).await.unwrap();
    drop(member);
    let ping = async || soon(client.database("admin").run_command(doc! {"ping": 1})).await;
    assert!(ping().await.is_err(), "it was the member that answered");
}

#[tokio::test]
async fn names_and_addresses_that_no_driver_could_use_are_refused() {
    let long = "n".repeat(101);
    for (name, advertise, why) in [
        ("", None, "1 to 100 bytes"),
        ("a/b", None, "1 to 100 bytes"),
        (&long, None, "1 to 100 bytes"),
        ("rs0", Some("db.example"), "HOST:PORT"),
        ("rs0", Some("db.example:x"), "db.example:x"),
        ("rs0", Some(""), "advertised address"),
    ] {
        let Err(refused) = start(face(name, advertise)).await else { panic!("{name} {advertise:?}") };
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

/// No driver hands on a recovery token to a set: another gateway can say nothing of the
/// transaction, and it must not be run again.
#[tokio::test]
async fn a_commit_that_comes_to_another_gateway_may_have_been_made() {
    let (db, session) = (local_mongod::unique_db("gw_face_commit"), Session::new());
    let statement = session.first(doc! {"insert": "c", "documents": [{"_id": 1}]});
    for (replica_set, label) in
        [(face("rs0", None), "UnknownTransactionCommitResult"), (None, "TransientTransactionError")]
    {
        let first = Client::with_database(db.clone()).await;
        let other = Client::with_options(db.clone(), GatewayOptions { replica_set, ..GatewayOptions::default() }).await;
        first.ok(statement.clone()).await;
        let unknown = other.run_on("admin", session.commit()).await;
        assert_eq!(code(&unknown), 251, "{unknown}");
        assert!(has_label(&unknown, label), "{unknown}");
        assert_eq!(unknown.get_array("errorLabels").unwrap().len(), 1, "{unknown}");
        first.run_on("admin", session.abort()).await;
    }
}

/// A gateway that announces its address to the other members.
struct Member {
    gateway: Gateway,
    address: String,
}

impl Member {
    /// Starts a member in front of the shared server, with this database for its records.
    async fn join(set: &str, tx_database: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        Self::join_through(&server.uri(), set, tx_database).await
    }

    /// The same with another way to the server.
    async fn join_through(uri: &str, set: &str, tx_database: &str) -> Self {
        // The port is known before the gateway listens there: another process may take it in
        // between.
        for _ in 0..20 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut options = options(uri, Limits::default());
            options.listen = Some(free);
            options.client.tx_database = tx_database.to_owned();
            options.replica_set = face(set, Some(&free.to_string()));
            match Gateway::start(options).await {
                Ok(gateway) => return Self { gateway, address: free.to_string() },
                Err(StartError::Listen { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no port stays free");
    }

    /// The member's answer to `hello` over a connection to it alone.
    async fn hello(&self) -> Document {
        let client = driver(self.gateway.address().unwrap(), "directConnection=true&").await;
        soon(client.database("admin").run_command(doc! {"hello": 1})).await.unwrap()
    }
}

fn is_primary(hello: &Document) -> bool {
    let is_primary = hello.get_bool("isWritablePrimary").unwrap();
    assert_eq!(hello.get_bool("secondary").unwrap(), !is_primary, "{hello}");
    is_primary
}

/// Waits until this member is the primary, and knows so many.
async fn until_primary(member: &Member, of: usize) -> Document {
    soon(async {
        loop {
            let hello = member.hello().await;
            if is_primary(&hello) && hello.get_array("hosts").unwrap().len() >= of {
                return hello;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

#[tokio::test]
async fn gateways_that_advertise_themselves_are_members_of_one_set() {
    let (records, set) = (local_mongod::unique_db("gw_members"), "several");
    let first = Member::join(set, &records).await;
    let second = Member::join(set, &records).await;
    let (one, other) = (first.hello().await, second.hello().await);
    assert!(is_primary(&one) && !is_primary(&other), "{one}\n{other}");
    let mut hosts = [first.address.clone(), second.address.clone()];
    hosts.sort();
    for hello in [&one, &other] {
        assert_eq!(hello.get_array("hosts").unwrap(), &hosts.iter().map(bson::Bson::from).collect::<Vec<_>>());
        assert_eq!(hello.get_str("primary").unwrap(), first.address);
    }
    // With another name, or another database of records, it is another set.
    assert!(is_primary(&Member::join("other", &records).await.hello().await));
    assert!(is_primary(&Member::join(set, &local_mongod::unique_db("gw_members")).await.hello().await));
}

/// Ended as it should be, a primary is replaced at once; lost, when it has been silent for a while.
#[tokio::test]
async fn drivers_go_on_at_another_member_when_the_primary_is_gone() {
    for ends_well in [true, false] {
        let (records, db) = (local_mongod::unique_db("gw_failover"), local_mongod::unique_db("gw_failover"));
        let first = Member::join("rs0", &records).await;
        let second = Member::join("rs0", &records).await;
        // Drivers forget whom the primary does not know.
        let before = until_primary(&first, 2).await;
        let uri = format!(
            "mongodb://{},{}/?replicaSet=rs0&heartbeatFrequencyMS=500&serverSelectionTimeoutMS=20000",
            first.address, second.address
        );
        let client = mongodb::Client::with_uri_str(uri).await.unwrap();
        let coll = client.database(&db).collection::<Document>("c");
        let insert = async |id: i32| {
            let mut session = soon(client.start_session()).await.unwrap();
            soon(session.start_transaction()).await.unwrap();
            soon(coll.insert_one(doc! {"_id": id}).session(&mut session)).await.unwrap();
            soon(session.commit_transaction()).await.unwrap();
        };
        insert(1).await;
        match ends_well {
            true => soon(first.gateway.shutdown(Duration::from_secs(10))).await.unwrap(),
            false => drop(first.gateway),
        }
        let after = until_primary(&second, 1).await;
        assert!(before.get_object_id("electionId").unwrap() < after.get_object_id("electionId").unwrap());
        insert(2).await;
        assert_eq!(soon(coll.count_documents(doc! {})).await.unwrap(), 2);
        // A member that comes later finds a primary.
        let third = Member::join("rs0", &records).await;
        assert!(!is_primary(&third.hello().await));
    }
}

/// The network, or the server, may keep a command for ever: the kernel still answers for it, so
/// nothing else ends the wait.
#[tokio::test]
async fn a_look_without_an_answer_is_given_up_and_keeps_no_shutdown_waiting() {
    let (records, set) = (local_mongod::unique_db("gw_silent"), "silent");
    let server = local_mongod::shared_standalone().await.unwrap();
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], server.port())), "gateways").await;
    let member = Member::join_through(&proxy.uri(), set, &records).await;
    let stored = server.client().await.unwrap().database(&records).collection::<Document>("gateways");
    let seen = async || stored.find_one(doc! {"_id": set}).await.unwrap().unwrap().get_datetime("seen").copied().ok();
    proxy.lose(true);
    soon(proxy.until_lost()).await;
    proxy.lose(false);
    let before = seen().await;
    soon(async {
        while seen().await == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(is_primary(&member.hello().await));
    proxy.lose(true);
    soon(proxy.until_lost()).await;
    soon(member.gateway.shutdown(Duration::from_secs(1))).await.unwrap();
}
