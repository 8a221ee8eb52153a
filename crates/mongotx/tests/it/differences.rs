//! The differences from a plain collection that stay: each test shows one of `docs/differences.md`,
//! by its number, and fails when it is gone.

use bson::{Bson, Document, Timestamp, doc};
use futures_util::TryStreamExt;
use mongotx::{Client, Collection, Error, ErrorKind, Session};

type Plain = mongodb::Collection<Document>;

/// Two collections with the same documents, and a transaction that has written to one of them.
struct Both {
    plain: Plain,
    ours: Collection<Document>,
    session: Session,
}

/// `_id` of the document that the transaction has changed, and that no test looks at.
const WRITTEN: i32 = 100;

async fn both(documents: &[Document]) -> Both {
    both_with(documents, &[]).await
}

async fn both_with(documents: &[Document], indexes: &[Document]) -> Both {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let db = local_mongod::unique_db("differences");
    let driver = server.client().await.unwrap();
    let [plain, stored]: [Plain; 2] = ["plain", "ours"].map(|name| driver.database(&db).collection(name));
    for one in [&plain, &stored] {
        one.insert_one(doc! {"_id": WRITTEN}).await.unwrap();
        if !documents.is_empty() {
            one.insert_many(documents).await.unwrap();
        }
        for keys in indexes {
            one.create_index(mongodb::IndexModel::builder().keys(keys.clone()).build()).await.unwrap();
        }
    }
    let ours = client.database(&db).collection("ours");
    let mut session = client.session();
    session.begin().unwrap();
    ours.update_one(doc! {"_id": WRITTEN}, doc! {"$set": {"w": 1}}).session(&mut session).await.unwrap();
    Both { plain, ours, session }
}

fn assert_unsupported(error: &Error, construct: &str) {
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unsupported, Some(263)), "{error}");
    assert!(error.to_string().contains(construct), "{error}");
}

fn code_of(error: &mongodb::error::Error) -> Option<i32> {
    use mongodb::error::{ErrorKind, WriteFailure};
    match error.kind.as_ref() {
        ErrorKind::Command(refused) => Some(refused.code),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => Some(refused.code),
        _ => None,
    }
}

#[tokio::test]
async fn difference_01_reserved_field_names_are_refused() {
    let b = both(&[]).await;
    for name in ["_unsafe", "_xTxId", "_sTxIds", "_insert", "_remove"] {
        b.plain.insert_one(doc! {name: 1}).await.unwrap();
        let error = b.ours.insert_one(&doc! {name: 1}).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(name), "{error}");
        b.plain.find_one(doc! {name: 1}).await.unwrap();
        assert!(b.ours.find_one(doc! {name: 1}).await.unwrap_err().to_string().contains(name));
    }
}

#[tokio::test]
async fn difference_02_scripts_have_the_document_as_this_and_as_obj() {
    let b = both(&[]).await;
    let filter = doc! {"$where": "this === obj"};
    assert!(b.plain.find_one(filter.clone()).await.unwrap().is_none());
    assert!(b.ours.find_one(filter).await.unwrap().is_some());
}

#[tokio::test]
async fn difference_03_text_within_or_is_refused_after_an_own_write() {
    let mut b = both_with(&[doc! {"_id": 1, "s": "word"}], &[doc! {"s": "text"}]).await;
    let filter = doc! {"$or": [{"$text": {"$search": "word"}}, {"_id": 5}]};
    let plain = b.plain.find_one(filter.clone()).await.unwrap();
    assert!(plain.is_some());
    assert_eq!(b.ours.find_one(filter.clone()).await.unwrap(), plain);
    assert_unsupported(&b.ours.find_one(filter).session(&mut b.session).await.unwrap_err(), "$text");
}

#[tokio::test]
async fn difference_04_projections_by_position_are_refused_after_an_own_write() {
    let mut b = both(&[doc! {"_id": 1, "t": [1, 2, 3], "d": {"t": [1, 2]}}]).await;
    let filter = doc! {"_id": {"$gt": 0}, "t": 2};
    for (projection, name) in [
        (doc! {"t.$": 1}, "t.$"),
        (doc! {"t": {"$elemMatch": {"$gt": 1}}}, "$elemMatch"),
        (doc! {"d.t": {"$slice": 1}}, "$slice"),
    ] {
        let plain = b.plain.find_one(filter.clone()).projection(projection.clone()).await.unwrap();
        assert_eq!(b.ours.find_one(filter.clone()).projection(projection.clone()).await.unwrap(), plain);
        let inside = b.ours.find_one(filter.clone()).projection(projection).session(&mut b.session).await;
        assert_unsupported(&inside.unwrap_err(), name);
    }
}

