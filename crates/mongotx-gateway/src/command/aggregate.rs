//! The command `aggregate`, and the stages that the gateway itself answers.

use bson::{Bson, Document, RawDocumentBuf};
use futures_util::{FutureExt, future::BoxFuture};
use mongotx::{Aggregate, Collection, Database, Namespace, Verbosity};

use super::{
    change_stream::{self, ChangeStreamRequest},
    current_op, local_sessions,
    parts::{
        body::Body,
        call::{Call, with_options, within},
        first_batch::FirstBatch,
        plan::{answer, check_level},
        read_concern::{ReadLevel, ValidatedRead},
    },
};
use crate::{
    api::ApiParameters,
    cursor::OpenCursor,
    failure::{Answer, Failure, codes},
    fields::{Fields, as_number},
};

/// Fields that are not in API version 1.
pub(super) const UNSTABLE: [&str; 6] =
    ["explain", "runtimeConstants", "encryptionInformation", "isMapReduceCommand", "fromMongos", "exchange"];

/// Arguments of the command, without the collection.
pub(super) struct Pipeline {
    stages: Vec<Document>,
    collation: Option<Document>,
    hint: Option<Bson>,
    variables: Option<Document>,
    allow_disk_use: bool,
    explain: bool,
    first: FirstBatch,
}

impl Pipeline {
    /// `needs_cursor`: unless it is to be explained.
    pub(super) fn parse(mut fields: Fields, needs_cursor: bool) -> Answer<Self> {
        let explain = fields.flag("explain")?.unwrap_or(false);
        let stages = fields.documents("pipeline")?;
        let cursor = fields.document("cursor")?;
        if cursor.is_none() && needs_cursor && !explain {
            let message = "The 'cursor' option is required, except for aggregate with the explain argument";
            return Err(Failure::new(codes::FAILED_TO_PARSE, message));
        }
        let parsed = Self {
            stages: fields.required("pipeline", stages)?,
            collation: fields.filled("collation")?,
            hint: fields.hint()?,
            variables: fields.filled("let")?,
            allow_disk_use: fields.flag("allowDiskUse")?.unwrap_or(true),
            explain,
            first: FirstBatch::of_cursor("aggregate", cursor)?,
        };
        // Heeded before the handler runs.
        fields.safe_flag("bypassDocumentValidation")?;
        fields.finish()?;
        Ok(parsed)
    }

    /// # Errors
    /// 323 for stages that are not in the API version that the client keeps to, 40323 for one that
    /// has not exactly one field, 40602 for one that stands where it cannot.
    fn check_stages(&self, api: ApiParameters) -> Answer<()> {
        // What a user may do was decided by one of the fields.
        if self.stages.iter().any(|stage| stage.len() != 1) {
            let message = "A pipeline stage specification object must contain exactly one field.";
            return Err(Failure::new(codes::NOT_ONE_FIELD, message));
        }
        api.check_stages(&self.stages)?;
        if self.stages.iter().skip(1).any(|stage| stage.contains_key("$currentOp")) {
            let message = "$currentOp is only valid as the first stage in a pipeline.";
            return Err(Failure::new(codes::NOT_FIRST_STAGE, message));
        }
        Ok(())
    }

    /// Checks a pipeline that is to read as of one moment.
    ///
    /// # Errors
    /// 72 for plans, and for stages that write: MongoDB lets these read at `snapshot`, but they
    /// would have written before what they have read is validated.
    fn check_validated(&self, level: ReadLevel) -> Answer<()> {
        let is_there = |name: &&str| self.stages.iter().any(|stage| stage.contains_key(*name));
        let what = if self.explain { Some("explain") } else { ["$out", "$merge"].into_iter().find(is_there) };
        let Some(what) = what else { return Ok(()) };
        let message = format!("{what} cannot be used with a '{}' read concern level", level.name());
        Err(Failure::new(codes::INVALID_OPTIONS, message))
    }

