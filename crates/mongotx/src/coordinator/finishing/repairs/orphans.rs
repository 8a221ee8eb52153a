//! Orphans: locks of a transaction that has finished everything, or whose client has no record. As
//! a rule they have arrived too late, and are undone. A backup that was put back without the
//! records of its time looks the same, and there the transaction may be committed. So nothing is
//! undone silently: what an orphan's document was to become is kept first, durably, and `mongotx
//! doctor` reports it. See decision 0045.

use bson::{Bson, Document, RawDocumentBuf, doc};
use protocol::{Decided, TxId, TxStatus, id::stored_hash};
use sd2v::names::{INSERT, REMOVE, WRITER, tx_id_from_bson, tx_id_to_bson};

use super::{super::documents, Repairs};
use crate::{
    coordinator::stored::own_collections::ORPHANS,
    document,
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Orphans that are kept by one command: they may be large.
const TOGETHER: usize = 50;

impl Repairs {
    /// Keeps and undoes what these writers, which have finished everything, still hold of a
    /// collection.
    pub(crate) async fn undo_orphans(&self, ns: &Namespace, writers: &[TxId]) -> Result<()> {
        if writers.is_empty() {
            return Ok(());
        }
        let finished: Vec<Decided> =
            writers.iter().filter_map(|writer| Decided::by_status(*writer, TxStatus::Finished)).collect();
        loop {
            let kept = self.keep_orphans(ns, &Document::new(), writers).await?;
            let Some(one) = kept.first().cloned() else { return Ok(()) };
            let who = doc! {"_id": {"$in": kept}};
            self.server.at(Step::BeforeRepair).await;
            let done = documents::undo(&self.server, ns, &who, &finished, true).await?;
            self.server.counters.add(&self.server.counters.undone_for_others, done as u64);
            self.server.at(Step::AfterRepair).await;
            if done == 0 && self.is_held(ns, &one, writers).await? {
                let message = format!(
                    "{ns} has a document with malformed locks, which no statement undoes: {{_id: {one}}}; \
                     repair it by hand"
                );
                return Err(Error::new(ErrorKind::Corruption, message));
            }
        }
    }

    /// Keeps what some of the documents that match and that these writers hold were to become.
    /// Returns their `_id`s; none: no such document is there.
    pub(super) async fn keep_orphans(&self, ns: &Namespace, who: &Document, writers: &[TxId]) -> Result<Vec<Bson>> {
        let held: Vec<Bson> = writers.iter().map(|writer| tx_id_to_bson(*writer)).collect();
        let held = doc! {"$and": [who.clone(), {WRITER: {"$in": held}}]};
        let find = doc! {"find": &ns.coll, "filter": held, "limit": TOGETHER as i64};
        let found = self.server.collect_raw(&ns.db, find, TOGETHER).await?;
        let (mut ids, mut kept) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
        for stored in &found {
            let orphan = Orphan::of(ns, stored)?;
            tracing::warn!(
                %ns, id = %orphan.id, writer = %orphan.writer,
                "a lock of a transaction that is over, or unknown, is undone; what its document was to become is kept"
            );
            ids.push(orphan.id.clone());
            kept.push(orphan.into_document());
        }
        for one in kept {
            self.keep(one).await?;
        }
        Ok(ids)
    }

    /// Returns true if one of these writers holds the document now.
    async fn is_held(&self, ns: &Namespace, id: &Bson, writers: &[TxId]) -> Result<bool> {
        let held: Vec<Bson> = writers.iter().map(|writer| tx_id_to_bson(*writer)).collect();
        let filter = doc! {"_id": {"$eq": id.clone()}, WRITER: {"$in": held}};
        let find = doc! {"find": &ns.coll, "filter": filter, "projection": {"_id": 1}};
        Ok(self.server.find_first(ns, find).await?.is_some())
    }

    /// Keeps an orphan. Keeping it again changes nothing.
    async fn keep(&self, orphan: Document) -> Result<()> {
        let home = Namespace::new(&self.tx_database, ORPHANS);
        let name = orphan.get("_id").cloned().unwrap_or(Bson::Null);
        // As a value: names of fields in it may begin with `$`.
        let once = doc! {"$replaceWith": {"$mergeObjects": [{"$literal": orphan}, "$$ROOT"]}};
        let statement = doc! {"q": {"_id": name}, "u": [once], "upsert": true};
        let concern = self.server.nodes.durable();
        let update = doc! {"update": ORPHANS, "updates": [statement], "writeConcern": concern};
        match self.server.write_records(&home, update).await?.ok() {
            // Two at a time: one of them has kept it.
            Err(error) if !error.is_duplicate_key() => Err(error),
            _ => Ok(()),
        }
    }
}

/// A document that an orphan holds.
struct Orphan {
    ns: String,
    id: Bson,
    writer: TxId,
    write: &'static str,
    /// The document that it was to become. `None`: it was to be removed.
    becomes: Option<RawDocumentBuf>,
}

impl Orphan {
    fn of(ns: &Namespace, stored: &RawDocumentBuf) -> Result<Self> {
        let locks = document::locks(stored)?;
        let malformed =
            || Error::new(ErrorKind::Corruption, format!("{ns} has a document with malformed locks: {locks}"));
        let id = locks.get("_id").cloned().ok_or_else(malformed)?;
        let writer = locks.get(WRITER).and_then(tx_id_from_bson).ok_or_else(malformed)?;
        let has = |flag: &str| matches!(stored.get(flag), Ok(Some(_)));
        let write = match (has(INSERT), has(REMOVE)) {
            (_, true) => "delete",
            (true, false) => "insert",
            (false, false) => "update",
        };
        let becomes = if has(REMOVE) { None } else { document::unsafe_version(stored) };
        Ok(Self { ns: ns.to_string(), id, writer, write, becomes })
    }

    /// The orphan as it is kept, under a name that is the same for every client that keeps it.
    fn into_document(self) -> Document {
        let Self { ns, id, writer, write, becomes } = self;
        let place = doc! {"ns": &ns, "id": id.clone()};
        let name = format!("{writer}-{:016x}", stored_hash(&place.to_vec().unwrap_or_default()));
        let becomes = becomes.and_then(|version| Document::try_from(&*version).ok()).map_or(Bson::Null, Bson::from);
        doc! {
            "_id": name, "ns": ns, "id": id, "writer": tx_id_to_bson(writer), "write": write, "becomes": becomes,
            "keptAt": bson::DateTime::now(),
        }
    }
}
