//! A command that has been taken apart: its session, its common fields, its limits; and the trait
//! of the handlers that carry it out. Each handler reads the command's own fields.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc};

use bson::Document;
use futures_util::{FutureExt, future::BoxFuture};

use super::limits::{CommandEnds, within_limits};
use crate::{
    access::User,
    command::{
        parts::{
            body::HandlerReply,
            call::Call,
            generic::{Generic, cluster_time},
        },
        registry::{ArrivedCommand, Command},
    },
    connection::Connection,
    context::Context,
    failure::{Answer, Failure, PANICKED, codes},
    fields::is_asked,
    request::Request,
    session::info::Mode,
};

/// A command that has been taken apart.
pub(super) struct Parsed<'a> {
    pub(super) context: &'a Context,
    pub(super) connection: &'a Connection,
    pub(super) request: &'a Arc<Request>,
    pub(super) command: &'static Command,
    /// Name of the command, as the client spelled it.
    pub(super) name: &'a str,
    pub(super) db: &'a str,
    /// Fields of the command itself; the first one is its name.
    pub(super) body: Document,
    pub(super) generic: Generic,
    pub(super) mode: Mode,
    pub(super) user: Option<Arc<User>>,
}

impl<'a> Parsed<'a> {
    /// # Errors
    /// The server's errors for malformed session fields, and for fields that every command may
    /// carry.
    pub(super) fn take(arrived: ArrivedCommand<'a>, mut body: Document) -> Answer<Self> {
        let ArrivedCommand { context, connection, request, command } = arrived;
        let user = connection.user();
        let mode = Mode::take(&mut body)?.of_user(user.as_deref())?;
        if let Some(time) = cluster_time(&body) {
            context.tx.clock.hear(time);
        }
        let generic = Generic::take(&mut body)?;
        let (name, db) = (request.name(), request.database());
        Ok(Self { context, connection, request, command, name, db, body, generic, mode, user })
    }

    /// The command to be carried out once: its fields are taken out.
    pub(super) fn call(&mut self) -> Call<'_> {
        let body = std::mem::take(&mut self.body);
        self.call_with(body)
    }

    /// The command to be carried out perhaps once more.
    pub(super) fn call_again(&self) -> Call<'_> {
        self.call_with(self.body.clone())
    }

    /// A call outside transactions; callers add the transaction.
    fn call_with(&self, body: Document) -> Call<'_> {
        let has_concern = self.generic.write.is_some() && !self.command.only_reads(&body);
        Call {
            context: self.context,
            connection: self.connection,
            db: self.db,
            name: self.name,
            body,
            generic: &self.generic,
            api: self.command.api,
            mode: &self.mode,
            user: self.user.as_deref(),
            session: None,
            made: None,
            retry: None,
            validated: None,
            has_concern,
            is_refused: false,
        }
    }

    /// The limits of the command, besides the end of its session.
    pub(super) fn ends<K>(&self, interruption: Option<K>) -> CommandEnds<'a, K> {
        let time = self.generic.limit.filter(|_| !self.command.awaits);
        let client = self.command.ends_with_client(&self.body).then_some(self.connection);
        CommandEnds { time, interruption, client }
    }

    /// The error for a number of a transaction on a command that does not write.
    pub(super) fn not_retryable(&self) -> Failure {
        let message = format!(
            "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and {} is not a retryable write command.",
            self.name
        );
        Failure::new(codes::NOT_RETRYABLE, message)
    }
}

/// Parser and handler of one command; the table of commands has one for each.
pub(crate) trait Handler: 'static {
    /// Reads the command's own fields, calls the library and makes the reply.
    fn answer(call: &mut Call<'_>) -> impl Future<Output = Answer<HandlerReply>> + Send;
}

/// Carries out a command by its handler. A panic in it, which would be a defect, is an error like
/// others: it ends the transaction that the command is part of.
pub(super) async fn handle<H: Handler>(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let name = call.name;
    let handled = AssertUnwindSafe(async {
        // Here, because in a transaction it is the error of a statement.
        call.check_stable()?;
        let process = call.process();
        let made = run_as_asked::<H>(call).await;
        if call.context.options.has_test_commands() {
            call.context.tx.fail_points.panic_after(name);
        }
        Ok(call.await_concern(made?, process).await)
    });
    handled.catch_unwind().await.unwrap_or_else(|_| {
        // What was sent and not noted stays unknown, and is not made when it is sent again.
        call.retry = None;
        Err(panicked(name))
    })
}

/// The failure of a command of this name that has panicked.
pub(super) fn panicked(name: &str) -> Failure {
    tracing::error!(command = name, "a command panicked");
    Failure::new(codes::INTERNAL_ERROR, format!("{name}: {PANICKED}"))
}

/// Runs a handler with the two options that go into every command it sends: the client's comment,
/// and the bypass of validators.
async fn run_as_asked<H: Handler>(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let (comment, bypasses) = (call.generic.comment.clone(), is_asked(call.body.get("bypassDocumentValidation")));
    if comment.is_none() && !bypasses {
        return H::answer(call).await;
    }
    // On the heap: few commands have either option.
    let run = H::answer(call).boxed();
    let run = if bypasses { mongotx::without_validation(run).boxed() } else { run };
    match comment {
        Some(comment) => mongotx::with_comment(comment, run).await,
        None => run.await,
    }
}

/// Like [`handle`], unless the time limit, `killOp` or the end of the connection ends the command
/// first.
pub(super) async fn handle_within<H: Handler>(
    call: &mut Call<'_>,
    ends: CommandEnds<'_, impl Future<Output = ()> + Send>,
) -> Answer<HandlerReply> {
    // The future is pinned here: passing it on would take its space on the stack twice.
    let watch = call.connection.doing().watch.clone();
    let handled = pin!(handle::<H>(call));
    within_limits(ends, watch.over(handled)).await
}

/// A handler as a function pointer, for code that runs commands repeatedly and need not be compiled
/// for each of them.
pub(super) type Handle = for<'a, 'b> fn(&'a mut Call<'b>) -> BoxFuture<'a, Answer<HandlerReply>>;

/// Calls a handler; its future is on the heap: [`Handle`].
pub(super) fn handle_boxed<'a, H: Handler>(call: &'a mut Call<'_>) -> BoxFuture<'a, Answer<HandlerReply>> {
    handle::<H>(call).boxed()
}
