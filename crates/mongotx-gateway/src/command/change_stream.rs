//! `aggregate` with `$changeStream`: streams of the events that committed transactions leave.
//!
//! Here the command is read, and its options are checked; batches come from `changes/`, which turns
//! the library's events into those of MongoDB. Collections that are not watched have no events and
//! are refused ([`check_watched`]).

use std::time::{Duration, Instant};

use bson::{Bson, Document, Timestamp, rawdoc};
use mongotx::Namespace;

use super::parts::{body::Body, call::Call, first_batch::FirstBatch, read_concern::ReadLevel};
use crate::{
    changes::{ChangeStream, Delivery, Image, Scope, Sources, Start, StreamOptions, Token},
    cursor::{FIRST_BATCH, OpenCursor, Owner},
    failure::{Answer, Failure, codes},
    fields::Fields,
};

/// The stage that opens a stream.
pub(super) const STAGE: &str = "$changeStream";
/// Time that a `getMore` waits for events if it sets no `maxTimeMS`, as in the server.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest time that a `getMore` may wait.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Code of the error for more than one option that says where a stream begins.
const SEVERAL_STARTS: i32 = 50_674;
/// Stages that a stream may have, as in MongoDB 6.0.
const STAGES: [&str; 8] =
    ["$addFields", "$match", "$project", "$replaceRoot", "$replaceWith", "$redact", "$set", "$unset"];
/// Stages that other pipelines may have, and change streams may not.
const OTHER_STAGES: [&str; 29] = [
    "$bucket",
    "$bucketAuto",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listLocalSessions",
    "$listSessions",
    "$lookup",
    "$merge",
    "$out",
    "$planCacheStats",
    "$sample",
    "$search",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unwind",
    "$changeStreamSplitLargeEvent",
];
/// Databases of the server itself.
const INTERNAL: [&str; 3] = ["admin", "config", "local"];

/// Arguments of an `aggregate` that opens a change stream.
pub(super) struct ChangeStreamRequest {
    pub(super) stages: Vec<Document>,
    pub(super) collation: Option<Document>,
    pub(super) variables: Option<Document>,
    pub(super) explain: bool,
    pub(super) first: FirstBatch,
}

/// Returns true if the pipeline opens a stream.
pub(super) fn is_one(stages: &[Document]) -> bool {
    stages.first().is_some_and(|stage| stage.contains_key(STAGE))
}

/// Opens a stream. `namespace`: as the command names it; `is_database`: the command names no
/// collection.
pub(super) async fn open(
    call: &Call<'_>,
    namespace: Namespace,
    is_database: bool,
    wanted: ChangeStreamRequest,
) -> Answer<Body> {
    check(call, &wanted)?;
    let ChangeStreamRequest { mut stages, collation, variables, first, .. } = wanted;
    let mut options = stages.remove(0);
    let options = match options.remove(STAGE) {
        Some(Bson::Document(of)) if options.is_empty() => of,
        _ => return Err(Failure::new(codes::FAILED_TO_PARSE, "$changeStream stage expects a document as argument")),
    };
    check_stages(&stages)?;
    let mut fields = Fields::new(STAGE, options);
    let scope = scope(&mut fields, &namespace, is_database)?;
    let (after, before, start) = (after(&mut fields)?, before(&mut fields)?, start(&mut fields)?);
    fields.refuse(&["showExpandedEvents"], "MongoTx writes no events of indexes, options and new collections")?;
    fields.ignore(&["showMigrationEvents", "allowToRunOnConfigDB", "allowToRunOnSystemNS"]);
    fields.finish()?;
    if let Scope::Collection(watched) = &scope {
        check_watched(call, watched).await?;
    }
    let asked = StreamOptions { scope, after, before, start, stages, collation, variables };
    let mut stream = ChangeStream::open(asked, sources(call)).await?;
    let size = first.size.unwrap_or(FIRST_BATCH);
    let delivery = stream.batch(Some(size), tokio::time::Instant::now(), sources(call)).await?;
    let id = match delivery.is_over {
        true => 0,
        false => {
            let (user, lsid) = (call.user_digest().to_vec(), call.mode.lsid().cloned());
            let owner = Owner { namespace: namespace.clone(), user, lsid, number: None, api: call.generic.api };
            let mut open = OpenCursor::of_changes(stream);
            open.keep(&call.context.memory)?;
            call.context.tx.cursors.add(owner, open, first.expires, Instant::now())?
        }
    };
    Ok(answer("firstBatch", delivery, id, &namespace))
}

