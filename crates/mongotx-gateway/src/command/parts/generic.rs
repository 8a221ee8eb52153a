//! The fields that every command may carry: read concern, write concern, time limit, API version.

use std::time::Duration;

use bson::{Bson, Document, RawBsonRef, Timestamp};

use super::{read_concern::ReadConcern, write_concern::WriteConcern};
use crate::{
    api::ApiParameters,
    failure::{Answer, Failure, codes},
    fields::{as_number, type_name},
};

/// The logical time that a client has seen: times of change events are later from then on.
const CLUSTER_TIME: &str = "$clusterTime";

/// Fields that have no effect at the gateway, or that it reads elsewhere.
pub(crate) const IGNORED: [&str; 15] = [
    "$db",
    CLUSTER_TIME,
    "$readPreference",
    "$audit",
    "$client",
    "$configServerState",
    "$configTime",
    "$topologyTime",
    "$oplogQueryData",
    "$queryOptions",
    "$replData",
    "clientOperationKey",
    "databaseVersion",
    "shardVersion",
    "mayBypassWriteBlocking",
];

/// API version, read concern, write concern, time limit and comment of a command.
#[derive(Debug, Default)]
pub(crate) struct Generic {
    /// Parameters of the versioned API.
    pub(crate) api: ApiParameters,
    /// The read concern of the command.
    pub(crate) read: ReadConcern,
    /// The write concern of the command.
    pub(crate) write: Option<WriteConcern>,
    /// `maxTimeMS`; 0 is no limit.
    pub(crate) limit: Option<Duration>,
    /// `maxTimeMS` is there, be it 0.
    pub(crate) says_limit: bool,
    /// The `comment` of the command.
    pub(crate) comment: Option<Bson>,
}

impl Generic {
    /// Takes these fields out of a command.
    ///
    /// # Errors
    /// The server's.
    pub(crate) fn take(body: &mut Document) -> Answer<Self> {
        body.get(CLUSTER_TIME).map_or(Ok(()), check_cluster_time)?;
        for field in IGNORED {
            body.remove(field);
        }
        let api = ApiParameters::take(body)?;
        let read = body.remove("readConcern").map_or(Ok(ReadConcern::default()), |read| ReadConcern::parse(&read))?;
        let write = body.remove("writeConcern").map(|concern| WriteConcern::parse(&concern)).transpose()?;
        let limit = body.remove("maxTimeMS");
        let says_limit = limit.is_some();
        let limit = limit.map_or(Ok(None), |limit| time_limit(&limit))?;
        Ok(Self { api, read, write, limit, says_limit, comment: body.remove("comment") })
    }

    /// Checks the fields of a statement of a transaction.
    ///
    /// # Errors
    /// The server's for what stands there only at the beginning, or at the end.
    pub(crate) fn check_statement(&self, begins: bool) -> Answer<()> {
        let invalid = |message: &str| Err(Failure::new(codes::INVALID_OPTIONS, message));
        if self.write.is_some() {
            return invalid("writeConcern is not allowed within a multi-statement transaction");
        }
        self.read.check_statement(begins)
    }
}

/// Returns true if a field of [`IGNORED`] is as drivers write it: otherwise the long way has the
/// error.
pub(crate) fn is_plain(name: &str, value: RawBsonRef<'_>) -> bool {
    if name != CLUSTER_TIME {
        return true;
    }
    let RawBsonRef::Document(time) = value else { return false };
    matches!(time.get("clusterTime"), Ok(Some(RawBsonRef::Timestamp(_))))
}

/// Refuses a malformed cluster time, as a member of a replica set does.
/// The logical time that a client has seen, if the command says it.
pub(crate) fn cluster_time(body: &Document) -> Option<Timestamp> {
    body.get_document(CLUSTER_TIME).ok()?.get_timestamp("clusterTime").ok()
}

fn check_cluster_time(time: &Bson) -> Answer<()> {
    let Bson::Document(time) = time else {
        let message = "invalid parameter: expected an object ($clusterTime)";
        return Err(Failure::new(codes::EXPECTED_OBJECT, message));
    };
    match time.get("clusterTime") {
        Some(Bson::Timestamp(_)) => Ok(()),
        Some(other) => {
            let message = format!("\"clusterTime\" had the wrong type. Expected timestamp, found {}", type_name(other));
            Err(Failure::new(codes::TYPE_MISMATCH, message))
        }
        None => Err(Failure::new(codes::NO_SUCH_KEY, "Missing expected field \"clusterTime\"")),
    }
}

fn time_limit(limit: &Bson) -> Answer<Option<Duration>> {
    let bad = |message: String| Err(Failure::new(codes::BAD_VALUE, message));
    if let Bson::Double(limit) = limit
        && limit.fract() != 0.0
    {
        return bad("maxTimeMS has non-integral value".to_owned());
    }
    match as_number(limit) {
        None => bad("maxTimeMS must be a number".to_owned()),
        Some(0) => Ok(None),
        Some(ms) if (1..=i64::from(i32::MAX)).contains(&ms) => Ok(Some(Duration::from_millis(ms as u64))),
        Some(ms) => bad(format!("{ms} value for maxTimeMS is out of range")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    fn taken(body: Document) -> Answer<Generic> {
        Generic::take(&mut body.clone())
    }

    #[test]
    fn malformed_fields_have_the_servers_codes() {
        for (body, code) in [
            (doc! {"readConcern": 5}, 9),
            (doc! {"readConcern": {"level": "x"}}, 9),
            (doc! {"readConcern": {"lev": 1}}, 72),
            (doc! {"$clusterTime": 5}, 10_065),
            (doc! {"$clusterTime": {}}, 4),
            (doc! {"$clusterTime": {"clusterTime": 5}}, 14),
            (doc! {"maxTimeMS": -1}, 2),
            (doc! {"maxTimeMS": "x"}, 2),
            (doc! {"maxTimeMS": 1.5}, 2),
            (doc! {"apiVersion": "2"}, 322),
            (doc! {"apiStrict": true}, 4_886_600),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().code, code, "{body}");
        }
    }
}
