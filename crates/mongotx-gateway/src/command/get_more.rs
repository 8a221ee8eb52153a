//! The command `getMore`: the next documents of an open cursor. The cursors are in `crate::cursor`.

use std::time::Instant;

use bson::{Bson, rawdoc};
use mongotx::Namespace;

use super::{
    change_stream,
    parts::{
        body::{Body, HandlerReply},
        call::Call,
    },
    tailable::{self, TailableGetMore},
};
use crate::{
    cursor::{InUse, OpenCursor},
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
};

/// The server's words for a cursor that is killed while documents are fetched from it.
const KILLED: &str = "Executor error during getMore :: caused by :: operation was interrupted";

/// Arguments of `getMore`, the cursor's id among them.
pub(super) struct GetMore {
    id: i64,
    collection: String,
    size: Option<u64>,
}

impl GetMore {
    /// Parses the command, its first field included.
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let id = match fields.any("getMore").unwrap_or(Bson::Null) {
            Bson::Int64(id) => id,
            other => {
                let found = type_name(&other);
                let message = format!("BSON field 'getMore.getMore' is the wrong type '{found}', expected type 'long'");
                return Err(Failure::new(codes::TYPE_MISMATCH, message));
            }
        };
        let collection = fields.text("collection")?;
        let collection = fields.required("collection", collection)?;
        let size = fields.natural("batchSize")?.filter(|size| *size > 0);
        fields.ignore(&["term", "lastKnownCommittedOpTime"]);
        fields.finish()?;
        Ok(Self { id, collection, size })
    }
}

pub(super) async fn answer_get_more(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let fields = Fields::new("getMore", std::mem::take(&mut call.body));
    let asked = GetMore::parse(fields)?;
    let namespace = call.namespace_of(&asked.collection.as_str().into())?;
    let cursors = &call.context.tx.cursors;
    let open = cursors.check_out(asked.id, &namespace, call.user_digest(), call.mode, call.generic.api)?;
    let in_use = cursors.in_use(asked.id);
    tokio::select! {
        // What is done is answered, though it may have ended the cursor.
        biased;
        batch = next_batch(call, &asked, namespace, open, in_use) => batch,
        () = cursors.killed(asked.id) => Err(Failure::new(codes::CURSOR_KILLED, KILLED)),
    }
}

/// The next documents of the cursor `open`, which `in_use` ends if this is given up.
async fn next_batch(
    call: &Call<'_>,
    asked: &GetMore,
    namespace: Namespace,
    open: OpenCursor,
    in_use: InUse<'_>,
) -> Answer<HandlerReply> {
    let &GetMore { id, size, .. } = asked;
    let cursors = &call.context.tx.cursors;
    let open = match open.into_changes() {
        Ok(stream) => {
            let more = change_stream::more(call, id, namespace, size, stream).await;
            in_use.done();
            return more.map(HandlerReply::from);
        }
        Err(open) => *open,
    };
    let mut open = match open.into_server() {
        Ok(cursor) if cursor.awaits || !call.generic.says_limit => {
            let more = tailable::more(call, TailableGetMore { id, namespace, size }, cursor).await;
            in_use.done();
            return more;
        }
        Ok(cursor) => OpenCursor::of_server(cursor),
        Err(open) => *open,
    };
    if call.generic.says_limit {
        cursors.give_back(id, open, Instant::now());
        in_use.done();
        let message = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
        return Err(Failure::new(codes::BAD_VALUE, message));
    }
    let batch = open.batch(size.map(|size| usize::try_from(size).unwrap_or(usize::MAX))).await?;
    let moment = open.moment;
    let id = if batch.is_last {
        drop(in_use);
        0
    } else {
        open.keep(&call.context.memory)?;
        cursors.give_back(id, open, Instant::now());
        in_use.done();
        id
    };
    let cursor = rawdoc! {"nextBatch": batch.documents, "id": id, "ns": namespace.to_string()};
    Ok(Body::of_cursor(cursor, moment).into())
}
