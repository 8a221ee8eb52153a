//! `writeConcern`: what a write waits for before it is answered.
//!
//! | | one server keeps the data | several servers do |
//! | --- | --- | --- |
//! | a commit | the journal | the journals of the majority |
//! | another write | the journal, if the concern demands it | the journals of the majority |
//! | more members than that | cannot be: `writeConcernError` | if the concern demands it |
//!
//! What a commit waits for, and the majority, is the library's part. Here is what is waited for
//! besides, after the write: a write of the library's has no concern of its own. A command that
//! goes to the server as it came is sent with one ([`WriteConcern::to_send`]).

use bson::{Bson, Document, doc, oid::ObjectId};
use mongotx::Client;

use super::concern_wait::{self, missed_for};
use crate::{
    connection::Connection,
    context::Context,
    failure::{Answer, Failure, codes},
    fields::{as_number, is_asked, type_name},
};

/// The largest number of members that the server accepts in a write concern.
const MOST_MEMBERS: i64 = 50;
/// Time that a write waits for the majority, in milliseconds, as the library's writes do.
const MAJORITY_WAIT_MS: i64 = 30_000;

/// A write concern, as a client has sent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WriteConcern {
    asked: Document,
    w: Acknowledgment,
    /// True if the write is to be in the journal: `j`, `fsync`, or the majority without `j: false`,
    /// as in a replica set.
    is_journaled: bool,
}

/// Members of the set that have to acknowledge a write: the option `w`.
#[derive(Clone, Debug, PartialEq)]
enum Acknowledgment {
    Default,
    Members(i64),
    Named(String),
}

impl WriteConcern {
    /// # Errors
    ///
    /// The server's errors for malformed write concerns.
    pub(crate) fn parse(value: &Bson) -> Answer<Self> {
        let Bson::Document(asked) = value else {
            let message = format!("\"writeConcern\" had the wrong type. Expected object, found {}", type_name(value));
            return Err(Failure::new(codes::TYPE_MISMATCH, message));
        };
        let mut w = Acknowledgment::Default;
        for (field, value) in asked {
            match (field.as_str(), value) {
                ("w", Bson::String(name)) => w = Acknowledgment::Named(name.clone()),
                ("w", value) => w = Acknowledgment::Members(members(value)?),
                ("j" | "fsync" | "wtimeout" | "wElectionId" | "wOpTime" | "getLastError" | "provenance", _) => {}
                _ => {
                    let message = format!("BSON field 'WriteConcernOptions.{field}' is an unknown field.");
                    return Err(Failure::new(codes::UNKNOWN_FIELD, message));
                }
            }
        }
        let is_of_majority = matches!(&w, Acknowledgment::Named(name) if name == "majority");
        let is_journaled = match asked.get("j") {
            Some(j) => is_asked(Some(j)),
            None => is_of_majority,
        } || is_asked(asked.get("fsync"));
        Ok(Self { asked: asked.clone(), w, is_journaled })
    }

    /// The concern that a write has which goes to the server as it came. `asked`: the client's.
    /// `None`: the server's own default.
    pub(crate) fn to_send(asked: Option<&Self>, client: &Client) -> Option<Document> {
        if client.is_replicated() {
            return Some(doc! {"w": "majority", "j": true, "wtimeout": MAJORITY_WAIT_MS});
        }
        asked.filter(|asked| asked.is_journaled).map(|_| doc! {"w": 1, "j": true})
    }

    /// The `writeConcernError` for a write of the library's that was no commit, after what is left
    /// of the concern was waited for. `process`: the server process before the write was sent.
    pub(crate) async fn missed_by_write(
        &self,
        context: &Context,
        connection: &Connection,
        process: Option<ObjectId>,
    ) -> Option<Document> {
        match self.missed_in_journal(&context.client, process).await {
            None => self.missed(context, connection).await,
            missed => missed,
        }
    }

    async fn missed_in_journal(&self, client: &Client, process: Option<ObjectId>) -> Option<Document> {
        if !self.is_journaled || client.is_replicated() {
            return None;
        }
        let missed = wait(client, doc! {"w": 1, "j": true}).await;
        // The journal of a server that was started anew may lack what the one before it did.
        let is_another = process.is_some() && client.server_process() != process;
        missed.or_else(|| is_another.then(started_anew))
    }

    /// The `writeConcernError` for a commit, or a command that the server got with
    /// [`WriteConcern::to_send`], after what is left of the concern was waited for. What was
    /// written stays.
    pub(crate) async fn missed(&self, context: &Context, connection: &Connection) -> Option<Document> {
        if !context.client.is_replicated() {
            return self.error();
        }
        let more = match &self.w {
            Acknowledgment::Default => false,
            Acknowledgment::Members(members) => *members > 1,
            Acknowledgment::Named(name) => name != "majority",
        };
        if !more {
            return None;
        }
        let asked = self.asked.iter().filter(|(field, _)| ["w", "j", "wtimeout"].contains(&field.as_str()));
        let asked = asked.map(|(field, value)| (field.clone(), value.clone())).collect();
        concern_wait::wait(context, connection, &asked).await
    }

