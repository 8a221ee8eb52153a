//! A command from the connection that it came over to its reply: looked up in the table once,
//! checked, and handed to the part that answers it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, RawDocument};
use futures_util::FutureExt;

use crate::{
    access,
    activity::shape,
    command::{
        self, ArrivedCommand, NamedCommand, Route,
        point_read::{self, PointRead},
        point_write::{self, PointWrite},
    },
    connection::Connection,
    context::Context,
    error::{CommandError, code},
    fail_points::FailPointEffect,
    passthrough,
    reply::Reply,
    request::Request,
};

/// Carries out a command. Errors become replies.
pub(crate) async fn answer_request(context: &Context, connection: &Connection, request: &Arc<Request>) -> Reply {
    let since = Instant::now();
    let shown = connection.doing().runs(request, since);
    let known = command::look_up(request.name());
    let reply = match run_quickly(context, connection, request, known).await {
        Some(reply) => reply,
        None => check_and_run(context, connection, request, known).await,
    };
    // Commands that are not in the table have no name of their own in metrics.
    let (name, took) = (known.map_or("other", |known| known.name), since.elapsed());
    context.tx.metrics.command(name, reply.is_ok(), took);
    if context.tuning().slow.is_some_and(|slow| took >= slow) {
        tell_slow(connection, request, name, took, reply.is_ok());
    }
    drop(shown);
    reply
}

/// A line in the log about a command that took long.
fn tell_slow(connection: &Connection, request: &Request, name: &str, took: Duration, ok: bool) {
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let who = connection.doing().who();
    tracing::info!(
        command = name, database = ?request.database(), duration_ms = took.as_millis() as u64, ok,
        connection = connection.id(), user = ?who.user.as_ref().map(ToString::to_string).unwrap_or_default(),
        application = who.application.as_deref().map(tracing::field::debug), host = %who.host,
        namespace = ?shape::namespace(request), shape = %shape::shape_of(request), "a slow command",
    );
}

/// Runs a command that only passes bytes on, where only the user's privilege is to be checked.
/// `None`: nothing was done.
async fn run_quickly(
    context: &Context,
    connection: &Connection,
    request: &Request,
    known: Option<NamedCommand>,
) -> Option<Reply> {
    let may_fail = context.options.has_test_commands() && !context.tx.fail_points.are_off();
    let is_allowed = || !may_fail && check(context, connection, request, known).is_ok();
    if let Some(read) = PointRead::parse(request) {
        return if is_allowed() {
            point_read::answer_point_read(context, connection, request, read).await
        } else {
            None
        };
    }
    let write = PointWrite::parse(request).filter(|_| is_allowed())?;
    point_write::answer_point_write(context, connection, request, write).await
}

/// Checks whether the user of the connection may run the command, before anything else is done with
/// it.
fn check(
    context: &Context,
    connection: &Connection,
    request: &Request,
    known: Option<NamedCommand>,
) -> Result<(), CommandError> {
    // An unknown command is rejected later, and so needs no privilege.
    let (Some(known), Some(users)) = (known, &context.users) else { return Ok(()) };
    let own = &context.options.client.tx_database;
    let user = connection.user();
    if user.as_ref().is_some_and(|user| !users.is_current(user)) {
        connection.close_after_answer();
        let message = "the user was changed or removed since the client has logged in";
        return Err(CommandError::new(code::UNAUTHORIZED, message));
    }
    access::check(user.as_deref(), request, known.command.access, command::access_of, own)
}

/// The effect of a fail point on a command, if one has any.
fn fail_point(context: &Context, connection: &Connection, request: &Request) -> Option<FailPointEffect> {
    if !context.options.has_test_commands() {
        return None;
    }
    let points = &context.tx.fail_points;
    points
        .hit(request.name(), connection)
        .or_else(|| if says(request.body(), "maxTimeMS") { points.hit_limited() } else { None })
        .or_else(|| if is_retryable_write(request) { points.hit_write_before() } else { None })
}

/// A fail point may want the answer of a retryable write to be lost, if something was written now.
fn lose_answer(context: &Context, connection: &Connection, request: &Request, reply: &Reply) {
    let is_made = context.options.has_test_commands()
        && is_retryable_write(request)
        && reply.is_ok()
        && !["retriedStmtIds", "retriedStmtId"].iter().any(|field| says(reply.body(), field));
    if is_made && context.tx.fail_points.hit_write_after().is_some_and(|hit| hit.close) {
        connection.cut();
    }
}

fn is_retryable_write(request: &Request) -> bool {
    says(request.body(), "txnNumber") && !says(request.body(), "autocommit")
}

fn says(body: &RawDocument, field: &str) -> bool {
    body.iter().flatten().any(|(name, _)| name.as_str() == field)
}

/// The rest of a command's way is on the heap, here or as the table's row has it: idle connections
/// have no use for its room.
async fn check_and_run(
    context: &Context,
    connection: &Connection,
    request: &Arc<Request>,
    known: Option<NamedCommand>,
) -> Reply {
    if let Err(refused) = check(context, connection, request, known) {
        return refused.into();
    }
    match fail_point(context, connection, request) {
        None => {
            let reply = carry_out(context, connection, request, known).await;
            lose_answer(context, connection, request, &reply);
            reply
        }
        Some(hit) => fail(context, connection, request, known, hit).boxed().await,
    }
}

/// A command that a test wants to fail.
async fn fail(
    context: &Context,
    connection: &Connection,
    request: &Arc<Request>,
    known: Option<NamedCommand>,
    hit: FailPointEffect,
) -> Reply {
    if let Some(block) = hit.block {
        tokio::time::sleep(block).await;
    }
    if hit.close {
        connection.cut();
    }
    let body = Document::try_from(request.body()).unwrap_or_default();
    let ends = known.is_some_and(|known| known.command.ends_transactions());
    let cursor = body.get_i64("getMore").unwrap_or_default();
    if let Some(reply) = hit.reply(request.name(), ends, context.tx.cursors.is_changes(cursor), &body) {
        return reply.into();
    }
    if hit.close {
        return Document::new().into();
    }
    let reply = carry_out(context, connection, request, known).await;
    let mut reply = Document::try_from(reply.body()).unwrap_or_default();
    hit.add_to(&mut reply);
    reply.into()
}

async fn carry_out(
    context: &Context,
    connection: &Connection,
    request: &Arc<Request>,
    known: Option<NamedCommand>,
) -> Reply {
    let Some(NamedCommand { command, .. }) = known else {
        return CommandError::new(code::COMMAND_NOT_FOUND, format!("no such command: '{}'", request.name())).into();
    };
    if let Err(failure) = command::check_said(command, request) {
        return failure.into();
    }
    if !command.is_transactional()
        && let Err(failure) = command::check_outside(command, request)
    {
        return failure.into();
    }
    let arrived = ArrivedCommand { context, connection, request, command };
    let outcome = match command.route {
        Route::Transactional(run) => run(arrived).await,
        Route::Local(answer) => answer(arrived).map(|reply| reply.stamped(&context.tx.clock)),
        Route::Through(lane) => passthrough::pass_through(context, connection, request, lane).boxed().await,
        Route::Refused(code, why) => Err(CommandError::new(code, format!("{}: {why}", request.name()))),
    };
    outcome.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<'a, F: Future>(_: impl Fn(&'a Context, &'a Connection, &'a Arc<Request>) -> F) -> usize {
        size_of::<F>()
    }

    /// Every connection takes this memory, also while it is idle.
    #[test]
    fn connections_carry_no_room_for_commands() {
        let bytes = future_bytes(answer_request);
        assert!(bytes <= 1024, "{bytes} bytes");
    }
}
