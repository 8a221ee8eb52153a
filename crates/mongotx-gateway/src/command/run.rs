//! One command from its arrival to its reply: outside transactions, as a retryable write, or as a part of a transaction.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use bson::Document;
use futures_util::FutureExt;
use mongotx::{Concern, Namespace, Session, TransactionOptions};

use super::{
    allowed::{check_statement, ends_transaction, kills_sessions},
    body::{Body, Made},
    call::Call,
    durable,
    end_transaction::{self, Ending},
    generic::Generic,
    handle,
    recovery::{self, Seal},
    validated_read,
};
use crate::{
    access::User,
    connection::Connection,
    context::Context,
    failure::{Answer, Failure, RETRYABLE_WRITE_ERROR, codes},
    fields::Fields,
    metrics::{AbortReason, Counted, Repeated},
    options::RetryableWrites,
    reply::Reply,
    session::{
        Lsid, end,
        info::Mode,
        machine::{Event, Step},
        retry::Retry,
        slot::{Open, Slot, Work},
    },
};

const WRITES: [&str; 5] = ["insert", "update", "delete", "findAndModify", "findandmodify"];

/// A command that has been taken apart.
pub(super) struct Parts<'a> {
    pub(super) context: &'a Context,
    pub(super) connection: &'a Connection,
    name: &'a str,
    db: &'a str,
    body: Document,
    pub(super) generic: Generic,
    mode: Mode,
    user: Option<&'a User>,
}

impl<'a> Parts<'a> {
    /// The command to be carried out; it can be carried out again.
    pub(super) fn call<'b>(
        &'b self,
        session: Option<&'b mut Session>,
        made: Option<&'b mut Vec<Namespace>>,
        retry: Option<&'b mut Retry>,
    ) -> Call<'b>
    where
        'a: 'b,
    {
        Call {
            context: self.context,
            db: self.db,
            name: self.name,
            body: self.body.clone(),
            generic: &self.generic,
            mode: &self.mode,
            user: self.user,
            session,
            made,
            retry,
            is_refused: false,
        }
    }
}

/// Carries out a command: its name, its database, its fields.
pub(super) async fn run(
    context: &Context,
    connection: &Connection,
    (name, db): (&str, &str),
    mut body: Document,
) -> Answer<Reply> {
    let user = connection.user();
    let user = user.as_deref();
    let mode = Mode::take(&mut body)?.of_user(user)?;
    let generic = Generic::take(&mut body)?;
    let parts = Parts { context, connection, name, db, body, generic, mode, user };
    let made = match parts.mode.clone() {
        Mode::Plain(lsid) => plain(parts, lsid.as_ref()).await?,
        Mode::Write(lsid, number) => write(parts, &lsid, number).await?,
        Mode::Transaction { lsid, number, begins } => statement(parts, &lsid, number, begins).await?.into(),
    };
    Ok(made.into_reply())
}

async fn plain(parts: Parts<'_>, lsid: Option<&Lsid>) -> Answer<Made> {
    if ends_transaction(parts.name) {
        let message = format!("{} must be run within a transaction", parts.name);
        return Err(Failure::new(codes::COMMAND_FAILED, message));
    }
    parts.generic.read.check_plain(parts.name)?;
    let slot = lsid.map(|lsid| parts.context.tx.sessions.get(lsid, Instant::now())).transpose()?;
    // A command that kills sessions does not stop at its own: the others would stay.
    let interruption = slot.as_deref().filter(|_| !kills_sessions(parts.name)).map(Slot::interruption);
    if let Some(level) = parts.generic.read.one_moment(parts.name) {
        let running = validated_read::run(&parts, level).boxed();
        return within_limits(parts.generic.limit, interruption, running)
            .await
            .map(Made::Body)
            .map_err(Failure::outside);
    }
    let (generic, mode) = (parts.generic, parts.mode);
    let limit = generic.limit;
    let mut call = Call {
        context: parts.context,
        db: parts.db,
        name: parts.name,
        body: parts.body,
        generic: &generic,
        mode: &mode,
        user: parts.user,
        session: None,
        made: None,
        retry: None,
        is_refused: false,
    };
    let made = within_limits(limit, interruption, handle(&mut call)).await;
    match made {
        // What was carried out is no failure.
        Err(Failure { unreplicated: Some(error), .. }) => {
            Ok(Body::empty().with_concern_error(Some(*error), &mode).into())
        }
        made => made.map_err(Failure::outside),
    }
}

