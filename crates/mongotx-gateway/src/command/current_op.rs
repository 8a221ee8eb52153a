//! `currentOp` and the stage `$currentOp`: commands that run at this gateway, and transactions that
//! are open at it. Users without `root` and `clusterMonitor` see their own only.
//!
//! The server's operations are not shown: those are the gateway's own commands, on documents as
//! they are stored. Values are taken out of the commands that are shown. The server applies what a
//! client adds to that, a filter or further stages.

use std::time::Duration;

use bson::{Binary, Bson, DateTime, Document, doc, spec::BinarySubtype};
use tokio::time::timeout;

use super::parts::{body::Body, call::Call};
use crate::{
    access::User,
    context::Context,
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
    operations::{Kind, Operation, OperationFilter, Transaction, running_operations},
    session::Lsid,
};

const STAGE: &str = "$currentOp";
/// The most operations that are shown.
const MOST: usize = 10_000;
/// The most bytes of them: they have to fit into one command to the server.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Time limit of a filter, and of the wait for its turn: anyone may bring one, and it is for a few
/// operations.
const FILTER_LIMIT: Duration = Duration::from_secs(3);

/// Runs the command `currentOp`: the commands that run and the transactions that are open.
pub(super) async fn answer_current_op(call: &mut Call<'_>) -> Answer<Body> {
    let mut fields = call.fields("currentOp");
    let own_only = fields.flag("$ownOps")?.unwrap_or(false);
    let idle_connections = fields.flag("$all")?.unwrap_or(false);
    fields.ignore(&["$truncateOps"]);
    let filter = fields.into_rest();
    let sees_all = call.user.is_none_or(User::may_monitor) && !own_only;
    let shown = operations(call, CurrentOpOptions { sees_all, idle_connections, idle_transactions: true });
    let shown = if filter.is_empty() { shown } else { filtered(call.context, shown, filter).await? };
    Body::of(&doc! {"inprog": shown})
}

/// If the pipeline begins with `$currentOp`, replaces the stage by the operations, for the server
/// to go on with.
///
/// # Errors
/// The server's errors for unknown options, for another database or a collection (73), and in a
/// transaction (263).
pub(super) fn replace_stage(call: &Call<'_>, of_database: bool, stages: &mut [Document]) -> Answer<()> {
    let Some(first) = stages.first_mut() else { return Ok(()) };
    let Some(options) = first.get(STAGE) else { return Ok(()) };
    let asked = CurrentOpOptions::of(options)?;
    if call.is_in_transaction() {
        let message = format!(
            "Operation not permitted in transaction :: caused by :: Aggregation stage {STAGE} cannot run within a multi-document \
             transaction."
        );
        return Err(Failure::new(codes::NOT_IN_TRANSACTION, message));
    }
    if !of_database || call.db != "admin" {
        let message = format!("{STAGE} must be run against the 'admin' database with {{aggregate: 1}}");
        return Err(Failure::new(codes::INVALID_NAMESPACE, message));
    }
    *first = documents(operations(call, asked));
    Ok(())
}

/// Options of the command or stage.
#[derive(Clone, Copy)]
struct CurrentOpOptions {
    sees_all: bool,
    idle_connections: bool,
    idle_transactions: bool,
}

impl CurrentOpOptions {
    fn of(options: &Bson) -> Answer<Self> {
        let Bson::Document(options) = options else {
            let found = type_name(options);
            let message = format!("{STAGE} options must be specified in an object, but found: {found}");
            return Err(Failure::new(codes::FAILED_TO_PARSE, message));
        };
        let mut fields = Fields::new(STAGE, options.clone());
        let asked = Self {
            sees_all: fields.flag("allUsers")?.unwrap_or(false),
            idle_connections: fields.flag("idleConnections")?.unwrap_or(false),
            idle_transactions: fields.flag("idleSessions")?.unwrap_or(true),
        };
        // There is one gateway, which shows each operation once, and nothing of its cursors.
        fields.ignore(&["idleCursors", "localOps", "truncateOps", "backtrace", "targetAllNodes"]);
        fields.finish()?;
        Ok(asked)
    }
}

/// A stage that gives these documents, whatever is in them.
fn documents(operations: Vec<Bson>) -> Document {
    doc! {"$documents": {"$literal": operations}}
}

fn operations(call: &Call<'_>, asked: CurrentOpOptions) -> Vec<Bson> {
    let CurrentOpOptions { sees_all, idle_connections, idle_transactions } = asked;
    let user = (!sees_all).then(|| call.user_digest()).filter(|user| !user.is_empty());
    let found =
        running_operations(&call.context.tx, OperationFilter { user, idle_connections, idle_transactions, most: MOST });
    let (mut shown, mut bytes) = (Vec::new(), 0);
    for operation in &found {
        let described = describe(call, operation);
        bytes += bson::serialize_to_vec(&described).map_or(0, |described| described.len());
        if bytes > MOST_BYTES {
            let more = found.len() - shown.len();
            shown.push(doc! {"type": "op", "active": false, "desc": format!("{more} more are not shown")}.into());
            break;
        }
        shown.push(Bson::from(described));
    }
    shown
}

