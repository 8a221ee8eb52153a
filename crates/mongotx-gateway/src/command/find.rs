//! The command `find`, by the library's action or by the server's cursor.

use bson::{Document, RawDocumentBuf};
use futures_util::{FutureExt, future::BoxFuture};
use mongotx::Verbosity;

use super::{
    parts::{
        body::HandlerReply,
        call::{Call, with_options, within},
        first_batch::FirstBatch,
    },
    tailable,
};
use crate::{
    cursor::OpenCursor,
    failure::{Answer, Failure, codes},
    fields::Fields,
};

/// Fields that are not in API version 1.
pub(super) const UNSTABLE: [&str; 14] = [
    "min",
    "max",
    "returnKey",
    "showRecordId",
    "tailable",
    "awaitData",
    "oplogReplay",
    "noCursorTimeout",
    "readOnce",
    "term",
    "runtimeConstants",
    "encryptionInformation",
    "ntoreturn",
    "options",
];

/// Arguments of the command, without the collection.
pub(super) struct Find {
    pub(super) filter: Document,
    sort: Option<Document>,
    projection: Option<Document>,
    hint: Option<bson::Bson>,
    collation: Option<Document>,
    variables: Option<Document>,
    skip: u64,
    limit: u64,
    min: Option<Document>,
    max: Option<Document>,
    /// True if the cursor stays open at the end of a capped collection.
    is_tailable: bool,
    return_key: bool,
    show_record_id: bool,
    first: FirstBatch,
}

impl Find {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let batch_size = fields.natural("batchSize")?;
        let find = Self {
            filter: fields.document("filter")?.unwrap_or_default(),
            sort: fields.filled("sort")?,
            projection: fields.filled("projection")?,
            hint: fields.hint()?,
            collation: fields.filled("collation")?,
            variables: fields.filled("let")?,
            skip: fields.natural("skip")?.unwrap_or(0),
            limit: fields.natural("limit")?.unwrap_or(0),
            min: fields.filled("min")?,
            max: fields.filled("max")?,
            is_tailable: fields.flag("tailable")?.unwrap_or(false),
            return_key: fields.flag("returnKey")?.unwrap_or(false),
            show_record_id: fields.flag("showRecordId")?.unwrap_or(false),
            first: FirstBatch {
                size: batch_size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
                is_only: fields.flag("singleBatch")?.unwrap_or(false),
                expires: !fields.flag("noCursorTimeout")?.unwrap_or(false),
            },
        };
        if fields.flag("awaitData")?.unwrap_or(false) && !find.is_tailable {
            let message = "Cannot set 'awaitData' without also setting 'tailable'";
            return Err(Failure::new(codes::FAILED_TO_PARSE, message));
        }
        fields.ignore(&["allowDiskUse", "allowPartialResults", "oplogReplay", "readOnce"]);
        fields.finish()?;
        Ok(find)
    }

    /// The library's action that answers the command.
    pub(super) fn action<'a, T>(&self, collection: &'a mongotx::Collection<T>) -> mongotx::collection::Find<'a, T>
    where
        T: serde::de::DeserializeOwned + 'static,
    {
        let mut find = with_options!(
            collection.find(self.filter.clone()).skip(self.skip).limit(self.limit),
            sort: self.sort.clone(),
            projection: self.projection.clone(),
            hint: self.hint.clone(),
            collation: self.collation.clone(),
            let_vars: self.variables.clone(),
            min: self.min.clone(),
            max: self.max.clone(),
        );
        if self.return_key {
            find = find.return_key();
        }
        if self.show_record_id {
            find = find.show_record_id();
        }
        match self.first.to_fetch() {
            Some(size) => find.batch_size(size),
            None => find,
        }
    }
}

/// The plan for what would be sent now.
pub(super) fn plan<'a>(call: &'a mut Call<'_>, verbosity: Verbosity) -> BoxFuture<'a, Answer<Document>> {
    async move {
        let namespace = call.namespace()?;
        let find = Find::parse(call.fields("FindCommandRequest"))?;
        let collection = call.collection::<Document>(&namespace);
        Ok(within!(call, find.action(&collection)).explain(verbosity).await?)
    }
    .boxed()
}

pub(super) async fn answer_find(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let namespace = call.namespace()?;
    let written = call.body.contains_key("tailable").then(|| call.body.clone());
    let find = Find::parse(call.fields("FindCommandRequest"))?;
    if let Some(written) = written.filter(|_| find.is_tailable) {
        return tailable::open(call, namespace, &written, find.first.expires).await;
    }
    let collection = call.collection::<RawDocumentBuf>(&namespace);
    let cursor = within!(call, find.action(&collection)).await?;
    call.first_batch(namespace, OpenCursor::of_query(cursor, find.limit), find.first).await.map(HandlerReply::from)
}
