//! Logical sessions: the session fields of a command, their meaning, and the state of each session.
//!
//! | file | |
//! | --- | --- |
//! | [`end`] | reports ended transactions to the log and the metrics |
//! | [`info`] | `lsid`, `txnNumber`, `autocommit`, `startTransaction`, as a command carries them |
//! | [`labels`] | the labels of an error, by its command's place in its session (pure) |
//! | [`machine`] | the state machine (pure) |
//! | [`record`] | the stored form of the newest retryable write, where it outlives the gateway (pure) |
//! | [`records`] | the collection with these records |
//! | [`refusal`] | errors of the state machine, in the server's words |
//! | [`results`] | results of one write, statement by statement (pure) |
//! | [`retry`] | those of the newest retryable write, and their memory |
//! | [`entry`] | one session: its open transaction, and how it is interrupted |
//! | [`table`] | all sessions, and when they end (pure but for the entries) |

pub(crate) mod end;
pub(crate) mod entry;
pub(crate) mod info;
pub(crate) mod labels;
pub(crate) mod machine;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod refusal;
mod results;
pub(crate) mod retry;
pub(crate) mod table;

use std::fmt;

use bson::{Binary, Document, RawDocument, doc, spec::BinarySubtype};

use crate::{
    access::User,
    failure::{Answer, Failure, codes},
};

/// A session's name: the UUID that the client made, and the digest of the user where the client
/// names one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lsid {
    /// Bytes of the UUID in `lsid.id`.
    pub(crate) id: [u8; 16],
    /// `lsid.uid`; empty if there is none.
    pub(crate) user: Vec<u8>,
}

impl Lsid {
    /// The session that a command names, of the user with this digest.
    pub(crate) fn in_command(body: &RawDocument, user: Vec<u8>) -> Option<Self> {
        let id = body.get_document("lsid").ok()?.get_binary("id").ok()?;
        let id = Some(id.bytes).filter(|_| id.subtype == BinarySubtype::Uuid)?;
        Some(Self { id: id.try_into().ok()?, user })
    }

    /// The session of this name that belongs to the user: users share no sessions, even under one
    /// name. Without a user it is the one that the client names.
    ///
    /// # Errors
    /// 13 for a name with another user in it.
    pub(crate) fn of_user(self, user: Option<&User>) -> Answer<Self> {
        match user {
            None => Ok(self),
            Some(user) if self.user.is_empty() || self.user == user.digest => {
                Ok(Self { user: user.digest.clone(), ..self })
            }
            Some(_) => Err(Failure::new(codes::UNAUTHORIZED, "the lsid names another user")),
        }
    }
}

impl Lsid {
    /// The session as change events name it.
    pub(crate) fn to_document(&self) -> Document {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: self.id.to_vec() };
        let mut lsid = doc! {"id": id};
        if !self.user.is_empty() {
            lsid.insert("uid", Binary { subtype: BinarySubtype::Generic, bytes: self.user.clone() });
        }
        lsid
    }
}

impl fmt::Display for Lsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.id.iter().enumerate() {
            if [4, 6, 8, 10].contains(&n) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Lsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
