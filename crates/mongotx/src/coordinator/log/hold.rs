//! The hold of a checkpoint: while it stands, no client registers, so that no transaction gets a
//! number in a record that the checkpoint has not ended
//! ([`crate::coordinator::cleaning::checkpoint`], decision 0049).
//!
//! One document, `<tx_database>.checkpoint`:
//!
//! | field | type | meaning |
//! | --- | --- | --- |
//! | `_id` | string | `hold` |
//! | `by` | ObjectId | the checkpoint that holds |
//! | `since` | date | when the hold began, by the server's clock |
//! | `until` | date | until then, unless it is renewed, by the server's clock |
//! | `over` | bool | it was ended before that |
//! | `format` | int | below this version of the stored format no client may register ([`crate::coordinator::stored::format`]); nothing sets it yet |
//!
//! A client looks for it *after* its record was inserted, and before it uses the record. The
//! checkpoint writes it *before* it reads which records there are. So either the client sees the
//! hold, or the checkpoint sees the record.

use std::time::Duration;

use bson::{Document, doc, oid::ObjectId};

use crate::{
    coordinator::{
        server::Server,
        stored::{
            format::{self, FORMAT},
            own_collections::CHECKPOINT,
        },
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// `_id` of the collection's only document.
const HOLD: &str = "hold";

/// Time after which a hold ends by itself if it was not renewed: its holder may be dead.
pub(crate) const LIFE: Duration = Duration::from_secs(10);

/// Access to the hold of one deployment.
#[derive(Clone)]
pub(crate) struct Hold {
    ns: Namespace,
}

impl Hold {
    pub(crate) fn new(tx_database: &str) -> Self {
        Self { ns: Namespace::new(tx_database, CHECKPOINT) }
    }

    /// Returns true if a hold stands now.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when clients of a later stored format are to be alone here.
    pub(crate) async fn stands(&self, server: &Server) -> Result<bool> {
        let standing = doc! {"over": false, "$expr": {"$gt": ["$until", "$$NOW"]}};
        let is_later = doc! {format::FIELD: {"$gt": FORMAT}};
        let Some(found) = self.find(server, doc! {"_id": HOLD, "$or": [standing, is_later]}).await? else {
            return Ok(false);
        };
        self.check(&found).map(|()| true)
    }

    fn check(&self, found: &Document) -> Result<()> {
        format::check(found.get(format::FIELD), || format!("the document {HOLD:?} of {}", self.ns))
    }

    /// Begins to hold, durably.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when another hold stands; [`ErrorKind::Unsupported`] as of
    /// [`Hold::stands`].
    pub(crate) async fn take(&self, server: &Server, by: ObjectId) -> Result<()> {
        let free = doc! {"$or": [{"$ne": ["$over", false]}, {"$lte": ["$until", "$$NOW"]}]};
        let free = doc! {"_id": HOLD, format::FIELD: format::is_known(), "$expr": free};
        let begins = doc! {"$set": {"by": by, "since": "$$NOW", "until": until(), "over": false}};
        let first = doc! {"q": {"_id": HOLD}, "u": {"$setOnInsert": {"over": true}}, "upsert": true};
        match self.write(server, first).await {
            // Two at a time: one of them has made it.
            Err(error) if !error.is_duplicate_key() => return Err(error),
            _ => {}
        }
        match self.write(server, doc! {"q": free, "u": [begins]}).await? {
            true => Ok(()),
            false => Err(self.taken(server).await),
        }
    }

    /// Goes on holding. False: the hold has ended, and nothing is known of what was decided since.
    pub(crate) async fn renew(&self, server: &Server, by: ObjectId) -> Result<bool> {
        let standing = doc! {"_id": HOLD, "by": by, "over": false, "$expr": {"$gt": ["$until", "$$NOW"]}};
        self.write(server, doc! {"q": standing, "u": [{"$set": {"until": until()}}]}).await
    }

    /// Ends it. False: it had ended before.
    pub(crate) async fn end(&self, server: &Server, by: ObjectId) -> Result<bool> {
        let standing = doc! {"_id": HOLD, "by": by, "over": false, "$expr": {"$gt": ["$until", "$$NOW"]}};
        self.write(server, doc! {"q": standing, "u": {"$set": {"over": true}}}).await
    }

    /// True: a document was matched or made.
    async fn write(&self, server: &Server, statement: Document) -> Result<bool> {
        let concern = server.nodes.durable();
        let command = doc! {"update": &self.ns.coll, "updates": [statement], "writeConcern": concern};
        Ok(server.write_records(&self.ns, command).await?.ok()?.n == 1)
    }

    async fn find(&self, server: &Server, filter: Document) -> Result<Option<Document>> {
        let mut find = doc! {"find": &self.ns.coll, "filter": filter, "limit": 1};
        server.nodes.only_from_primary(&mut find);
        Ok(server.collect(&self.ns.db, find, 1).await?.pop())
    }

    async fn taken(&self, server: &Server) -> Error {
        let found = self.find(server, doc! {"_id": HOLD}).await.ok().flatten();
        if let Some(Err(later)) = found.as_ref().map(|found| self.check(found)) {
            return later;
        }
        let since = found.and_then(|hold| hold.get_datetime("since").ok()?.try_to_rfc3339_string().ok());
        let since = since.map_or(String::new(), |since| format!(", since {since}"));
        let message = format!("another checkpoint holds transactions{since} ({}); one at a time can", self.ns);
        Error::new(ErrorKind::Unavailable, message)
    }
}

fn until() -> Document {
    doc! {"$add": ["$$NOW", LIFE.as_millis() as i64]}
}
