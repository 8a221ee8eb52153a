//! A command that is part of a transaction: a statement, or its end.
//!
//! What the transaction's number means, whether it begins one, repeats a command or is refused, is
//! decided by `session/`; here the library's session is begun, handed to the handler, and committed
//! or rolled back. Commands outside transactions are in the other files of this folder.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use futures_util::FutureExt;
use mongotx::{Concern, TransactionOptions};

use super::parsed::{Handler, Parsed, handle_within, panicked};
use crate::{
    activity::transactions::OpenTransaction,
    command::{
        allowed::check_statement,
        end_transaction::{self, Ending},
        parts::{
            body::{Body, HandlerReply},
            call::Call,
            generic::Generic,
            recovery::{self, TokenSeal},
        },
    },
    context::Context,
    failure::{Answer, Failure, codes},
    fields::Fields,
    metrics::{AbortReason, Counted},
    session::{
        Lsid,
        end::{self, Transition},
        entry::{SessionTransaction, SessionWork},
        info::Mode,
        machine::{Event, State, Step},
    },
};

/// Carries out a statement of a transaction, which it may begin.
pub(super) async fn run_in_transaction<H: Handler>(
    parsed: &mut Parsed<'_>,
    lsid: Lsid,
    number: i64,
    begins: bool,
) -> Answer<HandlerReply> {
    check_statement(parsed.command, parsed.name, parsed.db, &parsed.generic, begins)?;
    let state = &parsed.context.tx;
    let entry = state.sessions.get(&lsid, Instant::now())?;
    let interruption = entry.interruption();
    let mut work = entry.check_out().await;
    let event = if begins { Event::Begin } else { Event::Continue };
    let older = work.machine.newest();
    let step = match work.machine.handle(number, event) {
        Ok(step) => step,
        Err(refusal) => return Err(work.explain_overdue(number, refusal.into())),
    };
    if step == Step::Open {
        if let Some(shown) = work.roll_back_older().await {
            state.abort_listeners().report(&lsid, older, AbortReason::Superseded, None, Some(shown));
        }
        state.cursors.kill_of_transactions(&lsid);
        let who = parsed.connection.doing().who();
        let shown = OpenTransaction::new(&state.transactions, lsid.to_string(), number, who);
        entry.show(&shown);
        let origin = doc! {"lsid": lsid.to_document(), "txnNumber": number};
        begin(&mut work, parsed.context, &parsed.generic, origin, shown).await?;
    }
    check_api(&work, parsed)?;
    let made = in_transaction::<H>(&mut work, parsed, &lsid, interruption).await;
    named(&work, parsed, made)
}

/// Commits a transaction, or rolls it back.
pub(super) async fn end(
    parsed: &mut Parsed<'_>,
    lsid: Lsid,
    number: i64,
    begins: bool,
    commits: bool,
) -> Answer<HandlerReply> {
    check_statement(parsed.command, parsed.name, parsed.db, &parsed.generic, begins)?;
    let state = &parsed.context.tx;
    // Another gateway may have committed it already: the driver asks again, and does not run it
    // again.
    let unknown = |failure: Failure| if commits { failure.unknown_result() } else { failure };
    let entry = state.sessions.get(&lsid, Instant::now()).map_err(unknown)?;
    let mut work = entry.check_out().await;
    let (newest, mut before) = (work.machine.newest(), work.machine.state());
    if number == newest && [State::Open, State::InDoubt, State::Committed].contains(&before) {
        check_api(&work, parsed)?;
    }
    let mut shown = work.open.as_ref().map(|open| Arc::clone(&open.shown));
    let name = parsed.name;
    let ended = AssertUnwindSafe(end_one(&mut work, parsed, number, commits)).catch_unwind().await;
    let ended = ended.unwrap_or_else(|_| Err(unknown(panicked(name))));
    let ended = ended.map_err(|failure| work.explain_overdue(number, failure));
    if work.machine.newest() != newest {
        // The transaction was begun at another gateway: what was known here was of another one.
        (work.api, before) = (parsed.generic.api, State::None);
        if let Some(shown) = shown.take() {
            let shown = Some(shown.now());
            state.abort_listeners().report(&lsid, newest, AbortReason::Superseded, None, shown);
        }
    }
    let after = work.machine.state();
    let shown = shown.filter(|_| after == State::Aborted).map(|shown| shown.now());
    let states = Transition { before, after };
    end::count(state.abort_listeners(), &lsid, number, commits, states, ended.as_ref().err(), shown);
    state.cursors.kill_of_transactions(&lsid);
    let ended = named(&work, parsed, ended)?;
    // Others may use the session while this waits.
    drop(work);
    let missed = match parsed.generic.write.as_ref().filter(|_| commits) {
        Some(concern) => concern.missed(parsed.context, parsed.connection).await,
        None => None,
    };
    Ok(ended.with_concern_error(missed, &Mode::Plain(None)))
}

/// Checks that a command has the API parameters of its transaction. One that has others does not
/// end the transaction, as in the server.
fn check_api(work: &SessionWork, parsed: &Parsed<'_>) -> Answer<()> {
    parsed.generic.api.check_continues(parsed.name, "the transaction's first command", work.api)
}

/// Adds the recovery token of the transaction.
fn named(work: &SessionWork, parsed: &Parsed<'_>, made: Answer<Body>) -> Answer<HandlerReply> {
    let seal = TokenSeal::of(parsed.context, parsed.user.as_deref());
    made.map(|body| body.with_recovery_token(recovery::token(work.id, &seal)).into())
}

