//! The session fields of a command: `lsid`, `txnNumber`, `startTransaction`, `autocommit`; and the
//! place in its session that they say. Whether it may be there is decided in `machine`.

use bson::{Bson, Document, spec::BinarySubtype};

use super::Lsid;
use crate::{
    access::User,
    failure::{Answer, Failure, codes},
    fields::type_name,
};

/// The place of a command in its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Outside transactions, with a session or without.
    Plain(Option<Lsid>),
    /// A write that is to happen once, however often it is sent.
    Write(Lsid, i64),
    /// A statement of a transaction; the first one begins it.
    Transaction {
        /// Session in which the transaction runs.
        lsid: Lsid,
        /// The transaction's number in it.
        number: i64,
        /// True if the statement begins the transaction.
        begins: bool,
    },
}

impl Mode {
    /// Takes the session's fields out of a command.
    ///
    /// # Errors
    /// The server's, for fields of a wrong type and in a combination that means nothing.
    pub(crate) fn take(body: &mut Document) -> Answer<Self> {
        let lsid = body.remove("lsid").map(|lsid| parse_lsid("OperationSessionInfo.lsid", &lsid)).transpose()?;
        let number = take_typed(body, "txnNumber", "long", Bson::as_i64)?;
        let autocommit = take_typed(body, "autocommit", "bool", Bson::as_bool)?;
        let start = take_typed(body, "startTransaction", "bool", Bson::as_bool)?;
        let invalid = |message: &str| Err(Failure::new(codes::INVALID_OPTIONS, message));
        if lsid.is_none() && number.is_some() {
            return invalid("Transaction number requires a session ID to also be specified");
        }
        if autocommit.is_some() && number.is_none() {
            return invalid("'autocommit' field requires a transaction number to also be specified");
        }
        if start.is_some() && autocommit.is_none() {
            return invalid("'startTransaction' field requires 'autocommit' field to also be specified");
        }
        if number.is_some_and(|number| number < 0) {
            return invalid("Transaction number cannot be negative");
        }
        if autocommit == Some(true) {
            return invalid("Specifying autocommit=true is not allowed.");
        }
        if start == Some(false) {
            return invalid("Specifying startTransaction=false is not allowed.");
        }
        Ok(match (lsid, number) {
            (Some(lsid), Some(number)) if autocommit.is_some() => {
                Self::Transaction { lsid, number, begins: start.is_some() }
            }
            (Some(lsid), Some(number)) => Self::Write(lsid, number),
            (lsid, _) => Self::Plain(lsid),
        })
    }

    /// The same place, in the session of that name that belongs to the user.
    ///
    /// # Errors
    /// As [`Lsid::of_user`].
    pub(crate) fn of_user(self, user: Option<&User>) -> Answer<Self> {
        Ok(match self {
            Self::Plain(lsid) => Self::Plain(lsid.map(|lsid| lsid.of_user(user)).transpose()?),
            Self::Write(lsid, number) => Self::Write(lsid.of_user(user)?, number),
            Self::Transaction { lsid, number, begins } => {
                Self::Transaction { lsid: lsid.of_user(user)?, number, begins }
            }
        })
    }

    /// The session, if the command has one.
    pub(crate) fn lsid(&self) -> Option<&Lsid> {
        match self {
            Self::Plain(lsid) => lsid.as_ref(),
            Self::Write(lsid, _) | Self::Transaction { lsid, .. } => Some(lsid),
        }
    }

    /// Number of the transaction, if the command belongs to one.
    pub(crate) fn transaction(&self) -> Option<i64> {
        match self {
            Self::Transaction { number, .. } => Some(*number),
            Self::Plain(_) | Self::Write(..) => None,
        }
    }
}

fn take_typed<T>(
    body: &mut Document,
    field: &str,
    wanted: &str,
    read: impl Fn(&Bson) -> Option<T>,
) -> Answer<Option<T>> {
    let Some(value) = body.remove(field) else { return Ok(None) };
    read(&value).map(Some).ok_or_else(|| wrong_type(&format!("OperationSessionInfo.{field}"), &value, wanted))
}