#[tokio::test]
async fn difference_05_distinct_by_place_is_refused_after_an_own_write() {
    let mut b = both(&[doc! {"_id": 1, "t": [1, 2, 3]}]).await;
    assert_eq!(b.plain.distinct("t.0", doc! {}).await.unwrap(), [Bson::Int32(1)]);
    assert_eq!(b.ours.distinct("t.0", doc! {}).await.unwrap(), [Bson::Int32(1)]);
    assert_unsupported(&b.ours.distinct("t.0", doc! {}).session(&mut b.session).await.unwrap_err(), "t.0");
}

#[tokio::test]
async fn difference_06_some_documents_cannot_be_inserted_in_a_transaction() {
    let mut b = both(&[]).await;
    for document in [doc! {"_id": 1, "$x": 1}, doc! {"_id": 2, "at": Timestamp { time: 0, increment: 0 }}] {
        b.plain.insert_one(document.clone()).await.unwrap();
        b.ours.insert_one(&document).await.unwrap();
        let mut again = document;
        again.insert("_id", 3);
        let name = again.keys().nth(1).unwrap().clone();
        assert_unsupported(&b.ours.insert_one(&again).session(&mut b.session).await.unwrap_err(), &name);
    }
}

#[tokio::test]
async fn difference_07_an_upserts_id_cannot_be_put_together_in_a_transaction() {
    let mut b = both(&[]).await;
    let (filter, change) = (doc! {"_id.x": 1}, doc! {"$set": {"a": 1}});
    let plain = b.plain.update_one(filter.clone(), change.clone()).upsert(true).await.unwrap();
    assert_eq!(plain.upserted_id, Some(doc! {"x": 1}.into()));
    let inside = b.ours.update_one(filter, change).upsert(true).session(&mut b.session).await;
    assert_unsupported(&inside.unwrap_err(), "_id.x");
    let (filter, change) = (doc! {"a": 7}, vec![doc! {"$set": {"_id": 7}}]);
    b.plain.update_one(filter.clone(), change.clone()).upsert(true).await.unwrap();
    let inside = b.ours.update_one(filter, change).upsert(true).session(&mut b.session).await;
    assert_unsupported(&inside.unwrap_err(), "_id");
}

fn natural() -> mongodb::options::Hint {
    mongodb::options::Hint::Keys(doc! {"$natural": 1})
}

