//! The one table of commands: which are the library's, which the gateway answers by itself, which are passed on, and
//! which are refused and why. Names are spelled as MongoDB spells them, aliases included.

use std::time::Instant;

use bson::Document;
use futures_util::FutureExt;

use crate::{
    access,
    command::{
        self,
        point_read::{self, PointRead},
        point_write::{self, PointWrite},
    },
    connection::Connection,
    context::Context,
    error::{Code, CommandError, code},
    fail_points::Hit,
    handshake, passthrough,
    reply::Reply,
    request::Request,
};

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// It reads or writes documents, or is about transactions and sessions: `command/`.
    Transactional,
    /// It asks the gateway: `handshake/`.
    Local,
    /// MongoTx need not touch it: `passthrough/`.
    Through,
    /// It is refused, for this reason.
    Refused(Code, &'static str),
}

/// Where a command goes, or `None` when there is no command of that name.
pub(crate) fn route(name: &str) -> Option<Route> {
    ROUTES.iter().find(|(names, _)| names.contains(&name)).map(|(_, route)| *route)
}

/// All of them: the names of a command, and where it goes.
pub(crate) fn routes() -> impl Iterator<Item = &'static (&'static [&'static str], Route)> {
    ROUTES.iter()
}

/// A command's name as it is in the table: what is not there has no name of its own in metrics.
fn known_name(name: &str) -> &'static str {
    let known = ROUTES.iter().flat_map(|(names, _)| names.iter()).find(|known| **known == name);
    known.copied().unwrap_or("other")
}

/// Carries out a command. Errors become replies.
pub(crate) async fn run(context: &Context, connection: &Connection, request: &Request) -> Reply {
    let since = Instant::now();
    let reply = match run_quickly(context, connection, request).await {
        Some(reply) => reply,
        // On the heap: idle connections have no use for the room that commands need.
        None => check_and_run(context, connection, request).boxed().await,
    };
    let (name, took) = (known_name(request.name()), since.elapsed());
    context.tx.metrics.command(name, reply.is_ok(), took);
    if context.options.slow.is_some_and(|slow| took >= slow) {
        let user = connection.user().map(|user| user.name.to_string()).unwrap_or_default();
        tracing::info!(
            command = name, database = ?request.database(), duration_ms = took.as_millis() as u64, ok = reply.is_ok(),
            connection = connection.id(), ?user, "a slow command",
        );
    }
    reply
}

/// What needs no more than bytes passed on, where nothing but the user's privilege is to be asked. `None`: nothing was done.
async fn run_quickly(context: &Context, connection: &Connection, request: &Request) -> Option<Reply> {
    let may_fail = context.options.test_commands && !context.tx.fail_points.are_off();
    let is_allowed = || !may_fail && check(context, connection, request).is_ok();
    if let Some(read) = PointRead::parse(request) {
        return if is_allowed() { point_read::run(context, connection, request, read).await } else { None };
    }
    let write = PointWrite::parse(request).filter(|_| is_allowed())?;
    point_write::run(context, connection, request, write).await
}

/// Whether the user of the connection may run the command: asked before anything else is done with it.
fn check(context: &Context, connection: &Connection, request: &Request) -> Result<(), CommandError> {
    // Nobody carries out what nobody knows.
    if context.users.is_none() || route(request.name()).is_none() {
        return Ok(());
    }
    access::check(connection.user().as_deref(), request, &context.options.client.tx_database)
}

/// What a fail point wants done to a command, if one does.
fn fail_point(context: &Context, connection: &Connection, request: &Request) -> Option<Hit> {
    if context.options.test_commands { context.tx.fail_points.hit(request.name(), connection) } else { None }
}

async fn check_and_run(context: &Context, connection: &Connection, request: &Request) -> Reply {
    if let Err(refused) = check(context, connection, request) {
        return refused.into();
    }
    match fail_point(context, connection, request) {
        None => carry_out(context, connection, request).await,
        Some(hit) => fail(context, connection, request, &hit).await,
    }
}

/// A command that a test wants to fail.
async fn fail(context: &Context, connection: &Connection, request: &Request, hit: &Hit) -> Reply {
    if let Some(block) = hit.block {
        tokio::time::sleep(block).await;
    }
    if hit.close {
        connection.cut();
    }
    let body = Document::try_from(request.body()).unwrap_or_default();
    let ends = command::ends_transaction(request.name());
    if let Some(reply) = hit.reply(request.name(), ends, &body) {
        return reply.into();
    }
    if hit.close {
        return Document::new().into();
    }
    let reply = carry_out(context, connection, request).await;
    let mut reply = Document::try_from(reply.body()).unwrap_or_default();
    hit.add_to(&mut reply);
    reply.into()
}

async fn carry_out(context: &Context, connection: &Connection, request: &Request) -> Reply {
    let route = route(request.name());
    if route.is_some_and(|route| route != Route::Transactional)
        && let Err(failure) = command::check_outside(request)
    {
        return failure.into();
    }
    let outcome = match route {
        Some(Route::Transactional) => command::run(context, connection, request).await,
        Some(Route::Local) => {
            handshake::run(context, connection, request).map(|reply| reply.stamped(&context.tx.clock))
        }
        Some(Route::Through) => passthrough::run(context, connection, request).await,
        Some(Route::Refused(code, why)) => Err(CommandError::new(code, format!("{}: {why}", request.name()))),
        None => Err(CommandError::new(code::COMMAND_NOT_FOUND, format!("no such command: '{}'", request.name()))),
    };
    outcome.into()
}

