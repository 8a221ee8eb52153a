//! The read lease in client records, and how long a newcomer waits for those of others.
//!
//! The field `readLease: {by, ms}` of a record says that its client may hold the lease of that
//! name, and for how many milliseconds at most after it has made sure that it is alone. The client
//! makes sure after the field is there, durably; a newcomer looks for the field after its own
//! record is there, durably. So either the client sees the newcomer, or the newcomer sees the
//! field, and waits.

use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use protocol::ClientId;

use super::state::LENGTH;
use crate::{
    coordinator::{
        log::records::{Records, object_id},
        server::Server,
    },
    error::Result,
    numbers::as_i64,
};

const FIELD: &str = "readLease";
const NAME: &str = "readLease.by";
/// Lengths of a lease that a newcomer waits: the clocks of two machines may run at different
/// speeds.
const WAITED_LENGTHS: u32 = 2;
/// The longest lease that is waited for: no client writes a longer one.
const LONGEST_LEASE: Duration = Duration::from_secs(10);
/// Seconds for which a closed record counts. A sweep may have closed it while its client held the
/// lease.
const CLOSED_SECONDS: i64 = 60;
/// Pause between two looks of a newcomer.
const POLL: Duration = Duration::from_millis(50);
/// Records of readers that are looked at. There is one, as a rule.
const MOST_READERS: usize = 100;

impl Records {
    /// Says in an open record that its client may hold a lease of this name, durably. False: the
    /// record is fenced or closed.
    pub(crate) async fn flag_reader(&self, server: &Server, client: ClientId, by: ObjectId) -> Result<bool> {
        let open = doc! {"_id": object_id(client), "fenced": {"$exists": false}, "closedAt": null};
        let length = i64::try_from(LENGTH.as_millis()).unwrap_or(i64::MAX);
        self.change(server, open, doc! {"$set": {FIELD: {"by": by, "ms": length}}}).await
    }

    /// The lease of this name is over, whichever records say that its client may hold it.
    pub(crate) async fn unflag_reader(&self, server: &Server, by: ObjectId) -> Result<()> {
        let statement = doc! {"q": {NAME: by}, "u": {"$unset": {FIELD: 1}}, "multi": true};
        let command = doc! {"update": &self.ns.coll, "updates": [statement]};
        server.write_records(&self.ns, command).await?.ok().map(drop)
    }

    /// The record of this client says nothing any more, if it can hold no lease again. From a
    /// record that can, a command that arrives late would take what the next newcomer has to see.
    async fn unflag_lost(&self, server: &Server, client: ClientId) -> Result<()> {
        let is_lost = doc! {"$or": [{"fenced": true}, {"closedAt": {"$exists": true}}]};
        let lost = doc! {"$and": [{"_id": object_id(client), FIELD: {"$exists": true}}, is_lost]};
        self.change(server, lost, doc! {"$unset": {FIELD: 1}}).await.map(drop)
    }

    /// Returns true if a record is open that is none of these.
    pub(crate) async fn others_are_there(&self, server: &Server, own: &[ClientId]) -> Result<bool> {
        let find = doc! {"find": &self.ns.coll, "filter": others(own), "projection": {"_id": 1}};
        Ok(server.find_first(&self.ns, find).await?.is_some())
    }

    /// Returns true if no record is open but these, and this one of them still holds the flag of
    /// the lease of this name.
    pub(crate) async fn is_sole_reader(
        &self,
        server: &Server,
        own: &[ClientId],
        reader: ClientId,
        by: ObjectId,
    ) -> Result<bool> {
        let reader = object_id(reader);
        let flagged = doc! {"_id": reader, NAME: by, "fenced": {"$exists": false}, "closedAt": null};
        let find = doc! {
            "find": &self.ns.coll, "filter": {"$or": [flagged, others(own)]}, "projection": {"_id": 1}, "limit": 2,
        };
        let found = server.collect(&self.ns.db, find, 2).await?;
        Ok(matches!(&found[..], [one] if one.get("_id") == Some(&reader.into())))
    }

