//! Documents that a text index cannot hold: `check_text_document` says what the server says.

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use mongotx::{ErrorKind, Isolation};
use sd2v::text::{check_text_document, find_text_index};

use crate::random::Random;
use crate::text::scene::Scene;

const INDEXES: usize = 6;

fn index(which: usize) -> Document {
    match which {
        0 => doc! {"key": {"s": "text", "a.b": "text"}, "name": "words"},
        1 => doc! {"key": {"s": "text", "a.b.c": "text"}, "name": "words", "language_override": "l"},
        2 => doc! {"key": {"$**": "text"}, "name": "words"},
        3 => doc! {"key": {"k": 1, "s": "text", "a.k": 1}, "name": "words"},
        4 => doc! {"key": {"s": "text"}, "name": "words", "textIndexVersion": 1},
        _ => doc! {"key": {"a.b": "text"}, "name": "words", "textIndexVersion": 2},
    }
}

fn value(random: &mut Random, depth: usize) -> Bson {
    let language = ["english", "DE", "none", "zz", "", "nb", "no", "portuguese"];
    match random.below(if depth > 3 { 3 } else { 6 }) {
        0 => (*random.pick(&language)).into(),
        1 => random.between(0, 9).into(),
        2 => Bson::Null,
        3 => random.several(2, |random| value(random, depth + 1)).into(),
        _ => fields(random, depth + 1).into(),
    }
}

fn fields(random: &mut Random, depth: usize) -> Document {
    let names = ["s", "a", "b", "c", "k", "l", "language", "_id", "a.b"];
    let names: Vec<&str> = random.several(3, |random| *random.pick(&names));
    // An `_id` at the top level is no array, and its own.
    names
        .into_iter()
        .filter(|name| depth > 0 || *name != "_id")
        .map(|name| (name.to_owned(), value(random, depth)))
        .collect()
}

#[tokio::test]
async fn what_the_function_refuses_is_what_the_server_refuses() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let db = server.client().await.unwrap().database(&local_mongod::unique_db("demands"));
    let random = &mut Random::of_seed(900);
    let (mut refused, mut taken) = (0, 0);
    for which in 0..INDEXES {
        let name = format!("c{which}");
        db.run_command(doc! {"createIndexes": &name, "indexes": [index(which)]}).await.unwrap();
        let listed = db.run_cursor_command(doc! {"listIndexes": &name}).await.unwrap();
        let listed: Vec<Document> = listed.try_collect().await.unwrap();
        let index = find_text_index(&listed).unwrap();
        for id in 0..250 {
            let mut document = doc! {"_id": id};
            if id % 10 == 0 {
                document.insert("_id", doc! {"id": id, "language": 5});
            }
            document.extend(fields(random, 0));
            let inserted = db.run_command(doc! {"insert": &name, "documents": [document.clone()]}).await.unwrap();
            let code =
                inserted.get_array("writeErrors").ok().and_then(|errors| errors[0].as_document()?.get_i32("code").ok());
            let ours = match check_text_document(&document, index) {
                Ok(()) => None,
                Err(sd2v::Error::Invalid { code, .. }) => Some(code),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(ours.is_some(), code.is_some(), "{index}\n{document}: {ours:?}, the server {code:?}");
            assert!(ours == code || ours.is_some_and(|ours| [17261, 17262, 201].contains(&ours)), "{document}");
            refused += usize::from(code.is_some());
            taken += usize::from(code.is_none());
        }
    }
    db.drop().await.unwrap();
    assert!(refused > 100 && taken > 100, "{refused} refused, {taken} taken");
}

fn without_id(document: &Document) -> Document {
    document.clone().into_iter().filter(|(field, _)| field != "_id").collect()
}

#[tokio::test]
async fn a_write_that_the_index_cannot_hold_is_refused_at_the_write() {
    let random = &mut Random::of_seed(910);
    let scene = Scene::new(random).await;
    let mut session = scene.begin(Isolation::ReadCommitted);
    for (language, code) in [(Bson::from("zz"), 17262), (Bson::from(5), 17261)] {
        let bad = doc! {"_id": 600, "s": "apple", "lang": language};
        let refused = scene.ours.insert_one(&bad).session(&mut session).await.unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, Some(code)), "{refused}");
        let refused =
            scene.ours.replace_one(doc! {"_id": 8}, &without_id(&bad)).session(&mut session).await.unwrap_err();
        assert_eq!(refused.code(), Some(code), "{refused}");
        let set = doc! {"$set": {"lang": bad.get("lang").unwrap().clone()}};
        let eighth = doc! {"_id": {"$gte": 8, "$lte": 8}};
        let before = scene.ours.find_one(doc! {"_id": 8}).session(&mut session).await.unwrap();
        for update in
            [scene.ours.update_one(doc! {"_id": 8}, set.clone()), scene.ours.update_many(eighth.clone(), set.clone())]
        {
            let refused = update.session(&mut session).await.unwrap_err();
            assert_eq!(refused.code(), Some(code), "{refused}");
        }
        assert_eq!(scene.ours.find_one(doc! {"_id": 8}).session(&mut session).await.unwrap(), before);
        let upsert = scene.ours.update_one(doc! {"_id": 650}, set).upsert(true).session(&mut session).await;
        assert_eq!(upsert.unwrap_err().code(), Some(code));
        let many = [doc! {"_id": 601 + code, "s": "tea"}, bad];
        let refused = scene.ours.insert_many(&many).session(&mut session).await.unwrap_err();
        assert_eq!(refused.write_errors()[0].code, code, "{refused}");
    }
    session.commit().await.unwrap();
    assert!(scene.client.flush(std::time::Duration::from_secs(10)).await);
    let kept =
        scene.stored.count_documents(doc! {"_id": {"$gt": 10_000}, "_unsafe": {"$exists": false}}).await.unwrap();
    assert_eq!((kept, scene.stored.count_documents(doc! {"_id": {"$in": [600, 650]}}).await.unwrap()), (2, 0));
    scene.end().await;
}
