//! Transactions as a driver sends them: the visibility of their writes, and the replies.

use crate::common;

use std::time::Duration;

use bson::{Document, doc};
use common::commands::{Client, Session, code, cursor_id, documents, has_label, is_ok};
use mongotx::ClientOptions;
use mongotx_gateway::{GatewayOptions, SessionLimits};

const TRANSIENT: &str = "TransientTransactionError";

fn insert(id: i32) -> Document {
    doc! {"insert": "c", "documents": [{"_id": id}]}
}

fn find() -> Document {
    doc! {"find": "c", "sort": {"_id": 1}}
}

#[tokio::test]
async fn a_commit_makes_everything_visible_and_nothing_before() {
    let client = Client::start("gw_commit").await;
    let session = Session::new();
    client.ok(session.first(insert(1))).await;
    client.ok(session.next(insert(2))).await;
    assert_eq!(documents(&client.ok(session.next(find())).await, "firstBatch").len(), 2);
    assert_eq!(client.all("c").await, Vec::<Document>::new());
    for _ in 0..3 {
        let reply = client.run_on("admin", session.commit()).await;
        assert!(is_ok(&reply), "{reply}");
    }
    assert_eq!(client.all("c").await, [doc! {"_id": 1}, doc! {"_id": 2}]);
    assert_eq!(code(&client.run_on("admin", session.abort()).await), 256);
    assert_eq!(code(&client.run_command(session.next(find())).await), 256);
}

#[tokio::test]
async fn an_abort_leaves_nothing() {
    let client = Client::start("gw_abort").await;
    let session = Session::new();
    client.ok(session.first(insert(1))).await;
    assert!(is_ok(&client.run_on("admin", session.abort()).await));
    assert_eq!(client.all("c").await, Vec::<Document>::new());
    let again = client.run_on("admin", session.commit()).await;
    assert!(code(&again) == 251 && has_label(&again, TRANSIENT), "{again}");
}

#[tokio::test]
async fn a_conflict_is_transient_and_ends_the_transaction() {
    let client = Client::start("gw_conflict").await;
    client.ok(insert(1)).await;
    let update = || doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]};
    let (first, second) = (Session::new(), Session::new());
    client.ok(first.first(update())).await;
    let refused = client.run_command(second.first(update())).await;
    assert!(code(&refused) == 112 && has_label(&refused, TRANSIENT), "{refused}");
    let over = client.run_command(second.next(find())).await;
    assert!(code(&over) == 251 && has_label(&over, TRANSIENT), "{over}");
    assert!(is_ok(&client.run_on("admin", first.commit()).await));
    assert_eq!(client.all("c").await, [doc! {"_id": 1, "a": 1}]);
}

#[tokio::test]
async fn a_refused_write_is_reported_as_such_and_ends_the_transaction() {
    let client = Client::start("gw_refused").await;
    client.ok(insert(1)).await;
    let session = Session::new();
    let several = doc! {"insert": "c", "ordered": false, "documents": [{"_id": 5}, {"_id": 1}, {"_id": 6}]};
    let reply = client.run_command(session.first(several)).await;
    let refused = reply.get_array("writeErrors").unwrap();
    let refused = refused.iter().map(|one| one.as_document().unwrap()).collect::<Vec<_>>();
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].get_i32("index").unwrap(), refused[0].get_i32("code").unwrap()), (1, 11_000));
    assert_eq!(refused[0].get_document("keyValue").unwrap(), &doc! {"_id": 1});
    assert_eq!(reply.get_i32("n").unwrap(), 1);
    assert_eq!(code(&client.run_command(session.next(find())).await), 251);
    assert_eq!(client.all("c").await, [doc! {"_id": 1}]);
}

