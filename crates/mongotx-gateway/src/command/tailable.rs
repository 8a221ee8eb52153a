//! Tailable cursors: those that stay open at the end of a capped collection, for documents that
//! come later.
//!
//! In a capped collection transactions lock nothing, so nothing in it is ever pending, and the
//! server's own cursor shows what MongoTx would. The gateway passes its batches on, under an id of
//! its own. The server opens no such cursor on another collection.

use std::time::Instant;

use bson::{Document, RawArray, rawdoc};
use mongotx::Namespace;

use super::parts::{
    body::{Body, HandlerReply},
    call::Call,
    read_concern::ValidatedRead,
};
use crate::{
    cursor::{OpenCursor, Owner},
    failure::{Answer, Failure, codes},
    upstream::{ServerBatch, ServerCursor},
};

/// Opens a tailable cursor. `written`: the `find` as it came; `expires`: it ends when it is not
/// used for a while.
pub(super) async fn open(
    call: &Call<'_>,
    namespace: Namespace,
    written: &Document,
    expires: bool,
) -> Answer<HandlerReply> {
    check(call)?;
    let upstream = &call.context.upstream;
    let reply = upstream.run_document(call.db, written).await?;
    if !reply.is_ok() {
        return Ok(HandlerReply::Server(reply));
    }
    let batch = ServerBatch::of(reply.body(), "firstBatch")?;
    let awaits = written.get_bool("awaitData").unwrap_or(false);
    let id = match upstream.cursor(&namespace, batch.id, awaits).filter(|_| batch.id != 0) {
        None => 0,
        Some(cursor) => {
            let user = call.user_digest().to_vec();
            let (namespace, lsid) = (namespace.clone(), call.mode.lsid().cloned());
            let owner = Owner { namespace, user, lsid, number: None, api: call.generic.api };
            call.context.tx.cursors.add(owner, OpenCursor::of_server(cursor), expires, Instant::now())?
        }
    };
    Ok(Body::of_cursor(rawdoc! {"firstBatch": batch.documents.to_owned(), "id": id, "ns": namespace.to_string()}, None)
        .into())
}

fn check(call: &Call<'_>) -> Answer<()> {
    if call.is_in_transaction() {
        return Err(Failure::new(codes::INVALID_OPTIONS, "It is illegal to open a tailable cursor in a transaction"));
    }
    if let Some(ValidatedRead { level, .. }) = call.validated {
        let level = level.name();
        let message = format!(
            "a tailable cursor cannot be read with read concern '{level}': its answer has no end that could be validated"
        );
        return Err(Failure::new(codes::INVALID_OPTIONS, message));
    }
    if call.context.upstream.has_cursors() {
        return Ok(());
    }
    let message = "tailable cursors are not supported in front of a replica set: the gateway reaches it over a driver, whose \
                   cursors belong to sessions of its own";
    Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, message))
}

/// Arguments of a `getMore` on a tailable cursor.
pub(super) struct TailableGetMore {
    pub(super) id: i64,
    pub(super) namespace: Namespace,
    pub(super) size: Option<u64>,
}

/// Passes on the next batch of the gateway's cursor `asked.id`.
pub(super) async fn more(call: &Call<'_>, asked: TailableGetMore, mut cursor: ServerCursor) -> Answer<HandlerReply> {
    let TailableGetMore { id, namespace, size } = asked;
    let cursors = &call.context.tx.cursors;
    let reply = match cursor.more(size, call.generic.limit).await {
        Ok(reply) if reply.is_ok() => reply,
        refused => {
            cursors.kill(id);
            return Ok(HandlerReply::Server(refused?));
        }
    };
    let batch = ServerBatch::of(reply.body(), "nextBatch")?;
    let id = if batch.id == 0 {
        cursors.kill(id);
        0
    } else {
        cursors.give_back(id, OpenCursor::of_server(cursor), Instant::now());
        id
    };
    Ok(next_batch(batch.documents, id, &namespace).into())
}

fn next_batch(documents: &RawArray, id: i64, namespace: &Namespace) -> Body {
    Body::of_cursor(rawdoc! {"nextBatch": documents.to_owned(), "id": id, "ns": namespace.to_string()}, None)
}
