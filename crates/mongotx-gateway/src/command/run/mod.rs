//! One command from its arrival to its reply.
//!
//! | file | what |
//! | --- | --- |
//! | `parsed` | a command that has been taken apart, and its handler |
//! | `plain` | outside transactions |
//! | `validated_read` | there, a read of one moment |
//! | `write` | a write that has a number, and is made once |
//! | `durable` | such a write, where other gateways know of it |
//! | `statement` | a part of a transaction, and its end |
//! | `limits` | what ends a command before its handler does |
//!
//! Each function here is what a row of the table runs, by what the session's fields may say of its
//! command. All that a command needs is in the one future that they answer, on the heap: idle
//! connections have no use for its room.

mod durable;
mod limits;
mod parsed;
mod plain;
mod statement;
mod validated_read;
mod write;

use futures_util::FutureExt;

use self::parsed::Parsed;
pub(super) use self::{
    limits::{CommandEnds, within_limits},
    parsed::Handler,
    write::{begin_write, retryable_failure},
};
use super::{
    allowed::refusal,
    parts::body::HandlerReply,
    registry::{ArrivedCommand, Running},
};
use crate::{
    failure::{Answer, Failure, codes},
    reply::Reply,
    request::WholeCommand,
    session::info::Mode,
};

/// A command that no transaction may hold.
pub(super) fn outside<H: Handler>(arrived: ArrivedCommand<'_>) -> Running<'_> {
    carry_out(arrived, outside_by_mode::<H>)
}

async fn outside_by_mode<H: Handler>(mut parsed: Parsed<'_>) -> Answer<HandlerReply> {
    match parsed.mode.clone() {
        Mode::Plain(lsid) => plain::run_outside_transactions::<H>(&mut parsed, lsid).await,
        Mode::Write(..) => Err(parsed.not_retryable()),
        Mode::Transaction { .. } => Err(refusal(parsed.command, parsed.name)),
    }
}

/// A command that may be a statement of a transaction.
pub(super) fn statement<H: Handler>(arrived: ArrivedCommand<'_>) -> Running<'_> {
    carry_out(arrived, statement_by_mode::<H>)
}

async fn statement_by_mode<H: Handler>(mut parsed: Parsed<'_>) -> Answer<HandlerReply> {
    match parsed.mode.clone() {
        Mode::Plain(lsid) => plain::run_outside_transactions::<H>(&mut parsed, lsid).await,
        Mode::Write(..) => Err(parsed.not_retryable()),
        Mode::Transaction { lsid, number, begins } => {
            statement::run_in_transaction::<H>(&mut parsed, lsid, number, begins).await
        }
    }
}

/// A write that may be a statement of a transaction, or have a number of its own.
pub(super) fn retryable<H: Handler>(arrived: ArrivedCommand<'_>) -> Running<'_> {
    carry_out(arrived, retryable_by_mode::<H>)
}

async fn retryable_by_mode<H: Handler>(mut parsed: Parsed<'_>) -> Answer<HandlerReply> {
    match parsed.mode.clone() {
        Mode::Plain(lsid) => plain::run_outside_transactions::<H>(&mut parsed, lsid).await,
        Mode::Write(lsid, number) => write::run_numbered_write::<H>(&mut parsed, lsid, number).await,
        Mode::Transaction { lsid, number, begins } => {
            statement::run_in_transaction::<H>(&mut parsed, lsid, number, begins).await
        }
    }
}

/// Runs `commitTransaction` in the mode of its session.
pub(super) fn commit(arrived: ArrivedCommand<'_>) -> Running<'_> {
    carry_out(arrived, |parsed| end_by_mode(parsed, true))
}

/// Runs `abortTransaction` in the mode of its session.
pub(super) fn abort(arrived: ArrivedCommand<'_>) -> Running<'_> {
    carry_out(arrived, |parsed| end_by_mode(parsed, false))
}

async fn end_by_mode(mut parsed: Parsed<'_>, commits: bool) -> Answer<HandlerReply> {
    match parsed.mode.clone() {
        Mode::Plain(_) => {
            let message = format!("{} must be run within a transaction", parsed.name);
            Err(Failure::new(codes::COMMAND_FAILED, message))
        }
        Mode::Write(..) => Err(parsed.not_retryable()),
        Mode::Transaction { lsid, number, begins } => statement::end(&mut parsed, lsid, number, begins, commits).await,
    }
}

/// Takes the command apart, and makes a reply of what `run` makes of it.
fn carry_out<'a, F>(arrived: ArrivedCommand<'a>, run: impl FnOnce(Parsed<'a>) -> F + Send + 'a) -> Running<'a>
where
    F: Future<Output = Answer<HandlerReply>> + Send + 'a,
{
    let carried_out = async move {
        let body = arrived.request.to_document()?;
        let made = match Parsed::take(arrived, body) {
            Ok(parsed) => run(parsed).await,
            Err(failure) => Err(failure),
        };
        Ok(made.map_or_else(Reply::from, HandlerReply::into_reply).stamped(&arrived.context.tx.clock))
    };
    carried_out.boxed()
}
