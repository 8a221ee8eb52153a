//! The databases in which clients of a deployment keep their records. Each client that registers
//! notes its own at a fixed place, so that errors and tools can name it.

use bson::{Document, doc};
use protocol::id::{DatabaseTag, database_tag};

use crate::{
    coordinator::{
        server::{Server, WriteAnswer},
        stored::own_collections::DEPLOYMENT,
    },
    error::Result,
    options::Namespace,
};

/// Database in which clients note the databases of their records, whatever those are.
const HOME: &str = "mongotx";
/// Databases that an error or a tool names.
const NAMED: i64 = 20;

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
    if let Err(error) = noted.and_then(WriteAnswer::ok) {
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
/// The server cannot be reached, or refuses to drop the database.
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

/// The databases whose clients have ids with this tag, likewise.
pub(super) async fn databases_of(server: &Server, tag: DatabaseTag) -> Result<Vec<String>> {
    noted(server, doc! {"tag": hex(tag)}).await
}

async fn noted(server: &Server, filter: Document) -> Result<Vec<String>> {
    let find = doc! {"find": DEPLOYMENT, "filter": filter, "sort": {"registeredAt": -1}, "limit": NAMED};
    let found = server.collect(HOME, find, NAMED as usize).await?;
    Ok(found.iter().filter_map(|note| note.get_str("_id").ok().map(str::to_owned)).collect())
}
