//! Stored and read documents are to the byte what the application gave and what the server holds,
//! also where an object looks like Extended JSON (`{$numberLong: "5"}`).
//!
//! | file | content |
//! | --- | --- |
//! | [`asked`] | a server's command, sent through the library's methods |
//! | [`compare`] | the same commands, sent to the server and through the library: same answers, same stored bytes |
//! | [`fuzz`] | the same with random documents |
//! | [`structs`] | an application's own types: as the official driver reads and writes them |
//! | [`unreadable`] | documents that a `Document` cannot hold: text that is not UTF-8, a field that is there twice |

mod asked;
mod compare;
mod fuzz;
mod structs;
mod unreadable;

use bson::{Document, RawDocumentBuf};
use futures_util::TryStreamExt;
use mongotx::Client;

/// A client, a driver on the same server, and the name of a database for a test.
async fn world(test: &str) -> (Client, mongodb::Client, String) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    (client, server.client().await.unwrap(), local_mongod::unique_db(test))
}

/// Everything that is stored in a collection, byte for byte.
async fn stored(driver: &mongodb::Client, db: &str, coll: &str) -> Vec<RawDocumentBuf> {
    let coll = driver.database(db).collection::<RawDocumentBuf>(coll);
    coll.find(Document::new()).sort(bson::doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap()
}