    /// Records of others that say that their clients may hold leases.
    async fn readers(&self, server: &Server, own: &[ClientId], newcomer: &Newcomer) -> Result<Vec<Reader>> {
        let long_ago = DateTime::from_millis((i64::from(newcomer.client.made()) - CLOSED_SECONDS) * 1_000);
        let mut filter = doc! {
            "_id": none_of(own), FIELD: {"$exists": true}, "$or": [{"closedAt": null}, {"closedAt": {"$gte": long_ago}}],
        };
        // No condition without a name: a malformed field has none, and counts.
        if let Some(own_lease) = newcomer.own_lease {
            filter.insert(NAME, doc! {"$ne": own_lease});
        }
        let find = doc! {"find": &self.ns.coll, "filter": filter, "projection": {FIELD: 1}};
        let found = server.collect(&self.ns.db, find, MOST_READERS).await?;
        Ok(found.iter().filter_map(Reader::of).collect())
    }
}

/// The client of a record that may hold a lease.
struct Reader {
    client: ClientId,
    length: Duration,
}

impl Reader {
    /// A malformed field counts as the longest lease.
    fn of(record: &Document) -> Option<Self> {
        let client = ClientId(record.get_object_id("_id").ok()?.bytes());
        let lease = record.get_document(FIELD).ok();
        let ms = lease.and_then(|lease| lease.get("ms")).map(as_i64).and_then(|ms| u64::try_from(ms).ok());
        let length = ms.map_or(LONGEST_LEASE, Duration::from_millis).clamp(LENGTH, LONGEST_LEASE);
        Some(Self { client, length })
    }
}

fn none_of(own: &[ClientId]) -> Document {
    let own: Vec<Bson> = own.iter().map(|client| object_id(*client).into()).collect();
    doc! {"$nin": own}
}

/// The condition for open records of others.
fn others(own: &[ClientId]) -> Document {
    doc! {"_id": none_of(own), "closedAt": null}
}

/// A client that has registered, and may not lock anything yet.
pub(crate) struct Newcomer {
    pub(crate) client: ClientId,
    /// Time at which its record was acknowledged.
    pub(crate) since: Instant,
    /// Name of the last lease of its own, which may stand in records that it has replaced.
    pub(crate) own_lease: Option<ObjectId>,
}

/// Waits until no other client than these reads without probes, or can any more: its lease is over
/// two lengths after the newcomer's record was acknowledged. Then what lost records say is removed,
/// so that the next newcomers need not wait.
pub(crate) async fn outwait(records: &Records, server: &Server, own: &[ClientId], newcomer: Newcomer) -> Result<()> {
    loop {
        let readers = records.readers(server, own, &newcomer).await?;
        let Some(longest) = readers.iter().map(|reader| reader.length).max() else { return Ok(()) };
        let left = (longest * WAITED_LENGTHS).saturating_sub(newcomer.since.elapsed());
        if left.is_zero() {
            for reader in readers {
                if let Err(error) = records.unflag_lost(server, reader.client).await {
                    tracing::debug!(%error, "the next newcomers will wait for a reader that is gone");
                }
            }
            return Ok(());
        }
        tokio::time::sleep(left.min(POLL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_in_a_record_is_read_with_its_bounds() {
        let of = |lease: Bson| {
            let reader = Reader::of(&doc! {"_id": ObjectId::from_bytes([7; 12]), FIELD: lease}).unwrap();
            reader.length.as_millis()
        };
        let by = ObjectId::from_bytes([1; 12]);
        assert_eq!(of(doc! {"by": by, "ms": 1_500_i64}.into()), 1_500);
        assert_eq!(of(doc! {"by": by, "ms": 3.0}.into()), 1_000);
        for malformed in [doc! {"by": 5, "ms": i64::MAX}.into(), doc! {"ms": -1}.into(), "text".into(), Bson::Null] {
            assert_eq!(of(malformed), 10_000);
        }
    }
}
