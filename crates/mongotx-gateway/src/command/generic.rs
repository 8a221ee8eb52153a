//! The fields that every command may carry: read concern, write concern, time limit, API version.

use std::time::Duration;

use bson::{Bson, Document};
use mongotx::Isolation;

use super::{fields::as_number, write_concern::WriteConcern};
use crate::failure::{Answer, Failure, codes};

/// What the gateway need not heed, or heeds by itself.
const IGNORED: [&str; 15] = [
    "$db",
    "$clusterTime",
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

/// How fresh and how isolated a read is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadLevel {
    Local,
    Available,
    Majority,
    Snapshot,
    Linearizable,
}

/// Read concern, write concern and time limit of a command.
#[derive(Debug, Default)]
pub(crate) struct Generic {
    /// `readConcern.level`.
    pub(crate) read: Option<ReadLevel>,
    /// `writeConcern`.
    pub(crate) write: Option<WriteConcern>,
    /// `maxTimeMS`.
    pub(crate) limit: Option<Duration>,
    /// `comment`.
    pub(crate) comment: Option<Bson>,
}

impl Generic {
    /// Takes them out of a command.
    ///
    /// # Errors
    /// The server's.
    pub(crate) fn take(body: &mut Document) -> Answer<Self> {
        for field in IGNORED {
            body.remove(field);
        }
        check_api(body)?;
        let read = body.remove("readConcern").map_or(Ok(None), |concern| read_level(&concern))?;
        let write = body.remove("writeConcern").map(|concern| WriteConcern::parse(&concern)).transpose()?;
        let limit = body.remove("maxTimeMS").map_or(Ok(None), |limit| time_limit(&limit))?;
        Ok(Self { read, write, limit, comment: body.remove("comment") })
    }

    /// For a transaction's statement.
    ///
    /// # Errors
    /// The server's for what stands there only at the beginning, or at the end.
    pub(crate) fn check_statement(&self, begins: bool) -> Answer<()> {
        let invalid = |message: &str| Err(Failure::new(codes::INVALID_OPTIONS, message));
        if self.write.is_some() {
            return invalid("writeConcern is not allowed within a multi-statement transaction");
        }
        match self.read {
            Some(_) if !begins => invalid("Only the first command in a transaction may specify a readConcern"),
            Some(ReadLevel::Available) => invalid(
                "The readConcern level must be either 'local' (default), 'majority', 'snapshot' or, for a serializable transaction, 'linearizable' in order to run in a transaction",
            ),
            _ => Ok(()),
        }
    }

    /// For a command outside transactions.
    ///
    /// # Errors
    /// 115 for levels that the gateway does not have.
    pub(crate) fn check_plain(&self) -> Answer<()> {
        let refused = match self.read {
            Some(ReadLevel::Linearizable) => {
                "read concern 'linearizable' is not supported: use 'local', whose reads see every commit that was acknowledged before they began"
            }
            Some(ReadLevel::Snapshot) => {
                "read concern 'snapshot' is not supported outside transactions: begin a transaction with it"
            }
            _ => return Ok(()),
        };
        Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, refused))
    }

    /// What a transaction that begins with this read concern is protected from, if `usual` is what others get.
    pub(crate) fn isolation(&self, usual: Isolation) -> Isolation {
        match self.read {
            Some(ReadLevel::Linearizable) => Isolation::Serializable,
            Some(ReadLevel::Snapshot) if usual != Isolation::Serializable => Isolation::Snapshot,
            _ => usual,
        }
    }
}

fn read_level(concern: &Bson) -> Answer<Option<ReadLevel>> {
    let Bson::Document(concern) = concern else {
        return Err(Failure::new(codes::FAILED_TO_PARSE, "readConcern field should be an object"));
    };
    let mut level = None;
    for (field, value) in concern {
        match (field.as_str(), value) {
            ("level", Bson::String(name)) => level = Some(level_of(name)?),
            ("level", _) => return Err(Failure::new(codes::TYPE_MISMATCH, "\"level\" had the wrong type")),
            // A read sees every commit that was acknowledged before it began: so also what these ask for.
            ("afterClusterTime" | "atClusterTime" | "afterOpTime" | "provenance", _) => {}
            _ => {
                let message = format!("Unrecognized option in readConcern: {field}");
                return Err(Failure::new(codes::INVALID_OPTIONS, message));
            }
        }
    }
    Ok(level)
}

fn level_of(name: &str) -> Answer<ReadLevel> {
    match name {
        "local" => Ok(ReadLevel::Local),
        "available" => Ok(ReadLevel::Available),
        "majority" => Ok(ReadLevel::Majority),
        "snapshot" => Ok(ReadLevel::Snapshot),
        "linearizable" => Ok(ReadLevel::Linearizable),
        _ => Err(Failure::new(
            codes::FAILED_TO_PARSE,
            "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'",
        )),
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

fn check_api(body: &mut Document) -> Answer<()> {
    let (strict, deprecation) = (body.remove("apiStrict"), body.remove("apiDeprecationErrors"));
    match body.remove("apiVersion") {
        None if strict.is_some() || deprecation.is_some() => {
            let message = "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            Err(Failure::new(4_886_600, message))
        }
        None => Ok(()),
        Some(Bson::String(version)) if version == "1" => Ok(()),
        Some(other) => {
            let message = format!("Cannot accept API version {}", other.as_str().unwrap_or("of another type"));
            Err(Failure::new(codes::API_VERSION_ERROR, message))
        }
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
    fn levels_are_what_the_table_says() {
        for (level, isolation, under_read_committed, under_serializable) in [
            ("local", Isolation::Snapshot, Isolation::ReadCommitted, Isolation::Serializable),
            ("majority", Isolation::Snapshot, Isolation::ReadCommitted, Isolation::Serializable),
            ("snapshot", Isolation::Snapshot, Isolation::Snapshot, Isolation::Serializable),
            ("linearizable", Isolation::Serializable, Isolation::Serializable, Isolation::Serializable),
        ] {
            let generic = taken(doc! {"readConcern": {"level": level}}).unwrap();
            assert_eq!(generic.isolation(Isolation::Snapshot), isolation);
            assert_eq!(generic.isolation(Isolation::ReadCommitted), under_read_committed);
            assert_eq!(generic.isolation(Isolation::Serializable), under_serializable);
            generic.check_statement(true).unwrap();
            assert_eq!(generic.check_statement(false).unwrap_err().code, 72);
        }
        let generic = taken(doc! {"readConcern": {"level": "available"}}).unwrap();
        assert_eq!(generic.check_statement(true).unwrap_err().code, 72);
    }

    #[test]
    fn levels_that_cannot_be_had_outside_are_refused_by_name() {
        for level in ["snapshot", "linearizable"] {
            let refused = taken(doc! {"readConcern": {"level": level}}).unwrap().check_plain().unwrap_err();
            assert_eq!(refused.code, 115);
            assert!(refused.message.contains(level), "{}", refused.message);
        }
        for level in ["local", "available", "majority"] {
            taken(doc! {"readConcern": {"level": level}}).unwrap().check_plain().unwrap();
        }
    }

    #[test]
    fn malformed_fields_have_the_servers_codes() {
        for (body, code) in [
            (doc! {"readConcern": 5}, 9),
            (doc! {"readConcern": {"level": "x"}}, 9),
            (doc! {"readConcern": {"lev": 1}}, 72),
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
