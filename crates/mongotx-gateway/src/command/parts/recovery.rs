//! The recovery token: the transaction's id in MongoTx, by which any gateway can find out the
//! transaction's outcome.
//!
//! A client whose commit was not answered may send it again to another gateway. That gateway:
//! 1. Answers the outcome, if the transaction is decided.
//! 2. Waits a moment, if it is not: its own gateway may be about to decide it.
//! 3. Aborts it. That is a conditional write that only one of the two gateways can win, so the
//!    answer stays true.

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, RawDocumentBuf, rawdoc};
use mongotx::{Client, Outcome, TxId};
use subtle::ConstantTimeEq;

use crate::{
    access::{Roster, User, Users},
    context::Context,
    failure::{Answer, Failure, codes},
    session::machine::End,
};

/// The field of the token that holds the id.
const FIELD: &str = "mongotx";
/// Looks at an undecided transaction before it is aborted.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(50);

/// A seal that makes a token valid for the user who was given it only. Without it, a client that
/// knows an id could roll back another user's transaction.
pub(crate) struct TokenSeal<'a> {
    users: Option<Arc<Users>>,
    user: Option<&'a User>,
}

impl TokenSeal<'static> {
    /// The seal of a gateway without login.
    pub(crate) const NONE: Self = Self { users: None, user: None };
}

impl<'a> TokenSeal<'a> {
    /// The seal of a command's user.
    pub(crate) fn of(context: &'a Context, user: Option<&'a User>) -> Self {
        Self { users: context.users.as_ref().map(Roster::now), user }
    }

    /// Hexadecimal digits that stand for the user and the transaction. Every gateway with the same
    /// users makes the same.
    fn on(&self, id: &str) -> Option<String> {
        let (users, user) = (self.users.as_ref()?, self.user?);
        let sealed = users.seal(&[b"recovery token\0", &user.digest[..], id.as_bytes()].concat());
        Some(sealed.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The token of a transaction; empty as long as it has written nothing.
pub(crate) fn token(id: Option<TxId>, seal: &TokenSeal<'_>) -> RawDocumentBuf {
    let Some(id) = id.map(|id| id.to_string()) else { return RawDocumentBuf::new() };
    match seal.on(&id) {
        Some(sealed) => rawdoc! {"mongotx": id, "seal": sealed},
        None => rawdoc! {"mongotx": id},
    }
}

/// The transaction that a token names; `None` when it had written nothing.
///
/// # Errors
/// 9 for what no gateway has made; 13 for what was not made for this user.
pub(crate) fn parse_token(token: &Document, seal: &TokenSeal<'_>) -> Answer<Option<TxId>> {
    let malformed = || Failure::new(codes::FAILED_TO_PARSE, "the recoveryToken was not made by a MongoTx gateway");
    match token.get(FIELD) {
        None if token.is_empty() => Ok(None),
        Some(Bson::String(id)) => {
            let sealed = seal.on(id);
            let given = token.get_str("seal").unwrap_or_default().as_bytes();
            if sealed.is_some_and(|sealed| !bool::from(sealed.as_bytes().ct_eq(given))) {
                return Err(Failure::new(codes::UNAUTHORIZED, "the recoveryToken was not given to this user"));
            }
            id.parse().map(Some).map_err(|_| malformed())
        }
        _ => Err(malformed()),
    }
}

/// Finds out the outcome of a transaction. Afterwards it is decided, unless nothing is stored about
/// it any more.
///
/// # Errors
/// With `UnknownTransactionCommitResult` if the server cannot be reached.
pub(crate) async fn settle(client: &Client, id: TxId) -> Answer<End> {
    let unknown = |error: mongotx::Error| {
        Failure::new(codes::NETWORK_TIMEOUT, format!("the outcome of {id} cannot be learned: {error}")).unknown_result()
    };
    for _ in 0..LOOKS {
        match client.outcome(id).await.map_err(unknown)? {
            Outcome::Active => tokio::time::sleep(BETWEEN).await,
            decided => return Ok(end_of(decided)),
        }
    }
    client.abort(id).await.map(end_of).map_err(unknown)
}

fn end_of(outcome: Outcome) -> End {
    match outcome {
        Outcome::Committed => End::Committed,
        Outcome::RolledBack => End::Aborted,
        Outcome::Active | Outcome::Unknown => End::InDoubt,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let id: TxId = "000102030405060708090aff.42".parse().unwrap();
        let read = |raw: RawDocumentBuf| parse_token(&Document::try_from(raw).unwrap(), &TokenSeal::NONE).unwrap();
        assert_eq!(read(token(Some(id), &TokenSeal::NONE)), Some(id));
        assert_eq!(read(token(None, &TokenSeal::NONE)), None);
    }

    #[test]
    fn tokens_of_others_are_refused() {
        for token in [doc! {"recoveryShardId": "x"}, doc! {FIELD: 5}, doc! {FIELD: "x"}] {
            assert_eq!(parse_token(&token, &TokenSeal::NONE).unwrap_err().code, 9, "{token}");
        }
    }
}
