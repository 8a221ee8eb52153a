//! A write that has a number: it is made once, however often it is sent.

use std::{pin::pin, time::Instant};

use futures_util::FutureExt;

use super::{
    durable,
    limits::within_limits,
    parsed::{Handler, Parsed, handle, handle_boxed},
};
use crate::{
    command::parts::{body::HandlerReply, call::Call},
    context::Context,
    failure::{Answer, Failure, RETRYABLE_WRITE_ERROR, codes},
    metrics::{AbortReason, Repeated},
    options::RetryableWrites,
    session::{
        Lsid,
        entry::SessionWork,
        machine::{Event, Step},
    },
};

/// Carries it out, or answers what it has done before.
pub(super) async fn run_numbered_write<H: Handler>(
    parsed: &mut Parsed<'_>,
    lsid: Lsid,
    number: i64,
) -> Answer<HandlerReply> {
    parsed.generic.read.check_plain(parsed.name, parsed.command.reads)?;
    let entry = parsed.context.tx.sessions.get(&lsid, Instant::now())?;
    let interruption = entry.interruption();
    let mut work = entry.check_out().await;
    begin_write(parsed.context, &lsid, number, &mut work).await?;
    let (ends, watch) = (parsed.ends(Some(interruption)), &parsed.connection.doing().watch);
    if parsed.context.options.retryable_writes == RetryableWrites::Durable {
        let running = durable::run_durable_write(parsed, &lsid, number, &mut work, handle_boxed::<H>).boxed();
        let made = within_limits(ends, watch.over(running)).await.map_err(retryable_failure)?;
        // Others may use the session while this waits.
        drop(work);
        let missed = match &parsed.generic.write {
            Some(concern) => concern.missed(parsed.context, parsed.connection).await,
            None => None,
        };
        return Ok(made.with_concern_error(missed, &parsed.mode));
    }
    let mut call = Call { retry: Some(&mut work.retry), ..parsed.call() };
    // The future is pinned here: passing it on would take its space on the stack twice.
    let noted = pin!(async {
        let made = handle::<H>(&mut call).await;
        call.is_answered();
        made
    });
    within_limits(ends, watch.over(noted)).await.map_err(retryable_failure)
}

/// A retryable write is about to be carried out, or answered again: what is open under an older
/// number ends.
pub(crate) async fn begin_write(context: &Context, lsid: &Lsid, number: i64, work: &mut SessionWork) -> Answer<()> {
    let state = &context.tx;
    let older = work.machine.newest();
    if work.machine.handle(number, Event::Write)? == Step::WriteAgain {
        state.metrics.retried(Repeated::Write);
        work.retry.begins(&context.memory);
        return Ok(());
    }
    if let Some(shown) = work.roll_back_older().await {
        state.abort_listeners().report(lsid, older, AbortReason::Superseded, None, Some(shown));
    }
    state.cursors.kill_of_transactions(lsid);
    work.retry.clear();
    work.retry.begins(&context.memory);
    Ok(())
}

/// The failure of a retryable write. What was certainly not done may be sent again.
pub(crate) fn retryable_failure(failure: Failure) -> Failure {
    let again =
        failure.code == codes::NETWORK_TIMEOUT && failure.labels.contains(&mongotx::error::TRANSIENT_TRANSACTION_ERROR);
    let failure = failure.outside();
    if again { failure.labelled(RETRYABLE_WRITE_ERROR) } else { failure }
}