const NO_REPLICATION: Route =
    Route::Refused(code::COMMAND_NOT_SUPPORTED, "the gateway is no member of a replica set and has none to manage");
const NO_SHARDING: Route =
    Route::Refused(code::COMMAND_NOT_SUPPORTED, "the gateway manages no shards; ask a router of the cluster itself");

const ON_THE_SERVER: Route = Route::Refused(
    code::COMMAND_NOT_SUPPORTED,
    "users and roles are managed on the server itself; the gateway passes no commands about them on",
);
const NO_SUCH_LOGIN: Route = Route::Refused(
    code::COMMAND_NOT_SUPPORTED,
    "clients log in by SCRAM-SHA-256 or SCRAM-SHA-1 (saslStart); certificates are checked by TLS and name no user",
);
const DANGEROUS: Route = Route::Refused(
    code::COMMAND_NOT_SUPPORTED,
    "it would change the server under everybody who uses it; connect to the server itself for that",
);
const BEHIND_THE_BACK: Route = Route::Refused(
    code::COMMAND_NOT_SUPPORTED,
    "it copies or rewrites documents as they are stored, those of transactions that are not decided included",
);

const ROUTES: &[(&[&str], Route)] = &[
    // Documents.
    (&["find", "getMore", "killCursors", "count", "distinct", "aggregate", "explain"], Route::Transactional),
    (&["insert", "update", "delete", "findAndModify", "findandmodify"], Route::Transactional),
    // Collections and indexes.
    (&["create", "drop", "dropDatabase", "collMod", "renameCollection", "listCollections"], Route::Transactional),
    (&["createIndexes", "dropIndexes", "deleteIndexes", "listIndexes"], Route::Transactional),
    // What would show what MongoTx stores for itself.
    (&["dbStats", "dbstats", "collStats", "collstats", "validate", "dataSize", "datasize"], Route::Transactional),
    (&["listDatabases", "currentOp", "serverStatus", "mapReduce", "mapreduce"], Route::Transactional),
    // Transactions and sessions.
    (&["commitTransaction", "abortTransaction"], Route::Transactional),
    (&["refreshSessions", "endSessions", "killSessions"], Route::Transactional),
    (&["killAllSessions", "killAllSessionsByPattern"], Route::Transactional),
    (&["configureFailPoint"], Route::Transactional),
    // The gateway itself.
    (&["hello", "isMaster", "ismaster", "ping", "whatsmyuri", "connectionStatus", "logout"], Route::Local),
    (&["getCmdLineOpts", "listCommands", "startSession"], Route::Local),
    (&["saslStart", "saslContinue"], Route::Local),
    // The server.
    (&["buildInfo", "buildinfo", "hostInfo", "getParameter", "getLog", "features"], Route::Through),
    (&["profile", "top", "lockInfo", "connPoolStats", "dbHash", "dbhash", "killOp"], Route::Through),
    (&["planCacheClear", "planCacheClearFilters", "planCacheListFilters", "planCacheSetFilter"], Route::Through),
    (&["compact", "fsync", "fsyncUnlock", "logRotate", "reIndex"], Route::Through),
    (&["getDefaultRWConcern", "availableQueryOptions", "driverOIDTest"], Route::Through),
    // Nobody's.
    (&["replSetGetStatus", "replSetGetConfig", "replSetInitiate", "replSetReconfig"], NO_REPLICATION),
    (&["replSetStepDown", "replSetFreeze", "replSetMaintenance", "replSetSyncFrom"], NO_REPLICATION),
    (&["appendOplogNote", "setDefaultRWConcern"], NO_REPLICATION),
    (&["shardCollection", "enableSharding", "addShard", "removeShard", "moveChunk", "split"], NO_SHARDING),
    (&["mergeChunks", "movePrimary", "listShards", "balancerStart", "balancerStop", "balancerStatus"], NO_SHARDING),
    (&["addShardToZone", "removeShardFromZone", "updateZoneKeyRange", "getShardMap"], NO_SHARDING),
    (&["reshardCollection", "refineCollectionShardKey", "flushRouterConfig", "isdbgrid"], NO_SHARDING),
    (&["createUser", "updateUser", "dropUser", "dropAllUsersFromDatabase", "usersInfo"], ON_THE_SERVER),
    (&["grantRolesToUser", "revokeRolesFromUser", "createRole", "updateRole", "dropRole"], ON_THE_SERVER),
    (&["dropAllRolesFromDatabase", "rolesInfo", "grantRolesToRole", "revokeRolesFromRole"], ON_THE_SERVER),
    (&["grantPrivilegesToRole", "revokePrivilegesFromRole", "invalidateUserCache"], ON_THE_SERVER),
    (&["authenticate", "getnonce", "copydbgetnonce"], NO_SUCH_LOGIN),
    (&["shutdown", "setParameter", "setFeatureCompatibilityVersion", "rotateCertificates"], DANGEROUS),
    (&["convertToCapped", "cloneCollectionAsCapped", "applyOps"], BEHIND_THE_BACK),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_route() {
        let mut names: Vec<&str> = ROUTES.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn names_are_spelled_as_they_are() {
        assert_eq!(route("find"), Some(Route::Transactional));
        assert_eq!(route("Find"), None);
        assert_eq!(route(""), None);
    }
}
