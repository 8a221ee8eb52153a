//! The one table of commands: a row has all that is particular to a command, except what its
//! handler does.
//!
//! To add a command: write its handler, in a file of its own or beside those that it belongs to,
//! and a row here. A row begins with who answers the command (and, of those that MongoTx gives
//! their meaning, with what the session's fields may say of them), its handler, its names, and the
//! privilege that it needs; what a row does not say besides is as in [`Command::new`].

use std::sync::LazyLock;

use super::{
    aggregate, collections, count, current_op, delete, distinct, end_transaction, explain, fail_point, find,
    find_and_modify, get_more, hidden, indexes, insert, kill_cursors, kill_op, map_reduce,
    parts::{
        body::HandlerReply,
        call::Call,
        first_batch::FirstBatch,
        plan::Explain,
        read_concern::ReadLevels::{Heedless, Linearizable, OneMoment},
        write_command::StatementList,
    },
    registry::{Command, Local, NamedCommand, Registry, Route, Run},
    run::{self, Handler},
    server_status, sessions, update,
};
use crate::{
    access::{
        Access::{self, FullName, Inner, MapReduce, OfCursor, On, Open, Operations, Own, Pipeline, Rename, View},
        Need::{Define, Manage, Monitor, Read, Root, See, Write},
    },
    api::Api,
    error::code,
    failure::Answer,
    fields::Fields,
    handshake::{self, Listed},
    upstream::Lane,
};

type Names = &'static [&'static str];

/// Runs a handler, which answers `Answer` of what becomes a [`HandlerReply`], by one of the ways of
/// [`run`].
macro_rules! by {
    ($way:ident, $handler:expr) => {{
        struct TableHandler;
        impl Handler for TableHandler {
            async fn answer(call: &mut Call<'_>) -> Answer<HandlerReply> {
                $handler(call).await.map(HandlerReply::from)
            }
        }
        run::$way::<TableHandler>
    }};
}

/// A command that no transaction may hold.
macro_rules! outside {
    ($handler:expr, $names:expr, $access:expr) => {
        Command::new(&$names, $access, Route::Transactional(by!(outside, $handler)))
    };
}

/// A command that may be a statement of a transaction.
macro_rules! statement {
    ($handler:expr, $names:expr, $access:expr) => {
        Command::new(&$names, $access, Route::Transactional(by!(statement, $handler))).held()
    };
}

/// A write that may be a statement of a transaction, or have a number of its own.
macro_rules! retryable {
    ($handler:expr, $names:expr, $access:expr) => {
        Command::new(&$names, $access, Route::Transactional(by!(retryable, $handler))).held()
    };
}

/// The end of a transaction.
const fn ending(run: Run, names: Names, access: Access) -> Command {
    Command::new(names, access, Route::Transactional(run))
        .ending()
        .stable()
        .takes_write_concern()
        .parsed(end_transaction::check)
}

/// The row of a command that the gateway answers about itself.
const fn local(answer: Local, names: Names, access: Access) -> Command {
    Command::new(names, access, Route::Local(answer))
}

/// The row of a command that goes to the server as it is.
const fn through(names: Names, access: Access) -> Command {
    Command::new(names, access, Route::Through(Lane::Clients))
}

/// The same for a command that waits for none of the clients' commands: it ends what they wait for.
const fn through_at_once(names: Names, access: Access) -> Command {
    Command::new(names, access, Route::Through(Lane::Own))
}

/// The row of a command that the gateway refuses, for the reason `why`.
const fn refused(why: &'static str, names: Names, access: Access) -> Command {
    Command::new(names, access, Route::Refused(code::COMMAND_NOT_SUPPORTED, why))
}

const COUNT: &str = "Cannot run 'count' in a multi-document transaction. Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative.";
const GREETING: &str = "This command is not supported in transactions";

const NO_REPLICATION: &str = "the gateway is no member of a replica set and has none to manage";
const NO_SHARDING: &str = "the gateway manages no shards; ask a router of the cluster itself";
const ON_THE_SERVER: &str =
    "users and roles are managed on the server itself; the gateway passes no commands about them on";
const NO_SUCH_LOGIN: &str =
    "clients log in by SCRAM-SHA-256 or SCRAM-SHA-1 (saslStart); certificates are checked by TLS and name no user";
const DANGEROUS: &str = "it would change the server under everybody who uses it; connect to the server itself for that";
const BEHIND_THE_BACK: &str =
    "it copies or rewrites documents as they are stored, those of transactions that are not decided included";

