//! Requests that are refused before they reach the transaction stage, most of them because the log
//! has grown to its limit: its segments cannot be collected as long as a server stays away that has
//! not acknowledged what is in them. So clients meet a limit, and not the server a full disk.
//!
//! | what begins | the log gets | refused |
//! | --- | --- | --- |
//! | writes | the values | at the limit |
//! | a part that only reads of what is written elsewhere; reads of absence or of ranges on several servers | the locks | an eighth beyond the limit |
//! | all other reads | nothing | never |
//!
//! Everything by which transactions under way are completed goes on. What is under way may
//! therefore take the log further, by as much as the server's other limits allow.
//!
//! In a group, the log of a follower that is full counts like the leader's own (decision 0075,
//! G20).
//!
//! - A repeated request is let in: an earlier copy of it may have been committed, and will be
//!   answered so.
//! - A repeated `Prepare` may be refused although the first one was answered with yes: as long as
//!   the coordinator has not decided, it may abort. The participant, in doubt, inquires.

use super::stats::ServerStats;
use crate::core::{Again, Epoch, Map, Message, Partition, Refusal, Transaction, Vote};

/// Reason why a client's request to commit is not let in.
pub(super) fn refuse_commit(
    stats: &ServerStats,
    partition: &Partition,
    transaction: &Transaction,
    is_repeated: bool,
) -> Option<Refusal> {
    if is_repeated || !stats.is_log_full() && !stats.is_member_full() {
        None
    } else if transaction.is_read_only() {
        // By the configured map: where ranges have moved, some reads of one server or of several
        // are taken for the other kind.
        let is_logged = transaction.reads_absence() && !Map::from(partition).is_on_one_server(transaction);
        if is_logged { refuse_read(stats) } else { None }
    } else {
        refuse_write(stats)
    }
}

/// Reads that keep locks for another attempt are in the log. Without room there they are tried as
/// if it were the first time.
pub(super) fn limit_keeping(stats: &ServerStats, transaction: &Transaction, again: &mut Again) {
    again.keeps &= !transaction.is_read_only() || stats.log_bytes() < stats.log_limit_bytes;
}

/// The answer to a message of another server that is not let in.
pub(super) fn refuse_message(stats: &ServerStats, message: &Message) -> Option<Message> {
    let Message::Prepare { tranx, part, .. } = message else { return None };
    let refusal = if part.is_read_only() { refuse_read(stats) } else { refuse_write(stats) };
    refusal.map(|refusal| Message::Vote { tranx: *tranx, vote: Vote::No(refusal), epoch: Epoch(0) })
}

/// The answer to a message of another server for which its queue has no room; `None`: it is as if
/// it were lost on the way.
pub(super) fn refuse_peer(message: &Message) -> Option<Message> {
    message.voted_against(|| Refusal::Overloaded { limit: "requests of servers that wait".to_owned() })
}

fn refuse_write(stats: &ServerStats) -> Option<Refusal> {
    if stats.is_member_full() {
        let limit = "limits.log_mib: the log of a follower has grown to its limit and cannot be collected".to_owned();
        return Some(Refusal::Overloaded { limit });
    }
    refuse_from(stats, stats.log_limit_bytes)
}

fn refuse_read(stats: &ServerStats) -> Option<Refusal> {
    refuse_from(stats, stats.log_limit_bytes.saturating_add(stats.log_limit_bytes / 8))
}

