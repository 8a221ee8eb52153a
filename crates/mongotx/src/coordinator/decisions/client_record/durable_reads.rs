//! Durable reads of this client's records: finds out whether a rival has read a record of this
//! client's durably. Each durable read of a record leaves its time there; so do the client's own
//! reads, which do not count.

use std::collections::HashMap;

use bson::DateTime;
use protocol::ClientId;

/// Time of the last durable read of each record.
pub(super) type ReadTimes = HashMap<ClientId, DateTime>;

/// The times in this client's records, as far as it knows them.
#[derive(Default)]
pub(super) struct DurableReads {
    /// Time of the last durable read of each record. `None`: there had been none when the record
    /// was looked at.
    seen: HashMap<ClientId, Option<DateTime>>,
    /// Own reads that were begun.
    begun: u64,
    /// Own reads that were answered, or given up.
    ended: u64,
}

/// A look at the records that is under way.
pub(super) struct PendingLook {
    begun: u64,
    /// No own read was under way.
    is_alone: bool,
}

impl DurableReads {
    /// The client is about to read a record of its own durably.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
    }

    /// The read was answered, and left this time in the record; or it was given up.
    pub(super) fn end(&mut self, left: Option<(ClientId, Option<DateTime>)>) {
        self.ended += 1;
        if let Some((client, at)) = left
            && let Some(seen) = self.seen.get_mut(&client)
        {
            // Of several reads, the last to be answered need not have been the last to be made.
            *seen = at.max(*seen);
        }
    }

    pub(super) fn look(&self) -> PendingLook {
        PendingLook { begun: self.begun, is_alone: self.begun == self.ended }
    }

    /// The records of these clients were looked at. Returns true if a rival has read one durably
    /// since the last look. The time that the first look at a record shows does not count; a change
    /// that an own read may have made meanwhile is taken for that read's.
    pub(super) fn looked(&mut self, look: &PendingLook, clients: &[ClientId], found: &ReadTimes) -> bool {
        self.seen.retain(|client, _| clients.contains(client));
        let is_conclusive = look.is_alone && look.begun == self.begun;
        let mut is_news = false;
        for client in clients {
            let at = found.get(client).copied();
            is_news |= self.seen.insert(*client, at).is_some_and(|before| before != at);
        }
        is_news && is_conclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId([1; 12]);

    fn looked(durable_reads: &mut DurableReads, look: &PendingLook, at: i64) -> bool {
        durable_reads.looked(look, &[CLIENT], &ReadTimes::from([(CLIENT, DateTime::from_millis(at))]))
    }

    #[test]
    fn a_time_that_is_another_one_is_a_rivals() {
        let mut durable_reads = DurableReads::default();
        let look = durable_reads.look();
        assert!(!looked(&mut durable_reads, &look, 1), "it was there before");
        assert!(
            !looked(&mut durable_reads, &look, 1)
                && looked(&mut durable_reads, &look, 2)
                && !looked(&mut durable_reads, &look, 2)
        );
    }

    #[test]
    fn what_the_client_asks_itself_does_not_count() {
        let mut durable_reads = DurableReads::default();
        let first = durable_reads.look();
        looked(&mut durable_reads, &first, 1);
        durable_reads.begin();
        let during = durable_reads.look();
        assert!(!looked(&mut durable_reads, &during, 2), "its own, probably");
        durable_reads.end(Some((CLIENT, Some(DateTime::from_millis(2)))));
        assert!(!looked(&mut durable_reads, &first, 3), "one was begun and ended during the look");
        durable_reads.begin();
        durable_reads.end(Some((CLIENT, Some(DateTime::from_millis(4)))));
        let after = durable_reads.look();
        assert!(!looked(&mut durable_reads, &after, 4) && looked(&mut durable_reads, &after, 5));
        durable_reads.begin();
        durable_reads.begin();
        durable_reads.end(Some((CLIENT, Some(DateTime::from_millis(7)))));
        durable_reads.end(Some((CLIENT, Some(DateTime::from_millis(6)))));
        let after = durable_reads.look();
        assert!(!looked(&mut durable_reads, &after, 7), "the first was answered last");
        durable_reads.begin();
        durable_reads.end(None);
        let later = durable_reads.look();
        assert!(looked(&mut durable_reads, &later, 8), "one that was given up does not hide what rivals ask");
    }
}
