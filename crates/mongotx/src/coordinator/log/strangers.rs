//! Locks of clients that have no record here. No record means that every document of the client was
//! clean and its record removed since, so that what still carries its id is an orphan, to be rolled
//! back. Two other cases look the same, and rolling back would then undo half of a commit of
//! another client:
//!
//! 1. The client keeps its records in another database. Its id says so
//!    ([`protocol::id::database_tag`]), and every client that registers notes its database at a
//!    fixed place of the deployment, so that the error can name it.
//! 2. The record was removed before its time: by hand, with its database, by a backup that was put
//!    back. The id is then younger than records are kept at least. (Registering is durable, closing
//!    sets the server's clock, and the TTL index removes a record [`RETENTION_SECONDS`] later: an
//!    orphan's id is older. Both times are the server's.)
//!
//! Both are errors, and nothing is changed. The second is one until the id is old enough, so no
//! wait lasts for ever.

use bson::{DateTime, Document, doc};
use protocol::{
    ClientId,
    id::{DatabaseTag, database_tag},
    status::status_where_kept,
};

use crate::{
    coordinator::{
        server::Server,
        stored::own_collections::{DEPLOYMENT, RETENTION_SECONDS, TXS},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Database in which clients note the databases of their records, whatever those are.
const HOME: &str = "mongotx";
/// Databases that an error or a tool names.
const NAMED: i64 = 20;

/// Number of MongoDB's error code `InvalidOptions`.
const WRONG_OPTIONS: i32 = 72;

fn hex(tag: DatabaseTag) -> String {
    tag.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Notes that clients of this deployment keep their records in `database`. A client that may not
/// write there does without: then the errors of others name no database.
pub(crate) async fn note_database(server: &Server, database: &str) {
    let statement = doc! {
        "q": {"_id": database},
        "u": {"$set": {"tag": hex(database_tag(database))}, "$currentDate": {"registeredAt": true}},
        "upsert": true,
    };
    let home = Namespace::new(HOME, DEPLOYMENT);
    let noted = server.write_records(&home, doc! {"update": DEPLOYMENT, "updates": [statement]}).await;
    if let Err(error) = noted.and_then(crate::coordinator::server::WriteAnswer::ok) {
        tracing::warn!(%error, database, "the database of the client records could not be noted in {HOME}.{DEPLOYMENT}");
    }
}

/// Drops a database of client records, and the note in `mongotx.deployment` that it had them. For
/// tools and tests that keep their records in a database of their own: shut all clients down
/// before.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = local_mongod::Server::standalone().await?;
/// # let uri = &server.uri();
/// use mongotx::{Client, ClientOptions};
///
/// let options = ClientOptions { tx_database: "records_of_a_test".to_owned(), ..ClientOptions::default() };
/// let client = Client::connect_with(uri, options).await?;
/// // The tests run here.
/// client.shutdown().await?;
///
/// let driver = mongodb::Client::with_uri_str(uri).await?;
/// mongotx::drop_record_database(&driver, "records_of_a_test").await?;
/// assert!(!driver.list_database_names().await?.contains(&"records_of_a_test".to_owned()));
/// # Ok(()) }
/// ```
///
/// # Errors
/// Those of the driver.
pub async fn drop_record_database(driver: &mongodb::Client, database: &str) -> mongodb::error::Result<()> {
    driver.database(database).drop().await?;
    let notes = driver.database(HOME).collection::<Document>(DEPLOYMENT);
    notes.delete_one(doc! {"_id": database}).await?;
    // A note that a client writes right now is lost with it: errors name one database less.
    if notes.find_one(doc! {}).await?.is_none() { notes.drop().await } else { Ok(()) }
}

/// The databases that clients of this deployment have noted, the one that was used last first; at
/// most [`NAMED`].
pub(crate) async fn noted_databases(server: &Server) -> Result<Vec<String>> {
    noted(server, Document::new()).await
}

async fn noted(server: &Server, filter: Document) -> Result<Vec<String>> {
    let find = doc! {"find": DEPLOYMENT, "filter": filter, "sort": {"registeredAt": -1}, "limit": NAMED};
    let found = server.collect(HOME, find, NAMED as usize).await?;
    Ok(found.iter().filter_map(|note| note.get_str("_id").ok().map(str::to_owned)).collect())
}

/// The server's clock: seconds since 1970.
pub(crate) async fn server_seconds(server: &Server) -> Result<i64> {
    Ok(server_time(server).await?.timestamp_millis().div_euclid(1_000))
}

/// The current time of the server.
pub(crate) async fn server_time(server: &Server) -> Result<DateTime> {
    let hello = server.run_command("admin", doc! {"hello": 1}).await?;
    hello.get_datetime("localTime").copied().map_err(|_| {
        Error::unsupported(
            "the server does not tell its time, which ids of clients and $$NOW in a transaction are made of",
        )
    })
}

/// Checks that locks of a client without a record in `database` may be rolled back.
///
/// # Errors
/// [`ErrorKind::Invalid`] when its records are elsewhere, [`ErrorKind::Corruption`] when its record
/// must be there and is not.
pub(crate) async fn check_gone(server: &Server, database: &str, client: ClientId) -> Result<()> {
    check_tag(server, database, client).await?;
    let age = server_seconds(server).await? - i64::from(client.made());
    // An id from further in the future shows that a clock was set back: it says nothing about the
    // record.
    if age.abs() >= RETENTION_SECONDS {
        return Ok(());
    }
    let minutes = RETENTION_SECONDS / 60;
    Err(Error::new(
        ErrorKind::Corruption,
        format!(
            "client {client} has locked a document, there is no record of it in {database}.{TXS}, and it registered less than \
             {minutes} minutes ago, which records are kept at least: the record, or {database}, was removed or replaced. Nothing is \
             repaired before that time is over"
        ),
    ))
}

/// # Errors
/// [`ErrorKind::Invalid`] when the client keeps its record in another database than `database`.
pub(crate) async fn check_tag(server: &Server, database: &str, client: ClientId) -> Result<()> {
    let kept_here = client.tag() == database_tag(database);
    let Err(foreign) = status_where_kept(None, 0, kept_here) else { return Ok(()) };
    let there = noted(server, doc! {"tag": hex(client.tag())}).await.unwrap_or_default();
    let place = if there.is_empty() { String::new() } else { format!(", in {}", there.join(" or ")) };
    let known = noted_databases(server).await.unwrap_or_default();
    let known = match known.is_empty() {
        true => String::new(),
        false => format!(" Clients of this deployment have registered in: {}.", known.join(", ")),
    };
    Err(Error::invalid(
        WRONG_OPTIONS,
        format!(
            "{foreign}: client {client}, which has locked a document, has its record in another database than \
             {database}{place}. Nothing is repaired, because its transactions may be committed. All clients of a \
             deployment need the same tx_database.{known}"
        ),
    ))
}