/// Updates and deletes of one command, whatever they are: counted, upserted and refused each at its
/// place.
#[tokio::test]
async fn several_statements_of_a_command_are_answered_as_one_by_one() {
    let client = Client::start("gw_several").await;
    client.ok(doc! {"insert": "c", "documents": (1..=6).map(|id| doc! {"_id": id, "a": 1}).collect::<Vec<_>>()}).await;
    let (session, add) = (Session::new(), |id: i32| doc! {"q": {"_id": id}, "u": {"$inc": {"a": 1}}});
    let updates = vec![
        add(1),
        add(2),
        doc! {"q": {"_id": 10}, "u": {"$set": {"a": 7}}, "upsert": true},
        doc! {"q": {"_id": {"$gte": 5}}, "u": {"$set": {"a": 7}}, "multi": true},
        doc! {"q": {"_id": 3}, "u": {"a": 9}},
        doc! {"q": {"a": "X"}, "u": {"$set": {"b": 1}}, "collation": {"locale": "en", "strength": 1}},
        add(50),
        add(4),
    ];
    let done = client.ok(session.first(doc! {"update": "c", "updates": updates})).await;
    let upserted: Vec<bson::Bson> = vec![doc! {"index": 2, "_id": 10}.into()];
    assert_eq!(done.get_array("upserted").unwrap(), &upserted);
    // The document that was upserted is among the three, and is not modified.
    assert_eq!((done.get_i32("n").unwrap(), done.get_i32("nModified").unwrap()), (8, 6), "{done}");
    let deletes =
        vec![doc! {"q": {"_id": 1}, "limit": 1}, doc! {"q": {"_id": 1}, "limit": 1}, doc! {"q": {"a": 7}, "limit": 0}];
    let done = client.ok(session.next(doc! {"delete": "c", "deletes": deletes})).await;
    assert_eq!(done.get_i32("n").unwrap(), 4, "{done}");
    let expected = [doc! {"_id": 2, "a": 2}, doc! {"_id": 3, "a": 9}, doc! {"_id": 4, "a": 2}];
    assert_eq!(documents(&client.ok(session.next(find())).await, "firstBatch"), expected);
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
    assert_eq!(client.all("c").await, expected);
    // Refused by the server, as no update, and by the gateway: as by itself, at its place.
    for bad in [doc! {"$inc": {"a": "x"}}, doc! {"$nope": 1}, doc! {"$set": {"_xTxId": 5}}] {
        let refused = |reply: &Document| {
            let refused = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
            (refused.get_i32("index").unwrap(), refused.get_i32("code").unwrap())
        };
        let bad = doc! {"q": {"_id": 4}, "u": bad};
        let alone = client.run_command(session.first(doc! {"update": "c", "updates": [bad.clone()]})).await;
        let updates = vec![add(2), add(3), bad, add(2)];
        let reply = client.run_command(session.first(doc! {"update": "c", "updates": updates})).await;
        assert_eq!(refused(&reply), (2, refused(&alone).1), "{reply}");
        assert_eq!((reply.get_i32("n").unwrap(), reply.get_i32("nModified").unwrap()), (2, 2), "{reply}");
        assert_eq!(code(&client.run_command(session.next(find())).await), 251);
    }
    assert_eq!(client.all("c").await, expected);
}

#[tokio::test]
async fn updates_and_removals_of_a_command_are_one_command_each_for_the_server() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let client = Client::in_front_of(server.uri(), local_mongod::unique_db("gw_ten"), GatewayOptions::default()).await;
    let documents = || (1..=10).map(|id| doc! {"_id": id, "a": 1});
    client.ok(doc! {"insert": "c", "documents": documents().collect::<Vec<_>>()}).await;
    // A query has what was inserted finished.
    assert_eq!(client.all("c").await.len(), 10);
    let count = async |name: &str| {
        let status = client.run_on("admin", doc! {"serverStatus": 1}).await;
        let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
        commands.get_document(name).unwrap().get_i64("total").unwrap()
    };
    let session = Session::new();
    client.ok(session.first(doc! {"update": "c", "updates": [{"q": {"_id": 50}, "u": {"$inc": {"a": 1}}}]})).await;
    let updates: Vec<Document> = (1..=5).map(|id| doc! {"q": {"_id": id}, "u": {"$inc": {"a": 1}}}).collect();
    let deletes: Vec<Document> = (6..=10).map(|id| doc! {"q": {"_id": id}, "limit": 1}).collect();
    let before = count("update").await;
    let done = client.ok(session.next(doc! {"update": "c", "updates": updates})).await;
    assert_eq!(done.get_i32("nModified").unwrap(), 5);
    let between = count("update").await;
    let done = client.ok(session.next(doc! {"delete": "c", "deletes": deletes})).await;
    assert_eq!(done.get_i32("n").unwrap(), 5);
    assert_eq!((between - before, count("update").await - between), (1, 1));
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
}

#[tokio::test]
async fn a_new_transaction_rolls_the_older_one_back() {
    let client = Client::start("gw_newer").await;
    let session = Session::new();
    client.ok(session.first(insert(1))).await;
    client.ok(session.first(insert(2))).await;
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
    assert_eq!(client.all("c").await, [doc! {"_id": 2}]);
}

