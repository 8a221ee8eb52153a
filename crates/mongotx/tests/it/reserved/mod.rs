//! Reserved names are refused in every way to write, with names that only the server learns, out of
//! the application's own nested data.
//!
//! | file | what |
//! | --- | --- |
//! | [`ways`] | updates of every form, in and outside transactions |
//! | [`outputs`] | `$out` and `$merge` |
//! | [`damaged`] | documents that have such fields already |

mod damaged;
mod outputs;
mod ways;

use bson::{Bson, Document, doc};
use mongotx::{Client, ClientOptions, Collection, Error, ErrorKind, Session};

/// The names, as `docs/stored-format.md` lists them.
pub(crate) const NAMES: [&str; 6] = ["_unsafe", "_xTxId", "_sTxIds", "_insert", "_remove", "_slot"];

/// The longest that anything is waited for.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// A database, by MongoTx and by the plain driver.
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) db: mongodb::Database,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let options = ClientOptions { sweep: false, ..crate::quiet::at_read_committed() };
        let client = Client::connect_with(&server.uri(), options).await.unwrap();
        let db = server.client().await.unwrap().database(&local_mongod::unique_db("reserved"));
        Self { client, db }
    }

    /// With a document for each name, which has it in its nested data: `{_id: name, nested: {name:
    /// …}, pairs: […]}`.
    pub(crate) async fn filled() -> Self {
        let place = Self::new().await;
        place.plain("c").insert_many(NAMES.map(nesting)).await.unwrap();
        place
    }

    pub(crate) fn coll(&self, name: &str) -> Collection<Document> {
        self.client.database(self.db.name()).collection(name)
    }

    pub(crate) fn plain(&self, name: &str) -> mongodb::Collection<Document> {
        self.db.collection(name)
    }

    pub(crate) fn begin(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        session
    }

    /// All documents as they are stored, when nothing is left to finish.
    pub(crate) async fn stored(&self, name: &str) -> Vec<Document> {
        assert!(self.client.flush(LIMIT).await);
        let mut found = self.plain(name).find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        let mut all = Vec::new();
        while found.advance().await.unwrap() {
            all.push(found.deserialize_current().unwrap());
        }
        all
    }
}

/// A value that looks as much as possible like MongoTx's own.
pub(crate) fn value_of(name: &str) -> Bson {
    match name {
        "_insert" | "_remove" => true.into(),
        "_unsafe" => doc! {"_id": name, "a": 1}.into(),
        "_xTxId" => doc! {"c": bson::oid::ObjectId::from_bytes([7; 12]), "n": 1_i64}.into(),
        _ => vec![Bson::from(1)].into(),
    }
}

pub(crate) fn nesting(name: &str) -> Document {
    doc! {
        "_id": name, "nested": {"a": 1, name: value_of(name)},
        "pairs": [{"k": "a", "v": 1}, {"k": name, "v": value_of(name)}],
    }
}

/// Refused, with the field's name.
pub(crate) fn assert_refused(error: &Error, name: &str, way: &str) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{way}: {error}");
    let expected = format!("the field {name:?} is reserved");
    assert!(error.to_string().contains(&expected), "{way}: {error}");
}
