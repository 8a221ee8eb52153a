//! As much of etcd's interface as the benchmark needs: the messages of its KV service (API v3), by
//! their field numbers.

use prost::Message;
use tonic::{client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

/// The message `RangeRequest`, for one key.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

/// The message `PutRequest` of etcd.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

/// `Compare`, with `target` MOD (2) and `result` EQUAL (0): the key was last changed at this
/// revision.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    pub(super) result: i32,
    #[prost(int32, tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(int64, optional, tag = "6")]
    pub(super) mod_revision: Option<i64>,
}

impl Compare {
    /// The key is as it was when it had this revision.
    pub(super) fn unchanged(key: Vec<u8>, revision: i64) -> Self {
        const MOD: i32 = 2;
        Self { result: 0, target: MOD, key, mod_revision: Some(revision) }
    }
}

/// `RequestOp`: a range or a put.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Operation {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<Range>,
    #[prost(message, optional, tag = "2")]
    pub(super) put: Option<Put>,
}

impl Operation {
    pub(super) fn read(key: Vec<u8>) -> Self {
        Self { range: Some(Range { key }), put: None }
    }

    pub(super) fn write(key: Vec<u8>, value: Vec<u8>) -> Self {
        Self { range: None, put: Some(Put { key, value }) }
    }
}

/// `TxnRequest`: the operations are done if every comparison holds.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Operation>,
}

/// The message `KeyValue` of etcd.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

/// The message `RangeResponse` of etcd.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Found {
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

/// The message `ResponseOp` of etcd.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Answer {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<Found>,
}

/// The message `TxnResponse` of etcd.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnAnswer {
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<Answer>,
}

impl TxnAnswer {
    /// Results of the reads, in their order.
    pub(super) fn found(self) -> Vec<Option<KeyValue>> {
        self.responses.into_iter().map(|one| one.range.and_then(|mut range| range.kvs.pop())).collect()
    }
}

/// Sends a transaction to one server.
pub(super) async fn send(channel: &Channel, txn: Txn) -> Result<TxnAnswer, tonic::Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
    let answer = grpc.unary(tonic::Request::new(txn), path, ProstCodec::<Txn, TxnAnswer>::default()).await?;
    Ok(answer.into_inner())
}