static ROWS: &[Command] = &[
    // Documents.
    statement!(find::answer_find, ["find"], On(Read))
        .reads(OneMoment)
        .parsed(|fields| find::Find::parse(fields).map(drop))
        .explained(Explain::AsSent(find::plan))
        .stable_but(&find::UNSTABLE),
    statement!(get_more::answer_get_more, ["getMore"], OfCursor)
        .awaits()
        .reads(Heedless)
        .parsed_whole(|name, body| get_more::GetMore::parse(Fields::new(name, body)).map(drop))
        .stable(),
    statement!(kill_cursors::answer_kill_cursors, ["killCursors"], Own)
        .held_later()
        .reads(Heedless)
        .parsed(|fields| kill_cursors::parse(fields).map(drop))
        .stable(),
    outside!(count::answer_count, ["count"], On(Read))
        .refused_in_transactions(COUNT)
        .reads(Linearizable)
        .parsed(|fields| count::Count::parse(fields).map(drop))
        .explained(Explain::AsWritten)
        .stable(),
    statement!(distinct::answer_distinct, ["distinct"], On(Read))
        .reads(OneMoment)
        .parsed(|fields| distinct::Distinct::parse(fields).map(drop))
        .explained(Explain::AsWritten),
    statement!(aggregate::answer_aggregate, ["aggregate"], Pipeline)
        .reads(OneMoment)
        .parsed(|fields| aggregate::Pipeline::parse(fields, true).map(drop))
        .explained(Explain::AsSent(aggregate::plan))
        .stable_but(&aggregate::UNSTABLE)
        .takes_write_concern(),
    outside!(map_reduce::answer_map_reduce, ["mapReduce", "mapreduce"], MapReduce)
        .parsed(|fields| map_reduce::MapReduce::parse(fields).map(drop))
        .explained(Explain::AsWritten)
        .takes_write_concern(),
    outside!(|call| explain::answer_explain(call, look_up), ["explain"], Inner).parsed_as_another().stable(),
    retryable!(insert::answer_insert, ["insert"], On(Write))
        .parsed(|fields| insert::Inserts::parse(fields).map(drop))
        .stable_but(&["encryptionInformation"])
        .takes_write_concern(),
    retryable!(update::answer_update, ["update"], On(Write))
        .parsed(|fields| StatementList::<update::UpdateStatement>::parse(fields).map(drop))
        .explained(Explain::AsWritten)
        .stable_but(&["runtimeConstants", "encryptionInformation"])
        .takes_write_concern(),
    retryable!(delete::answer_delete, ["delete"], On(Write))
        .parsed(|fields| StatementList::<delete::DeleteStatement>::parse(fields).map(drop))
        .explained(Explain::AsWritten)
        .stable_but(&["runtimeConstants", "encryptionInformation"])
        .takes_write_concern(),
    retryable!(find_and_modify::answer_find_and_modify, ["findAndModify", "findandmodify"], On(Write))
        .parsed(|fields| find_and_modify::FindAndModify::parse(fields).map(drop))
        .explained(Explain::AsWritten)
        .stable_but(&["runtimeConstants", "encryptionInformation"])
        .takes_write_concern(),
    // Collections and indexes.
    statement!(collections::create, ["create"], View(Define)).stable_but(&collections::UNSTABLE).takes_write_concern(),
    outside!(collections::drop, ["drop"], On(Define)).stable().takes_write_concern(),
    outside!(collections::drop_database, ["dropDatabase"], On(Manage)).stable().takes_write_concern(),
    outside!(collections::modify, ["collMod"], View(Manage))
        .stable_but(&["changeStreamPreAndPostImages", "recordPreImages", "dryRun"])
        .takes_write_concern(),
    outside!(collections::rename, ["renameCollection"], Rename)
        .parsed(|fields| collections::Renaming::parse(fields).map(drop))
        .takes_write_concern(),
    outside!(collections::list, ["listCollections"], On(See))
        .parsed(|mut fields| FirstBatch::of_cursor("listCollections", fields.document("cursor")?).map(drop))
        .stable(),
    statement!(indexes::create, ["createIndexes"], On(Define))
        .parsed(|fields| indexes::parse_models(fields).map(drop))
        .stable_but(&["ignoreUnknownIndexOptions"])
        .takes_write_concern(),
    outside!(indexes::drop, ["dropIndexes", "deleteIndexes"], On(Define)).stable().takes_write_concern(),
    outside!(indexes::list, ["listIndexes"], On(See))
        .parsed(|mut fields| FirstBatch::of_cursor("listIndexes", fields.document("cursor")?).map(drop))
        .stable_but(&["includeBuildUUIDs", "includeIndexBuildInfo"]),
    // Commands that would show what MongoTx stores for itself.
    outside!(hidden::unchanged, ["dbStats", "dbstats"], On(See)),
    outside!(hidden::statistics, ["collStats", "collstats"], On(See)),
    outside!(hidden::statistics, ["validate"], On(Manage)),
    outside!(hidden::unchanged, ["dataSize", "datasize"], FullName),
    // Shows the databases that the user has a role on.
    outside!(hidden::databases, ["listDatabases"], Own).stable(),
    outside!(current_op::answer_current_op, ["currentOp"], Operations),
    // Checks by itself whose operation it is.
    outside!(kill_op::answer_kill_op, ["killOp"], Own),
    outside!(server_status::answer_server_status, ["serverStatus"], On(Monitor)),
    // Transactions and sessions.
    ending(run::commit, &["commitTransaction"], Own),
    ending(run::abort, &["abortTransaction"], Own),
    outside!(sessions::refresh, ["refreshSessions"], Own)
        .parsed_whole(|name, body| sessions::named(name, body).map(drop))
        .stable(),
    outside!(sessions::kill, ["endSessions"], Own)
        .kills_sessions()
        .parsed_whole(|name, body| sessions::named(name, body).map(drop))
        .stable(),
    outside!(sessions::kill, ["killSessions"], Own)
        .kills_sessions()
        .parsed_whole(|name, body| sessions::named(name, body).map(drop)),
    outside!(sessions::kill_all, ["killAllSessions"], On(Root)).kills_sessions(),
    outside!(sessions::kill_by_pattern, ["killAllSessionsByPattern"], On(Root))
        .kills_sessions()
        .parsed_whole(|name, body| sessions::patterns(name, body).map(drop)),
    outside!(fail_point::configure, ["configureFailPoint"], On(Root))
        .parsed_whole(|name, body| fail_point::check(Fields::new(name, body))),
    // The gateway itself.
    local(|arrived| handshake::hello(arrived.context, arrived.connection, arrived.request), &["hello"], Open)
        .refused_in_transactions(GREETING)
        .stable(),
    local(
        |arrived| handshake::hello(arrived.context, arrived.connection, arrived.request),
        &["isMaster", "ismaster"],
        Open,
    )
    .refused_in_transactions(GREETING),
    local(|_| Ok(handshake::ping()), &["ping"], Open).refused_in_transactions(GREETING).stable(),
    local(|arrived| Ok(handshake::address(arrived.connection)), &["whatsmyuri"], Open),
    local(|arrived| Ok(handshake::status(arrived.connection, arrived.request)), &["connectionStatus"], Open),
    local(|arrived| Ok(handshake::logout(arrived.connection)), &["logout"], Own),
    local(|arrived| handshake::command_line(arrived.context, arrived.request), &["getCmdLineOpts"], On(Monitor)),
    local(|_| Ok(handshake::commands(listed())), &["listCommands"], Open),
    local(|arrived| Ok(handshake::start_session(arrived.context)), &["startSession"], Own),
    local(|_| Ok(handshake::nonce()), &["getnonce"], Open),
    local(
        |arrived| Ok(handshake::start_login(arrived.context, arrived.connection, arrived.request)),
        &["saslStart"],
        Open,
    )
    .stable(),
    local(
        |arrived| Ok(handshake::continue_login(arrived.context, arrived.connection, arrived.request)),
        &["saslContinue"],
        Open,
    )
    .stable(),
    // The server.
    through(&["buildInfo", "buildinfo"], Open),
    through(&["hostInfo"], On(Monitor)),
    through(&["getParameter"], On(Monitor)),
    through(&["getLog"], On(Monitor)),
    through(&["features"], Own),
    through(&["profile"], On(Manage)),
    through(&["top"], On(Monitor)),
    through(&["lockInfo"], On(Monitor)),
    through(&["connPoolStats"], On(Monitor)),
    through(&["dbHash", "dbhash"], On(See)),
    through(&["planCacheClear"], On(Manage)),
    through(&["planCacheClearFilters"], On(Manage)),
    through(&["planCacheListFilters"], On(Manage)),
    through(&["planCacheSetFilter"], On(Manage)),
    through(&["compact"], On(Manage)),
    through(&["fsync"], On(Root)),
    through_at_once(&["fsyncUnlock"], On(Root)),
    through(&["logRotate"], On(Root)),
    through(&["reIndex"], On(Manage)),
    through(&["getDefaultRWConcern"], On(Monitor)),
    through(&["availableQueryOptions"], Own),
    through(&["driverOIDTest"], Own),
    // Commands of replication, which no gateway has.
    refused(NO_REPLICATION, &["replSetGetStatus"], On(Root)),
    refused(NO_REPLICATION, &["replSetGetConfig"], On(Root)),
    refused(NO_REPLICATION, &["replSetInitiate"], On(Root)),
    refused(NO_REPLICATION, &["replSetReconfig"], On(Root)),
    refused(NO_REPLICATION, &["replSetStepDown"], On(Root)),
    refused(NO_REPLICATION, &["replSetFreeze"], On(Root)),
    refused(NO_REPLICATION, &["replSetMaintenance"], On(Root)),
    refused(NO_REPLICATION, &["replSetSyncFrom"], On(Root)),
    refused(NO_REPLICATION, &["appendOplogNote"], On(Root)),
    refused(NO_REPLICATION, &["setDefaultRWConcern"], On(Root)),
    refused(NO_SHARDING, &["shardCollection"], On(Root)),
    refused(NO_SHARDING, &["enableSharding"], On(Root)),
    refused(NO_SHARDING, &["addShard"], On(Root)),
    refused(NO_SHARDING, &["removeShard"], On(Root)),
    refused(NO_SHARDING, &["moveChunk"], On(Root)),
    refused(NO_SHARDING, &["split"], On(Root)),
    refused(NO_SHARDING, &["mergeChunks"], On(Root)),
    refused(NO_SHARDING, &["movePrimary"], On(Root)),
    refused(NO_SHARDING, &["listShards"], On(Root)),
    refused(NO_SHARDING, &["balancerStart"], On(Root)),
    refused(NO_SHARDING, &["balancerStop"], On(Root)),
    refused(NO_SHARDING, &["balancerStatus"], On(Root)),
    refused(NO_SHARDING, &["addShardToZone"], On(Root)),
    refused(NO_SHARDING, &["removeShardFromZone"], On(Root)),
    refused(NO_SHARDING, &["updateZoneKeyRange"], On(Root)),
    refused(NO_SHARDING, &["getShardMap"], On(Root)),
    refused(NO_SHARDING, &["reshardCollection"], On(Root)),
    refused(NO_SHARDING, &["refineCollectionShardKey"], On(Root)),
    refused(NO_SHARDING, &["flushRouterConfig"], On(Root)),
    refused(NO_SHARDING, &["isdbgrid"], On(Root)),
    refused(ON_THE_SERVER, &["createUser"], On(Root)),
    refused(ON_THE_SERVER, &["updateUser"], On(Root)),
    refused(ON_THE_SERVER, &["dropUser"], On(Root)),
    refused(ON_THE_SERVER, &["dropAllUsersFromDatabase"], On(Root)),
    refused(ON_THE_SERVER, &["usersInfo"], On(Root)),
    refused(ON_THE_SERVER, &["grantRolesToUser"], On(Root)),
    refused(ON_THE_SERVER, &["revokeRolesFromUser"], On(Root)),
    refused(ON_THE_SERVER, &["createRole"], On(Root)),
    refused(ON_THE_SERVER, &["updateRole"], On(Root)),
    refused(ON_THE_SERVER, &["dropRole"], On(Root)),
    refused(ON_THE_SERVER, &["dropAllRolesFromDatabase"], On(Root)),
    refused(ON_THE_SERVER, &["rolesInfo"], On(Root)),
    refused(ON_THE_SERVER, &["grantRolesToRole"], On(Root)),
    refused(ON_THE_SERVER, &["revokeRolesFromRole"], On(Root)),
    refused(ON_THE_SERVER, &["grantPrivilegesToRole"], On(Root)),
    refused(ON_THE_SERVER, &["revokePrivilegesFromRole"], On(Root)),
    refused(ON_THE_SERVER, &["invalidateUserCache"], On(Root)),
    refused(NO_SUCH_LOGIN, &["authenticate"], Open).stable(),
    refused(NO_SUCH_LOGIN, &["copydbgetnonce"], On(Root)),
    refused(DANGEROUS, &["shutdown"], On(Root)),
    refused(DANGEROUS, &["setParameter"], On(Root)),
    refused(DANGEROUS, &["setFeatureCompatibilityVersion"], On(Root)),
    refused(DANGEROUS, &["rotateCertificates"], On(Root)),
    refused(BEHIND_THE_BACK, &["convertToCapped"], On(Root)),
    refused(BEHIND_THE_BACK, &["cloneCollectionAsCapped"], On(Root)),
    refused(BEHIND_THE_BACK, &["applyOps"], On(Root)),
];

static COMMANDS: LazyLock<Registry> = LazyLock::new(|| Registry::of(ROWS));

/// The command of this name, spelled as MongoDB spells it. `None`: there is none.
pub(crate) fn look_up(name: &str) -> Option<NamedCommand> {
    COMMANDS.find(name)
}

/// Privileges that a command of this name needs; an unknown command needs `root`.
pub(crate) fn access_of(name: &str) -> Access {
    look_up(name).map_or(On(Root), |known| known.command.access)
}

/// The commands that are not refused, by their usual names.
fn listed() -> impl Iterator<Item = Listed> {
    let answered = ROWS.iter().filter(|command| !matches!(command.route, Route::Refused(..)));
    answered.filter_map(|command| {
        let api_versions: &[&str] = if matches!(command.api, Api::Stable(_)) { &["1"] } else { &[] };
        command.names.first().map(|name| Listed { name, requires_auth: command.access != Open, api_versions })
    })
}

#[cfg(test)]
mod tests;
