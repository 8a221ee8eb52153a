//! ls, show, abort and doctor on a real server, with a client that was killed in the middle of its
//! work.

use crate::{
    common,
    holder::{Holder, Holds, Job},
};

use std::time::Duration;

use common::{run_mongotx, until};
use local_mongod::Server;
use mongodb::bson::{Bson, Document, doc, oid::ObjectId};

const DB: &str = "bank";
const TXS: &str = "bank_txs";

/// A server with two accounts, and the tools pointed at it.
struct Place {
    server: Server,
    driver: mongodb::Client,
}

impl Place {
    async fn new() -> Self {
        let server = Server::standalone().await.unwrap();
        let driver = server.client().await.unwrap();
        let accounts = [doc! {"_id": 0, "balance": 1_000_i64}, doc! {"_id": 1, "balance": 1_000_i64}];
        driver.database(DB).collection("accounts").insert_many(accounts).await.unwrap();
        Self { server, driver }
    }

    fn tool(&self, args: &[&str]) -> (i32, String) {
        let uri = self.server.uri();
        run_mongotx(args.iter().copied().chain(["--uri", &uri, "--tx-database", TXS]))
    }

    /// A holder with this lease: long where it has to stay alive, short where it is to be found
    /// dead.
    fn hold(&self, holds: Holds, lease_ms: u64) -> Holder {
        Holder::start(&Job {
            uri: self.server.uri(),
            database: DB.to_owned(),
            tx_database: TXS.to_owned(),
            holds,
            lease_ms,
        })
    }

    /// A holder that was killed, and whose lease is over.
    fn stuck(&self, holds: Holds) -> String {
        let mut holder = self.hold(holds, 300);
        holder.kill();
        until("the lease is over", || self.tool(&["ls"]).1.contains("expired"));
        holder.id.clone()
    }

    async fn stored(&self, coll: &str) -> Vec<Document> {
        let coll = self.driver.database(DB).collection::<Document>(coll);
        let mut found = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        let mut all = Vec::new();
        while found.advance().await.unwrap() {
            all.push(found.deserialize_current().unwrap());
        }
        all
    }

    async fn balances(&self) -> Vec<Bson> {
        let all = self.stored("accounts").await;
        assert!(all.iter().all(|account| account.len() == 2), "{all:?}");
        all.iter().map(|account| account.get("balance").cloned().unwrap()).collect()
    }
}

