//! `writeConcern`. Every write waits for the journal. In a replica set every write waits for the
//! majority too, and for more members if the client demands it; a standalone server is its own
//! majority.

use bson::{Bson, Document, doc};
use mongotx::Client;

use crate::{
    failure::{Answer, Failure, codes},
    fields::{as_number, type_name},
};

/// The largest number of members that the server accepts in a write concern.
const MOST_MEMBERS: i64 = 50;

/// A write concern, as a client has sent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WriteConcern {
    asked: Document,
    w: Acknowledgment,
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
        Ok(Self { asked: asked.clone(), w })
    }

    /// The `writeConcernError` for a concern that could not be met; the write itself was made.
    pub(crate) async fn missed(&self, client: &Client) -> Option<Document> {
        if !client.is_replicated() {
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
        client.await_write_concern(asked).await.unwrap_or_else(|error| {
            let code = error.code().unwrap_or(codes::WRITE_CONCERN_FAILED);
            Some(doc! {"code": code, "codeName": codes::name(code), "errmsg": error.message()})
        })
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
    fn malformed_ones_have_the_servers_codes() {
        for (concern, code) in [(doc! {"w": -1}, 9), (doc! {"w": 51}, 9), (doc! {"w": {}}, 9), (doc! {"x": 1}, 40_415)]
        {
            assert_eq!(parsed(concern.clone()).unwrap_err().code, code, "{concern}");
        }
        assert_eq!(WriteConcern::parse(&Bson::Int32(1)).unwrap_err().code, 14);
    }
}