#[tokio::test]
async fn difference_08_a_document_removed_and_inserted_again_keeps_its_place() {
    let mut b = both(&[doc! {"_id": 1}, doc! {"_id": 2}]).await;
    b.plain.delete_one(doc! {"_id": 1}).await.unwrap();
    b.plain.insert_one(doc! {"_id": 1}).await.unwrap();
    b.ours.delete_one(doc! {"_id": 1}).session(&mut b.session).await.unwrap();
    b.ours.insert_one(&doc! {"_id": 1}).session(&mut b.session).await.unwrap();
    b.session.commit().await.unwrap();
    let few = doc! {"_id": {"$lt": WRITTEN}};
    let plain: Vec<Document> = b.plain.find(few.clone()).hint(natural()).await.unwrap().try_collect().await.unwrap();
    let ours: Vec<Document> = b.ours.find(few).hint(doc! {"$natural": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!((plain, ours), (vec![doc! {"_id": 2}, doc! {"_id": 1}], vec![doc! {"_id": 1}, doc! {"_id": 2}]));
}

#[tokio::test]
async fn difference_09_distinct_from_an_index_has_no_null_for_what_is_missing() {
    let b = both_with(&[doc! {"_id": 1, "a": 1}, doc! {"_id": 2}], &[doc! {"a": 1}]).await;
    assert_eq!(b.plain.distinct("a", doc! {}).await.unwrap(), [Bson::Null, Bson::Int32(1)]);
    assert_eq!(b.ours.distinct("a", doc! {}).await.unwrap(), [Bson::Int32(1)]);
}

#[tokio::test]
async fn difference_10_of_two_faults_another_may_be_named() {
    let mut b = both(&[doc! {"_id": 1, "a": 1}]).await;
    let change = doc! {"$set": {"a": 1}, "$inc": {"a": 1}};
    let hint = mongodb::options::Hint::Name("none".to_owned());
    let plain = b.plain.update_one(doc! {"a": 1}, change.clone()).hint(hint).await.unwrap_err();
    let inside = b.ours.update_one(doc! {"a": 1}, change).hint("none").session(&mut b.session).await.unwrap_err();
    assert_eq!((code_of(&plain), inside.code()), (Some(40), Some(2)));
}

#[tokio::test]
async fn difference_11_document_older_than_a_validator_is_mended_by_simple_updates_only() {
    let mut b = both(&[doc! {"_id": 1, "a": {}}, doc! {"_id": 2, "a": {}}]).await;
    let server = local_mongod::shared_standalone().await.unwrap();
    for name in [b.plain.name(), b.ours.namespace().coll.as_str()] {
        let db = server.client().await.unwrap().database(&b.ours.namespace().db);
        db.run_command(doc! {"collMod": name, "validator": {"a.n": 1}}).await.unwrap();
    }
    // A client that did not know the collection before.
    b.session.rollback().await.unwrap();
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let ours: Collection<Document> = client.database(&b.ours.namespace().db).collection("ours");
    let mut session = client.session();
    session.begin().unwrap();
    let nested = doc! {"$set": {"a.n": 1}};
    assert_eq!(b.plain.update_one(doc! {"_id": 1}, nested.clone()).await.unwrap().modified_count, 1);
    let inside = ours.update_one(doc! {"_id": 1}, nested).session(&mut session).await.unwrap_err();
    assert_eq!(inside.code(), Some(121));
    let whole = doc! {"$set": {"a": {"n": 1}}};
    let mended = ours.update_one(doc! {"_id": 2}, whole).session(&mut session).await.unwrap();
    assert_eq!(mended.modified_count, 1);
}

#[tokio::test]
async fn difference_12_indexes_made_while_a_transaction_is_open_stay_when_it_is_rolled_back() {
    let mut b = both(&[doc! {"_id": 1, "a": 1}]).await;
    b.ours.update_one(doc! {"_id": 1}, doc! {"$set": {"b": 1}}).session(&mut b.session).await.unwrap();
    b.ours.create_index(doc! {"a": 1}).await.unwrap();
    b.session.rollback().await.unwrap();
    assert_eq!(b.ours.list_index_names().await.unwrap(), ["_id_", "a_1"]);
}

#[tokio::test]
async fn difference_13_dropping_the_id_alone_is_no_modification() {
    let mut b = both(&[doc! {"_id": 1, "n": 1}]).await;
    let (filter, change) = (doc! {"_id": 1}, vec![doc! {"$replaceWith": {"n": "$n"}}]);
    let plain = b.plain.update_one(filter.clone(), change.clone()).await.unwrap();
    let inside = b.ours.update_one(filter, change).session(&mut b.session).await.unwrap();
    assert_eq!((plain.modified_count, inside.modified_count), (1, 0));
}

#[tokio::test]
async fn difference_14_a_field_missing_from_a_new_root_keeps_no_place() {
    let mut b = both(&[doc! {"_id": 1, "a": 1}]).await;
    let change = vec![doc! {"$replaceWith": {"_id": "$_id", "n": "$n", "a": "$a"}}, doc! {"$set": {"n": 1}}];
    b.plain.update_one(doc! {"_id": 1}, change.clone()).await.unwrap();
    b.ours.update_one(doc! {"_id": 1}, change).session(&mut b.session).await.unwrap();
    b.session.commit().await.unwrap();
    let plain = b.plain.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
    let ours = b.ours.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
    let names = |document: &Document| document.keys().cloned().collect::<Vec<_>>();
    assert_eq!((names(&plain).join(" "), names(&ours).join(" ")), ("_id n a".to_owned(), "_id a n".to_owned()));
}

#[tokio::test]
async fn difference_15_some_lookups_into_own_writes_are_refused() {
    let mut b = both(&[doc! {"_id": 1, "n": 100}]).await;
    let search = |from: &str| doc! {"$graphLookup": {"from": from, "startWith": "$n", "connectFromField": "n", "connectToField": "_id", "as": "x"}};
    let join = |from: &str| doc! {"$lookup": {"from": from, "localField": "n", "foreignField": "_id", "as": "x"}};
    let collation = doc! {"locale": "en", "strength": 1};
    let plain = b.plain.aggregate([search("plain"), join("plain")]);
    let plain = plain.collation(bson::deserialize_from_document(collation.clone()).unwrap()).await.unwrap();
    assert_eq!(plain.try_collect::<Vec<_>>().await.unwrap().len(), 2);
    let error = b.ours.aggregate([search("ours")]).session(&mut b.session).await.err().unwrap();
    assert_unsupported(&error, "$graphLookup");
    let collated = b.ours.aggregate([join("ours")]).collation(collation);
    assert_unsupported(&collated.session(&mut b.session).await.err().unwrap(), "$lookup");
}

#[tokio::test]
async fn difference_16_coll_stats_count_pending_inserts() {
    let mut b = both(&[doc! {"_id": 1}]).await;
    b.ours.insert_one(&doc! {"_id": 2}).session(&mut b.session).await.unwrap();
    let stats = b.ours.aggregate([doc! {"$collStats": {"count": {}}}]).await.unwrap().try_collect().await.unwrap();
    assert_eq!(stats[0].get_i32("count").unwrap(), 3);
    assert_eq!(b.ours.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test]
async fn difference_17_an_equal_id_of_a_removed_document_is_refused() {
    let b = both(&[]).await;
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let db = client.database(&b.ours.namespace().db);
    let (small, large) = (doc! {"_id": "b"}, doc! {"_id": "B"});
    for name in ["collated", "collated_plain"] {
        db.create_collection(name).option("collation", doc! {"locale": "en", "strength": 2}).await.unwrap();
        db.collection(name).insert_one(&small).await.unwrap();
    }
    let driver = server.client().await.unwrap().database(db.name());
    let plain: Plain = driver.collection("collated_plain");
    plain.delete_one(small.clone()).await.unwrap();
    plain.insert_one(large.clone()).await.unwrap();
    let ours = db.collection::<Document>("collated");
    let mut session = client.session();
    session.begin().unwrap();
    assert_eq!(ours.delete_one(small.clone()).session(&mut session).await.unwrap(), 1);
    assert_unsupported(&ours.insert_one(&large).session(&mut session).await.unwrap_err(), "its _id is equal");
    ours.insert_one(&small).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
}

#[tokio::test]
async fn difference_18_of_several_values_the_first_is_shown_as_the_duplicate() {
    let mut b = both(&[doc! {"_id": 1, "a": 5}]).await;
    let unique = mongotx::IndexModel::new(doc! {"a": 1}).unique(true).sparse(true);
    b.session.rollback().await.unwrap();
    b.ours.create_index(unique).await.unwrap();
    b.session.begin().unwrap();
    let error = b.ours.insert_one(&doc! {"a": [7, 5]}).session(&mut b.session).await.unwrap_err();
    assert_eq!(error.code(), Some(11000), "{error}");
    assert_eq!(error.duplicate_key().unwrap().value, doc! {"a": 7}, "the server would show 5");
}

#[tokio::test]
async fn difference_19_an_open_cursor_does_not_see_later_own_writes() {
    let documents: Vec<Document> = (0..50).map(|id| doc! {"_id": id, "a": 0}).collect();
    let mut b = both(&documents).await;
    let open = b.ours.find(doc! {"_id": {"$lt": WRITTEN}}).sort(doc! {"_id": 1}).batch_size(2);
    let mut cursor = open.session(&mut b.session).await.unwrap();
    cursor.next().await.unwrap().unwrap();
    b.ours.update_one(doc! {"_id": 40}, doc! {"$set": {"a": 1}}).session(&mut b.session).await.unwrap();
    b.ours.delete_one(doc! {"_id": 41}).session(&mut b.session).await.unwrap();
    let rest = cursor.try_collect().await.unwrap();
    assert!(rest.contains(&documents[40]) && rest.contains(&documents[41]), "a replica set would show them changed");
    let again = b.ours.find_one(doc! {"_id": 40}).session(&mut b.session).await.unwrap();
    assert_eq!(again, Some(doc! {"_id": 40, "a": 1}));
}
