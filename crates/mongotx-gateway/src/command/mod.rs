//! The commands that MongoTx gives their meaning, one file each (small ones about the same thing share one).
//!
//! A command arrives in [`run`], which knows of sessions and transactions; its handler reads its own fields, calls the
//! library and makes the reply. [`call`] is what a handler may use, [`generic`] the fields that every command may carry.

mod aggregate;
mod allowed;
mod body;
mod call;
mod collections;
mod count;
mod current_op;
mod delete;
mod distinct;
mod durable;
mod end_transaction;
mod explain;
mod fail_point;
mod find;
mod find_and_modify;
mod generic;
mod get_more;
mod hidden;
mod indexes;
mod insert;
mod kill_cursors;
mod modification;
pub(crate) mod point_read;
pub(crate) mod point_write;
mod read;
mod read_concern;
mod recovery;
mod run;
mod server_status;
mod sessions;
mod statements;
mod update;
mod validated_read;
mod write_concern;
mod writes;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

pub(crate) use self::allowed::ends_transaction;
pub use self::read::read;
use self::{allowed::check_name, body::Made, call::Call};
use crate::{
    connection::Connection,
    context::Context,
    error::CommandError,
    failure::{Answer, Failure, PANICKED, codes},
    reply::Reply,
    request::{Request, Whole},
};

/// # Errors
/// 263 for a command that no transaction may hold, where it says that it is part of one.
pub(crate) fn check_outside(request: &Request) -> Result<(), Failure> {
    let body = request.body();
    if matches!(body.get("autocommit"), Ok(Some(_))) && matches!(body.get("txnNumber"), Ok(Some(_))) {
        return check_name(request.name());
    }
    Ok(())
}

/// Carries out one of them.
pub(crate) async fn run(context: &Context, connection: &Connection, request: &Request) -> Result<Reply, CommandError> {
    let body = request.to_document()?;
    let answer = run::run(context, connection, (request.name(), request.database()), body).boxed().await;
    Ok(answer.unwrap_or_else(Reply::from).stamped(&context.tx.clock))
}

/// Called once when a connection has ended, whatever ended it. Sessions and cursors belong to no connection: they end
/// when their time is over, as in the server.
pub(crate) async fn connection_closed(_context: &Context, _connection: &Connection) {}

/// Carries out a command by its handler. A panic in it, which would be a defect, is an error like others: it ends the
/// transaction that the command is part of.
async fn handle(call: &mut Call<'_>) -> Answer<Made> {
    let name = call.name;
    let handled = AssertUnwindSafe(async {
        let made = hand_over(call).await;
        if call.context.options.test_commands {
            call.context.tx.fail_points.panic_after(name);
        }
        made
    });
    handled.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(command = name, "a command panicked");
        Err(Failure::new(codes::INTERNAL_ERROR, format!("{name}: {PANICKED}")))
    })
}

/// Those that need much room have it on the heap, so that the others need not carry it about.
async fn hand_over(call: &mut Call<'_>) -> Answer<Made> {
    match call.name {
        "find" => find::run(call).await.map(Made::Body),
        "getMore" => get_more::run(call).await.map(Made::Body),
        "killCursors" => kill_cursors::run(call).await.map(Made::Body),
        "insert" => insert::run(call).await,
        "update" => update::run(call).await,
        "delete" => delete::run(call).await,
        "findAndModify" | "findandmodify" => find_and_modify::run(call).boxed().await,
        "aggregate" => aggregate::run(call).boxed().await.map(Made::Body),
        "count" => count::run(call).await.map(Made::Body),
        "distinct" => distinct::run(call).await.map(Made::Body),
        "explain" => explain::run(call).boxed().await,
        "create" => collections::create(call).await.map(Made::Body),
        "drop" => collections::drop(call).boxed().await.map(Made::Body),
        "dropDatabase" => collections::drop_database(call).boxed().await.map(Made::Body),
        "collMod" => collections::modify(call).await.map(Made::Body),
        "listCollections" => collections::list(call).boxed().await.map(Made::Body),
        "createIndexes" => indexes::create(call).boxed().await.map(Made::Body),
        "dropIndexes" | "deleteIndexes" => indexes::drop(call).boxed().await.map(Made::Body),
        "listIndexes" => indexes::list(call).boxed().await,
        "refreshSessions" => sessions::refresh(call).map(Made::Body),
        "endSessions" | "killSessions" => sessions::kill(call).boxed().await.map(Made::Body),
        "killAllSessions" => sessions::kill_all(call).boxed().await.map(Made::Body),
        "killAllSessionsByPattern" => sessions::kill_by_pattern(call).boxed().await.map(Made::Body),
        "configureFailPoint" => fail_point::configure(call).map(Made::Body),
        "listDatabases" => hidden::databases(call).await.map(Made::Server),
        "validate" | "collStats" | "collstats" => hidden::statistics(call).await.map(Made::Server),
        "renameCollection" => Err(Failure::new(
            codes::COMMAND_NOT_SUPPORTED,
            "renameCollection is not supported: transactions under way would lose what they have written there",
        )),
        "serverStatus" => server_status::run(call).await.map(Made::Server),
        "currentOp" => current_op::run(call).map(Made::Body),
        "dbStats" | "dbstats" | "dataSize" | "datasize" => call.send_on().await.map(Made::Server),
        other => Err(Failure::new(
            codes::COMMAND_NOT_SUPPORTED,
            format!("{other} is not supported yet: its reply would show how MongoTx stores documents"),
        )),
    }
}
