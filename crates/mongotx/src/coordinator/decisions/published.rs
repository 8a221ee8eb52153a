//! One record per transaction, as section 4.1 of paper 000 publishes it: the baseline.
//!
//! `{_id: {c, n}, state: "active" | "committed" | "rolledback", ts: <server time>, leaseMs,
//! stamp}`: inserted before the first write, changed once by `findAndModify`, deleted when every
//! document is clean. Departures from the paper, for safety: time is the server's; a stamp between
//! the last prepared write and the decision shows that the server has not lost a prepared write
//! since, which needs connections of its own ([`LANES`]). Not kept, as in the paper: outcomes after
//! the end, leases that are extended, and a commit whose server is killed while its documents are
//! being finished (the record may be deleted although a document was not finished). For measuring,
//! not for keeping data.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use bson::{Bson, Document, doc, oid::ObjectId};
use futures_util::future::BoxFuture;
use protocol::{ClientId, Concern, Decided, TxId, TxStatus, id::database_tag};
use sd2v::names::{tx_id_from_bson, tx_id_to_bson};

use super::client_record::Epoch;
use crate::{
    coordinator::{
        log::{
            missing_record,
            records::waited,
            txlog::{Barrier, Outcome, RecordConnection, Standing, Started, TxLog},
        },
        server::Server,
        stamps::{
            changes::{Changes, RecordScan},
            closed_records::ClosedRecords,
            quiet::{Heard, Length},
            tag::{Tag, Tags},
        },
        stored::own_collections::TXS,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Number of connections that transactions share for their records, each by its number: when a
/// connection is made anew, only the transactions that began on it before must notice. With so many
/// the server is the limit, not the lanes.
pub(crate) const LANES: usize = 16;

/// A connection for record writes, and how many times it was begun.
type Lane = (Server, Epoch);

/// The log that decides each transaction in a record of its own, as published in paper 000.
pub(crate) struct PublishedLog {
    server: Arc<Server>,
    lanes: Vec<Lane>,
    ns: Namespace,
    client: ClientId,
    next: AtomicU64,
}

impl PublishedLog {
    pub(crate) fn new(server: Arc<Server>, lanes: Vec<Lane>, tx_database: &str) -> Self {
        // Its age would matter only to a client of the other layout.
        let made = ClientId(ObjectId::new().bytes()).made();
        let client = ClientId::compose(made, database_tag(tx_database), rand::random());
        Self { server, lanes, ns: Namespace::new(tx_database, TXS), client, next: AtomicU64::new(1) }
    }

    fn lane(&self, id: TxId) -> &Lane {
        &self.lanes[id.seq as usize % self.lanes.len()]
    }

    /// The connection epoch of a transaction's lane.
    fn epoch_of(&self, id: TxId) -> u64 {
        self.lane(id).1.load(SeqCst)
    }

    /// `findAndModify` on the record of `id`; whether it matched.
    async fn transition(&self, id: TxId, condition: Document, update: Document, durable: bool) -> Result<bool> {
        let mut query = doc! {"_id": tx_id_to_bson(id)};
        query.extend(condition);
        let mut command = doc! {"findAndModify": &self.ns.coll, "query": query, "update": update};
        if durable || self.server.nodes.are_several() {
            command.insert("writeConcern", self.server.nodes.durable());
        }
        let answer = self.lane(id).0.run_on_records(&self.ns, command).await?;
        Ok(matches!(answer.get("value"), Some(Bson::Document(_))))
    }

    async fn decide(&self, started: Started, concern: Concern) -> Result<()> {
        let id = started.id;
        self.server.at(Step::BeforeStamp).await;
        let active = doc! {"state": "active", "stamp": {"$exists": false}};
        let stamped = self.transition(id, active, doc! {"$set": {"stamp": 1}}, false).await?;
        self.server.at(Step::AfterStamp).await;
        if !stamped || self.epoch_of(id) != started.epoch {
            return Err(expired(started.id));
        }
        self.server.at(Step::BeforeDecision).await;
        let stamped = doc! {"state": "active", "stamp": 1};
        let commit = doc! {"$set": {"state": "committed"}, "$currentDate": {"ts": true}};
        let decided = self.transition(id, stamped, commit, concern != Concern::Acknowledged).await;
        self.server.at(Step::AfterDecision).await;
        match decided {
            Ok(true) => Ok(()),
            Ok(false) => Err(expired(started.id)),
            Err(lost) if lost.kind() == ErrorKind::Unavailable => {
                Err(Error::new(ErrorKind::Indeterminate, format!("the commit was sent and not answered: {lost}")))
            }
            Err(refused) => Err(refused),
        }
    }

    async fn roll_back_expired(&self, ids: &[Bson]) -> Result<()> {
        let old = doc! {"$gt": [{"$subtract": ["$$NOW", "$ts"]}, "$leaseMs"]};
        let statement = doc! {
            "q": {"_id": {"$in": ids.to_vec()}, "state": "active", "$expr": old},
            "u": {"$set": {"state": "rolledback"}, "$currentDate": {"ts": true}}, "multi": true,
        };
        let concern = self.server.nodes.durable();
        let command = doc! {"update": &self.ns.coll, "updates": [statement], "writeConcern": concern};
        self.server.write_records(&self.ns, command).await?.ok().map(drop)
    }

    async fn read(&self, ids: &[TxId]) -> Result<Vec<(TxId, TxStatus)>> {
        let ids: Vec<Bson> = ids.iter().copied().map(tx_id_to_bson).collect();
        self.roll_back_expired(&ids).await?;
        let find = doc! {"find": &self.ns.coll, "filter": {"_id": {"$in": ids}}};
        let found = self.server.collect(&self.ns.db, find, 100_000).await?;
        Ok(found.iter().filter_map(|record| Some((tx_id_from_bson(record.get("_id")?)?, state_of(record)))).collect())
    }
}

fn state_of(record: &Document) -> TxStatus {
    match record.get_str("state") {
        Ok("active") => TxStatus::Active,
        Ok("committed") => TxStatus::Committed,
        _ => TxStatus::RolledBack,
    }
}

fn expired(id: TxId) -> Error {
    Error::new(ErrorKind::Expired, "the transaction was rolled back by a rival: its lease had expired")
        .for_transaction(Some(id))
}

impl TxLog for PublishedLog {
    /// There are no client records in this layout.
    fn owns(&self, _client: ClientId) -> bool {
        false
    }

    fn start(&self, lease_ms: u64, _ns: &Namespace) -> BoxFuture<'_, Result<Started>> {
        Box::pin(async move {
            let id = TxId { client: self.client, seq: self.next.fetch_add(1, SeqCst) };
            self.server.at(Step::BeforeRegister).await;
            let statement = doc! {
                "q": {"_id": tx_id_to_bson(id)},
                "u": {"$setOnInsert": {"state": "active", "leaseMs": lease_ms as i64}, "$currentDate": {"ts": true}},
                "upsert": true,
            };
            let command = doc! {"update": &self.ns.coll, "updates": [statement], "ordered": true};
            self.lane(id).0.prepare_records(&self.ns, command).await?.ok()?;
            self.server.at(Step::AfterRegister).await;
            Ok(Started { id, epoch: self.epoch_of(id) })
        })
    }

    fn enlist<'a>(&'a self, _id: TxId, _ns: &'a Namespace) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn standing(&self, started: Started) -> Standing {
        if self.epoch_of(started.id) == started.epoch { Standing::Sound } else { Standing::Lost }
    }

    fn vouch(&self, started: Started, _over: RecordConnection) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let find = doc! {"find": &self.ns.coll, "filter": {"_id": tx_id_to_bson(started.id), "state": "active"}};
            let active = self.server.find_first(&self.ns, find).await?.is_some();
            let same = self.epoch_of(started.id) == started.epoch;
            if active && same { Ok(()) } else { Err(expired(started.id)) }
        })
    }

    fn commit(
        &self,
        started: Started,
        concern: Concern,
        _changed: Vec<Tag>,
        _heard: Heard,
    ) -> BoxFuture<'_, Result<Option<Decided>>> {
        Box::pin(async move {
            self.decide(started, concern).await?;
            Ok(Some(Decided::by_owner(started.id)))
        })
    }

    fn changes<'a>(&'a self, _known: &'a ClosedRecords) -> BoxFuture<'a, Result<RecordScan>> {
        let message = "the published layout keeps no change stamps, so nothing that was read can be validated";
        Box::pin(async move { Err(Error::unsupported(message)) })
    }

    fn ask_for_changes(&self, _known: &ClosedRecords) -> Option<(&str, Document)> {
        None
    }

    fn own_changes(&self, _tags: &Tags) -> Changes {
        Changes::default()
    }

    fn ask_for_quiet(&self, _by: ObjectId, _tags: Vec<Bson>, _length: Length) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn end_quiet(&self, _by: ObjectId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn heard_of(&self, _id: TxId) -> Option<ObjectId> {
        None
    }

    fn rolled_back(&self, id: TxId) -> BoxFuture<'_, Decided> {
        Box::pin(async move {
            let active = doc! {"state": "active"};
            let change = doc! {"$set": {"state": "rolledback"}, "$currentDate": {"ts": true}};
            if let Err(error) = self.transition(id, active, change, false).await {
                tracing::debug!(%id, %error, "the rollback was not recorded; the lease will end");
            }
            Decided::by_owner(id)
        })
    }

    fn epoch(&self) -> u64 {
        // Grows when any of them does.
        self.lanes.iter().map(|(_, epoch)| epoch.load(SeqCst)).sum()
    }

    fn barrier(&self, _client: ClientId) -> BoxFuture<'_, Result<Barrier>> {
        Box::pin(async { Ok(Barrier { epoch: self.epoch(), fenced: false, namespaces: Vec::new() }) })
    }

    fn clean(&self, id: TxId, _epoch: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.server.at(Step::BeforeRetire).await;
            let gone = doc! {"q": {"_id": tx_id_to_bson(id)}, "limit": 1};
            let command = doc! {"delete": &self.ns.coll, "deletes": [gone]};
            if let Err(error) = self.server.prepare_records(&self.ns, command).await {
                tracing::debug!(%id, %error, "the finished transaction's record was left");
            }
            self.server.at(Step::AfterRetire).await;
        })
    }

    fn statuses<'a>(&'a self, ids: &'a [TxId]) -> BoxFuture<'a, Result<Vec<TxStatus>>> {
        Box::pin(async move {
            let found = self.read(ids).await?;
            let status = |id: &TxId| found.iter().find(|(other, _)| other == id).map(|(_, status)| *status);
            for id in ids.iter().filter(|id| status(id).is_none()) {
                missing_record::check_database(&self.server, &self.ns.db, id.client).await?;
            }
            // A record that is gone: finished, or an orphan of one that is. The document, fetched
            // again, shows which.
            Ok(ids.iter().map(|id| status(id).unwrap_or(TxStatus::Finished)).collect())
        })
    }

    fn outcome(&self, id: TxId) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Ok(match self.read(&[id]).await?.first() {
                Some((_, TxStatus::Active)) => Outcome::Active,
                Some((_, TxStatus::Committed)) => Outcome::Committed,
                Some((_, _)) => Outcome::RolledBack,
                None => Outcome::Unknown,
            })
        })
    }

    fn abort(&self, id: TxId) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            let active = doc! {"state": "active"};
            self.transition(id, active, doc! {"$set": {"state": "rolledback"}, "$currentDate": {"ts": true}}, true)
                .await?;
            self.outcome(id).await
        })
    }

    fn await_concern(&self, concern: Document) -> BoxFuture<'_, Result<Option<Document>>> {
        // A write that matches nothing waits for what was written last.
        let nothing = doc! {"q": {"_id": 0}, "u": {"$unset": {"nothing": 1}}};
        let command = doc! {"update": &self.ns.coll, "updates": [nothing], "writeConcern": concern};
        Box::pin(async move { waited(self.server.write_records_as_asked(&self.ns, command).await) })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