fn refuse_from(stats: &ServerStats, bytes: u64) -> Option<Refusal> {
    (stats.log_bytes() >= bytes).then(|| {
        let limit = format!("limits.log_mib: the log has grown to {} MiB and cannot be collected", bytes >> 20);
        Refusal::Overloaded { limit }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{
        Incarnation, Key, KeyRange, Read, ScanRead, ServerId, Standing, TranxId, ValidationId, Value, Write,
    };
    use crate::log::LogSpace;
    use crate::stage::Counters;

    const LIMIT_BYTES: u64 = 64 << 20;
    const TRANX: TranxId = TranxId { server: ServerId(2), number: 1 };
    const VALIDATION: ValidationId = ValidationId { server: ServerId(2), incarnation: Incarnation(1), number: 1 };

    fn key(name: &'static str) -> Key {
        Key::new(name).unwrap()
    }

    /// Reads these keys, of which none is there.
    fn absent(names: &[&'static str]) -> Transaction {
        let reads = names.iter().map(|name| Read { key: key(name), version: None }).collect();
        Transaction { reads, ..Transaction::default() }
    }

    fn present(names: &[&'static str]) -> Transaction {
        let reads = names.iter().map(|name| Read { key: key(name), version: Some(TRANX) }).collect();
        Transaction { reads, ..Transaction::default() }
    }

    fn scan(range: KeyRange) -> Transaction {
        Transaction { scans: vec![ScanRead { range, found: Vec::new() }], ..Transaction::default() }
    }

    fn write() -> Transaction {
        let write = Write { key: key("a"), value: Some(Value::new("x").unwrap()) };
        Transaction { writes: vec![write], ..Transaction::default() }
    }

    /// From `m` on keys are on the second server.
    fn partition() -> Partition {
        Partition::Ranges(vec![(key(""), ServerId(1)), (key("m"), ServerId(2))])
    }

    fn stats(log_bytes: u64) -> ServerStats {
        let stats = ServerStats::new(ServerId(1), "none".to_owned(), Counters::new(), LIMIT_BYTES);
        stats.note_space(LogSpace { segments: 1, bytes: log_bytes });
        stats
    }

    fn is_refused(log_bytes: u64, transaction: &Transaction) -> bool {
        refuse_commit(&stats(log_bytes), &partition(), transaction, false).is_some()
    }

    fn is_part_refused(log_bytes: u64, part: Transaction) -> bool {
        let message = Message::Prepare {
            tranx: TRANX,
            participants: vec![ServerId(1), ServerId(2)],
            part,
            standing: Standing::default(),
        };
        refuse_message(&stats(log_bytes), &message).is_some()
    }

    #[test]
    fn writes_are_refused_at_the_limit() {
        assert!(!is_refused(LIMIT_BYTES - 1, &write()) && !is_part_refused(LIMIT_BYTES - 1, write()));
        assert!(is_refused(LIMIT_BYTES, &write()) && is_part_refused(LIMIT_BYTES, write()));
    }

    #[test]
    fn writes_are_refused_while_a_follower_is_full() {
        let stats = stats(0);
        stats.note_full_member(0);
        assert!(refuse_commit(&stats, &partition(), &write(), false).is_some());
        assert!(refuse_commit(&stats, &partition(), &present(&["a"]), false).is_none());
    }

    #[test]
    fn reads_that_are_logged_are_refused_an_eighth_beyond_it() {
        let beyond = LIMIT_BYTES + LIMIT_BYTES / 8;
        for read in [absent(&["a", "z"]), scan(KeyRange::all())] {
            assert!(!is_refused(beyond - 1, &read) && is_refused(beyond, &read), "{read:?}");
        }
        for part in [present(&["a"]), absent(&["a"])] {
            assert!(!is_part_refused(beyond - 1, part.clone()) && is_part_refused(beyond, part.clone()), "{part:?}");
        }
    }

    #[test]
    fn reads_that_are_not_logged_are_never_refused() {
        let reads = [present(&["a", "z"]), absent(&["a", "b"]), scan(KeyRange::until(key("a"), key("b")))];
        for read in reads {
            assert!(!is_refused(u64::MAX, &read), "{read:?}");
        }
    }

    #[test]
    fn what_completes_transactions_and_what_is_repeated_is_never_refused() {
        let stats = stats(u64::MAX);
        let messages = [
            Message::Validate { validation: VALIDATION, part: absent(&["a"]), epoch: Epoch(0) },
            Message::Inquire { tranx: TRANX },
            Message::Acknowledge(vec![TRANX]),
        ];
        assert!(messages.iter().all(|message| refuse_message(&stats, message).is_none()));
        assert!(refuse_commit(&stats, &partition(), &write(), true).is_none());
    }
}
