//! Through a gateway, what is stored and what is read is to the byte what the server itself would
//! store and answer, also where an object looks like Extended JSON (`{$numberLong: "5"}`).

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use futures_util::TryStreamExt;
use local_mongod::lookalikes::{commands, content, telling};
use mongodb::{ClientSession, Database, error::ErrorKind};
use mongotx_gateway::{Gateway, Limits};

use crate::common::{driver, gateway, until_free};

/// A gateway, the official driver in front of it, and one on the server behind it.
async fn world(test: &str) -> (Gateway, mongodb::Client, mongodb::Client, String) {
    let (gateway, address) = gateway(Limits::default()).await;
    let server = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    (gateway, driver(address, "").await, server, local_mongod::unique_db(test))
}

/// The answer to the command. (The driver reads replies to `run_command` by their bytes.)
async fn ask(db: &Database, session: Option<&mut ClientSession>, command: &Document) -> Document {
    let action = db.run_command(command.clone());
    let answer = match session {
        Some(session) => action.session(session).await,
        None => action.await,
    };
    match answer {
        Ok(reply) => content(&reply),
        Err(error) => match error.kind.as_ref() {
            ErrorKind::Command(refused) => doc! {"code": refused.code},
            other => panic!("{command}: {other:?}"),
        },
    }
}

async fn stored(server: &mongodb::Client, db: &str) -> Vec<RawDocumentBuf> {
    let coll = server.database(db).collection::<RawDocumentBuf>("c");
    coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap()
}

fn check(command: &Document, expected: &Document, got: &Document) {
    let (plain, ours) = (expected.to_vec().unwrap(), got.to_vec().unwrap());
    assert!(plain == ours, "{command}\nserver:  {expected}\ngateway: {got}");
}

#[tokio::test]
async fn outside_transactions() {
    let (_gateway, client, server, name) = world("gw_lossless").await;
    for (n, value) in telling().iter().enumerate() {
        let (plain, ours) = (format!("{name}_p{n}"), format!("{name}_o{n}"));
        for command in commands(value) {
            let expected = ask(&server.database(&plain), None, &command).await;
            let got = ask(&client.database(&ours), None, &command).await;
            check(&command, &expected, &got);
            until_free(&server.database(&ours), "c").await;
            assert_eq!(stored(&server, &plain).await, stored(&server, &ours).await, "{command}");
        }
    }
}

#[tokio::test]
async fn in_transactions() {
    let (_gateway, client, server, name) = world("gw_lossless_tx").await;
    for (n, value) in telling().iter().enumerate() {
        let (plain, ours) = (format!("{name}_p{n}"), format!("{name}_o{n}"));
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        for (place, command) in commands(value).iter().enumerate() {
            let expected = ask(&server.database(&plain), None, command).await;
            // An error would end the transaction.
            if ["code", "refused"].iter().any(|refused| expected.contains_key(refused)) {
                continue;
            }
            // The inserts first; then documents that are committed are met, and then the
            // transaction's own.
            if [2, 9].contains(&place) {
                session.commit_transaction().await.unwrap();
                session.start_transaction().await.unwrap();
            }
            let got = ask(&client.database(&ours), Some(&mut session), command).await;
            check(command, &expected, &got);
        }
        session.commit_transaction().await.unwrap();
        let read = ask(&client.database(&ours), None, &doc! {"find": "c", "sort": {"_id": 1}}).await;
        let whole: Vec<Bson> =
            stored(&server, &plain).await.iter().map(|raw| Document::try_from(raw).unwrap().into()).collect();
        check(&doc! {}, &doc! {"shown": whole}, &read);
    }
}

/// A document with a text that is not UTF-8.
fn not_utf8(id: i32) -> RawDocumentBuf {
    let mut bytes = rawdoc! {"_id": id, "a": {"b": "*****"}, "z": 1}.into_bytes();
    let place = bytes.windows(5).position(|five| five == b"*****").unwrap();
    bytes[place + 1] = 0xff;
    RawDocumentBuf::from_bytes(bytes).unwrap()
}

#[tokio::test]
async fn what_is_read_passes_untouched_and_what_would_be_changed_is_refused() {
    let (_gateway, client, server, name) = world("gw_lossless_odd").await;
    let plain = server.database(&name).collection::<RawDocumentBuf>("c");
    let twice = rawdoc! {"_id": 2, "a": {"x": 1, "x": 2}};
    plain.insert_many([not_utf8(1), twice.clone()]).await.unwrap();
    let before = stored(&server, &name).await;
    let coll = client.database(&name).collection::<RawDocumentBuf>("c");
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    coll.update_many(doc! {}, doc! {"$set": {"z": 2}}).session(&mut session).await.unwrap();
    let read: Vec<RawDocumentBuf> =
        coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(read, before);
    let mut mine = coll.find(doc! {"_id": 1}).session(&mut session).await.unwrap();
    let mine = mine.next(&mut session).await.unwrap().unwrap();
    session.commit_transaction().await.unwrap();
    assert_eq!(mine.get_document("a").unwrap(), before[0].get_document("a").unwrap());
    assert_eq!(coll.find_one(doc! {"_id": 1}).await.unwrap(), Some(mine));
    for (document, field) in [(not_utf8(3), "\"a.b\""), (rawdoc! {"_id": 3, "a": {"x": 1, "x": 2}}, "\"a.x\"")] {
        let refused = coll.insert_one(document).await.unwrap_err();
        let ErrorKind::Command(refused) = refused.kind.as_ref() else { panic!("{refused:?}") };
        assert_eq!(refused.code, 22);
        assert!(refused.message.contains(field), "{refused:?}");
    }
    // A filter of which the server would see only a part.
    let filter = doc! {"find": "c", "filter": {"z": {"$gt": 9}}};
    assert!(client.database(&name).run_command(filter).await.is_ok());
    let filter = rawdoc! {"find": "c", "filter": {"z": {"$gt": 1}, "z": {"$lt": 0}}};
    let refused = client.database(&name).run_raw_command(filter).await.unwrap_err();
    assert!(refused.to_string().contains("\"filter.z\""), "{refused}");
    assert_eq!(stored(&server, &name).await.len(), 2);
}