/// The next batch of a stream, which waits for it as long as the client says.
pub(super) async fn more(
    call: &Call<'_>,
    id: i64,
    namespace: Namespace,
    size: Option<u64>,
    mut stream: Box<ChangeStream>,
) -> Answer<Body> {
    let cursors = &call.context.tx.cursors;
    let wait = call.generic.limit.unwrap_or(PATIENCE).min(LONGEST);
    let size = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let delivery = stream.batch(size, tokio::time::Instant::now() + wait, sources(call)).await;
    let delivery = delivery.inspect_err(|_| {
        cursors.kill(id);
    })?;
    let id = if delivery.is_over {
        cursors.kill(id);
        0
    } else {
        let mut open = OpenCursor::of_changes(*stream);
        open.keep(&call.context.memory).inspect_err(|_| {
            cursors.kill(id);
        })?;
        cursors.give_back(id, open, Instant::now());
        id
    };
    Ok(answer("nextBatch", delivery, id, &namespace))
}

fn sources<'a>(call: &Call<'a>) -> Sources<'a> {
    let context = call.context;
    Sources { client: &context.client, upstream: &context.upstream, records: &context.options.client.tx_database }
}

fn answer(name: &str, delivery: Delivery, id: i64, namespace: &Namespace) -> Body {
    let mut documents = bson::RawArrayBuf::new();
    delivery.documents.into_iter().for_each(|document| documents.push(document));
    let token = delivery.token.to_document();
    let token = rawdoc! {"_data": token.get_str("_data").unwrap_or_default()};
    let cursor = match name {
        "firstBatch" => {
            rawdoc! {"firstBatch": documents, "id": id, "ns": namespace.to_string(), "postBatchResumeToken": token}
        }
        _ => rawdoc! {"nextBatch": documents, "id": id, "ns": namespace.to_string(), "postBatchResumeToken": token},
    };
    Body::of_cursor(cursor, None)
}

fn check(call: &Call<'_>, wanted: &ChangeStreamRequest) -> Answer<()> {
    if call.is_in_transaction() {
        let message = "$changeStream cannot be used in a transaction";
        return Err(Failure::new(codes::NOT_IN_TRANSACTION, message));
    }
    if wanted.explain {
        let message = "explain of $changeStream is not supported: the gateway reads the events that transactions leave, and makes a stream of them";
        return Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, message));
    }
    match call
        .validated
        .map(|read| read.level)
        .or(call.generic.read.level)
        .filter(|level| *level != ReadLevel::Majority)
    {
        None => Ok(()),
        Some(level) => {
            let level = level.name();
            let message = format!(
                "$changeStream cannot run with a readConcern other than 'majority'. Current readConcern: {level}"
            );
            Err(Failure::new(codes::INVALID_OPTIONS, message))
        }
    }
}

/// # Errors
/// 20, as the server, for other stages than those that change or leave out single events.
fn check_stages(stages: &[Document]) -> Answer<()> {
    let strange = stages.iter().flat_map(Document::keys).find(|name| !STAGES.contains(&name.as_str()));
    match strange.map(String::as_str) {
        None => Ok(()),
        Some(STAGE) => Err(Failure::new(NOT_FIRST, "$changeStream is only valid as the first stage in a pipeline")),
        Some(name) if !OTHER_STAGES.contains(&name) => {
            Err(Failure::new(NO_STAGE, format!("Unrecognized pipeline stage name: '{name}'")))
        }
        Some(name) => {
            let message = format!("{name} is not permitted in a $changeStream pipeline");
            Err(Failure::new(codes::ILLEGAL_OPERATION, message))
        }
    }
}

