//! The stored client record: its fields, its encoding, and the commands that rivals use on it.
//!
//! | field | type | written by | meaning |
//! | --- | --- | --- | --- |
//! | `_id` | ObjectId | owner | the client id |
//! | `format` | Int32 | owner, once | version of the stored format that its client writes; see [`crate::coordinator::stored::format`] |
//! | `stamp` | Int64 | owner | its last write; see `protocol::recorder` |
//! | `beat` | Date | owner | the server's time of its last write |
//! | `leaseMs` | Int64 | owner | how long after `beat` rivals may fence |
//! | `low` | Int64 | owner | every number below it is decided and clean |
//! | `committed`, `rolledBack` | \[Int64\] | owner | decided numbers from `low` on |
//! | `aborted` | \[Int64\] | owner | numbers below `low` that did not commit |
//! | `changes` | {tag: Int64} | owner | the stamp of the last write that decided a change of each collection; see [`crate::coordinator::stamps::changes`] |
//! | `quiet` | {by, tags, until, doublings, over, before} | others | until then, or until it is over, no decision sets these change stamps; see [`crate::coordinator::stamps::quiet`] |
//! | `namespaces` | \[String\] | owner | collections it may have locked documents in |
//! | `about` | document | owner, once | application, host and process, for people |
//! | `killed` | \[Int64\] | others | numbers aborted one by one |
//! | `fenced`, `fencedAt` | Bool, Date | others (or the owner, giving up) | nothing can be decided any more |
//! | `closedAt` | Date | owner or sweep | every document is clean; removed 30 minutes later by a TTL index |
//! | `readLease` | {by, ms} | owner (or a newcomer that has waited) | its client may read without probes, for so many milliseconds after it has made sure that it is alone; see [`crate::coordinator::queries::read_lease`] |
//! | `plain` | Boolean or [String] | owner | this is no record, but the notice of plain writes in these collections, or in any, with `format`, an empty `changes` and `closedAt` alone; false: they are over; see [`crate::coordinator::server::plain`] |
//! | `askedAt` | Date | any client | makes durable what a client has read, before it acts on it |

use std::{collections::HashMap, sync::Arc, time::Duration};

use bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc, oid::ObjectId};
use protocol::{ClientId, ClientRecord, Seq};

use crate::{
    coordinator::{
        server::{Server, WriteAnswer},
        stamps::{
            changes::{RecordScan, Stamps},
            closed_records::ClosedRecords,
            notice::Scope,
            quiet::{Length, StoredQuiet},
            tag::Tag,
        },
        stored::{
            format::{self, FORMAT},
            own_collections::{NOTICE, TXS, index_of_closed},
        },
    },
    error::{Error, ErrorKind, Result},
    numbers::as_i64,
    options::Namespace,
    process_info::ProcessInfo,
    steps::Step,
};

/// Longest time for building the index on an almost empty collection: as long as the majority of
/// the members is away.
const LONGEST_BUILD_MS: i32 = 30_000;
/// Records and notices that one batch of a look brings: it is enough unless very many clients have
/// ended within the last half hour.
const LOOK_BATCH: i32 = 4_000;
/// Limit of records and notices that are looked at: those of clients that live or have ended within
/// the last half hour.
const MOST_RECORDS: usize = 100_000;
/// Number of MongoDB's error `MaxTimeMSExpired`.
const MAX_TIME_EXPIRED: i32 = 50;

/// Time that a client whose lease has expired is given to show that it is alive: this part of the
/// lease, and no longer than [`LONGEST_GRACE`], because the rival that met it waits for it.
const GRACES_OF_LEASE: u32 = 20;
const LONGEST_GRACE: Duration = Duration::from_millis(500);

fn grace_of(lease_ms: i64) -> Duration {
    (Duration::from_millis(lease_ms.unsigned_abs()) / GRACES_OF_LEASE).min(LONGEST_GRACE)
}

