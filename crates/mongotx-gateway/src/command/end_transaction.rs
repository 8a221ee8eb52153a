//! The commands `commitTransaction` and `abortTransaction`, also repeated and for transactions of
//! other gateways, by the recovery token. States and numbers of a session are in
//! `crate::session::machine`.

use std::time::Duration;

use bson::Document;
use mongotx::{Client, ErrorKind, TxId};

use super::parts::{
    body::Body,
    recovery::{self, TokenSeal},
};
use crate::{
    failure::{Answer, Failure, codes},
    fields::Fields,
    session::{
        entry::SessionWork,
        machine::{End, Event, Step},
    },
};

/// Pause before a commit of an unknown transaction is answered.
const PAUSE: Duration = Duration::from_millis(500);

/// Arguments of a command that ends a transaction.
pub(super) struct Ending<'a> {
    pub(super) client: &'a Client,
    pub(super) number: i64,
    pub(super) seal: TokenSeal<'a>,
    /// True if the driver sends recovery tokens, as it does if it sees a router.
    pub(super) has_tokens: bool,
    /// Fields of the command itself.
    pub(super) fields: Fields,
}

impl Ending<'_> {
    /// The transaction that the recovery token names: `None` without a token, `Some(None)` for an
    /// empty one.
    fn token(&mut self) -> Answer<Option<Option<TxId>>> {
        let token: Option<Document> = self.fields.document("recoveryToken")?;
        token.map(|token| recovery::parse_token(&token, &self.seal)).transpose()
    }
}

/// Reads the command's own fields, and ends nothing.
pub(super) fn check(mut fields: Fields) -> Answer<()> {
    if let Some(token) = fields.document("recoveryToken")? {
        recovery::parse_token(&token, &TokenSeal::NONE)?;
    }
    fields.finish()
}

/// `commitTransaction`. Repeated, it answers the same for ever.
pub(super) async fn commit(work: &mut SessionWork, mut ending: Ending<'_>) -> Answer<Body> {
    let token = ending.token()?;
    let Ending { client, number, has_tokens, fields, .. } = ending;
    fields.finish()?;
    match work.machine.handle(number, Event::Commit) {
        Ok(Step::Commit) => commit_open(work).await?,
        Ok(Step::Learn) => {
            let end = match work.id {
                Some(id) => settle(work, client, number, id).await?,
                None => End::InDoubt,
            };
            answer_learnt(number, end)?;
        }
        Ok(_) => {}
        Err(refusal) => match token.filter(|_| is_unknown(work, number)) {
            Some(Some(id)) => answer_learnt(number, settle(work, client, number, id).await?)?,
            Some(None) => {
                let message = "the recovery token is empty: the transaction had written nothing, and may be run again";
                return Err(Failure::new(codes::NO_SUCH_TRANSACTION, message).transient());
            }
            // Without a token the transaction's outcome cannot be found out. It may be committed,
            // so it must not be run again.
            None if !has_tokens && is_unknown(work, number) => return Err(unknown_here(number).await),
            None => return Err(refusal.into()),
        },
    }
    Ok(Body::empty())
}

/// The failure of a commit whose transaction this gateway does not know. It comes after a pause,
/// because some drivers send the commit again at once, for minutes.
async fn unknown_here(number: i64) -> Failure {
    tokio::time::sleep(PAUSE).await;
    let message = format!(
        "nothing is known here of the transaction with {{ txnNumber: {number} }}: it was begun at another gateway, or before this one was started, and may be committed"
    );
    Failure::new(codes::NO_SUCH_TRANSACTION, message).unknown_result()
}

/// Returns true if another gateway may have begun the transaction, as far as this one knows.
fn is_unknown(work: &SessionWork, number: i64) -> bool {
    work.machine.newest() < number
}

