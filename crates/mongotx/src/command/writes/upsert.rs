//! An upsert inside a transaction that matched nothing: the server builds the document from the
//! filter's equalities and the update, as it does without MongoTx, but with an unsafe version only.

use bson::{Bson, Document, doc, oid::ObjectId};
use protocol::TxId;
use sd2v::{
    names::{UNSAFE, WRITER, tx_id_to_bson},
    shard,
    update::{Update, rewrite_upsert, upsert_id},
};

use super::{insert, write_commands::UpdateCommand};
use crate::{
    coordinator::{
        Core,
        finishing::lock_wait::{Attempts, LockWait},
        locking::{
            change::Change,
            target::Target,
            unique::{PlacedDocument, PriorState},
        },
        request::{address::Address, fields::Fields, own_key::OwnKey, query_options::QueryOptions},
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Attempts without waiting in between: a rival had one of its unique values.
const ATTEMPTS: usize = 256;

/// Inserts, and answers where the new document is.
pub(crate) async fn insert_upserted(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &UpdateCommand,
) -> Result<Address> {
    let id = upsert_id(&command.filter, &command.update)?;
    let key = core.catalog.shard_key(ns).await?;
    let demanded = key.of_filter(&command.filter).ok_or_else(|| shard::refused_upsert(&key))?;
    if let Update::Replacement(replacement) = &command.update {
        let (_, document) = replacement_to_insert(id, replacement);
        let at = Address::of(&document, &key)?;
        check_key(&at, &demanded)?;
        insert::one(core, tx, ns, document).await?;
        return Ok(at);
    }
    let me = core.lifecycle.ensure_started(tx, ns).await?;
    let collection = core.catalog.admit_writes(ns, me).await?;
    let at = Address::new(id.unwrap_or_else(|| ObjectId::new().into()), demanded);
    let upsert = Upsert { core, ns, command, at: &at, me };
    let (mut attempts, mut lock_wait) = (Attempts::new(ATTEMPTS), LockWait::new(tx.lock_wait()));
    while attempts.go_on(&lock_wait) {
        match upsert.place(tx).await {
            Ok(false) => return Ok(at),
            Ok(true) => {
                let uniques = &collection.uniques;
                let placed = PlacedDocument { ns, at: &at, uniques, before: &PriorState::Absent, inserted: None };
                if collection.has_words() {
                    core.locking.refuse_words(tx, &placed, &collection, me, &mut lock_wait).await?;
                }
                core.uniqueness.check_placed(tx, &placed, me, &mut lock_wait).await?;
                tx.note_own(ns, [&at.id]);
                return Ok(at);
            }
            Err(error) if error.is_pending_duplicate() => {
                core.uniqueness.meet_pending_duplicate(ns, &collection.uniques, error, me, &mut lock_wait).await?;
            }
            Err(error) => return Err(error),
        }
    }
    let message =
        format!("the key of {{_id: {at}}} in {ns} changed hands {ATTEMPTS} times while it was to be upserted");
    Err(Error::new(ErrorKind::Conflict, message).for_transaction(Some(me)))
}

/// The shard key that the filter demands must be that of the new document.
fn check_key(at: &Address, demanded: &Document) -> Result<()> {
    if shard::same(at.key(), demanded) { Ok(()) } else { Err(shard::refused_change(demanded, at.key()).into()) }
}

/// The insert of a new document at a known address, in a transaction.
#[derive(Clone, Copy)]
struct Upsert<'a> {
    core: &'a Core,
    ns: &'a Namespace,
    command: &'a UpdateCommand,
    at: &'a Address,
    me: TxId,
}

impl Upsert<'_> {
    /// Returns true if the unique values of the new document are still to be checked.
    async fn place(&self, tx: &mut Transaction) -> Result<bool> {
        let Self { ns, at, .. } = *self;
        if tx.is_own(ns, &at.id) {
            // The statement that builds the document in its place would change this one.
            return self.insert_built_aside(tx).await.map(|()| false);
        }
        match self.build(tx).await {
            Ok(()) => self.check_built(tx).await.map(|()| true),
            Err(error) if error.is_duplicate_key() && !error.is_pending_duplicate() => {
                self.insert_built_aside(tx).await.map(|()| false)
            }
            Err(error) => Err(error),
        }
    }

    /// Inserts a document whose `_id` is in use: the insert reports that, or brings a document back
    /// that the transaction has removed.
    async fn insert_built_aside(&self, tx: &mut Transaction) -> Result<()> {
        let Self { core, ns, command, at, .. } = *self;
        if matches!(command.update, Update::Pipeline(_)) {
            return self.insert_and_change(tx).await;
        }
        let document = self.build_aside(tx).await?;
        check_key(&Address::of(&document, &core.catalog.shard_key(ns).await?)?, at.key())?;
        insert::one(core, tx, ns, document).await.map(drop)
    }

    /// Sends the upsert that builds the document in its place, with an unsafe version only.
    async fn build(&self, tx: &mut Transaction) -> Result<()> {
        let Self { core, ns, command, at, me } = *self;
        let (q, u) = rewrite_upsert(&command.filter, &command.update, &at.id, at.key(), &tx_id_to_bson(me))?;
        let mut statement = doc! {"q": q, "u": u, "upsert": true, "multi": false};
        if let Some(filters) = &command.array_filters {
            statement.insert("arrayFilters", filters.clone());
        }
        if let Some(collation) = &command.options.collation {
            statement.insert("collation", collation.clone());
        }
        let mut update = doc! {"update": &ns.coll, "updates": [statement]};
        if let Some(variables) = &command.options.variables {
            update.insert("let", variables.clone());
        }
        tx.hold(&core.options, ns, std::slice::from_ref(at), Hold::Insert)?;
        let answer = core.server.send_prepared(tx, ns, update, &Fields::All).await?.ok()?;
        match answer.upserted.first() {
            Some((_, id)) if OwnKey::of(id) == OwnKey::of(&at.id) => Ok(()),
            Some((_, id)) => self.take_back_unowned(id).await,
            None => {
                let message = format!("an upsert into {ns} changed a document instead of inserting one");
                Err(Error::new(ErrorKind::Corruption, message))
            }
        }
    }

    /// The server has taken no values from the filter, which it finds unsatisfiable: what a
    /// pipeline has made of nothing has no owner.
    async fn take_back_unowned(&self, id: &Bson) -> Result<()> {
        let Self { core, ns, command, .. } = *self;
        let unowned = doc! {"_id": {"$eq": id.clone()}, UNSAFE: {"$exists": true}, WRITER: {"$exists": false}};
        let delete = doc! {"delete": &ns.coll, "deletes": [{"q": unowned, "limit": 1}]};
        core.server.run_directly(&ns.db, delete).await.map_err(Error::ending)?;
        let message = format!(
            "an upsert by a pipeline into {ns} cannot be made in a transaction by a filter that no document can match: {}",
            command.filter
        );
        Err(Error::unsupported(message).ending())
    }

    /// The update may have given the document another shard key than the filter demands, which is
    /// where it is now.
    async fn check_built(&self, tx: &mut Transaction) -> Result<()> {
        let Self { core, ns, command, at, me } = *self;
        let key = core.catalog.shard_key(ns).await?;
        if !key.may_be_changed(&command.update, at.key()) {
            return Ok(());
        }
        let changed = core.server.refuse_changed_key(ns, at, &key, me).await?;
        if changed.is_err() {
            core.server.take_back_inserts(tx, ns, std::slice::from_ref(at)).await?;
        }
        changed.map_err(Error::clean)
    }

    /// A pipeline may read the `_id`, and must not read another: what the filter gives is inserted,
    /// then changed.
    async fn insert_and_change(&self, tx: &mut Transaction) -> Result<()> {
        let Self { core, ns, command, at, .. } = *self;
        let unchanged = Update::Pipeline(vec![doc! {"$replaceWith": "$$ROOT"}]);
        let from_filter = UpdateCommand { update: unchanged, ..command.clone() };
        let document = Upsert { command: &from_filter, ..*self }.build_aside(tx).await?;
        insert::one(core, tx, ns, document).await?;
        let options = QueryOptions { variables: command.options.variables.clone(), ..QueryOptions::default() };
        let target = Target { ns, at, filter: &doc! {"_id": at.id.clone()}, options: &options, chosen: false };
        match core.locking.prepare(tx, &target, &command.change()).await {
            Ok(_) => Ok(()),
            Err(refused) if refused.ends_transaction() => Err(refused),
            Err(refused) => {
                core.locking.prepare(tx, &target, &Change::Remove).await.map_err(Error::ending)?;
                Err(refused.clean())
            }
        }
    }

    /// Handles an `_id` that is in use: by a document that this transaction has removed, or by
    /// another document. The new document is built under another `_id`, removed again, and inserted
    /// like any other, which reports a duplicate.
    async fn build_aside(&self, tx: &mut Transaction) -> Result<Document> {
        let Self { core, ns, command, at, .. } = *self;
        let aside = Address::new(Bson::ObjectId(ObjectId::new()), at.key().clone());
        let without_id = UpdateCommand {
            filter: sd2v::filter::without_id(&command.filter).unwrap_or_else(|| command.filter.clone()),
            update: command.update.without_id(),
            ..command.clone()
        };
        let was_half_done = tx.is_half_done();
        Upsert { command: &without_id, at: &aside, ..*self }.build(tx).await?;
        let find = doc! {"find": &ns.coll, "filter": aside.filter(), "projection": {UNSAFE: 1}};
        let built = core.server.find_first(ns, find).await?;
        core.server.take_back_inserts(tx, ns, std::slice::from_ref(&aside)).await?;
        tx.set_half_done(was_half_done);
        let Some(Bson::Document(mut document)) = built.and_then(|mut stored| stored.remove(UNSAFE)) else {
            return Err(Error::new(
                ErrorKind::Corruption,
                format!("the document just upserted into {ns} is not there"),
            ));
        };
        document.insert("_id", at.id.clone());
        Ok(document)
    }
}

/// The document that a replacement's upsert inserts.
pub(crate) fn replacement_to_insert(id: Option<Bson>, replacement: &Document) -> (Bson, Document) {
    // Its own `_id` can only be another type of the same number.
    let Some(id) = replacement.get("_id").cloned().or(id) else { return insert::with_id(replacement.clone()) };
    let mut document = doc! {"_id": id};
    document.extend(
        replacement.iter().filter(|(field, _)| *field != "_id").map(|(field, value)| (field.clone(), value.clone())),
    );
    insert::with_id(document)
}