/// A record as stored, with what decides nothing.
#[derive(Debug, Clone)]
pub(crate) struct StoredRecord {
    pub(crate) client: ClientId,
    pub(crate) record: ClientRecord,
    pub(crate) expired: bool,
    pub(crate) closed: bool,
    /// Time at which a client last read the record durably.
    pub(crate) asked_at: Option<DateTime>,
    pub(crate) lease_ms: i64,
    pub(crate) silent_ms: i64,
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) about: Option<ProcessInfo>,
    /// The quiet that was set last.
    pub(crate) quiet: Option<StoredQuiet>,
}

impl StoredRecord {
    /// Returns true if its lease is over and it is not fenced yet.
    pub(crate) fn is_to_be_fenced(&self) -> bool {
        self.expired && !self.record.fenced && !self.closed
    }
}

/// Client records in `<tx_database>.txs`, as any client can read and write them.
#[derive(Clone)]
pub(crate) struct Records {
    pub(crate) ns: Namespace,
    /// Description of this client in records of its own.
    about: ProcessInfo,
}

pub(in crate::coordinator) fn object_id(client: ClientId) -> ObjectId {
    ObjectId::from_bytes(client.0)
}

impl Records {
    pub(crate) fn new(db: &str) -> Self {
        Self { ns: Namespace::new(db, TXS), about: ProcessInfo::default() }
    }

    /// The same, with what is said in records of this client's own.
    pub(crate) fn of(self, about: ProcessInfo) -> Self {
        Self { about, ..self }
    }

    /// Creates the index by which the server removes closed records, once.
    pub(crate) async fn prepare(&self, server: &Server) -> Result<()> {
        let mut create = index_of_closed();
        server.nodes.on_majority(&mut create);
        server.nodes.with_quorum(&mut create);
        create.insert("maxTimeMS", LONGEST_BUILD_MS);
        server.run_command(&self.ns.db, create).await.map(drop).map_err(|error| match error.code() {
            Some(MAX_TIME_EXPIRED) => {
                let message =
                    format!("the index of {} could not be built within {LONGEST_BUILD_MS} ms: {error}", self.ns);
                Error::new(ErrorKind::Unavailable, message)
            }
            _ => error,
        })
    }

