//! What is refused before it reaches the transaction stage, because the log has grown to its limit: its segments cannot be
//! collected as long as a server stays away that has not acknowledged what is in them. So clients meet a limit, and not the
//! server a full disk.
//!
//! Refused is what begins to write; reads go on, and so does everything by which transactions under way are completed. What
//! is under way may therefore take the log beyond its limit, by as much as the server's other limits allow.
//!
//! - A repeated request is let in: an earlier copy of it may have been committed, and will be answered so.
//! - A repeated `Prepare` may be refused although the first one was answered with yes: as long as the coordinator has not
//!   decided, it may abort. The participant, in doubt, asks it.

use super::board::Board;
use crate::core::{Message, Refusal, Transaction, Vote};

/// Why a client's request to commit is not let in.
pub(super) fn refuse_commit(board: &Board, transaction: &Transaction, is_repeated: bool) -> Option<Refusal> {
    if is_repeated || transaction.is_read_only() { None } else { refuse(board) }
}

/// The answer to a message of another server that is not let in.
pub(super) fn refuse_message(board: &Board, message: &Message) -> Option<Message> {
    match message {
        Message::Prepare { tranx, part, .. } if !part.is_read_only() => {
            refuse(board).map(|refusal| Message::Vote { tranx: *tranx, vote: Vote::No(refusal) })
        }
        _ => None,
    }
}

fn refuse(board: &Board) -> Option<Refusal> {
    let limit_bytes = board.log_limit_bytes;
    (board.log_bytes() >= limit_bytes).then(|| {
        let limit = format!("limits.log_mib: the log has grown to {} MiB and cannot be collected", limit_bytes >> 20);
        Refusal::Overloaded { limit }
    })
}
