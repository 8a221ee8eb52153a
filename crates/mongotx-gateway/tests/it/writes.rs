//! Writes over the wire: unacknowledged, with documents beside the body, large, compressed.

use crate::common;

use bson::{Document, RawDocumentBuf, doc};
use common::{driver, gateway, raw::Raw, soon};
use mongotx_gateway::{
    Limits, Sequence,
    wire::{
        Compressor, compress,
        op_msg::{self, CHECKSUM_PRESENT, MORE_TO_COME},
    },
};

/// An insert with its documents beside the body.
fn insert(database: &str, ids: std::ops::Range<i32>, flags: u32) -> Vec<u8> {
    let concern = if flags & MORE_TO_COME == 0 { 1 } else { 0 };
    let body = doc! {"insert": "c", "ordered": true, "writeConcern": {"w": concern}, "$db": database};
    let documents = ids.flat_map(|id| RawDocumentBuf::try_from(&doc! {"_id": id}).unwrap().into_bytes());
    let sequences = [Sequence { name: "documents".to_owned(), bytes: documents.collect() }];
    let body = RawDocumentBuf::try_from(&body).unwrap();
    op_msg::encode(&op_msg::Parts { request_id: 9, response_to: 0, flags, body: &body, sequences: &sequences })
}

#[tokio::test]
async fn writes_without_an_answer_are_done_in_their_order() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let database = local_mongod::unique_db("gw_unacknowledged");
    let mut raw = Raw::connect(address).await;
    for n in 0..5 {
        raw.send(&insert(&database, n * 10..n * 10 + 10, MORE_TO_COME)).await;
    }
    // Refused, without an answer.
    raw.send(&insert(&database, 0..1, MORE_TO_COME)).await;
    let count = doc! {"count": "c", "query": {}, "$db": &database};
    assert_eq!(raw.ask(count).await.unwrap().get_i32("n").unwrap(), 50);
}

#[tokio::test]
async fn documents_beside_the_body_are_written_in_every_form() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let database = local_mongod::unique_db("gw_sequences");
    let mut raw = Raw::connect(address).await;
    let forms = [None].into_iter().chain(Compressor::ALL.map(Some));
    for (n, compressor) in (0..).zip(forms) {
        let plain = insert(&database, n * 3..n * 3 + 3, CHECKSUM_PRESENT);
        raw.send(&compressor.map_or(plain.clone(), |compressor| compress(&plain, compressor))).await;
        let (header, payload) = raw.receive().await.unwrap();
        assert_eq!(header.response_to, 9);
        assert_eq!(header.op_code == mongotx_gateway::wire::OpCode::Compressed, compressor.is_some());
        drop(payload);
    }
    let count = doc! {"count": "c", "query": {}, "$db": &database};
    assert_eq!(raw.ask(count).await.unwrap().get_i32("n").unwrap(), 12);
}

#[tokio::test]
async fn large_batches_are_written_and_read_back() {
    const EACH: usize = 1_000_000;
    let (_gateway, address) = gateway(Limits::default()).await;
    for more in ["", "compressors=zstd&"] {
        let client = driver(address, more).await;
        let collection = client.database(&local_mongod::unique_db("gw_large")).collection::<Document>("c");
        let documents = (0..20).map(|id| doc! {"_id": id, "text": "x".repeat(EACH)});
        soon(collection.insert_many(documents)).await.unwrap();
        let mut cursor = soon(collection.find(doc! {}).sort(doc! {"_id": 1})).await.unwrap();
        let mut read = 0;
        while soon(cursor.advance()).await.unwrap() {
            assert_eq!(cursor.current().get_str("text").unwrap().len(), EACH);
            read += 1;
        }
        assert_eq!(read, 20);
    }
}