async fn end_one(work: &mut SessionWork, parsed: &mut Parsed<'_>, number: i64, commits: bool) -> Answer<Body> {
    let mut body = std::mem::take(&mut parsed.body);
    body.remove(parsed.name);
    let ending = Ending {
        client: &parsed.context.client,
        number,
        seal: TokenSeal::of(parsed.context, parsed.user.as_deref()),
        has_tokens: parsed.context.options.replica_set.is_none(),
        fields: Fields::new(parsed.name, body),
    };
    let ended = match commits {
        true => end_transaction::commit(work, ending).await,
        false => end_transaction::abort(work, ending).await,
    };
    if parsed.context.options.has_test_commands() {
        parsed.context.tx.fail_points.panic_after(parsed.name);
    }
    ended
}

/// `origin`: how change events name the transaction.
async fn begin(
    work: &mut SessionWork,
    context: &Context,
    generic: &Generic,
    origin: Document,
    shown: Arc<OpenTransaction>,
) -> Answer<()> {
    work.id = None;
    work.api = generic.api;
    work.retry.clear();
    let lifetime = context.tx.limits().transaction_lifetime;
    let options = TransactionOptions {
        isolation: Some(generic.read.isolation(context.options.client.isolation)),
        concern: Concern::Majority,
        lock_wait: context.tuning().lock_wait,
        max_life: Some(lifetime),
        // An open transaction may pause for as long as it may live. If its session expires, it ends
        // with that.
        idle_limit: Some(lifetime),
        origin: Some(origin),
        ..TransactionOptions::default()
    };
    let mut session = context.client.session_with(options).with_retry_history(work.attempts.clone());
    if let Err(error) = session.begin() {
        work.roll_back().await;
        return Err(error.into());
    }
    let metrics = &context.tx.metrics;
    metrics.started.inc();
    let counted = Counted::in_gauge(&metrics.open);
    work.open = Some(SessionTransaction { session, since: shown.since, made: Vec::new(), shown, _counted: counted });
    Ok(())
}

/// Names the option that sets the limit which a statement has met: how long it waits, or how long
/// its transaction may live or pause.
fn with_option(mut failure: Failure, lock_wait: Duration, lifetime: Duration) -> Failure {
    let limits = match failure.code {
        codes::WRITE_CONFLICT => vec![(format!("the {lock_wait:?} this call waits"), "--lock-wait-ms")],
        codes::NO_SUCH_TRANSACTION => ["maximum", "idle limit"]
            .map(|limit| (format!("its {limit} of {lifetime:?}"), "--transaction-lifetime"))
            .to_vec(),
        _ => Vec::new(),
    };
    for (limit, option) in limits {
        failure.message = failure.message.replace(&limit, &format!("{limit} ({option})"));
    }
    failure
}

/// An error, or a refused write, ends the transaction, as in the server. So does the loss of the
/// connection meanwhile: no driver goes on with a transaction when it got no answer to a statement,
/// and its locks would block others.
async fn in_transaction<H: Handler>(
    work: &mut SessionWork,
    parsed: &mut Parsed<'_>,
    lsid: &Lsid,
    interruption: impl Future<Output = ()> + Send,
) -> Answer<Body> {
    let Some(open) = work.open.as_mut() else {
        work.roll_back().await;
        return Err(Failure::new(codes::NO_SUCH_TRANSACTION, "the transaction is not open any more").transient());
    };
    let (context, connection, request) = (parsed.context, parsed.connection, parsed.request);
    let ends = parsed.ends(Some(interruption));
    let state = &context.tx;
    let active = Counted::in_gauge(&state.metrics.active);
    let mut call = Call { session: Some(&mut open.session), made: Some(&mut open.made), ..parsed.call() };
    let runs = open.shown.runs(connection.doing(), request);
    let made = handle_within::<H>(&mut call, ends).await;
    drop((active, runs));
    let is_refused = call.is_refused || made.is_err();
    if let Some(id) = open.session.id() {
        work.id = Some(id);
        open.shown.note_id(id);
    }
    let is_lost = connection.is_gone();
    if is_refused || is_lost || !work.open.as_ref().is_some_and(|open| open.session.is_open()) {
        let shown = work.roll_back().await;
        let failure = made.as_ref().err();
        let otherwise = if is_lost { AbortReason::ConnectionLost } else { AbortReason::Refused };
        let reason = AbortReason::of(failure, otherwise);
        state.abort_listeners().report(lsid, work.machine.newest(), reason, failure, shown);
        state.cursors.kill_of_transactions(lsid);
    }
    let lifetime = state.limits().transaction_lifetime;
    match made.map_err(|failure| with_option(failure, context.tuning().lock_wait, lifetime))? {
        HandlerReply::Body(body) => Ok(body),
        HandlerReply::Server(_) => {
            Err(Failure::new(codes::INTERNAL_ERROR, "a statement of a transaction was passed on to the server"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_by_their_options() {
        let (wait, life) = (Duration::from_millis(100), Duration::from_secs(60));
        for (code, words, option) in [
            (codes::WRITE_CONFLICT, "longer than the 100ms this call waits: db.c", "waits (--lock-wait-ms): db.c"),
            (codes::NO_SUCH_TRANSACTION, "longer than its maximum of 60s", "60s (--transaction-lifetime)"),
            (codes::NO_SUCH_TRANSACTION, "longer than its idle limit of 60s", "60s (--transaction-lifetime)"),
        ] {
            let named = with_option(Failure::new(code, words), wait, life);
            assert!(named.message.ends_with(option), "{}", named.message);
        }
        let other = Failure::new(codes::BAD_VALUE, "the 100ms this call waits");
        assert_eq!(with_option(other.clone(), wait, life), other);
    }
}