#[tokio::test]
async fn cursors_of_a_transaction_belong_to_it_and_end_with_it() {
    let client = Client::start("gw_cursors").await;
    let several: Vec<Document> = (0..7).map(|n| doc! {"_id": n}).collect();
    client.ok(doc! {"insert": "c", "documents": several}).await;
    let session = Session::new();
    let query = || doc! {"find": "c", "sort": {"_id": 1}, "batchSize": 3};
    client.ok(session.first(insert(7))).await;
    let opened = client.ok(session.next(query())).await;
    let more = doc! {"getMore": cursor_id(&opened), "collection": "c"};
    assert_eq!(code(&client.run_command(more.clone()).await), 50_737);
    assert_eq!(code(&client.run_command(session.plain(more.clone())).await), 50_740);
    let rest = client.ok(session.next(more.clone())).await;
    assert_eq!((documents(&rest, "nextBatch").len(), cursor_id(&rest)), (5, 0));
    let opened = client.ok(session.next(query())).await;
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
    let more = doc! {"getMore": cursor_id(&opened), "collection": "c"};
    assert_eq!(code(&client.run_command(session.plain(more)).await), 43);
}

#[tokio::test]
async fn who_only_reads_blocks_no_other() {
    let client = Client::start("gw_snapshot").await;
    client.ok(insert(1)).await;
    let session = Session::new();
    let mut first = session.first(find());
    first.insert("readConcern", doc! {"level": "snapshot"});
    client.ok(first).await;
    let rival = Session::new();
    let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]};
    client.ok(rival.first(update)).await;
    assert_eq!(documents(&client.ok(session.next(find())).await, "firstBatch"), [doc! {"_id": 1}]);
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
    assert!(is_ok(&client.run_on("admin", rival.commit()).await));
}

#[tokio::test]
async fn killing_a_session_rolls_back_and_closes() {
    let client = Client::start("gw_kill").await;
    client.ok(doc! {"insert": "other", "documents": [{"_id": 1}, {"_id": 2}]}).await;
    let session = Session::new();
    client.ok(session.first(insert(1))).await;
    let plain = client.ok(session.plain(doc! {"find": "other", "batchSize": 1})).await;
    client.ok(doc! {"killSessions": [session.lsid.clone()]}).await;
    assert_eq!(code(&client.run_on("admin", session.commit()).await), 251);
    let more = doc! {"getMore": cursor_id(&plain), "collection": "other"};
    assert_eq!(code(&client.run_command(session.plain(more)).await), 43);
    assert_eq!(client.all("c").await, Vec::<Document>::new());
}

/// The order in which sessions are killed is no order: the own one is hardly ever the last of so
/// many.
#[tokio::test]
async fn killing_all_sessions_from_within_one_reaches_the_others() {
    let client = Client::start("gw_kill_all").await;
    let (own, sessions) = (Session::new(), [(); 30].map(|()| Session::new()));
    for (id, session) in (0..).zip(&sessions) {
        client.ok(session.first(insert(id))).await;
    }
    client.ok(own.plain(doc! {"killAllSessions": []})).await;
    for session in &sessions {
        assert_eq!(code(&client.run_on("admin", session.commit()).await), 251);
    }
    client.ok(doc! {"drop": "c"}).await;
}

#[tokio::test]
async fn a_transaction_that_is_left_open_is_rolled_back_when_its_time_is_over() {
    let limits = SessionLimits { transaction_lifetime: Duration::from_millis(1), ..SessionLimits::default() };
    let client = Client::with_limits(local_mongod::unique_db("gw_lifetime"), limits).await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let session = Session::new();
    // The transaction may be over before it has written anything.
    client
        .run_command(session.first(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]}))
        .await;
    let freed = doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"b": 1}}, "new": true};
    let reply = common::soon(client.run_command(freed)).await;
    assert_eq!(reply.get_document("value").unwrap(), &doc! {"_id": 1, "b": 1});
    let late = client.run_on("admin", session.commit()).await;
    assert!(code(&late) == 251 && has_label(&late, TRANSIENT), "{late}");
}