    /// The error of a concern that a single server cannot meet.
    fn error(&self) -> Option<Document> {
        let (code, message) = match &self.w {
            Acknowledgment::Members(members) if *members > 1 => {
                (codes::UNSATISFIABLE_WRITE_CONCERN, "Not enough data-bearing nodes".to_owned())
            }
            Acknowledgment::Named(name) if name != "majority" => {
                let message = format!("No write concern mode named '{name}' found in replica set configuration");
                (codes::UNKNOWN_WRITE_CONCERN, message)
            }
            _ => return None,
        };
        let mut asked = self.asked.clone();
        if !asked.contains_key("wtimeout") {
            asked.insert("wtimeout", 0);
        }
        asked.insert("provenance", "clientSupplied");
        Some(doc! {
            "code": code, "codeName": codes::name(code), "errmsg": message, "errInfo": {"writeConcern": asked},
        })
    }
}

/// Waits until everything that was written is in the journal. Returns the `writeConcernError` if it
/// is not.
async fn wait(client: &Client, concern: Document) -> Option<Document> {
    let waited = client.await_write_concern(concern).await;
    waited.unwrap_or_else(|error| Some(missed_for(error.code(), error.message())))
}

fn started_anew() -> Document {
    let message = "the server was started anew before the write was known to be in its journal: it may be lost";
    missed_for(None, message)
}

fn members(value: &Bson) -> Answer<i64> {
    match as_number(value) {
        Some(members) if (0..=MOST_MEMBERS).contains(&members) => Ok(members),
        Some(members) => Err(Failure::new(
            codes::FAILED_TO_PARSE,
            format!("w has to be a non-negative number and not greater than {MOST_MEMBERS}; found: {members}"),
        )),
        None => Err(Failure::new(codes::FAILED_TO_PARSE, "w has to be a number, string, or object")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn parsed(concern: Document) -> Answer<WriteConcern> {
        WriteConcern::parse(&Bson::Document(concern))
    }

    #[test]
    fn what_one_server_can_do_is_done() {
        for concern in [doc! {}, doc! {"w": 0}, doc! {"w": 1}, doc! {"w": "majority", "wtimeout": 5, "j": true}] {
            assert_eq!(parsed(concern).unwrap().error(), None);
        }
    }

    #[test]
    fn what_it_cannot_do_is_refused_by_name() {
        let code = |concern| parsed(concern).unwrap().error().unwrap().get_i32("code").unwrap();
        assert_eq!(code(doc! {"w": 2}), 100);
        assert_eq!(code(doc! {"w": "dc"}), 79);
    }

    #[test]
    fn the_journal_is_waited_for_where_it_is_demanded() {
        for (concern, is_journaled) in [
            (doc! {}, false),
            (doc! {"w": 1}, false),
            (doc! {"w": 1, "j": false}, false),
            (doc! {"w": "majority", "j": false}, false),
            (doc! {"w": "majority"}, true),
            (doc! {"j": true}, true),
            (doc! {"w": 0, "j": 1}, true),
            (doc! {"w": 1, "fsync": true}, true),
        ] {
            assert_eq!(parsed(concern.clone()).unwrap().is_journaled, is_journaled, "{concern}");
        }
    }

    #[tokio::test]
    async fn the_journal_of_another_process_proves_nothing() {
        let server = local_mongod::shared_standalone().await.unwrap();
        let options = mongotx::ClientOptions { tx_database: local_mongod::unique_db("concern"), ..Default::default() };
        let client = Client::connect_with(&server.uri(), options).await.unwrap();
        let concern = parsed(doc! {"w": 1, "j": true}).unwrap();
        assert_eq!(concern.missed_in_journal(&client, client.server_process()).await, None);
        let missed = concern.missed_in_journal(&client, Some(ObjectId::new())).await.unwrap();
        assert!(missed.get_str("errmsg").unwrap().contains("started anew"), "{missed}");
    }

    #[test]
    fn malformed_ones_have_the_servers_codes() {
        for (concern, code) in [(doc! {"w": -1}, 9), (doc! {"w": 51}, 9), (doc! {"w": {}}, 9), (doc! {"x": 1}, 40_415)]
        {
            assert_eq!(parsed(concern.clone()).unwrap_err().code, code, "{concern}");
        }
        assert_eq!(WriteConcern::parse(&Bson::Int32(1)).unwrap_err().code, 14);
    }
}
