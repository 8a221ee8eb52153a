//! Creating, dropping and listing indexes for the application.
//!
//! A unique index takes care, because transactions under way do not know it yet:
//!
//! 1. Its mirrored index is made: pending values are distinct from now on, and every later look-up
//!    of the collection heeds it.
//! 2. Wait for everything that may work by an older look-up: this client's commands by their hold
//!    on it; other clients, if a record names the collection, as long as a look-up is trusted. A
//!    record that is to name the collection from now on is followed by a new look-up.
//! 3. Wait for the documents that were pending then.
//! 4. The index itself is made.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc};
use protocol::TxId;
use sd2v::{
    index::{Creation, Index, interpret, plan_creation},
    names::{WRITER, tx_id_from_bson},
};

use super::{Collection, FRESH, adopt, list_stored};
use crate::{
    coordinator::{Core, meet::Patience, terms::Terms},
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Indexes that one collection may have in the server.
const MAX_INDEXES: usize = 64;

impl Core {
    /// The application's indexes, as it made them, and whether they are mirrored.
    pub(crate) async fn list_indexes(&self, ns: &Namespace) -> Result<Vec<(Document, bool)>> {
        let stored = list_stored(&self.server, ns).await?.unwrap_or_default();
        Ok(interpret(&stored).into_iter().filter(Index::is_stored).map(|index| (index.spec, index.mirrored)).collect())
    }

    /// Creates indexes: each with whether its unsafe versions are to be indexed, too. Answers their
    /// names.
    pub(crate) async fn create_indexes(&self, ns: &Namespace, specs: &[(Document, bool)]) -> Result<Vec<String>> {
        if specs.is_empty() || specs.len() > MAX_INDEXES {
            return Err(Error::invalid(67, format!("between 1 and {MAX_INDEXES} indexes must be given")));
        }
        let existing = interpret(&list_stored(&self.server, ns).await?.unwrap_or_default());
        let lockable = self.catalog.look_up(&self.server, ns).await?.unlockable.is_none();
        let mut names = Vec::new();
        for (spec, mirror) in specs {
            let mut creation = plan_creation(spec, *mirror)?;
            let Some(wanted) = creation.index() else { continue };
            if !lockable {
                // No unsafe version is ever there: it is stored as it is.
                creation = Creation { mirror: None, main: vec![wanted.spec.clone()] };
            }
            let name = wanted.name().to_owned();
            let unfinished = existing.iter().any(|index| index.name() == name && !index.is_stored());
            if unfinished || !self.exists_already(ns, &existing, &wanted, creation.mirror.is_some())? {
                self.create_index(ns, &wanted, creation).await?;
            }
            names.push(name);
        }
        Ok(names)
    }

    /// An equal index is no error, another one of this name is.
    fn exists_already(&self, ns: &Namespace, existing: &[Index], wanted: &Index, mirror: bool) -> Result<bool> {
        // A text index is listed in a form of its own: the server compares.
        if wanted.key().values().any(|kind| kind.as_str() == Some("text")) {
            return Ok(false);
        }
        let same = |index: &&Index| same_options(&index.spec, &wanted.spec);
        match existing.iter().find(|index| index.name() == wanted.name()) {
            Some(index) if same(&index) => Ok(index.mirrored || !mirror),
            Some(_) => Err(Error::invalid(
                86,
                format!("{ns} has another index with the name {:?}: drop it first", wanted.name()),
            )),
            None => match existing.iter().find(same) {
                Some(index) => Err(Error::invalid(
                    85,
                    format!("{ns} has the same index already, with the name {:?}", index.name()),
                )),
                None => Ok(false),
            },
        }
    }

    async fn create_index(&self, ns: &Namespace, wanted: &Index, creation: Creation) -> Result<()> {
        let mirror: Vec<Document> = creation.mirror.into_iter().collect();
        let mirror_names: Vec<String> =
            mirror.iter().filter_map(|spec| spec.get_str("name").ok().map(str::to_owned)).collect();
        adopt::create(&self.server, ns, mirror).await?;
        // Until the catalog has forgotten what it knew, reads may use an index that is not in it.
        let change = self.server.own_changes().writing(ns);
        let made = match wanted.unique() {
            Some(_) if !mirror_names.is_empty() => self.wait_for_writers(ns, false).await,
            _ => Ok(()),
        };
        let made = match made {
            Ok(()) => adopt::create(&self.server, ns, creation.main).await,
            Err(error) => Err(error),
        };
        if made.is_err() {
            adopt::drop_stored(&self.server, ns, &mirror_names).await?;
        }
        self.catalog.forget(ns);
        change.over();
        made
    }

    /// Steps 2 and 3. `everybody`: also for clients that may write there outside transactions only,
    /// and have no record.
    pub(super) async fn wait_for_writers(&self, ns: &Namespace, everybody: bool) -> Result<()> {
        let mut patience = Patience::new(self.options.write_wait.max(FRESH * 2));
        let old = self.catalog.forget(ns);
        self.wait_until_released(ns, &old, &mut patience).await?;
        let records = self.records().read(&self.server, &[]).await?;
        let others = |record: &&crate::coordinator::records::StoredRecord| {
            !record.closed && record.namespaces.contains(ns) && !self.log.owns(record.client)
        };
        if everybody || records.iter().any(|record| others(&record)) {
            tokio::time::sleep(FRESH + Duration::from_secs(1)).await;
        }
        let pending = self.pending_writers(ns).await?;
        loop {
            self.settle_pending(ns, &Document::new(), &Terms::default(), None).await?;
            let left = self.pending_writers(ns).await?;
            let Some(rival) = left.iter().find(|writer| pending.contains(writer)) else { return Ok(()) };
            patience.wait_for(self, ns, &Bson::Null, *rival).await?;
        }
    }

    /// Commands of this client that still work by what was known before.
    async fn wait_until_released(
        &self,
        ns: &Namespace,
        old: &[Weak<Collection>],
        patience: &mut Patience,
    ) -> Result<()> {
        let until = Instant::now() + FRESH;
        while old.iter().any(|one| one.strong_count() > 0) {
            if Instant::now() > until {
                let message = format!(
                    "writes to {ns} did not end within {FRESH:?}, so its writers could not be told of the change"
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            patience.breathe().await;
        }
        Ok(())
    }

    async fn pending_writers(&self, ns: &Namespace) -> Result<Vec<TxId>> {
        let pipeline =
            vec![doc! {"$match": {WRITER: {"$exists": true}}}, doc! {"$group": {"_id": format!("${WRITER}")}}];
        let command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}};
        let groups = self.server.collect(&ns.db, command, 100_000).await?;
        Ok(groups.iter().filter_map(|group| tx_id_from_bson(group.get("_id")?)).collect())
    }

    /// Drops one index by its name or its key pattern.
    pub(crate) async fn drop_index(&self, ns: &Namespace, which: &Bson) -> Result<()> {
        let stored = list_stored(&self.server, ns).await?.unwrap_or_default();
        let indexes = interpret(&stored);
        let found = indexes.iter().find(|index| match which {
            Bson::String(name) => index.name() == name,
            Bson::Document(key) => index.has_key(key),
            _ => false,
        });
        let Some(index) = found else {
            return Err(Error::invalid(27, format!("{ns} has no index {which}")));
        };
        if index.name() == "_id_" {
            return Err(Error::invalid(72, "the index on _id cannot be dropped"));
        }
        // The index before its mirror: what is unique stays heeded to the end.
        adopt::drop_stored(&self.server, ns, &index.stored_names()).await?;
        self.catalog.forget(ns);
        Ok(())
    }

    /// Drops every index but that on `_id`.
    pub(crate) async fn drop_indexes(&self, ns: &Namespace) -> Result<()> {
        for (spec, _) in self.list_indexes(ns).await? {
            if let Some(name) = spec.get("name").filter(|name| name.as_str() != Some("_id_")) {
                self.drop_index(ns, name).await?;
            }
        }
        Ok(())
    }
}

fn same_options(left: &Document, right: &Document) -> bool {
    const TELLING: [&str; 7] =
        ["key", "unique", "sparse", "expireAfterSeconds", "partialFilterExpression", "wildcardProjection", "weights"];
    let value = |spec: &Document, option: &str| match spec.get(option) {
        Some(Bson::Boolean(false)) | None => None,
        Some(Bson::Document(key)) if option == "key" => Some(normal_key(key)),
        Some(value) => Some(normal(value)),
    };
    let locale =
        |spec: &Document| spec.get_document("collation").ok().and_then(|c| c.get_str("locale").ok().map(str::to_owned));
    TELLING.iter().all(|option| value(left, option) == value(right, option)) && locale(left) == locale(right)
}

/// A number as a double, so that equal numbers of different types are equal.
fn normal(value: &Bson) -> Bson {
    match value {
        Bson::Int32(n) => Bson::Double(f64::from(*n)),
        Bson::Int64(n) => Bson::Double(*n as f64),
        other => other.clone(),
    }
}

/// The fields in their order, which documents are compared without.
fn normal_key(key: &Document) -> Bson {
    key.iter().map(|(field, kind)| Bson::Array(vec![field.as_str().into(), normal(kind)])).collect()
}