async fn write(parts: Parts<'_>, lsid: &Lsid, number: i64) -> Answer<Made> {
    if !WRITES.contains(&parts.name) {
        let message = format!(
            "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and {} is not a retryable write command.",
            parts.name
        );
        return Err(Failure::new(codes::NOT_RETRYABLE, message));
    }
    parts.generic.read.check_plain(parts.name)?;
    let state = &parts.context.tx;
    let slot = state.sessions.get(lsid, Instant::now())?;
    let interruption = slot.interruption();
    let mut work = slot.check_out().await;
    begin_write(parts.context, lsid, number, &mut work).await?;
    if parts.context.options.retryable_writes == RetryableWrites::Durable {
        let running = durable::run(&parts, lsid, number, &mut work).boxed();
        let made = within_limits(parts.generic.limit, Some(interruption), running).await.map_err(retryable)?;
        let missed = match &parts.generic.write {
            Some(concern) => concern.missed(&parts.context.client).await,
            None => None,
        };
        return Ok(made.with_concern_error(missed, &parts.mode));
    }
    let (generic, mode) = (parts.generic, parts.mode);
    let limit = generic.limit;
    let mut call = Call {
        context: parts.context,
        db: parts.db,
        name: parts.name,
        body: parts.body,
        generic: &generic,
        mode: &mode,
        user: parts.user,
        session: None,
        made: None,
        retry: Some(&mut work.retry),
        is_refused: false,
    };
    let noted = async {
        let made = handle(&mut call).await;
        call.is_answered();
        made
    };
    within_limits(limit, Some(interruption), noted).await.map_err(retryable)
}

/// A retryable write is about to be carried out, or answered again: what is open under an older number ends.
pub(super) async fn begin_write(context: &Context, lsid: &Lsid, number: i64, work: &mut Work) -> Answer<()> {
    let state = &context.tx;
    let older = work.machine.newest();
    if work.machine.on(number, Event::Write)? == Step::WriteAgain {
        state.metrics.retried(Repeated::Write);
        work.retry.begins();
        return Ok(());
    }
    if work.roll_back_older().await {
        end::tell(&state.metrics, lsid, older, AbortReason::Superseded, None);
    }
    state.cursors.kill_of_transactions(lsid);
    work.retry.clear();
    work.retry.begins();
    Ok(())
}

/// What was certainly not done may be sent again.
pub(super) fn retryable(failure: Failure) -> Failure {
    let again =
        failure.code == codes::NETWORK_TIMEOUT && failure.labels.contains(&mongotx::error::TRANSIENT_TRANSACTION_ERROR);
    let failure = failure.outside();
    if again { failure.labelled(RETRYABLE_WRITE_ERROR) } else { failure }
}

async fn statement(parts: Parts<'_>, lsid: &Lsid, number: i64, begins: bool) -> Answer<Body> {
    check_statement(parts.name, parts.db, &parts.generic, begins)?;
    let (context, user) = (parts.context, parts.user);
    let state = &context.tx;
    let slot = state.sessions.get(lsid, Instant::now())?;
    let interruption = slot.interruption();
    let mut work = slot.check_out().await;
    let done = if ends_transaction(parts.name) {
        let before = work.machine.state();
        let commits = parts.name == "commitTransaction";
        let done = end_one(&mut work, parts, number).boxed().await;
        end::count(&state.metrics, lsid, number, commits, (before, work.machine.state()), done.as_ref().err());
        state.cursors.kill_of_transactions(lsid);
        done
    } else {
        let event = if begins { Event::Begin } else { Event::Continue };
        let older = work.machine.newest();
        if work.machine.on(number, event)? == Step::Open {
            if work.roll_back_older().await {
                end::tell(&state.metrics, lsid, older, AbortReason::Superseded, None);
            }
            state.cursors.kill_of_transactions(lsid);
            begin(&mut work, parts.context, &parts.generic).await?;
        }
        one_statement(&mut work, parts, lsid, interruption).await
    };
    done.map(|body| body.with_recovery_token(recovery::token(work.id, &Seal::of(context, user))))
}