#[tokio::test]
async fn tools_say_so_when_there_is_nothing() {
    let place = Place::new().await;
    assert_eq!(place.tool(&["ls"]), (0, format!("No client has a record in {TXS}.txs.\n")));
    let (status, said) = place.tool(&["doctor"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("Healthy"), "{said}");
    let id = "65a1f0c2b3d4e5f601234567.1";
    for command in ["show", "abort"] {
        let (status, said) = place.tool(&[command, id]);
        assert_eq!(status, 1, "{said}");
        assert!(said.contains("nothing is stored about it"), "{said}");
    }
}

#[tokio::test]
async fn abort_rolls_back_a_transaction_whose_client_lives() {
    let place = Place::new().await;
    let holder = place.hold(Holds::Open, 3_600_000);
    let (client, _) = holder.id.split_once('.').unwrap();

    let (status, said) = place.tool(&["doctor"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("alive, undecided"), "{said}");
    let (_, said) = place.tool(&["ls"]);
    assert!(said.contains("live") && said.contains(&holder.id) && said.contains("3 written"), "{said}");
    let (_, said) = place.tool(&["show", client]);
    assert!(said.contains("live") && said.contains(&holder.id), "{said}");
    let (_, said) = place.tool(&["show", &holder.id]);
    assert!(said.contains("inserted") && said.contains("changed"), "{said}");

    let (status, said) = place.tool(&["abort", &holder.id]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("rolled back now"), "{said}");
    let thousand = Bson::Int64(1_000);
    assert_eq!(place.balances().await, [thousand.clone(), thousand]);
    assert!(place.stored("audits").await.is_empty());
    let (status, said) = place.tool(&["abort", &holder.id]);
    assert!(status == 0 && said.contains("had been rolled back before"), "{said}");
}

#[tokio::test]
async fn abort_rolls_back_a_transaction_whose_client_was_killed() {
    let place = Place::new().await;
    let id = place.stuck(Holds::Open);
    let (status, said) = place.tool(&["doctor"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains(&id) && said.contains("dead: its client is gone"), "{said}");
    // Looking has changed nothing.
    assert!(place.tool(&["ls"]).1.contains("expired"));
    let (status, said) = place.tool(&["abort", &id]);
    assert!(status == 0 && said.contains("rolled back now"), "{said}");
    assert_eq!(place.balances().await, [Bson::Int64(1_000), Bson::Int64(1_000)]);
    assert_eq!(place.tool(&["doctor"]).0, 0);
}

#[tokio::test]
async fn doctor_undoes_what_was_not_committed() {
    let place = Place::new().await;
    let id = place.stuck(Holds::Open);
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains(&id) && said.contains("Healthy"), "{said}");
    assert_eq!(place.balances().await, [Bson::Int64(1_000), Bson::Int64(1_000)]);
    assert!(place.stored("audits").await.is_empty());
    assert!(place.tool(&["ls"]).1.contains("closed"));
}

#[tokio::test]
async fn doctor_finishes_what_was_committed() {
    let place = Place::new().await;
    let id = place.stuck(Holds::Committed);
    let (status, said) = place.tool(&["doctor"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("committed, unfinished: its client is gone"), "{said}");
    let (status, said) = place.tool(&["abort", &id]);
    assert!(status == 1 && said.contains("is committed"), "{said}");
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(place.balances().await, [Bson::Int64(999), Bson::Int64(1_001)]);
    assert_eq!(place.stored("audits").await.len(), 1);
    let (status, said) = place.tool(&["show", &id]);
    assert!(status == 0 && said.contains("committed"), "{said}");
}

/// As after a backup that was put back without the records of its time.
#[tokio::test]
async fn doctor_tells_what_was_rolled_back_for_want_of_a_record() {
    let place = Place::new().await;
    let known = place.stuck(Holds::Committed);
    assert_eq!(place.tool(&["doctor", "--repair"]).0, 0);
    // A client of the same deployment, of an hour ago.
    let mut client = ObjectId::parse_str(known.split('.').next().unwrap()).unwrap().bytes();
    let made = u32::from_be_bytes(client[..4].try_into().unwrap()) - 3_600;
    client[..4].copy_from_slice(&made.to_be_bytes());
    let writer = doc! {"c": ObjectId::from_bytes(client), "n": 1_i64};
    let locked = doc! {"_id": 9, "balance": 1_i64, "_unsafe": {"_id": 9, "balance": 2_i64}, "_xTxId": writer};
    place.driver.database(DB).collection("accounts").insert_one(locked).await.unwrap();
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert_eq!(status, 0, "{said}");
    let undone = "Rolled back: 1 document, because the transaction was over, or had no record";
    assert!(said.contains(undone) && said.contains("bank_txs.orphans") && !said.contains("Healthy"), "{said}");
    let kept = place.driver.database(TXS).collection::<Document>("orphans").find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(kept.get_document("becomes").unwrap(), &doc! {"_id": 9, "balance": 2_i64});
}

#[tokio::test]
async fn doctor_names_damaged_documents_and_strips_them_when_asked() {
    let place = Place::new().await;
    let unknown = doc! {"c": ObjectId::new(), "n": 1_i64};
    let damaged = [
        doc! {"_id": "bad\u{1b}[2J", "_xTxId": 7},
        doc! {"_id": 2, "a": 5, "_unsafe": {"_id": 2, "n": 1}},
        doc! {"_id": 3, "_slot": 1, "b": {"_slot": 2}},
        doc! {"_id": 4, "c": 1, "_xTxId": unknown, "_insert": true},
        doc! {"_id": 5, "_sTxIds": [], "_remove": false},
    ];
    let things = place.driver.database("other").collection::<Document>("things");
    things.insert_many(damaged.clone()).await.unwrap();
    let (status, said) = place.tool(&["doctor"]);
    assert!(status == 1 && said.contains("other.things") && said.contains("5 documents damaged"), "{said}");
    assert!(said.contains("--repair") && !said.contains('\u{1b}'), "{said:?}");
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 5);
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert!(status == 0 && said.contains("Healthy") && !said.contains('\u{1b}'), "{said:?}");
    // The fields that were taken away can be had from the output.
    for part in ["document 2 of \"_unsafe\"", r#"{ "_id": 2, "n": 1 }"#] {
        assert!(said.contains(part), "{said}");
    }
    let mut left = things.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
    let mut all = Vec::new();
    while left.advance().await.unwrap() {
        all.push(left.deserialize_current().unwrap());
    }
    let expected = [
        doc! {"_id": 2, "a": 5},
        doc! {"_id": 3, "b": {"_slot": 2}},
        doc! {"_id": 4, "c": 1},
        doc! {"_id": 5},
        doc! {"_id": "bad\u{1b}[2J"},
    ];
    assert_eq!(all, expected);
}

/// A transaction that lives has not stored it so, but it is not certain what it will do.
#[tokio::test]
async fn doctor_strips_nothing_that_has_the_number_of_a_known_client() {
    let place = Place::new().await;
    let _holder = place.hold(Holds::Open, 3_600_000);
    let accounts = place.driver.database(DB).collection::<Document>("accounts");
    let held = doc! {"_unsafe": {"$exists": true}};
    accounts.update_one(held, doc! {"$set": {"_unsafe": 5}}).await.unwrap();
    let before = place.stored("accounts").await;
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert!(status == 1 && said.contains("left alone") && said.contains("damaged"), "{said}");
    assert_eq!(place.stored("accounts").await, before);
}

#[tokio::test]
async fn doctor_names_a_damaged_record_and_still_judges_the_others() {
    let place = Place::new().await;
    let id = place.stuck(Holds::Open);
    let records = place.driver.database(TXS).collection::<Document>("txs");
    records.insert_one(doc! {"_id": ObjectId::new(), "low": "one"}).await.unwrap();
    let (status, said) = place.tool(&["doctor"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("Damaged record") && said.contains(&id), "{said}");
}

#[tokio::test]
async fn doctor_leaves_transactions_alone_whose_records_are_elsewhere() {
    let place = Place::new().await;
    let id = place.stuck(Holds::Committed);
    let uri = place.server.uri();
    let (status, said) = run_mongotx(["doctor", "--repair", "--uri", &uri, "--tx-database", "wrong"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains(&format!("--tx-database {TXS}")) && said.contains("left alone"), "{said}");
    assert!(place.tool(&["ls"]).1.contains(&id));
    assert_eq!(place.tool(&["doctor", "--repair"]).0, 0);
    assert_eq!(place.balances().await, [Bson::Int64(999), Bson::Int64(1_001)]);
}

/// Forms that MongoTx stores for indexes and validators are no damage, in documents that are held
/// either.
#[tokio::test]
async fn doctor_knows_every_stored_form() {
    let place = Place::new().await;
    // The tools are waited for by this very thread: no sign of life is given meanwhile.
    let hour = Duration::from_secs(3_600);
    let options = mongotx::ClientOptions { lease: hour, ..Default::default() };
    let client = mongotx::Client::connect_with(&place.server.uri(), options).await.unwrap();
    let db = client.database("forms");
    db.create_collection("c").option("validator", doc! {"n": {"$gte": 0}}).await.unwrap();
    let coll = db.collection::<Document>("c");
    coll.create_index(mongotx::IndexModel::new(doc! {"n": 1}).unique(true)).await.unwrap();
    coll.create_index(mongotx::IndexModel::new(doc! {"m": 1}).mirrored(true)).await.unwrap();
    coll.create_index(mongotx::IndexModel::new(doc! {"at": 1}).expire_after(hour)).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    coll.insert_one(&doc! {"_id": 1, "n": 1}).session(&mut session).await.unwrap();
    let in_use = format!("_mongotx_text.{}.1", session.id().unwrap().client);
    place.driver.database("forms").create_collection(&in_use).await.unwrap();
    for args in [&["doctor", "--index-age", "0"][..], &["doctor", "--repair", "--index-age", "0"]] {
        let uri = place.server.uri();
        let (status, said) = run_mongotx(args.iter().copied().chain(["--uri", &uri]));
        assert!(status == 0 && said.contains("Healthy") && said.contains("1 written"), "{said}");
        assert!(!said.contains("Left over") && !said.contains("Damaged"), "{said}");
    }
    session.commit().await.unwrap();
    assert_eq!(coll.list_index_names().await.unwrap(), ["_id_", "n_1", "m_1", "at_1"]);
    assert!(place.driver.database("forms").list_collection_names().await.unwrap().contains(&in_use));
}

#[tokio::test]
async fn doctor_drops_what_is_left_over() {
    let place = Place::new().await;
    let db = place.driver.database(DB);
    let scratch = "_mongotx_text.65a1f0c2b3d4e5f601234567.1";
    db.create_collection(scratch).await.unwrap();
    let specs = vec![
        doc! {"key": {"_unsafe.balance": 1}, "name": "_mongotx_unsafe.gone", "unique": true, "sparse": true},
        doc! {"key": {"at": 1}, "name": "_mongotx_ttl.gone", "expireAfterSeconds": 3600},
        doc! {"key": {"balance": 1}, "name": "kept"},
        doc! {"key": {"_unsafe.balance": 1}, "name": "_mongotx_unsafe.kept", "sparse": true},
    ];
    db.run_command(doc! {"createIndexes": "accounts", "indexes": specs}).await.unwrap();
    let lists = async || {
        let indexes = db.collection::<Document>("accounts").list_index_names().await.unwrap();
        (indexes, db.list_collection_names().await.unwrap())
    };
    // Parts of an index that was just made may be parts of one that is being made.
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert!(status == 0 && said.contains("being made") && said.contains("1 leftover"), "{said}");
    assert_eq!(lists().await.0.len(), 5);
    assert!(!lists().await.1.contains(&scratch.to_owned()));
    let (status, said) = place.tool(&["doctor", "--index-age", "0"]);
    assert!(status == 1 && said.contains("_mongotx_unsafe.gone") && said.contains("2 leftovers"), "{said}");
    assert!(!said.contains("kept"), "{said}");
    let (status, said) = place.tool(&["doctor", "--repair", "--index-age", "0"]);
    assert!(status == 0 && said.contains("Dropped 2 leftovers") && said.contains("Healthy"), "{said}");
    assert_eq!(lists().await.0, ["_id_", "kept", "_mongotx_unsafe.kept"]);
}

#[tokio::test]
async fn doctor_lets_documents_be_locked_again_after_a_renaming_that_was_interrupted() {
    let place = Place::new().await;
    let db = place.driver.database(DB);
    let indexes = sd2v::index::freeze(bson::oid::ObjectId::new()).to_vec();
    db.run_command(doc! {"createIndexes": "accounts", "indexes": indexes}).await.unwrap();
    // The renaming may be under way.
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert!(status == 0 && said.contains("it is being renamed"), "{said}");
    let (status, said) = place.tool(&["doctor", "--index-age", "0"]);
    assert!(
        status == 1 && said.contains("of a renaming that was interrupted") && said.contains("2 leftovers"),
        "{said}"
    );
    let (status, said) = place.tool(&["doctor", "--repair", "--index-age", "0"]);
    assert!(status == 0 && said.contains("Dropped 2 leftovers") && said.contains("Healthy"), "{said}");
    assert_eq!(db.collection::<Document>("accounts").list_index_names().await.unwrap(), ["_id_"]);
}

#[tokio::test]
async fn doctor_names_a_slot_without_an_owner() {
    let place = Place::new().await;
    place.driver.database("other").collection("things").insert_one(doc! {"_id": 1, "_slot": 1}).await.unwrap();
    let (status, said) = place.tool(&["doctor"]);
    assert!(status == 1 && said.contains("_slot") && said.contains("1 document damaged"), "{said}");
}

/// An index that another tool made cannot hold what a transaction has committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_what_cannot_be_finished_and_finishes_it_when_the_cause_is_gone() {
    let place = Place::new().await;
    let options =
        mongotx::ClientOptions { tx_database: TXS.to_owned(), sweep: false, ..mongotx::ClientOptions::default() };
    let owner = mongotx::Client::connect_with(&place.server.uri(), options).await.unwrap();
    let accounts = owner.database(DB).collection::<Document>("accounts");
    let mut session = owner.session();
    session.begin().unwrap();
    accounts.update_one(doc! {"_id": 1}, doc! {"$set": {"language": 5}}).session(&mut session).await.unwrap();
    let raw = place.driver.database(DB).collection::<Document>("accounts");
    let name = mongodb::options::IndexOptions::builder().name("in_the_way".to_owned()).build();
    raw.create_index(mongodb::IndexModel::builder().keys(doc! {"words": "text"}).options(name).build()).await.unwrap();
    session.commit().await.unwrap();
    assert!(owner.flush(Duration::from_secs(60)).await);
    for args in [&["doctor"][..], &["doctor", "--repair"]] {
        let (status, said) = place.tool(args);
        assert_eq!(status, 1, "{said}");
        for word in
            ["Cannot be finished", "bank.accounts", "{_id: 1}", "index in_the_way", "until that index is dropped"]
        {
            assert!(said.contains(word), "{word:?} is not in {said}");
        }
    }
    raw.drop_index("in_the_way").await.unwrap();
    let (status, said) = place.tool(&["doctor", "--repair"]);
    assert_eq!(status, 0, "{said}");
    let stored = place.stored("accounts").await;
    assert_eq!(stored[1], doc! {"_id": 1, "balance": 1_000_i64, "language": 5});
}
