//! Numbers of a server's transactions in its answers. A request that is sent after one was heard of
//! gets a larger one, so that the server need not know older commits to say what became of it.

use crate::core::{CommitAnswer, Refusal, ServerId, TranxId};
use crate::wire::{Reply, Response};

/// Largest number of this server's transactions that the responses name; 0 if they name none.
pub(super) fn largest_number(server: ServerId, responses: &[Response]) -> u64 {
    let number = |tranx: TranxId| if tranx.server == server { tranx.number } else { 0 };
    let of_reply = |reply: &Reply| match reply {
        Reply::Values(items) => items.iter().flatten().map(|item| number(item.version)).max(),
        Reply::Found { items, .. } | Reply::FoundAt { items, .. } => {
            items.iter().map(|(_, item)| number(item.version)).max()
        }
        Reply::Commit(CommitAnswer::Committed(tranx)) => Some(number(*tranx)),
        Reply::Commit(CommitAnswer::Refused(Refusal::Stale { current, .. })) => {
            current.iter().filter_map(|now| now.item.as_ref()).map(|item| number(item.version)).max()
        }
        Reply::Commit(_)
        | Reply::Status(_)
        | Reply::Refused(_)
        | Reply::Snapshot(_)
        | Reply::NotHere(_)
        | Reply::Place(_) => None,
    };
    responses.iter().filter_map(|response| of_reply(&response.reply)).max().unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{Current, Item, Key, Value};

    #[test]
    fn largest_number_is_of_this_servers_transactions_in_any_answer() {
        let item = |server, number| {
            let version = TranxId { server: ServerId(server), number };
            Item { value: Value::new("value").unwrap(), version }
        };
        let current = vec![Current { key: Key::smallest(), item: Some(item(1, 6)) }];
        let replies = [
            Reply::Values(vec![None, Some(item(1, 3)), Some(item(2, 90))]),
            Reply::Found { items: vec![(Key::smallest(), item(1, 4))], complete: true },
            Reply::FoundAt { items: vec![(Key::smallest(), item(1, 5))], through: None },
            Reply::Commit(CommitAnswer::Refused(Refusal::Stale { current, kept: None })),
            Reply::Commit(CommitAnswer::Committed(item(1, 7).version)),
            Reply::Commit(CommitAnswer::Committed(item(2, 80).version)),
            Reply::Commit(CommitAnswer::Indeterminate),
        ];
        let responses = replies.map(|reply| Response { id: 1, reply });
        let each = responses.each_ref().map(|response| largest_number(ServerId(1), std::slice::from_ref(response)));
        assert_eq!(each, [3, 4, 5, 6, 7, 0, 0]);
        assert_eq!([largest_number(ServerId(1), &responses), largest_number(ServerId(1), &[])], [7, 0]);
    }
}
