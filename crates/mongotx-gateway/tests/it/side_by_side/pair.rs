//! A gateway and a replica set, side by side.

use std::net::SocketAddr;

use bson::{Bson, Document, Timestamp};
use mongotx_gateway::{Gateway, Limits};

use crate::common::{gateway, raw::Raw};

/// The gateway and the replica set, with a connection to each and a database of the same name.
pub(crate) struct Pair {
    _gateway: Gateway,
    ours: Raw,
    theirs: Raw,
    db: String,
}

impl Pair {
    pub(crate) async fn start(test: &str) -> Self {
        let (gateway, address) = gateway(Limits::default()).await;
        let port = local_mongod::shared_replica_set().await.unwrap().port();
        let theirs = Raw::connect(SocketAddr::from(([127, 0, 0, 1], port))).await;
        Self { _gateway: gateway, ours: Raw::connect(address).await, theirs, db: local_mongod::unique_db(test) }
    }

    /// The full name of a collection.
    pub(crate) fn full(&self, collection: &str) -> String {
        format!("{}.{collection}", self.db)
    }

    /// Both replies: the gateway's and the replica set's.
    pub(crate) async fn ask(&mut self, command: Document) -> (Document, Document) {
        self.ask_each(command.clone(), command).await
    }

    /// Both replies, to different commands.
    pub(crate) async fn ask_each(&mut self, ours: Document, theirs: Document) -> (Document, Document) {
        let (ours, theirs) = self.answers(ours, theirs).await;
        (normal(ours), normal(theirs))
    }

    /// Both replies, errors with their words.
    pub(crate) async fn words(&mut self, command: Document) -> (Document, Document) {
        self.answers(command.clone(), command).await
    }

    /// Both errors' words: those of the first refused statement, or of the command. Empty: there is
    /// no error.
    pub(crate) async fn errors_words(&mut self, command: Document) -> (String, String) {
        let words = |reply: Document| {
            let refused = reply.get_array("writeErrors").ok().and_then(|errors| errors.first()?.as_document());
            refused.unwrap_or(&reply).get_str("errmsg").unwrap_or_default().to_owned()
        };
        let (ours, theirs) = self.answers(command.clone(), command).await;
        (words(ours), words(theirs))
    }

    /// The moments that both show.
    pub(crate) async fn moments(&mut self, command: Document) -> (Timestamp, Timestamp) {
        let (ours, theirs) = self.answers(command.clone(), command).await;
        let moment = |reply: Document| reply.get_document("cursor").unwrap().get_timestamp("atClusterTime").unwrap();
        (moment(ours), moment(theirs))
    }

    /// Both replies as they are, to different commands.
    pub(crate) async fn answers(&mut self, mut ours: Document, mut theirs: Document) -> (Document, Document) {
        for command in [&mut ours, &mut theirs] {
            let of_admin = ["commitTransaction", "abortTransaction", "renameCollection"];
            let is_for_admin = of_admin.iter().any(|name| command.contains_key(name));
            command.insert("$db", if is_for_admin { "admin" } else { &self.db });
        }
        (self.ours.ask(ours).await.unwrap(), self.theirs.ask(theirs).await.unwrap())
    }

    /// Sends the command to both, which reply the same.
    pub(crate) async fn same(&mut self, command: Document) -> Document {
        let (ours, theirs) = self.ask(command.clone()).await;
        assert_eq!(ours, theirs, "{command}\nours:   {ours}\ntheirs: {theirs}");
        ours
    }
}

/// The reply without the fields in which no two servers agree.
fn normal(mut reply: Document) -> Document {
    for field in ["$clusterTime", "operationTime", "electionId", "opTime", "recoveryToken", "commitQuorum"] {
        reply.remove(field);
    }
    if reply.get_f64("ok").is_ok_and(|ok| ok == 0.0) {
        reply.remove("errmsg");
    }
    if let Ok(errors) = reply.get_array_mut("writeErrors") {
        for error in errors.iter_mut().filter_map(Bson::as_document_mut) {
            error.remove("errmsg");
        }
    }
    if reply.get_timestamp("atClusterTime").is_ok() {
        reply.insert("atClusterTime", "a moment");
    }
    if let Ok(cursor) = reply.get_document_mut("cursor") {
        if cursor.get_timestamp("atClusterTime").is_ok() {
            cursor.insert("atClusterTime", "a moment");
        }
        let is_open = cursor.get_i64("id").is_ok_and(|id| id != 0);
        cursor.insert("id", is_open);
        let sorted = cursor.clone().into_iter().collect::<std::collections::BTreeMap<_, _>>();
        *cursor = sorted.into_iter().collect();
    }
    // The results of a `mapReduce` have no order.
    if let Ok(results) = reply.get_array_mut("results") {
        results.sort_by_key(Bson::to_string);
    }
    let sorted: std::collections::BTreeMap<String, Bson> = reply.into_iter().collect();
    sorted.into_iter().collect()
}