/// The library's own limit for transactions that pause is another one.
#[tokio::test]
async fn a_transaction_may_pause_for_as_long_as_it_may_live() {
    let limits = SessionLimits { transaction_lifetime: Duration::from_secs(3_600), ..SessionLimits::default() };
    let library = ClientOptions { idle_limit: Duration::from_millis(100), ..ClientOptions::default() };
    let options = GatewayOptions { sessions: limits, client: library, ..GatewayOptions::default() };
    let client = Client::with_options(local_mongod::unique_db("gw_pause"), options).await;
    let session = Session::new();
    client.ok(session.first(insert(1))).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.ok(session.next(insert(2))).await;
    assert!(is_ok(&client.run_on("admin", session.commit()).await));
    assert_eq!(client.all("c").await, [doc! {"_id": 1}, doc! {"_id": 2}]);
}

#[tokio::test]
async fn what_is_open_when_the_gateway_ends_is_rolled_back() {
    let client = Client::start("gw_end").await;
    let db = client.db.clone();
    client.ok(insert(1)).await;
    let session = Session::new();
    client.ok(session.first(doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})).await;
    common::soon(client.shutdown()).await.unwrap();
    let stored = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let stored = stored.database(&db).collection::<Document>("c").find_one(doc! {}).await.unwrap();
    assert_eq!(stored, Some(doc! {"_id": 1}));
}

#[tokio::test]
async fn another_gateway_finishes_what_this_one_began() {
    let one = Client::start("gw_recovery").await;
    let two = Client::with_database(one.db.clone()).await;
    let session = Session::new();
    let with_token = |token: &Document| {
        let mut commit = session.commit();
        commit.insert("recoveryToken", token.clone());
        commit
    };
    let reply = one.ok(session.first(insert(1))).await;
    let token = reply.get_document("recoveryToken").unwrap().clone();
    assert!(is_ok(&one.run_on("admin", session.commit()).await));
    for _ in 0..2 {
        let learnt = two.run_on("admin", with_token(&token)).await;
        assert!(is_ok(&learnt), "{learnt}");
    }
    // Without the token it never heard of it.
    assert_eq!(code(&Client::with_database(one.db.clone()).await.run_on("admin", session.commit()).await), 251);

    let reply = one.ok(session.first(insert(2))).await;
    let token = reply.get_document("recoveryToken").unwrap().clone();
    let learnt = two.run_on("admin", with_token(&token)).await;
    assert!(code(&learnt) == 251 && has_label(&learnt, TRANSIENT), "{learnt}");
    // The answer is true for ever, for the gateway that had the transaction open, too.
    let late = one.run_on("admin", session.commit()).await;
    assert!(code(&late) == 251 && has_label(&late, TRANSIENT), "{late}");
    assert_eq!(one.all("c").await, [doc! {"_id": 1}]);
}

/// Two gateways of one session, of which the second knows a transaction of the session's, and none
/// of the outcome of the next one, about which nothing is stored any more. Returns the end of that,
/// with its recovery token.
async fn with_unknown_transaction(test: &str, here: &Client, session: &Session) -> Document {
    let elsewhere = Client::start(test).await;
    let reply = elsewhere.ok(session.first(insert(1))).await;
    let mut commit = session.commit();
    commit.insert("recoveryToken", reply.get_document("recoveryToken").unwrap().clone());
    assert_ne!(here.db, elsewhere.db, "the records of the two are not the same");
    commit
}

#[tokio::test]
async fn a_commit_is_not_answered_by_the_outcome_of_another_transaction() {
    let here = Client::start("gw_unknown").await;
    let session = Session::new();
    here.ok(session.first(insert(1))).await;
    assert!(is_ok(&here.run_on("admin", session.commit()).await));
    let commit = with_unknown_transaction("gw_unknown_other", &here, &session).await;
    for commit in [commit.clone(), commit, session.commit()] {
        let reply = here.run_on("admin", commit).await;
        assert!(code(&reply) == 251 && has_label(&reply, "UnknownTransactionCommitResult"), "{reply}");
    }
}

/// The end of a later transaction, which was begun at another gateway, ends it.
#[tokio::test]
async fn an_older_transaction_does_not_outlive_the_end_of_a_newer_one() {
    for commits in [true, false] {
        let here = Client::start("gw_older").await;
        here.ok(insert(1)).await;
        let session = Session::new();
        here.ok(session.first(doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})).await;
        let mut end = with_unknown_transaction("gw_older_other", &here, &session).await;
        if !commits {
            end.remove("commitTransaction");
            end = doc! {"abortTransaction": 1}.into_iter().chain(end).collect();
        }
        here.run_on("admin", end).await;
        let modify = doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"a": 1}}, "new": true};
        let free = here.run_command(modify).await;
        assert_eq!(free.get_document("value").unwrap(), &doc! {"_id": 1, "a": 1}, "{commits}");
    }
}