fn wrong_type(path: &str, value: &Bson, wanted: &str) -> Failure {
    let found = type_name(value);
    let message = format!("BSON field '{path}' is the wrong type '{found}', expected type '{wanted}'");
    Failure::new(codes::TYPE_MISMATCH, message)
}

/// A session's name; `path` is where it stands, for errors.
///
/// # Errors
/// The server's, for what is no such name.
pub(crate) fn parse_lsid(path: &str, value: &Bson) -> Answer<Lsid> {
    let Bson::Document(lsid) = value else { return Err(wrong_type(path, value, "object")) };
    let mut user = Vec::new();
    let mut id = None;
    for (field, value) in lsid {
        match (field.as_str(), value) {
            ("id", Bson::Binary(binary)) if binary.subtype == BinarySubtype::Uuid => {
                id = <[u8; 16]>::try_from(binary.bytes.as_slice()).ok();
                if id.is_none() {
                    return Err(Failure::new(207, "uuid must be a 16-byte binary field with UUID (4) subtype"));
                }
            }
            ("id", Bson::Binary(_)) => {
                let message = format!("BSON field '{path}.id' is the wrong binData type, expected type 'UUID'");
                return Err(Failure::new(codes::TYPE_MISMATCH, message));
            }
            ("uid", Bson::Binary(binary)) => user.clone_from(&binary.bytes),
            ("id" | "uid", other) => return Err(wrong_type(&format!("{path}.{field}"), other, "binData")),
            _ => {
                let message = format!("BSON field '{path}.{field}' is an unknown field.");
                return Err(Failure::new(codes::UNKNOWN_FIELD, message));
            }
        }
    }
    match id {
        Some(id) => Ok(Lsid { id, user }),
        None => {
            let message = format!("BSON field '{path}.id' is missing but a required field");
            Err(Failure::new(codes::MISSING_FIELD, message))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{Binary, doc};

    use super::*;

    fn lsid() -> Document {
        doc! {"id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] }}
    }

    #[test]
    fn fields_that_mean_nothing_together_are_refused_as_by_the_server() {
        for (mut body, code) in [
            (doc! {"txnNumber": 1_i64}, 72),
            (doc! {"lsid": lsid(), "autocommit": false}, 72),
            (doc! {"lsid": lsid(), "txnNumber": 1_i64, "startTransaction": true}, 72),
            (doc! {"lsid": lsid(), "txnNumber": 1_i64, "autocommit": true}, 72),
            (doc! {"lsid": lsid(), "txnNumber": 1_i64, "autocommit": false, "startTransaction": false}, 72),
            (doc! {"lsid": lsid(), "txnNumber": -1_i64, "autocommit": false}, 72),
            (doc! {"lsid": lsid(), "txnNumber": 1}, 14),
            (doc! {"lsid": 1}, 14),
            (doc! {"lsid": {}}, 40414),
            (doc! {"lsid": {"id": 1}}, 14),
            (doc! {"lsid": {"id": lsid().get("id").cloned(), "x": 1}}, 40415),
            (doc! {"lsid": {"id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 3] }}}, 207),
        ] {
            assert_eq!(Mode::take(&mut body.clone()).unwrap_err().code, code, "{body}");
            body.clear();
        }
    }

    #[test]
    fn the_fields_are_taken_out() {
        let mut body = doc! {
            "find": "c", "lsid": lsid(), "txnNumber": 5_i64, "autocommit": false, "startTransaction": true,
        };
        let mode = Mode::take(&mut body).unwrap();
        assert_eq!(body, doc! {"find": "c"});
        assert_eq!((mode.transaction(), mode.lsid().map(|lsid| lsid.id)), (Some(5), Some([7; 16])));
        let mut write = doc! {"insert": "c", "lsid": lsid(), "txnNumber": 5_i64};
        assert!(matches!(Mode::take(&mut write).unwrap(), Mode::Write(_, 5)));
        assert_eq!(Mode::take(&mut doc! {"ping": 1}).unwrap(), Mode::Plain(None));
    }
}
