//! The recovery token: the transaction's id in MongoTx, so that any gateway can tell what became of it.
//!
//! A commit whose answer was lost may be asked for at another gateway. There: 1. a decided transaction's fate is told.
//! 2. One that is not decided is waited for, a moment, because its own gateway may be about to decide it. 3. Then it is
//! killed. That is a conditional write that only one of the two can win, so what is answered is true for ever.

use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf, rawdoc};
use mongotx::{Client, Fate, TxId};

use crate::{
    failure::{Answer, Failure, codes},
    session::machine::End,
};

/// As in [`token`].
const FIELD: &str = "mongotx";
/// Looks at an undecided transaction before it is killed.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(50);

/// The token of a transaction; empty as long as it has written nothing.
pub(super) fn token(id: Option<TxId>) -> RawDocumentBuf {
    match id {
        Some(id) => rawdoc! {"mongotx": id.to_string()},
        None => RawDocumentBuf::new(),
    }
}

/// The transaction that a token names; `None` when it had written nothing.
///
/// # Errors
/// 9 for what no gateway has made.
pub(super) fn parse_token(token: &Document) -> Answer<Option<TxId>> {
    let malformed = || Failure::new(codes::FAILED_TO_PARSE, "the recoveryToken was not made by a MongoTx gateway");
    match token.get(FIELD) {
        None if token.is_empty() => Ok(None),
        Some(Bson::String(id)) => id.parse().map(Some).map_err(|_| malformed()),
        _ => Err(malformed()),
    }
}

/// Finds out how a transaction ended. Afterwards it has, unless nobody can tell any more.
///
/// # Errors
/// When the server cannot be asked: with `UnknownTransactionCommitResult`.
pub(super) async fn settle(client: &Client, id: TxId) -> Answer<End> {
    let unknown = |error: mongotx::Error| {
        Failure::new(codes::NETWORK_TIMEOUT, format!("the fate of {id} cannot be learned: {error}")).unknown_result()
    };
    for _ in 0..LOOKS {
        match client.outcome(id).await.map_err(unknown)? {
            Fate::Active => tokio::time::sleep(BETWEEN).await,
            decided => return Ok(end_of(decided)),
        }
    }
    client.kill(id).await.map(end_of).map_err(unknown)
}

fn end_of(fate: Fate) -> End {
    match fate {
        Fate::Committed => End::Committed,
        Fate::RolledBack => End::Aborted,
        Fate::Active | Fate::Unknown => End::InDoubt,
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
        let read = |raw: RawDocumentBuf| parse_token(&Document::try_from(raw).unwrap()).unwrap();
        assert_eq!(read(token(Some(id))), Some(id));
        assert_eq!(read(token(None)), None);
    }

    #[test]
    fn tokens_of_others_are_refused() {
        for token in [doc! {"recoveryShardId": "x"}, doc! {FIELD: 5}, doc! {FIELD: "x"}] {
            assert_eq!(parse_token(&token).unwrap_err().code, 9, "{token}");
        }
    }
}