/// The operations that match a filter, which the server evaluates, within a limit of time.
async fn filtered(context: &Context, shown: Vec<Bson>, filter: Document) -> Answer<Vec<Bson>> {
    let pipeline = vec![documents(shown), doc! {"$match": filter}];
    let (cursor, limit) = (doc! {"batchSize": i32::MAX}, FILTER_LIMIT.as_millis() as i64);
    let command = doc! {"aggregate": 1, "pipeline": pipeline, "cursor": cursor, "maxTimeMS": limit};
    // The server looks at its limit between documents; the end of the connection ends a script,
    // too.
    let evaluated = timeout(FILTER_LIMIT, async {
        let _turn = context.filter_turns.acquire().await;
        context.upstream.run_document("admin", &command).await
    });
    let reply = evaluated.await.map_err(|_| {
        let message = format!("the filter of currentOp was not evaluated within {FILTER_LIMIT:?}");
        Failure::new(codes::MAX_TIME_EXPIRED, message)
    })??;
    let reply = Document::try_from(reply.body()).map_err(mongotx::Error::from)?;
    match reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")) {
        Ok(found) => Ok(found.clone()),
        Err(_) => {
            let code = reply.get_i32("code").unwrap_or(codes::INTERNAL_ERROR);
            Err(Failure::new(code, reply.get_str("errmsg").unwrap_or("the filter cannot be used")))
        }
    }
}

/// An operation, in the server's fields; those that it has not are in `mongotx`.
fn describe(call: &Call<'_>, operation: &Operation) -> Document {
    let who = &operation.who;
    let (kind, active, words) = match operation.kind {
        Kind::Command(_) => ("op", true, format!("conn{}", who.connection)),
        Kind::Idle => ("idleSession", false, "inactive transaction".to_owned()),
        Kind::Connection => ("op", false, format!("conn{}", who.connection)),
    };
    let mut described = doc! {
        "type": kind, "host": call.context.address(), "desc": words, "connectionId": who.connection, "client": &who.host,
        "active": active, "currentOpTime": time(0),
    };
    if let Some(application) = &who.application {
        described.insert("appName", application);
    }
    if let Some(driver) = &who.driver {
        described.insert("driver", driver);
    }
    if let Some(user) = &who.user {
        described.insert("effectiveUsers", vec![Bson::from(doc! {"user": &user.name, "db": &user.database})]);
    }
    if let Kind::Command(opid) = operation.kind {
        let micros = i64::try_from(operation.lasts.as_micros()).unwrap_or(i64::MAX);
        described.extend(doc! {"opid": opid, "secs_running": micros / 1_000_000, "microsecs_running": micros});
        described.insert("waitingForLock", operation.wait.is_some());
    }
    if let Some(lsid) = &operation.lsid {
        described.insert("lsid", name(lsid));
    }
    if let Some(transaction) = &operation.transaction {
        described.insert("transaction", describe_transaction(transaction));
    }
    described.insert("op", operation.command().map_or("none", op));
    described.insert("ns", operation.namespace().unwrap_or_default());
    described.insert(if active { "command" } else { "lastCommand" }, operation.shape());
    if let Some(wait) = &operation.wait {
        described.insert("mongotx", doc! {"waitsFor": rival(call, wait)});
    }
    described
}

fn describe_transaction(transaction: &Transaction) -> Document {
    let age_ms = i64::try_from(transaction.open.as_millis()).unwrap_or(i64::MAX);
    let mut described = doc! {
        "parameters": {"txnNumber": transaction.number, "autocommit": false},
        "startWallClockTime": time(age_ms),
        "timeOpenMicros": age_ms.saturating_mul(1_000),
    };
    if let Some(id) = transaction.id {
        // As `mongotx show` takes it.
        described.insert("mongotxId", id.to_string());
    }
    described
}

/// The transaction that is waited for, and its user where it is open at this gateway; the rest only
/// for who may see that user's operations.
fn rival(call: &Call<'_>, wait: &mongotx::Wait) -> Document {
    let micros = i64::try_from(wait.since.elapsed().as_micros()).unwrap_or(i64::MAX);
    let mut described =
        doc! {"mongotxId": wait.rival.to_string(), "ns": wait.namespace.to_string(), "microsecs_waiting": micros};
    let Some(open) = call.context.tx.transactions.find(wait.rival) else { return described };
    let shown = open.now();
    described.extend(shown.who.user.as_ref().map(|user| ("user".to_owned(), user.to_string().into())));
    let is_shown = |user: &User| user.may_monitor() || shown.who.user.as_ref() == Some(&user.name);
    if call.user.is_none_or(is_shown) {
        described.extend(doc! {"connectionId": shown.who.connection, "client": &shown.who.host});
        described.extend(shown.who.application.as_ref().map(|name| ("appName".to_owned(), name.into())));
        described.insert("lastCommand", shown.statement.shape().unwrap_or_default());
    }
    described
}

/// The server's word for what a command does.
fn op(command: &str) -> &'static str {
    match command {
        "find" => "query",
        "getMore" => "getmore",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        _ => "command",
    }
}

/// A time of so many milliseconds ago.
fn time(ago_ms: i64) -> String {
    let time = DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(ago_ms));
    time.try_to_rfc3339_string().unwrap_or_default()
}

/// A session's name, as the server shows it.
pub(super) fn name(lsid: &Lsid) -> Document {
    let binary = |subtype, bytes: &[u8]| Binary { subtype, bytes: bytes.to_vec() };
    let mut name = doc! {"id": binary(BinarySubtype::Uuid, &lsid.id)};
    if !lsid.user.is_empty() {
        name.insert("uid", binary(BinarySubtype::Generic, &lsid.user));
    }
    name
}
