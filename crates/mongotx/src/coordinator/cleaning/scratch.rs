//! Drops the scratch collections that text searches make for themselves: at their end, or, of dead
//! clients, in a sweep. `crate::command::access_paths::text` makes and fills them.

use bson::doc;

use crate::{coordinator::server::Server, options::Namespace};

/// MongoDB's code `NamespaceNotFound`: there is no collection.
const NO_SUCH_COLLECTION: i32 = 26;

pub(crate) async fn drop_collection(server: &Server, ns: &Namespace) {
    match server.run_command(&ns.db, doc! {"drop": &ns.coll}).await {
        Err(error) if error.code() != Some(NO_SUCH_COLLECTION) => {
            tracing::warn!(%ns, %error, "a scratch collection of a text search could not be dropped");
        }
        _ => {}
    }
}