/// Code of the error for a stage that has to be the first one.
const NOT_FIRST: i32 = 40_602;
/// Code of the error for an unknown stage.
const NO_STAGE: i32 = 40_324;

fn scope(fields: &mut Fields, namespace: &Namespace, is_database: bool) -> Answer<Scope> {
    let is_all = fields.flag("allChangesForCluster")?.unwrap_or(false);
    if is_all {
        return match namespace.db == "admin" && is_database {
            true => Ok(Scope::Deployment),
            false => {
                let message = format!(
                    "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no \
                     collection name; found {namespace}"
                );
                Err(Failure::new(codes::INVALID_OPTIONS, message))
            }
        };
    }
    if INTERNAL.contains(&namespace.db.as_str()) {
        let message = format!("$changeStream may not be opened on the internal {} database", namespace.db);
        return Err(Failure::new(codes::INVALID_NAMESPACE, message));
    }
    if !is_database && namespace.coll.starts_with("system.") {
        let message = format!("$changeStream may not be opened on the internal {namespace} collection");
        return Err(Failure::new(codes::INVALID_NAMESPACE, message));
    }
    Ok(if is_database { Scope::Database(namespace.db.clone()) } else { Scope::Collection(namespace.clone()) })
}

fn after(fields: &mut Fields) -> Answer<Image> {
    match fields.text("fullDocument")?.as_deref() {
        None | Some("default") => Ok(Image::Off),
        Some("updateLookup") => Ok(Image::Lookup),
        Some("whenAvailable") => Ok(Image::WhenAvailable),
        Some("required") => Ok(Image::Required),
        Some(other) => Err(unknown("fullDocument", other)),
    }
}

fn before(fields: &mut Fields) -> Answer<Image> {
    match fields.text("fullDocumentBeforeChange")?.as_deref() {
        None | Some("off") => Ok(Image::Off),
        Some("whenAvailable") => Ok(Image::WhenAvailable),
        Some("required") => Ok(Image::Required),
        Some(other) => Err(unknown("fullDocumentBeforeChange", other)),
    }
}

fn unknown(field: &str, value: &str) -> Failure {
    let message = format!("Enumeration value '{value}' for field '{STAGE}.{field}' is not a valid value.");
    Failure::new(codes::BAD_VALUE, message)
}

fn start(fields: &mut Fields) -> Answer<Start> {
    let (resume, start) = (fields.document("resumeAfter")?, fields.document("startAfter")?);
    let time = match fields.any("startAtOperationTime") {
        None => None,
        Some(Bson::Timestamp(time)) => Some(time),
        Some(_) => {
            let message =
                format!("BSON field '{STAGE}.startAtOperationTime' is the wrong type, expected type 'timestamp'");
            return Err(Failure::new(codes::TYPE_MISMATCH, message));
        }
    };
    match (resume, start, time) {
        (None, None, None) => Ok(Start::Now),
        (Some(token), None, None) => Ok(Start::After { token: Token::parse(&token)?, may_be_over: false }),
        (None, Some(token), None) => Ok(Start::After { token: Token::parse(&token)?, may_be_over: true }),
        (None, None, Some(Timestamp { time: 0, increment: 0 })) => {
            Err(Failure::new(codes::BAD_VALUE, "startAtOperationTime cannot be the null timestamp"))
        }
        (None, None, Some(time)) => Ok(Start::At(time)),
        _ => {
            let message = "Only one type of resume option is allowed, but multiple were found";
            Err(Failure::new(SEVERAL_STARTS, message))
        }
    }
}

/// # Errors
/// 115 for a collection that is not watched, so that the stream would have no events.
async fn check_watched(call: &Call<'_>, namespace: &Namespace) -> Answer<()> {
    if call.context.client.is_watched(namespace).await.map_err(|error| Failure::from(&error).outside())? {
        return Ok(());
    }
    let message = format!(
        "change streams are not switched on for {namespace}: create it, or change it by collMod, with \
         changeStreamPreAndPostImages: {{enabled: true}}, or start every gateway with --change-streams all"
    );
    Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, message))
}