async fn end_one(work: &mut Work, parts: Parts<'_>, number: i64) -> Answer<Body> {
    let mut body = parts.body;
    body.remove(parts.name);
    let ending = Ending {
        client: &parts.context.client,
        number,
        seal: Seal::of(parts.context, parts.user),
        concern: parts.generic.write.as_ref(),
        fields: Fields::new(parts.name, body),
    };
    let ended = match parts.name {
        "commitTransaction" => end_transaction::commit(work, ending).await,
        _ => end_transaction::abort(work, ending).await,
    };
    if parts.context.options.test_commands {
        parts.context.tx.fail_points.panic_after(parts.name);
    }
    ended
}

async fn begin(work: &mut Work, context: &Context, generic: &Generic) -> Answer<()> {
    work.id = None;
    work.retry.clear();
    let options = TransactionOptions {
        isolation: Some(generic.read.isolation(context.options.client.isolation)),
        concern: Concern::Majority,
        lock_wait: context.options.lock_wait,
        max_life: Some(context.tx.limits.transaction_lifetime),
        ..TransactionOptions::default()
    };
    let mut session = context.client.session_with(options).after(work.attempts.clone());
    if let Err(error) = session.begin() {
        work.roll_back().await;
        return Err(error.into());
    }
    let metrics = &context.tx.metrics;
    metrics.started.inc();
    let counted = Counted::in_gauge(&metrics.open);
    work.open = Some(Open { session, since: Instant::now(), made: Vec::new(), _counted: counted });
    Ok(())
}

/// An error, or a refused write, ends the transaction, as in the server. So does the loss of the connection meanwhile: no driver
/// goes on with a transaction of which it was not told what a statement did, and its locks would be in everybody's way.
async fn one_statement(
    work: &mut Work,
    parts: Parts<'_>,
    lsid: &Lsid,
    interruption: impl Future<Output = ()> + Send,
) -> Answer<Body> {
    let Some(open) = work.open.as_mut() else {
        work.roll_back().await;
        return Err(Failure::new(codes::NO_SUCH_TRANSACTION, "the transaction is not open any more").transient());
    };
    let (generic, mode) = (parts.generic, parts.mode);
    let limit = generic.limit;
    let state = &parts.context.tx;
    let active = Counted::in_gauge(&state.metrics.active);
    let mut call = Call {
        context: parts.context,
        db: parts.db,
        name: parts.name,
        body: parts.body,
        generic: &generic,
        mode: &mode,
        user: parts.user,
        session: Some(&mut open.session),
        made: Some(&mut open.made),
        retry: None,
        is_refused: false,
    };
    let made = within_limits(limit, Some(interruption), handle(&mut call)).await;
    drop(active);
    let is_refused = call.is_refused || made.is_err();
    if let Some(id) = open.session.id() {
        work.id = Some(id);
    }
    let is_lost = parts.connection.is_gone();
    if is_refused || is_lost || !work.open.as_ref().is_some_and(|open| open.session.is_open()) {
        work.roll_back().await;
        let failure = made.as_ref().err();
        let otherwise = if is_lost { AbortReason::ConnectionLost } else { AbortReason::Refused };
        let reason = AbortReason::of(failure, otherwise);
        end::tell(&state.metrics, lsid, work.machine.newest(), reason, failure);
        state.cursors.kill_of_transactions(lsid);
    }
    match made? {
        Made::Body(body) => Ok(body),
        Made::Server(_) => {
            Err(Failure::new(codes::INTERNAL_ERROR, "a statement of a transaction was passed on to the server"))
        }
    }
}

/// The handler's answer, unless its time is over or its session is killed first.
pub(super) async fn within_limits<T>(
    limit: Option<Duration>,
    interruption: Option<impl Future<Output = ()> + Send>,
    work: impl Future<Output = Answer<T>>,
) -> Answer<T> {
    let time_is_over = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let is_killed = async {
        match interruption {
            Some(interruption) => interruption.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        answer = work => answer,
        () = time_is_over => Err(Failure::new(codes::MAX_TIME_EXPIRED, "operation exceeded time limit")),
        () = is_killed => Err(Failure::new(codes::INTERRUPTED, "operation was interrupted")),
    }
}