    /// Makes a client's record, durably: a lock that outlives a restart of the server finds its
    /// record. False when there is a record of that id already, which is left as it is.
    pub(crate) async fn insert(
        &self,
        server: &Server,
        client: ClientId,
        lease_ms: u64,
        ns: &Namespace,
    ) -> Result<bool> {
        // `$currentDate` needs an update: the lease runs by the server's clock from the first
        // moment. No record is without a stamp, so that one that is there is not matched, and its
        // `_id` refuses another.
        let statement = doc! {
            "q": {"_id": object_id(client), "stamp": {"$exists": false}},
            "u": {
                "$setOnInsert": {
                    "stamp": 0_i64, "leaseMs": lease_ms as i64, "low": 1_i64, "committed": [], "rolledBack": [],
                    "aborted": [], "namespaces": [ns.to_string()], "about": self.about.to_document(),
                    format::FIELD: FORMAT,
                },
                "$currentDate": {"beat": true},
            },
            "upsert": true,
        };
        let command = doc! {"update": &self.ns.coll, "updates": [statement], "writeConcern": server.nodes.durable()};
        match server.write_records(&self.ns, command).await?.ok() {
            Ok(answer) => Ok(!answer.upserted.is_empty()),
            Err(error) if error.is_duplicate_key() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Locks and record writes count as done if the server says that they have modified the
    /// document: a server that calls an unchanged document modified would hand out locks that are
    /// not there.
    pub(crate) async fn probe(&self, server: &Server, client: ClientId) -> Result<()> {
        let unchanged = doc! {"$replaceWith": {"$cond": [{"$eq": ["$low", 0_i64]}, {}, "$$ROOT"]}};
        let statement = doc! {"q": {"_id": object_id(client)}, "u": [unchanged]};
        let answer = server.prepare_records(&self.ns, update(&self.ns, statement)).await?.ok()?;
        if (answer.n, answer.modified) == (1, 0) {
            return Ok(());
        }
        let (n, modified) = (answer.n, answer.modified);
        Err(Error::unsupported(format!(
            "the server does not tell whether a pipeline update changed a document (matched {n}, modified {modified} where one was \
             matched and none changed), so no transaction would be safe on it"
        )))
    }

    /// The records of these clients (of all, when empty), judged by the server's clock.
    pub(crate) async fn read(&self, server: &Server, clients: &[ClientId]) -> Result<Vec<StoredRecord>> {
        let ids: Vec<Bson> = clients.iter().map(|client| object_id(*client).into()).collect();
        let who = if ids.is_empty() {
            doc! {"low": {"$exists": true}}
        } else {
            doc! {"_id": {"$in": ids}}
        };
        let silent = doc! {"$subtract": ["$$NOW", "$beat"]};
        let pipeline = [doc! {"$match": who}, doc! {"$set": {"silentMs": silent}}];
        // Read from the primary, as the documents are: the majority may have an older state.
        let command = doc! {"aggregate": &self.ns.coll, "pipeline": pipeline.to_vec(), "cursor": {}};
        let found = server.collect(&self.ns.db, command, MOST_RECORDS + 1).await?;
        self.check_whole(found.len())?;
        found.iter().map(parse_record).collect()
    }

    /// Records that are not closed, at most `limit`, the oldest signs of life first. Malformed ones
    /// are left out, those of a later format are an error.
    pub(crate) async fn open(&self, server: &Server, limit: usize) -> Result<Vec<StoredRecord>> {
        let who = doc! {"low": {"$exists": true}, "closedAt": {"$exists": false}};
        let silent = doc! {"$subtract": ["$$NOW", "$beat"]};
        let limited = doc! {"$limit": i64::try_from(limit.max(1)).unwrap_or(i64::MAX)};
        let shown = doc! {"changes": 0, "quiet": 0};
        let pipeline = [
            doc! {"$match": who},
            doc! {"$sort": {"beat": 1}},
            limited,
            doc! {"$project": shown},
            doc! {"$set": {"silentMs": silent}},
        ];
        let command = doc! {"aggregate": &self.ns.coll, "pipeline": pipeline.to_vec(), "cursor": {}};
        let found = server.collect(&self.ns.db, command, limit.max(1)).await?;
        let parsed = found.iter().map(parse_record);
        parsed
            .filter(|parsed| parsed.as_ref().map_or_else(|error| error.kind() != ErrorKind::Corruption, |_| true))
            .collect()
    }

    /// The change stamps of all records, closed and fenced ones included but for those that are
    /// known to be closed, and where there is to be quiet.
    pub(crate) async fn changes(&self, server: &Server, known: &ClosedRecords) -> Result<RecordScan> {
        let find = self.ask_for_changes(server, known);
        let found = server.collect_raw(&self.ns.db, find, MOST_RECORDS + 1).await?;
        self.check_whole(found.len())?;
        scan_records(&found)
    }

    /// Refuses an answer with more records than are looked at: one that was cut would say that
    /// nothing has changed where something has.
    fn check_whole(&self, found: usize) -> Result<()> {
        if found <= MOST_RECORDS {
            return Ok(());
        }
        let message = format!("{} has more than {MOST_RECORDS} records of clients and notices", self.ns);
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// The command that reads the change stamps: [`Records::changes`].
    pub(crate) fn ask_for_changes(&self, server: &Server, known: &ClosedRecords) -> Document {
        // Records in which quiet was set have some, too. One condition, and no paths in the
        // projection: that halves the server's work.
        let mut filter = doc! {"changes": {"$exists": true}};
        let known: Vec<Bson> = known.clients().map(|client| object_id(client).into()).collect();
        if !known.is_empty() {
            filter.insert("_id", doc! {"$nin": known});
        }
        let projection = doc! {"changes": 1, "quiet": 1, "closedAt": 1, NOTICE: 1, format::FIELD: 1};
        let mut find =
            doc! {"find": &self.ns.coll, "filter": filter, "projection": projection, "batchSize": LOOK_BATCH};
        server.nodes.only_from_primary(&mut find);
        find
    }

    /// Sets quiet in all open records, except those that hold the quiet of another reader. Durably:
    /// a transaction that is not decided has to be validated again if its record holds the quiet.
    /// The name of the quiet before it is kept.
    pub(crate) async fn ask_for_quiet(
        &self,
        server: &Server,
        by: ObjectId,
        tags: Vec<Bson>,
        length: Length,
    ) -> Result<()> {
        let quiet = length.asked(by, tags);
        let unasked = doc! {"$or": [{"$ne": ["$quiet.over", false]}, {"$lte": ["$quiet.until", "$$NOW"]}]};
        let open = doc! {
            "fenced": {"$exists": false}, "closedAt": {"$exists": false}, format::FIELD: format::is_known(), "$expr": unasked,
        };
        let stamps = doc! {"$ifNull": ["$changes", {"$literal": {}}]};
        let statement = doc! {"q": open, "u": [{"$set": {"quiet": quiet, "changes": stamps}}], "multi": true};
        let mut command = update(&self.ns, statement);
        command.insert("writeConcern", server.nodes.durable());
        server.write_records(&self.ns, command).await?.ok().map(drop)
    }

    /// Ends the quiet of this name. It is kept until another reader sets its own, for transactions
    /// that were validated before.
    pub(crate) async fn end_quiet(&self, server: &Server, by: ObjectId) -> Result<()> {
        let statement = doc! {"q": {"quiet.by": by}, "u": {"$set": {"quiet.over": true}}, "multi": true};
        server.write_records(&self.ns, update(&self.ns, statement)).await?.ok().map(drop)
    }

    /// Ends the quiet of this name in one record, whose owner has waited for long enough.
    pub(crate) async fn lift_quiet(&self, server: &Server, client: ClientId, by: ObjectId) -> Result<()> {
        let statement = doc! {"q": {"_id": object_id(client), "quiet.by": by}, "u": {"$set": {"quiet.over": true}}};
        server.write_records(&self.ns, update(&self.ns, statement)).await?.ok().map(drop)
    }

    /// Waits before leases that were found to be expired are acted on. A machine that was paused
    /// lets all clients and the server go on at the same moment: those that are alive show it now.
    pub(crate) async fn let_them_beat(&self, expired: impl Iterator<Item = &StoredRecord>) {
        if let Some(longest) = expired.map(|record| record.lease_ms).max() {
            tokio::time::sleep(grace_of(longest)).await;
        }
    }

    /// Fences a record if its lease is expired still ([`Records::let_them_beat`] comes before).
    /// Journaled, because clients will act on it.
    pub(crate) async fn fence_expired(&self, server: &Server, client: ClientId) -> Result<bool> {
        let expired = doc! {"$gt": [{"$subtract": ["$$NOW", "$beat"]}, "$leaseMs"]};
        let condition = doc! {"_id": object_id(client), "fenced": {"$exists": false}, "$expr": expired};
        server.at(Step::BeforeFence).await;
        let fenced =
            self.change(server, condition, doc! {"$set": {"fenced": true}, "$currentDate": {"fencedAt": true}}).await?;
        server.at(Step::AfterFence).await;
        if fenced {
            server.counters.add(&server.counters.fenced, 1);
            tracing::warn!(%client, "fenced the record of a client whose lease has expired");
        }
        Ok(fenced)
    }

    /// Fences a record whatever its lease: its owner gives it up, or a checkpoint begins.
    pub(crate) async fn fence_now(&self, server: &Server, client: ClientId) -> Result<bool> {
        let condition = doc! {"_id": object_id(client), "fenced": {"$exists": false}};
        self.change(server, condition, doc! {"$set": {"fenced": true}, "$currentDate": {"fencedAt": true}}).await
    }

    /// Aborts the transaction with this number. False when it is decided, or its record is fenced,
    /// is not there, or names as many aborted ones as it may.
    pub(crate) async fn abort(&self, server: &Server, client: ClientId, seq: Seq) -> Result<bool> {
        let seq = seq as i64;
        let condition = doc! {
            "_id": object_id(client), "fenced": {"$exists": false}, "low": {"$lte": seq},
            "committed": {"$ne": seq}, "rolledBack": {"$ne": seq}, "killed.999": {"$exists": false},
        };
        self.change(server, condition, doc! {"$addToSet": {"killed": seq}}).await
    }

    /// Every document is clean: the record goes when its outcomes need not be kept any longer. The
    /// owner closes a record that has its last stamp, a sweep one that is fenced: a server that was
    /// killed may have brought back an earlier state, with locks. False when the record is not what
    /// it should be.
    pub(crate) async fn retire(&self, server: &Server, client: ClientId, by_owner: Option<u64>) -> Result<bool> {
        server.at(Step::BeforeRetire).await;
        let mut condition = doc! {"_id": object_id(client), "closedAt": {"$exists": false}};
        match by_owner {
            Some(stamp) => condition.insert("stamp", stamp as i64),
            None => condition.insert("fenced", true),
        };
        let retired = self.change(server, condition, doc! {"$currentDate": {"closedAt": true}}).await?;
        server.at(Step::AfterRetire).await;
        Ok(retired)
    }

    /// Reads the record durably, by a durable write that changes nothing of importance. Where
    /// several servers keep the data it also shows that the one that answers is the primary still.
    pub(crate) async fn read_durably(&self, server: &Server, client: ClientId) -> Result<Option<StoredRecord>> {
        let command = doc! {
            "findAndModify": &self.ns.coll, "query": {"_id": object_id(client)}, "update": {"$currentDate": {"askedAt": true}},
            "new": true, "writeConcern": server.nodes.durable(),
        };
        match server.run_on_records(&self.ns, command).await?.get("value") {
            Some(Bson::Document(stored)) => parse_record(stored).map(Some),
            _ => Ok(None),
        }
    }

    /// Time at which a client last read each of these records durably.
    pub(crate) async fn asked_at(&self, server: &Server, clients: &[ClientId]) -> Result<HashMap<ClientId, DateTime>> {
        let ids: Vec<Bson> = clients.iter().map(|client| object_id(*client).into()).collect();
        let mut find = doc! {"find": &self.ns.coll, "filter": {"_id": {"$in": ids}}, "projection": {"askedAt": 1}};
        server.nodes.only_from_primary(&mut find);
        let found = server.collect(&self.ns.db, find, clients.len()).await?;
        let asked = |stored: &Document| {
            let client = ClientId(stored.get_object_id("_id").ok()?.bytes());
            Some((client, *stored.get_datetime("askedAt").ok()?))
        };
        Ok(found.iter().filter_map(asked).collect())
    }

    /// Waits until everything that the server has acknowledged so far satisfies a write concern.
    /// Returns the server's `writeConcernError` if it is not satisfied. Changes nothing.
    pub(crate) async fn await_concern(&self, server: &Server, concern: Document) -> Result<Option<Document>> {
        // No record has such an `_id`. A write that matches nothing waits for what was written
        // last.
        let nothing = doc! {"q": {"_id": 0}, "u": {"$unset": {"nothing": 1}}};
        let command = doc! {"update": &self.ns.coll, "updates": [nothing], "writeConcern": concern};
        waited(server.write_records_as_asked(&self.ns, command).await)
    }

    /// Changes one record, unless it is of a later format. True when it was changed.
    pub(in crate::coordinator) async fn change(&self, server: &Server, mut q: Document, u: Document) -> Result<bool> {
        q.insert(format::FIELD, format::is_known());
        let command =
            doc! {"update": &self.ns.coll, "updates": [{"q": q, "u": u}], "writeConcern": server.nodes.durable()};
        Ok(server.write_records(&self.ns, command).await?.ok()?.n == 1)
    }
}

/// The command of one statement.
fn update(ns: &Namespace, statement: Document) -> Document {
    doc! {"update": &ns.coll, "updates": [statement], "ordered": true}
}

/// The server's `writeConcernError` in the answer to a write that has changed nothing.
pub(in crate::coordinator) fn waited(answer: Result<WriteAnswer>) -> Result<Option<Document>> {
    match answer {
        Ok(_) => Ok(None),
        Err(error) => match error.unreplicated_answer() {
            Some(answer) => Ok(Some(answer.concern_error.clone())),
            None => Err(error),
        },
    }
}

fn check_format(stored: &RawDocument) -> Result<()> {
    let found = stored.get(format::FIELD).ok().flatten().and_then(|found| Bson::try_from(found).ok());
    format::check(found.as_ref(), || {
        let id = stored.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
        format!("the record {id} in {TXS}")
    })
}

/// Content of the answer to [`Records::ask_for_changes`].
pub(crate) fn scan_records(found: &[RawDocumentBuf]) -> Result<RecordScan> {
    let mut scan = RecordScan::default();
    for stored in found {
        check_format(stored)?;
        note_changes(stored, &mut scan).ok_or_else(|| {
            let id = stored.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
            let message = format!("the record {id} in txs has no proper \"_id\", \"changes\" or \"quiet\"");
            Error::new(ErrorKind::Corruption, message)
        })?;
    }
    Ok(scan)
}

/// Notes the stamps and the quiet of one record. `None`: one of the fields is malformed.
fn note_changes(stored: &RawDocument, scan: &mut RecordScan) -> Option<()> {
    let client = ClientId(stored.get("_id").ok()??.as_object_id()?.bytes());
    let mut stamps = Stamps::new();
    if let Some(changes) = stored.get("changes").ok()? {
        for stamp in changes.as_document()? {
            let (tag, stamp) = stamp.ok()?;
            stamps.insert(Tag::parse(tag.as_str())?, stamp.as_i64()?);
        }
    }
    scan.changes.0.insert(client, Arc::new(stamps));
    if let Some(quiet) = stored.get("quiet").ok()? {
        let quiet = quiet.as_document()?;
        if quiet.get("over").ok()? == Some(RawBsonRef::Boolean(false)) {
            scan.quiet.insert(client, quiet.get("by").ok()??.as_object_id()?);
        }
    }
    match stored.get(NOTICE).ok()? {
        Some(RawBsonRef::Boolean(false)) => scan.over.push(client),
        // A notice that is not over, whatever it names. It is read again, until it is over.
        Some(going_on) => {
            scan.notices.insert(client, Scope::parse(going_on));
            return Some(());
        }
        None => {}
    }
    if stored.get("closedAt").ok()?.is_some() {
        scan.closed.push(client);
    }
    Some(())
}

pub(crate) fn parse_record(stored: &Document) -> Result<StoredRecord> {
    let malformed = |field: &str| {
        Error::new(ErrorKind::Corruption, format!("the record {stored} in txs has no proper field {field:?}"))
    };
    let client = ClientId(stored.get_object_id("_id").map_err(|_| malformed("_id"))?.bytes());
    format::check(stored.get(format::FIELD), || format!("the record of client {client} in {TXS}"))?;
    let number = |field: &str| stored.get_i64(field).map_err(|_| malformed(field));
    let numbers = |field: &str| match stored.get(field) {
        None => Ok(Default::default()),
        Some(Bson::Array(list)) => Ok(list.iter().map(|n| as_i64(n) as Seq).collect()),
        Some(_) => Err(malformed(field)),
    };
    let (lease_ms, silent_ms) = (number("leaseMs")?, stored.get("silentMs").map_or(0, as_i64));
    let namespaces = stored.get_array("namespaces").into_iter().flatten();
    Ok(StoredRecord {
        client,
        record: ClientRecord {
            stamp: number("stamp")? as u64,
            low: number("low")? as Seq,
            committed: numbers("committed")?,
            rolled_back: numbers("rolledBack")?,
            killed: numbers("killed")?,
            aborted: numbers("aborted")?,
            fenced: stored.get_bool("fenced").unwrap_or(false),
        },
        expired: silent_ms > lease_ms,
        closed: stored.contains_key("closedAt"),
        asked_at: stored.get_datetime("askedAt").ok().copied(),
        lease_ms,
        silent_ms,
        namespaces: namespaces.filter_map(|name| Namespace::parse_namespace(name.as_str()?)).collect(),
        about: ProcessInfo::of(stored),
        quiet: StoredQuiet::of(stored),
    })
}