    /// The library's action, with its own options.
    fn options<'a>(&self, action: Aggregate<'a>) -> Aggregate<'a> {
        let action = with_options!(
            action.allow_disk_use(self.allow_disk_use),
            collation: self.collation.clone(),
            hint: self.hint.clone(),
            let_vars: self.variables.clone(),
        );
        match self.first.to_fetch() {
            Some(size) => action.batch_size(size),
            None => action,
        }
    }
}

/// The input of a pipeline.
enum Source {
    Collection(Collection<Document>),
    Database(Database),
}

impl Source {
    /// The input that the command's first field names.
    fn of(call: &Call<'_>) -> Answer<(Self, Namespace)> {
        match call.body.get(call.name) {
            Some(one) if as_number(one) == Some(1) => {
                let name = format!("{}.$cmd.aggregate", call.db);
                let namespace = Namespace::parse_namespace(&name)
                    .ok_or_else(|| Failure::new(codes::INVALID_NAMESPACE, "the database has no name"))?;
                Ok((Self::Database(call.context.client.database(call.db)), namespace))
            }
            Some(Bson::String(_)) => {
                let namespace = call.namespace()?;
                Ok((Self::Collection(call.collection(&namespace)), namespace))
            }
            _ => {
                let message = "Invalid command format: the 'aggregate' field must specify a collection name or 1";
                Err(Failure::new(codes::FAILED_TO_PARSE, message))
            }
        }
    }

    fn action(&self, pipeline: &Pipeline) -> Aggregate<'_> {
        let stages = pipeline.stages.clone();
        match self {
            Self::Collection(collection) => collection.aggregate(stages),
            Self::Database(database) => database.aggregate(stages),
        }
    }
}

/// The plan for what would be sent now.
pub(super) fn plan<'a>(call: &'a mut Call<'_>, verbosity: Verbosity) -> BoxFuture<'a, Answer<Document>> {
    async move {
        let (source, _) = Source::of(call)?;
        let pipeline = Pipeline::parse(call.fields("aggregate"), false)?;
        pipeline.check_stages(call.generic.api)?;
        Ok(pipeline.options(source.action(&pipeline)).explain(verbosity).await?)
    }
    .boxed()
}

pub(super) async fn answer_aggregate(call: &mut Call<'_>) -> Answer<Body> {
    let (source, namespace) = Source::of(call)?;
    call.check_named_collections(call.body.get("pipeline"))?;
    let written = call.body.contains_key("explain").then(|| call.body.clone());
    let mut pipeline = Pipeline::parse(call.fields("aggregate"), true)?;
    pipeline.check_stages(call.generic.api)?;
    let of_database = matches!(source, Source::Database(_));
    if change_stream::is_one(&pipeline.stages) {
        let Pipeline { stages, collation, variables, explain, first, .. } = pipeline;
        let wanted = ChangeStreamRequest { stages, collation, variables, explain, first };
        return change_stream::open(call, namespace, of_database, wanted).boxed().await;
    }
    local_sessions::replace_stage(call, of_database, &mut pipeline.stages)?;
    current_op::replace_stage(call, of_database, &mut pipeline.stages)?;
    if let Some(ValidatedRead { level, .. }) = call.validated {
        pipeline.check_validated(level)?;
    }
    if let Some(written) = written.filter(|_| pipeline.explain) {
        return explain(call, &source, &pipeline, written).await;
    }
    let action = pipeline.options(source.action(&pipeline));
    let cursor = within!(call, action.with_type::<RawDocumentBuf>()).await?;
    call.first_batch(namespace, OpenCursor::of_query(cursor, 0), pipeline.first).await
}

/// Answers the command with its option `explain`.
async fn explain(call: &Call<'_>, source: &Source, pipeline: &Pipeline, written: Document) -> Answer<Body> {
    if call.is_in_transaction() {
        let message = "Operation not permitted in transaction :: caused by :: Explain for the aggregate command cannot run within a \
                       multi-document transaction";
        return Err(Failure::new(codes::NOT_IN_TRANSACTION, message));
    }
    check_level(call.name, call.generic.read.level)?;
    let written = call.context.client.database(call.db).explain(written, None).await?;
    let sent = pipeline.options(source.action(pipeline)).explain(Verbosity::QueryPlanner).await?;
    answer(written, Some(sent))
}