async fn commit_open(work: &mut SessionWork) -> Answer<()> {
    let Some(mut open) = work.open.take() else {
        work.machine.ended(End::Aborted);
        return Err(Failure::new(codes::NO_SUCH_TRANSACTION, "the transaction is not open any more").transient());
    };
    // The commit was sent, whatever interrupts it from here on.
    work.machine.ended(End::InDoubt);
    match open.session.commit().await {
        Ok(()) => {
            work.machine.ended(End::Committed);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::Indeterminate => {
            work.id = error.transaction().or(work.id);
            work.machine.ended(End::InDoubt);
            Err(Failure::from(&error).unknown_result().labelled(crate::failure::RETRYABLE_WRITE_ERROR))
        }
        Err(error) => {
            work.machine.ended(End::Aborted);
            Err(not_committed(Failure::from(&error)))
        }
    }
}

/// Error for a transaction that is known not to be committed. It says that the transaction may be
/// run again where its reason does: what is refused for its size, or is damaged, would be again.
fn not_committed(reason: Failure) -> Failure {
    match reason.code {
        codes::NETWORK_TIMEOUT => Failure { code: codes::NO_SUCH_TRANSACTION, ..reason }.transient(),
        _ => reason,
    }
}

/// Finds out the outcome of a transaction that is not open in its session: it is the session's
/// newest one from now on, and an older one ends. Nothing is noted if the outcome cannot be found
/// out.
async fn settle(work: &mut SessionWork, client: &Client, number: i64, id: TxId) -> Answer<End> {
    let end = recovery::settle(client, id).await?;
    work.roll_back_older().await;
    // Number, state and id are of one transaction: nothing is awaited between them.
    work.machine.learnt(number, end);
    work.id = Some(id);
    work.retry.clear();
    Ok(end)
}

/// The answer to a commit whose outcome was found out.
fn answer_learnt(number: i64, end: End) -> Answer<()> {
    match end {
        End::Committed => Ok(()),
        End::Aborted => {
            let message = format!("Transaction with {{ txnNumber: {number} }} has been aborted.");
            Err(Failure::new(codes::NO_SUCH_TRANSACTION, message).transient())
        }
        End::InDoubt => {
            let message = format!("nothing is stored any more about the transaction with {{ txnNumber: {number} }}");
            Err(Failure::new(codes::NO_SUCH_TRANSACTION, message).unknown_result())
        }
    }
}

/// Runs `abortTransaction`: rolls the transaction back.
pub(super) async fn abort(work: &mut SessionWork, mut ending: Ending<'_>) -> Answer<Body> {
    let token = ending.token()?;
    let Ending { client, number, fields, .. } = ending;
    fields.finish()?;
    match work.machine.handle(number, Event::Abort) {
        Ok(Step::Abort) => {
            work.roll_back().await;
        }
        Ok(_) => match work.id {
            Some(id) => abort_known(work, client, number, id).await?,
            None => work.machine.ended(End::Aborted),
        },
        Err(refusal) => match token.flatten().filter(|_| is_unknown(work, number)) {
            Some(id) => abort_known(work, client, number, id).await?,
            None => return Err(refusal.into()),
        },
    }
    Ok(Body::empty())
}

/// Rolls back a transaction that is not open at this gateway, unless it is decided.
async fn abort_known(work: &mut SessionWork, client: &Client, number: i64, id: TxId) -> Answer<()> {
    if settle(work, client, number, id).await? == End::Committed {
        let message = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
        return Err(Failure::new(codes::TRANSACTION_COMMITTED, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_would_fail_again_is_not_to_be_run_again() {
        for code in [codes::TRANSACTION_TOO_LARGE, codes::OBJECT_TOO_LARGE, codes::INTERNAL_ERROR] {
            let failure = Failure::new(code, "too large, however often it is tried");
            assert_eq!(not_committed(failure.clone()), failure);
        }
        let conflict = Failure::new(codes::WRITE_CONFLICT, "").transient();
        assert_eq!(not_committed(conflict.clone()), conflict);
        let unreachable = not_committed(Failure::new(codes::NETWORK_TIMEOUT, ""));
        assert_eq!(unreachable, Failure::new(codes::NO_SUCH_TRANSACTION, "").transient());
    }
}
