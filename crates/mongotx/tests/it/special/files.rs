//! GridFS as its drivers store it: a file is a document in `fs.files`, its bytes are documents in
//! `fs.chunks`.

use bson::{Binary, Bson, Document, doc, oid::ObjectId, spec::BinarySubtype};
use mongotx::{ErrorKind, IndexModel, Isolation, Result, Session};

use super::all;
use crate::place::Place;

const CHUNK: usize = 255 * 1024;
const SIZE: usize = 3 * CHUNK + 17;

async fn place(name: &str) -> Place {
    let place = Place::new(name).await;
    place.coll("fs.files").create_index(doc! {"filename": 1, "uploadDate": 1}).await.unwrap();
    let unique = IndexModel::new(doc! {"files_id": 1, "n": 1}).unique(true);
    place.coll("fs.chunks").create_index(unique).await.unwrap();
    place
}

fn chunk_id(id: i32, n: usize) -> Bson {
    ObjectId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, id as u8, n as u8]).into()
}

fn chunks(id: i32) -> Vec<Document> {
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let chunk = |(n, part): (usize, &[u8])| {
        let data = Binary { subtype: BinarySubtype::Generic, bytes: part.to_vec() };
        doc! {"_id": chunk_id(id, n), "files_id": id, "n": n as i32, "data": Bson::Binary(data)}
    };
    bytes.chunks(CHUNK).enumerate().map(chunk).collect()
}

async fn upload(place: &Place, id: i32, session: &mut Session) -> Result<()> {
    place.coll("fs.chunks").insert_many(&chunks(id)).session(session).await?;
    let file = doc! {"_id": id, "length": SIZE as i64, "chunkSize": CHUNK as i32, "uploadDate": bson::DateTime::now(), "filename": "f"};
    place.coll("fs.files").insert_one(&file).session(session).await.map(drop)
}

async fn remove(place: &Place, id: i32, session: &mut Session) {
    assert_eq!(place.coll("fs.files").delete_one(doc! {"_id": id}).session(session).await.unwrap(), 1);
    let chunks = place.coll("fs.chunks").delete_many(doc! {"files_id": id}).session(session).await.unwrap();
    assert_eq!(chunks, 4);
}

/// Length of the file as the plain driver's own GridFS reads it, when everything decided is
/// finished.
async fn read_by_driver(place: &Place, id: i32) -> Option<usize> {
    use futures_util::io::AsyncReadExt;
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    let mut stream = place.plain.gridfs_bucket(None).open_download_stream(id.into()).await.ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    Some(bytes.len())
}

#[tokio::test]
async fn upload_and_removal_are_there_together_or_not_at_all() {
    let place = place("files").await;
    for commit in [false, true] {
        let mut session = place.begin_at(Isolation::ReadCommitted);
        upload(&place, 1, &mut session).await.unwrap();
        assert_eq!(place.coll("fs.chunks").count_documents(doc! {"files_id": 1}).await.unwrap(), 0);
        let sorted = [doc! {"$match": {"files_id": 1}}, doc! {"$sort": {"n": 1}}];
        assert_eq!(all(&place.coll("fs.chunks"), &sorted, Some(&mut session)).await, chunks(1));
        if commit { session.commit().await } else { session.rollback().await }.unwrap();
        assert_eq!(read_by_driver(&place, 1).await, commit.then_some(SIZE));
    }
    for commit in [false, true] {
        let mut session = place.begin_at(Isolation::ReadCommitted);
        remove(&place, 1, &mut session).await;
        if commit { session.commit().await } else { session.rollback().await }.unwrap();
        assert_eq!(read_by_driver(&place, 1).await, (!commit).then_some(SIZE));
    }
    assert_eq!(place.coll("fs.chunks").count_documents(doc! {}).await.unwrap(), 0);
}

/// The file is removed and another one takes its `_id`, in one transaction.
#[tokio::test]
async fn file_is_replaced() {
    let place = place("files_replaced").await;
    let mut session = place.begin_at(Isolation::ReadCommitted);
    upload(&place, 1, &mut session).await.unwrap();
    session.commit().await.unwrap();
    for commit in [false, true] {
        session.begin().unwrap();
        remove(&place, 1, &mut session).await;
        upload(&place, 1, &mut session).await.unwrap();
        if commit { session.commit().await } else { session.rollback().await }.unwrap();
        assert_eq!(read_by_driver(&place, 1).await, Some(SIZE));
    }
}

#[tokio::test]
async fn rivals_upload_of_the_same_chunks_is_refused() {
    let place = place("files_rival").await;
    let mut session = place.begin_at(Isolation::ReadCommitted);
    upload(&place, 1, &mut session).await.unwrap();
    let mut rival = place.begin_at(Isolation::ReadCommitted);
    let same = doc! {"_id": 999, "files_id": 1, "n": 2, "data": "x"};
    let error = place.coll("fs.chunks").insert_one(&same).session(&mut rival).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    session.commit().await.unwrap();
    drop(rival.rollback().await);
    rival.begin().unwrap();
    let error = place.coll("fs.chunks").insert_one(&same).session(&mut rival).await.unwrap_err();
    let key = error.duplicate_key().unwrap();
    assert_eq!((&key.pattern, &key.value), (&doc! {"files_id": 1, "n": 1}, &doc! {"files_id": 1, "n": 2}));
    rival.rollback().await.unwrap();
    assert_eq!(read_by_driver(&place, 1).await, Some(SIZE));
}
